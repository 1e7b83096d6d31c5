//! The configuration of another server in Highball's settings: what each of its entries means, and why some mean nothing. It
//! reads and writes no file.

pub(crate) mod passenger;
pub(crate) mod puma;
pub(crate) mod unicorn;

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// The most characters of an entry that are shown.
const MAX_SHOWN_CHARS: usize = 60;

/// One entry of a configuration: a call with its arguments, or a key with its value.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Value>,
    /// Its line, counted from 1.
    pub(crate) line: Option<u32>,
    /// Whether it has a block of code.
    #[serde(default)]
    pub(crate) block: bool,
}

impl Entry {
    /// Returns an argument as text; `None` if there is none.
    fn argument(&self, index: usize) -> Option<String> {
        let value = self.arguments.get(index)?;
        match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// Returns an option, from the last argument.
    fn option(&self, name: &str) -> Option<&Value> {
        self.arguments.last()?.get(name)
    }

    /// Returns the entry as it was written, or nearly so.
    fn shown(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(Value::to_string).collect();
        let block = if self.block { " { ... }" } else { "" };
        let text = format!("{} {}", self.name, arguments.join(", "));
        let mut short: String = text.trim_end().chars().take(MAX_SHOWN_CHARS).collect();
        if short.len() < text.trim_end().len() {
            short += "...";
        }
        format!(
            "{}{block}",
            short.escape_debug().to_string().replace("\\\"", "\"")
        )
    }
}

/// What an entry means for Highball.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    /// These settings, each with the items of its value.
    Settings(Vec<(&'static str, Vec<String>)>),
    /// Nothing has to be set, for this reason.
    NotNeeded(&'static str),
    /// Its block belongs into this hook of `config/highball.rb`.
    Hook(&'static str),
    /// It has no counterpart, for this reason.
    NoCounterpart(&'static str),
}

impl Meaning {
    fn setting(name: &'static str, value: impl Into<String>) -> Self {
        Self::Settings(vec![(name, vec![value.into()])])
    }
}

/// How the meaning of an entry is found.
#[derive(Clone, Copy)]
enum Rule {
    /// This setting has the value of the first argument.
    Same(&'static str),
    /// This setting has the path in the first argument.
    Path(&'static str),
    /// It depends on the arguments.
    By(fn(&Entry) -> Option<Meaning>),
    NotNeeded(&'static str),
    Hook(&'static str),
    NoCounterpart(&'static str),
}

/// What the entries of a server mean, by their names.
type Rules = [(&'static str, Rule)];

/// A configuration in Highball's settings.
#[derive(Debug, Default)]
pub(crate) struct Translation {
    /// Settings, each with the items of its value.
    pub(crate) settings: Vec<(String, Vec<String>)>,
    /// A line for each entry: what became of it.
    pub(crate) lines: Vec<String>,
}

impl Translation {
    /// Translates entries. Paths in the application's folder `dir` become relative.
    fn of(entries: &[Entry], rules: &Rules, dir: &Path) -> Self {
        let mut translation = Self::default();
        for entry in entries {
            let rule = rules.iter().find(|(name, _)| *name == entry.name);
            let meaning = match rule {
                Some((_, rule)) => meaning(*rule, entry, dir),
                None => Some(Meaning::NoCounterpart("it is unknown to Highball")),
            };
            let mut meaning = meaning.unwrap_or(Meaning::NoCounterpart("it has no value"));
            if let Meaning::Settings(settings) = &mut meaning {
                let items = settings.iter_mut().flat_map(|(_, items)| items);
                items.for_each(|item| shorten_socket(item, dir));
            }
            translation.add(entry, meaning);
        }
        translation
    }

    fn add(&mut self, entry: &Entry, meaning: Meaning) {
        let became = match meaning {
            Meaning::Settings(settings) => {
                let shown = settings.iter().map(|(name, items)| {
                    let items = items.join(",").escape_debug().to_string();
                    format!("{name} = {items}")
                });
                let shown = shown.collect::<Vec<_>>().join(", ");
                settings
                    .into_iter()
                    .for_each(|(name, items)| self.set(name, items));
                shown
            }
            Meaning::NotNeeded(reason) => format!("not needed: {reason}"),
            Meaning::Hook(hook) => {
                format!("move the block to config/highball.rb: {hook} {{ ... }}")
            }
            Meaning::NoCounterpart(reason) => format!("no counterpart: {reason}"),
        };
        let line = entry
            .line
            .map_or_else(String::new, |line| format!("line {line}: "));
        self.lines
            .push(format!("{line}{}\n    {became}", entry.shown()));
    }

    /// Sets a setting. Addresses add up; of other settings the last value counts.
    fn set(&mut self, name: &str, mut items: Vec<String>) {
        match self.settings.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) if name == "listen" => known.append(&mut items),
            Some((_, known)) => *known = items,
            None => self.settings.push((name.to_owned(), items)),
        }
    }

    /// Whether a setting has a value.
    fn has(&self, name: &str) -> bool {
        self.settings.iter().any(|(known, _)| known == name)
    }
}

fn meaning(rule: Rule, entry: &Entry, dir: &Path) -> Option<Meaning> {
    Some(match rule {
        Rule::Same(setting) => Meaning::setting(setting, entry.argument(0)?),
        Rule::Path(setting) => Meaning::setting(setting, relative(&entry.argument(0)?, dir)),
        Rule::By(find) => find(entry)?,
        Rule::NotNeeded(reason) => Meaning::NotNeeded(reason),
        Rule::Hook(hook) => Meaning::Hook(hook),
        Rule::NoCounterpart(reason) => Meaning::NoCounterpart(reason),
    })
}

/// Returns a path in the application's folder relative to it; releases of the application have other folders.
fn relative(path: &str, dir: &Path) -> String {
    let inside = Path::new(path).strip_prefix(dir).ok();
    let inside = inside
        .and_then(Path::to_str)
        .filter(|inside| !inside.is_empty());
    inside.unwrap_or(path).to_owned()
}

/// Makes the path of a UNIX socket relative, where the item is one in the application's folder.
fn shorten_socket(item: &mut String, dir: &Path) {
    if let Some(path) = item.strip_prefix("unix:") {
        *item = format!("unix:{}", relative(path, dir));
    }
}

/// Returns the environment that a configuration names, unless it is that of the variables or the default.
fn environment(entry: &Entry) -> Option<Meaning> {
    let named = entry.argument(0)?;
    let variable = |name: &str| std::env::var(name).is_ok_and(|value| value == named);
    if named == "development" || variable("RAILS_ENV") || variable("RACK_ENV") {
        return Some(Meaning::NotNeeded(
            "RAILS_ENV and RACK_ENV count, and development is the default",
        ));
    }
    Some(Meaning::setting("environment", named))
}

/// Returns the mode of a socket's file, as octal digits, from a umask or a mode in a text or number.
fn mode_of_umask(umask: &str) -> Option<String> {
    let umask = u32::from_str_radix(umask.trim_start_matches("0o"), 8).ok()?;
    Some(format!("{:04o}", 0o777 & !umask))
}

/// Why entries of any server mean nothing here.
mod reasons {
    pub(super) const LOG: &str =
        "the log goes to stdout, where systemd or Docker keep it, or to log_file";
    pub(super) const TLS: &str = "listen on tls://ADDRESS, and set tls_certificate_files";
    pub(super) const FOLDER: &str = "start highball in that folder, or name it: highball serve DIR";
    pub(super) const PRELOAD: &str =
        "the application is always loaded once, before workers are forked";
    pub(super) const FOREGROUND: &str =
        "Highball stays in the foreground; let a service manager start it";
    pub(super) const INTERNAL: &str = "Highball has no such part";
}

#[cfg(test)]
mod tests;
