//! The environment: variables with the prefix `HIGHBALL_`, and those that other servers share. It reads the variables that it
//! is given and no others.

use std::ffi::OsString;

use crate::error::{ConfigError, Place};
use crate::kind::Kind;
use crate::listen::port_number;
use crate::load::{Raw, nearest_setting, raw};
use crate::setting::{PREFIX, Setting};
use crate::table::SETTINGS;

/// The environment, as `std::env::vars_os` gives it.
type Variables = [(OsString, OsString)];

/// Variables with the prefix that are not settings: they name the Ruby library, the program and the lab's data, or say that
/// this server takes over from another one.
const INTERNAL_VARIABLES: [&str; 5] = [
    "HIGHBALL_RUBY_LIB",
    "HIGHBALL_BIN",
    "HIGHBALL_LAB",
    "HIGHBALL_LAB_BIN",
    "HIGHBALL_HANDOVER",
];

/// Variables of other servers that have no counterpart, and why.
const WITHOUT_COUNTERPART: [(&str, &str); 1] = [(
    "RAILS_MIN_THREADS",
    "has no effect: a worker always has all its threads (setting threads, or RAILS_MAX_THREADS)",
)];

/// An unknown variable that differs from a known one by so many edits is a mistake.
const MAX_EDITS: usize = 2;
/// At most so many ignored variables are named, each with at most so many characters.
const MAX_NAMED: usize = 5;
const MAX_NAME_CHARS: usize = 60;

/// The variables that other servers share, the weakest first; and the port that `PORT` names.
pub(super) fn shared(env: &Variables, errors: &mut Vec<ConfigError>) -> (Vec<Raw>, Option<u16>) {
    let (mut raws, mut port) = (Vec::new(), None);
    for (index, setting) in SETTINGS.iter().enumerate() {
        for &name in setting.shared_variables.iter().rev() {
            let Some(value) = value_of(env, name) else {
                continue;
            };
            let place = Place::Variable(name.to_owned());
            match setting.kind {
                // PORT is no address: it replaces the port of those that are listed.
                Kind::Listen => match port_number(&value) {
                    Some(number) => port = Some(number),
                    None => errors.push(wrong_port(place, setting, &value)),
                },
                _ => raws.push(raw(index, &value, &place)),
            }
        }
    }
    (raws, port)
}

/// A variable's value; an empty one counts as absent, as for Rails.
fn value_of(env: &Variables, name: &str) -> Option<String> {
    let mut found = env
        .iter()
        .filter(|(key, value)| key == name && !value.is_empty());
    found
        .next()
        .map(|(_, value)| value.to_string_lossy().into_owned())
}

fn wrong_port(place: Place, setting: &Setting, value: &str) -> ConfigError {
    ConfigError::Value {
        place,
        setting: setting.name,
        message: format!("{value:?} is not allowed; expected a port from 0 to 65535"),
    }
}

/// The variables with the prefix; and a warning about those that no setting has.
///
/// One that is nearly the name of a setting is an error. Others may be there by chance.
pub(super) fn own(env: &Variables, errors: &mut Vec<ConfigError>) -> (Vec<Raw>, Option<String>) {
    let (mut raws, mut ignored) = (Vec::new(), Vec::new());
    for (key, value) in env {
        let (key, value) = (key.to_string_lossy(), value.to_string_lossy());
        let Some(name) = key.strip_prefix(PREFIX) else {
            continue;
        };
        if INTERNAL_VARIABLES.contains(&&*key) || is_of_kubernetes(name, &value) {
            continue;
        }
        let place = Place::Variable(key.to_string());
        let known = SETTINGS
            .iter()
            .position(|setting| setting.variable() == key);
        if let Some(index) = known {
            raws.push(raw(index, &value, &place));
            continue;
        }
        match nearest_setting(name) {
            (nearest, ..=MAX_EDITS) => errors.push(ConfigError::Unknown {
                place,
                name: key.to_string(),
                nearest: nearest.variable(),
            }),
            _ => ignored.push(key.to_string()),
        }
    }
    (raws, (!ignored.is_empty()).then(|| warning(&ignored)))
}

/// Whether Kubernetes sets such a variable for a Service named `highball` or `highball-...`: `SERVICE_HOST`,
/// `SERVICE_PORT_HTTP`, `PORT=tcp://10.0.0.1:80`, `PORT_80_TCP_ADDR`.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let of_port = |(_, rest): (&str, &str)| rest.starts_with(|digit: char| digit.is_ascii_digit());
    name.ends_with("SERVICE_HOST")
        || name.contains("SERVICE_PORT")
        || name.ends_with("PORT") && value.contains("://")
        || name.split_once("PORT_").is_some_and(of_port)
}

fn warning(ignored: &[String]) -> String {
    let named: Vec<String> = ignored
        .iter()
        .take(MAX_NAMED)
        .map(|name| shown(name))
        .collect();
    let more = match ignored.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let port = match ignored.iter().any(|name| name == "HIGHBALL_PORT") {
        true => "; PORT and HIGHBALL_LISTEN set the port",
        false => "",
    };
    format!(
        "no setting has these variables, they are ignored: {}{more}{port}",
        named.join(", ")
    )
}

/// A name for a message: anything may stand in it.
fn shown(name: &str) -> String {
    let short: String = name.chars().take(MAX_NAME_CHARS).collect();
    short.escape_debug().to_string()
}

/// What to know about variables of other servers that have no counterpart.
pub(super) fn notes(env: &Variables) -> Vec<String> {
    let set = WITHOUT_COUNTERPART
        .into_iter()
        .filter(|(name, _)| value_of(env, name).is_some());
    set.map(|(name, reason)| format!("{name} {reason}"))
        .collect()
}
