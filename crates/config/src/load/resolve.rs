//! What depends on another setting, on the folder or on the machine, worked out after every source was read.
//! Looks for the file of hooks; reads nothing else.

use std::path::Path;

use crate::error::{ConfigError, Origin, Place};
use crate::kind::{Kind, Value};
use crate::listen::{Hosts, Listen, split_certificate};
use crate::table::SETTINGS;

/// The most threads of the front that `auto` gives; also the end of the range.
const MAX_FRONT_THREADS: u64 = 8;
/// The most threads of all workers of a generation.
const MAX_THREADS: u64 = 16_383;

/// Gives each address its hosts and its folder, and `PORT` to those that come from the file or the default. `has_ipv6` says
/// whether this machine has IPv6.
pub(crate) fn listen(
    values: &mut [(Value, Origin)],
    dir: &Path,
    port: Option<u16>,
    has_ipv6: bool,
    errors: &mut Vec<ConfigError>,
) {
    let production = values[setting_index("environment")].0 == Value::Text("production".to_owned());
    let hosts = Hosts::new(production, has_ipv6);
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let (value, origin) = &mut values[setting_index("listen")];
    let Value::List(items) = value else { return };
    let port = port.filter(|_| matches!(origin.place, Place::Default | Place::File { .. }));
    let mut resolved: Vec<String> = Vec::new();
    let mut has_port = false;
    for item in items.iter() {
        let all = Listen::parse(item, hosts, port)
            .and_then(|all| all.into_iter().map(|one| one.within(&dir)).collect());
        let all: Vec<Listen> = match all {
            Ok(all) => all,
            Err(message) => {
                errors.push(ConfigError::Value {
                    place: origin.place.clone(),
                    setting: "listen",
                    message,
                });
                continue;
            }
        };
        has_port |= matches!(all[..], [Listen::Tcp(_), ..]);
        for one in all {
            // Addresses may differ in a port that `PORT` replaces, or be listed with and without a host.
            let text = one.to_string();
            if !resolved.contains(&text) || text.ends_with(":0") {
                resolved.push(text);
            }
        }
    }
    if port.is_some() && has_port {
        origin.place = Place::Variable("PORT".to_owned());
    }
    let split = items.iter().filter_map(|item| split_certificate(item).ok());
    let certificates: Vec<String> = split.filter_map(|(_, certificate)| certificate).collect();
    *items = resolved;
    let place = origin.place.clone();
    let (files, origin) = &mut values[setting_index("tls_certificate_files")];
    if let (Value::List(files), false) = (files, certificates.is_empty()) {
        files.extend(certificates);
        origin.place = place;
    }
}

/// Works out the numbers that are `auto`; asks for the cores only where it must.
pub(crate) fn auto(values: &mut [(Value, Origin)], cores: fn() -> u16) {
    let range = match values[setting_index("workers")].0 {
        Value::Range(_, most) => Some(most),
        _ => None,
    };
    let workers = range.unwrap_or_else(|| fixed_workers(values, cores));
    let threads = threads(values);
    number(values, "max_workers", || {
        range.unwrap_or_else(|| max_workers(workers, threads))
    });
    number(values, "queue_limit", || queue_limit(workers, threads));
    number(values, "front_threads", || front_threads(cores()));
}

/// The number of workers, where it is no range. Sets it too.
fn fixed_workers(values: &mut [(Value, Origin)], cores: fn() -> u16) -> u64 {
    let workers = number(values, "workers", || u64::from(cores()));
    if workers == 0 {
        values[setting_index("workers")].0 = Value::Number(1);
    }
    workers.max(1)
}

/// The threads of a worker.
fn threads(values: &[(Value, Origin)]) -> u64 {
    match &values[setting_index("threads")].0 {
        Value::Number(threads) => *threads,
        Value::Range(_, most) => *most,
        _ => 1,
    }
}

/// The workers that `auto` leaves room for: twice as many, unless their threads have no place in one exchange.
fn max_workers(workers: u64, threads: u64) -> u64 {
    let room = (MAX_THREADS / threads).saturating_sub(1);
    (2 * workers).min(room).max(workers)
}

/// The threads of the front that `auto` gives: a quarter of the cores, for the workers need the most of them.
fn front_threads(cores: u16) -> u64 {
    u64::from(cores / 4).clamp(1, MAX_FRONT_THREADS)
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

/// Refuses a file of hooks that is named and does not exist. The default one is often missing.
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

/// Makes the folders absolute that the application may send files from.
pub(crate) fn folders_of_files(values: &mut [(Value, Origin)], dir: &Path) {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let resolve = |folder: &mut String| *folder = dir.join(&*folder).to_string_lossy().into_owned();
    if let Value::List(folders) = &mut values[setting_index("sendfile_roots")].0 {
        folders.iter_mut().for_each(resolve);
    }
    if let Value::Rules(rules) = &mut values[setting_index("accel_redirects")].0 {
        for (_, folder) in rules {
            if let Value::Text(folder) = folder {
                resolve(folder);
            }
        }
    }
}

/// The place of a setting that is known to be in the table.
fn setting_index(name: &str) -> usize {
    SETTINGS
        .iter()
        .position(|setting| setting.name == name)
        .expect("a setting of the table")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_twice_as_many_workers_within_one_exchange() {
        let room = [(1, 3), (4, 3), (1000, 16), (1024, 256)].map(|(w, t)| max_workers(w, t));
        assert_eq!(room, [2, 8, 1022, 1024]);
    }

    #[test]
    fn the_front_has_one_thread_up_to_seven_cores_and_then_one_for_four() {
        let threads = [1, 4, 7, 8, 15, 16, 32, 1024].map(front_threads);
        assert_eq!(threads, [1, 1, 1, 2, 3, 4, 8, 8]);
    }
}
