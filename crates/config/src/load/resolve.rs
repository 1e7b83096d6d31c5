//! What depends on another setting, on the folder or on the machine, worked out after every source was read.
//! Looks for the file of hooks; reads nothing else.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use crate::error::{ConfigError, Origin, Place};
use crate::kind::{Kind, Value};
use crate::listen::Listen;
use crate::table::SETTINGS;

/// Gives each address its host and its folder, and `PORT` to those that come from the file or the default.
pub(crate) fn listen(
    values: &mut [(Value, Origin)],
    dir: &Path,
    port: Option<u16>,
    errors: &mut Vec<ConfigError>,
) {
    let production = values[setting_index("environment")].0 == Value::Text("production".to_owned());
    let host = IpAddr::V4(if production {
        Ipv4Addr::UNSPECIFIED
    } else {
        Ipv4Addr::LOCALHOST
    });
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let (value, origin) = &mut values[setting_index("listen")];
    let Value::List(items) = value else { return };
    let port = port.filter(|_| matches!(origin.place, Place::Default | Place::File { .. }));
    let mut resolved: Vec<String> = Vec::new();
    for item in items.iter() {
        match Listen::parse(item, host).and_then(|listen| listen.within(&dir)) {
            Ok(mut listen) => {
                if let (Listen::Tcp(address), Some(port)) = (&mut listen, port) {
                    address.set_port(port);
                    origin.place = Place::Variable("PORT".to_owned());
                }
                resolved.push(listen.to_string());
            }
            Err(message) => errors.push(ConfigError::Value {
                place: origin.place.clone(),
                setting: "listen",
                message,
            }),
        }
    }
    if port.is_some() {
        // Addresses that differed in their ports only are one now.
        let mut seen = std::collections::HashSet::new();
        resolved.retain(|item| seen.insert(item.clone()));
    }
    *items = resolved;
}

/// Works out the numbers that are `auto`; asks for the cores only where `workers` is.
pub(crate) fn auto(values: &mut [(Value, Origin)], cores: impl FnOnce() -> u16) {
    let workers = number(values, "workers", || u64::from(cores()));
    let threads = number(values, "threads", || 1);
    number(values, "queue_limit", || queue_limit(workers, threads));
}

/// The number of a setting, set to `otherwise` where it is `auto`.
fn number(values: &mut [(Value, Origin)], name: &str, otherwise: impl FnOnce() -> u64) -> u64 {
    let (value, origin) = &mut values[setting_index(name)];
    if let Value::Number(number) = value {
        return *number;
    }
    let number = otherwise();
    *value = Value::Number(number);
    origin.auto = true;
    number
}

/// The queue that `auto` gives: 100 requests a thread, and enough for a burst on a small server. Stays within
/// the range that a number may have.
fn queue_limit(workers: u64, threads: u64) -> u64 {
    let Kind::AutoInteger { max, .. } = SETTINGS[setting_index("queue_limit")].kind else {
        return 256;
    };
    (workers * threads * 100).clamp(256, max)
}

/// A file of hooks that somebody named must exist; that the default one does not is the usual case.
pub(crate) fn hooks(values: &[(Value, Origin)], dir: &Path, errors: &mut Vec<ConfigError>) {
    let (value, Origin { place, .. }) = &values[setting_index("hooks")];
    let Value::Text(hooks) = value else { return };
    let path = dir.join(hooks);
    if *place != Place::Default && !path.is_file() {
        let message = format!("there is no file {}", path.display());
        errors.push(ConfigError::Value {
            place: place.clone(),
            setting: "hooks",
            message,
        });
    }
}

/// The place of a setting that is known to be in the table.
fn setting_index(name: &str) -> usize {
    SETTINGS
        .iter()
        .position(|setting| setting.name == name)
        .expect("a setting of the table")
}
