//! The tables `[[application]]` of the file: what they say beside settings, and whether that is right. It looks at no folder.

use std::collections::HashMap;
use std::path::Path;

use super::Raw;
use crate::applications::ApplicationTable;
use crate::error::{ConfigError, Place};
use crate::hosts::{HostPattern, parse_prefix};

/// The longest name of an application, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// The most hosts of an application.
const MAX_HOSTS: usize = 1000;
/// The name of the link that deploy tools put in an application's folder: it names no application.
const CURRENT: &str = "current";

/// A text and where it stands.
type Text = (Place, String);

/// A table as it stands in the file.
pub(crate) struct RawApplication {
    place: Place,
    pub(crate) name: Option<Text>,
    pub(crate) path: Option<Text>,
    pub(crate) hosts: Vec<Text>,
    pub(crate) prefix: Option<Text>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) user: Option<Text>,
    pub(crate) group: Option<Text>,
    /// Its settings.
    pub(crate) raws: Vec<Raw>,
}

/// An application whose settings are still to come, with what its table says of them.
type Known<T> = (ApplicationTable, T);

impl RawApplication {
    /// Returns an empty table that begins here.
    pub(crate) fn at(place: Place) -> Self {
        Self {
            place,
            name: None,
            path: None,
            hosts: Vec::new(),
            prefix: None,
            variables: Vec::new(),
            user: None,
            group: None,
            raws: Vec::new(),
        }
    }

    /// Checks all but the settings, also against the applications before it. None where something is wrong.
    pub(crate) fn check<T>(
        self,
        dir: &Path,
        others: &[Known<T>],
        errors: &mut Vec<ConfigError>,
    ) -> Option<ApplicationTable> {
        let before = errors.len();
        let mut refuse = |place: &Place, message: String| {
            errors.push(ConfigError::Value {
                place: place.clone(),
                setting: "application",
                message,
            });
        };
        let Some((_, path)) = self.path.filter(|(_, path)| !path.is_empty()) else {
            let message = "path is missing: the application's folder".to_owned();
            refuse(&self.place, message);
            return None;
        };
        let path = std::path::absolute(dir.join(&path)).unwrap_or_else(|_| dir.join(&path));
        let (place, name) = match self.name {
            Some(named) => named,
            None => (self.place.clone(), default_name(&path)),
        };
        if !is_name(&name) {
            let message = format!(
                "the name {name:?} is not allowed; set name to at most {MAX_NAME_BYTES} letters, digits, - _ and ."
            );
            refuse(&place, message);
        }
        if others.iter().any(|(other, _)| other.name == name) {
            let message = format!("another application is called {name} too; set name");
            refuse(&place, message);
        }
        let mut hosts = Vec::new();
        for (place, text) in self.hosts.iter().take(MAX_HOSTS) {
            match HostPattern::parse(text) {
                Ok(host) => hosts.push(host),
                Err(message) => refuse(place, format!("hosts: {message}")),
            }
        }
        if self.hosts.len() > MAX_HOSTS {
            let message = format!("hosts: there are more than {MAX_HOSTS}; use a wildcard");
            refuse(&self.place, message);
        }
        let prefix = match &self.prefix {
            None => String::new(),
            Some((place, text)) => parse_prefix(text).unwrap_or_else(|message| {
                refuse(place, format!("prefix: {message}"));
                String::new()
            }),
        };
        if let (Some((place, _)), None) = (&self.group, &self.user) {
            let message = "group is set without user; set user too".to_owned();
            refuse(place, message);
        }
        for (place, text) in [&self.user, &self.group].into_iter().flatten() {
            if text.is_empty() {
                refuse(place, "user and group may not be empty".to_owned());
            }
        }
        let application = ApplicationTable {
            name,
            path,
            hosts,
            prefix,
            variables: self.variables,
            user: self.user.map(|(_, text)| text),
            group: self.group.map(|(_, text)| text),
        };
        if let Some(text) = conflict(&application, others) {
            refuse(&self.place, text);
        }
        (errors.len() == before).then_some(application)
    }
}

/// What two applications both want: requests can only go to one of them.
fn conflict<T>(new: &ApplicationTable, others: &[Known<T>]) -> Option<String> {
    let mut routes: HashMap<(Option<&HostPattern>, &str), &str> = HashMap::new();
    let all = others.iter().map(|(other, _)| other).chain([new]);
    for application in all {
        let none = application.hosts.is_empty().then_some(None);
        for host in application.hosts.iter().map(Some).chain(none) {
            let (prefix, name) = (&*application.prefix, &*application.name);
            if let Some(other) = routes.insert((host, prefix), name) {
                let host = host.map_or("no host".to_owned(), |host| format!("host {host}"));
                let path = if prefix.is_empty() { "/" } else { prefix };
                return Some(format!(
                    "{name} and {other} have the same requests: {host}, prefix {path}; give one of them another host or prefix"
                ));
            }
        }
    }
    None
}

/// The last part of the path, or the one before where that is `current`.
fn default_name(path: &Path) -> String {
    let names = path.components().rev().map(|part| part.as_os_str());
    let mut names = names.filter(|name| *name != CURRENT);
    let name = names.next().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn is_name(name: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let begins = |byte: &u8| byte.is_ascii_alphanumeric();
    name.len() <= MAX_NAME_BYTES
        && name.as_bytes().first().is_some_and(begins)
        && name.bytes().all(known)
}
