//! `highball.toml`: from its text to the raw values of settings, each with its line. Knows what TOML types
//! a kind may be written in; the rest of the checks is the kind's.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::applications::MAX_APPLICATIONS;
use crate::error::{ConfigError, Place};
use crate::kind::Kind;
use crate::load::tables::RawApplication;
use crate::load::{Item, Raw, nearest_setting};
use crate::setting::Scope;
use crate::table::SETTINGS;

/// The key of the tables of applications.
const APPLICATION: &str = "application";

/// What a file says.
#[derive(Default)]
pub(crate) struct FileContent {
    /// At the top level, one for each known key.
    pub(crate) raws: Vec<Raw>,
    /// In tables, one for each application.
    pub(crate) applications: Vec<RawApplication>,
}

/// Reads the text of the file at `path` (which serves for messages only).
pub(crate) fn read(path: &Path, text: &str, errors: &mut Vec<ConfigError>) -> FileContent {
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
        return FileContent::default();
    }
    let mut content = FileContent::default();
    for (key, value) in sorted(table.get_ref()) {
        let (name, place_of_key) = (key.get_ref(), place(key.span().start));
        if name == APPLICATION {
            content.applications = applications(value, &place_of_key, &place, errors);
        } else {
            content.raws.extend(setting(key, value, &place, errors));
        }
    }
    content
}

/// The entries of a table as they stand in the file.
fn sorted<'a, 'b>(table: &'a DeTable<'b>) -> Vec<Entry<'a, 'b>> {
    let mut keys: Vec<_> = table.iter().collect();
    keys.sort_by_key(|(key, _)| key.span().start);
    keys
}

type Entry<'a, 'b> = (&'a Spanned<DeString<'b>>, &'a Spanned<DeValue<'b>>);

/// The place of an offset in the file.
type Places<'a> = dyn Fn(usize) -> Place + 'a;

/// The setting of a key; none where it has no setting or is wrong.
fn setting(
    key: &Spanned<DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
    place: &Places<'_>,
    errors: &mut Vec<ConfigError>,
) -> Option<Raw> {
    let (name, place_of_key) = (key.get_ref(), place(key.span().start));
    let Some(index) = SETTINGS.iter().position(|setting| setting.name == name) else {
        errors.push(unknown(place_of_key, name, value.get_ref()));
        return None;
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
        Ok(items) => Some(Raw {
            index,
            place: place_of_key,
            items,
        }),
        Err((place, message)) => {
            errors.push(ConfigError::Value {
                place,
                setting: setting.name,
                message,
            });
            None
        }
    }
}

/// The tables of applications.
fn applications(
    value: &Spanned<DeValue<'_>>,
    place_of_key: &Place,
    place: &Places<'_>,
    errors: &mut Vec<ConfigError>,
) -> Vec<RawApplication> {
    let tables = match value.get_ref() {
        DeValue::Array(tables) if tables.len() <= MAX_APPLICATIONS => tables,
        DeValue::Array(_) => {
            let message = format!("there are more than {MAX_APPLICATIONS} applications");
            errors.push(wrong(place_of_key.clone(), message));
            return Vec::new();
        }
        _ => {
            let message = "each application is a table: write [[application]], with two brackets";
            errors.push(wrong(place_of_key.clone(), message.to_owned()));
            return Vec::new();
        }
    };
    let all = tables.iter().filter_map(|table| match table.get_ref() {
        DeValue::Table(entries) => {
            let place_of_table = place(table.span().start);
            Some(application(entries, place_of_table, place, errors))
        }
        other => {
            let message = format!("expected a table [[application]], found {}", found(other));
            errors.push(wrong(place(table.span().start), message));
            None
        }
    });
    all.collect()
}

/// The table of an application.
fn application(
    entries: &DeTable<'_>,
    place_of_table: Place,
    place: &Places<'_>,
    errors: &mut Vec<ConfigError>,
) -> RawApplication {
    let mut raw = RawApplication::at(place_of_table);
    for (key, value) in sorted(entries) {
        let own = place(key.span().start);
        let texts = || match value.get_ref() {
            DeValue::String(text) => vec![(own.clone(), text.to_string())],
            DeValue::Array(items) => {
                let text = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
                    DeValue::String(text) => Some((place(item.span().start), text.to_string())),
                    _ => None,
                };
                items.iter().filter_map(text).collect()
            }
            _ => Vec::new(),
        };
        match &**key.get_ref() {
            "name" => raw.name = texts().pop(),
            "path" => raw.path = texts().pop(),
            "prefix" => raw.prefix = texts().pop(),
            "hosts" => raw.hosts = texts(),
            "user" => raw.user = texts().pop(),
            "group" => raw.group = texts().pop(),
            "variables" => {
                raw.variables = variables(value, place, errors);
                continue;
            }
            name => {
                let refused = SETTINGS.iter().find(|setting| setting.name == name);
                match refused.filter(|setting| setting.scope == Scope::Server) {
                    Some(setting) => errors.push(of_the_server(own, setting.name)),
                    None => raw.raws.extend(setting(key, value, place, errors)),
                }
                continue;
            }
        }
        let expects_list = &**key.get_ref() == "hosts";
        let is_good = match value.get_ref() {
            DeValue::String(_) => true,
            DeValue::Array(items) => expects_list && items.len() == raw.hosts.len(),
            _ => false,
        };
        if !is_good {
            let expected = if expects_list {
                "a list of texts"
            } else {
                "a text"
            };
            let found = found(value.get_ref());
            let message = format!("{}: expected {expected}, found {found}", key.get_ref());
            errors.push(wrong(own, message));
        }
    }
    raw
}

/// The variables of an application.
fn variables(
    value: &Spanned<DeValue<'_>>,
    place: &Places<'_>,
    errors: &mut Vec<ConfigError>,
) -> Vec<(String, String)> {
    let DeValue::Table(entries) = value.get_ref() else {
        let found = found(value.get_ref());
        let message = format!("variables: expected a table of texts, found {found}");
        errors.push(wrong(place(value.span().start), message));
        return Vec::new();
    };
    let mut all = Vec::new();
    for (key, value) in sorted(entries) {
        match value.get_ref() {
            DeValue::String(text) if is_range(key.get_ref(), text) => {
                all.push((key.get_ref().to_string(), text.to_string()));
            }
            DeValue::String(_) => {
                let message = format!(
                    "variables: {:?} is not allowed: no name is empty or has a =, and nothing has a NUL",
                    key.get_ref()
                );
                errors.push(wrong(place(key.span().start), message));
            }
            other => {
                let name = key.get_ref();
                let message = format!("variables: {name}: expected a text, found {}", found(other));
                errors.push(wrong(place(key.span().start), message));
            }
        }
    }
    all
}

fn is_range(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

/// What is wrong with a table of an application.
fn wrong(place: Place, message: String) -> ConfigError {
    ConfigError::Value {
        place,
        setting: APPLICATION,
        message,
    }
}

/// A setting of the server stands in the table of an application.
fn of_the_server(place: Place, setting: &'static str) -> ConfigError {
    let message = "it belongs to the server: write it above the first [[application]]".to_owned();
    ConfigError::Value {
        place,
        setting,
        message,
    }
}

fn unknown(place: Place, name: &str, value: &DeValue<'_>) -> ConfigError {
    let (nearest, _) = nearest_setting(name);
    let name = match value {
        DeValue::Table(_) => {
            format!("{name} (a table; settings stand at the top level or in [[application]])")
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
        (DeValue::Float(number), Kind::Ratio) => Some(number.as_str().to_owned()),
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
