//! `highball.toml`: from its text to the raw values of settings, each with its line. Knows what TOML types
//! a kind may be written in; the rest of the checks is the kind's.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{ConfigError, Place};
use crate::kind::Kind;
use crate::load::{Item, Raw, nearest_setting};
use crate::table::SETTINGS;

/// Reads the text of the file at `path` (which serves for messages only) into one entry per known key.
pub(crate) fn read(path: &Path, text: &str, errors: &mut Vec<ConfigError>) -> Vec<Raw> {
    let place = |offset: usize| Place::File {
        path: path.to_owned(),
        line: line_of(text, offset),
    };
    let (table, faults) = DeTable::parse_recoverable(text);
    if !faults.is_empty() {
        // What the parser recovers from a broken file may be garbage: complaints about it would mislead.
        errors.extend(faults.iter().map(|fault| ConfigError::Syntax {
            path: path.to_owned(),
            line: line_of(text, fault.span().map_or(0, |span| span.start)),
            message: fault.message().replace('\n', ", "),
        }));
        return Vec::new();
    }
    let mut keys: Vec<_> = table.get_ref().iter().collect();
    keys.sort_by_key(|(key, _)| key.span().start);
    let mut raws = Vec::new();
    for (key, value) in keys {
        let (name, place_of_key) = (key.get_ref(), place(key.span().start));
        let Some(index) = SETTINGS.iter().position(|setting| setting.name == name) else {
            errors.push(unknown(place_of_key, name, value.get_ref()));
            continue;
        };
        let setting = &SETTINGS[index];
        let items: Result<Vec<Item>, (Place, String)> = match value.get_ref() {
            DeValue::Array(array) if setting.kind.is_list() => array
                .iter()
                .map(|item| scalar(&setting.kind, item, place(item.span().start)))
                .collect(),
            _ => scalar(&setting.kind, value, place_of_key.clone()).map(|item| vec![item]),
        };
        match items {
            Ok(items) => raws.push(Raw {
                index,
                place: place_of_key,
                items,
            }),
            Err((place, message)) => errors.push(ConfigError::Value {
                place,
                setting: setting.name,
                message,
            }),
        }
    }
    raws
}

fn unknown(place: Place, name: &str, value: &DeValue<'_>) -> ConfigError {
    let (nearest, _) = nearest_setting(name);
    let name = match value {
        DeValue::Table(_) => {
            format!("{name} (a table; settings stand at the top level, without tables)")
        }
        _ => name.to_owned(),
    };
    ConfigError::Unknown {
        place,
        name,
        nearest: nearest.name.to_owned(),
    }
}

/// The value as the text that a flag would have, if its TOML type is one that the kind may be written in.
fn scalar(
    kind: &Kind,
    value: &Spanned<DeValue<'_>>,
    place: Place,
) -> Result<Item, (Place, String)> {
    let text = match (value.get_ref(), kind) {
        (DeValue::Boolean(on), Kind::Bool) => Some(on.to_string()),
        (DeValue::String(text), kind) if !matches!(kind, Kind::Integer { .. } | Kind::Bool) => {
            Some(text.to_string())
        }
        (DeValue::Integer(number), kind) if kind.takes_numbers() => {
            match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Some(number.to_string()),
                Err(_) => None,
            }
        }
        _ => None,
    };
    match text {
        Some(text) => Ok(Item { text, place }),
        None => Err((
            place,
            format!(
                "expected {}, found {}",
                kind.allowed(),
                found(value.get_ref())
            ),
        )),
    }
}

fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {text:?}"),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
}
