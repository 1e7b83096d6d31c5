//! Loads [`Settings`] from their sources: the stronger one wins, everything is checked, and values that depend on another
//! setting or on the machine are computed last. Reads one file, and how many cores and which addresses the machine has.

mod environment;
mod file;
mod layers;
mod resolve;
mod tables;

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::applications::ServerSettings;
use crate::cores;
use crate::error::{ConfigError, ConfigErrors, Origin, Place};
use crate::kind::Value;
use crate::listen::Listen;
use crate::load::file::FileContent;
use crate::nearest::nearest;
use crate::setting::Setting;
use crate::table::{SETTINGS, Settings};

/// Where the file is looked for in the application's folder, the first that exists.
pub const CONFIG_FILES: [&str; 2] = ["highball.toml", "config/highball.toml"];

/// The machine that settings are loaded on.
#[derive(Clone, Copy, Debug)]
struct Machine {
    /// How many cores this process may use.
    cores: fn() -> u16,
    has_ipv6: fn() -> bool,
}

const THIS_MACHINE: Machine = Machine {
    cores: cores::usable,
    has_ipv6: proc::machine::has_ipv6,
};

/// What settings are loaded from; the strongest is `flags`, then `env`, then the file.
#[derive(Debug, Default)]
pub struct Sources {
    /// The application's folder.
    pub dir: PathBuf,
    /// The file named on the command line; otherwise [`CONFIG_FILES`] in `dir`, and none is fine.
    pub config: Option<PathBuf>,
    /// Names and texts of flags in their order; names without the leading dashes, with `-` or `_` inside.
    pub flags: Vec<(String, String)>,
    /// The environment, as `std::env::vars_os` gives it.
    pub env: Vec<(OsString, OsString)>,
}

/// What one source says of one setting, not yet checked.
pub(crate) struct Raw {
    pub(crate) index: usize,
    pub(crate) place: Place,
    /// One for a setting that is no list.
    pub(crate) items: Vec<Item>,
}

/// A text and its place.
pub(crate) struct Item {
    pub(crate) text: String,
    pub(crate) place: Place,
}

impl Settings {
    /// Returns the most workers that there may be at once: `max_workers`, but not fewer than `workers` or its upper end.
    pub fn most_workers(&self) -> u16 {
        self.max_workers.max(self.workers.most())
    }

    /// Returns the time that a request for this path has: that of its rule in `request_timeouts`, else `request_timeout`.
    pub fn request_timeout_of(&self, path: &[u8]) -> Option<Duration> {
        let rule = self.request_timeouts.find(path);
        rule.copied().or(self.request_timeout)
    }

    /// Loads and checks all settings, and returns the server's.
    ///
    /// # Errors
    /// Everything that is wrong in any of the sources, also where a stronger one would have won.
    pub fn load(sources: Sources) -> Result<Self, ConfigErrors> {
        Self::load_on(sources, THIS_MACHINE)
    }

    fn load_on(sources: Sources, machine: Machine) -> Result<Self, ConfigErrors> {
        layers::load(&sources, machine).map(|all| all.server)
    }

    /// Returns the same settings with another value of one of them, as a flag would give it.
    ///
    /// # Errors
    /// There is no such setting, or it cannot have that value.
    pub fn with(&self, name: &str, value: &str) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let raws = from_flags(&[(name.to_owned(), value.to_owned())], &mut errors);
        let mut values: Vec<_> = self
            .values()
            .into_iter()
            .zip(self.origins.clone())
            .collect();
        for raw in raws {
            if let Some(value) = check(&raw, &mut errors) {
                let place = raw.place;
                values[raw.index] = (value, Origin { place, auto: false });
            }
        }
        match errors.is_empty() {
            true => Ok(Self::from_values(values)),
            false => Err(ConfigErrors(errors)),
        }
    }

    /// Those of [`Settings::default`], listening on a free port of 127.0.0.1; reads nothing of the machine.
    pub fn for_tests() -> Self {
        let listen = vec![Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))];
        Self {
            listen,
            ..Self::default()
        }
    }

    /// Name, value and origin of every setting, in the order of the documentation.
    pub fn describe(&self) -> Vec<(&'static str, String, String)> {
        let values = SETTINGS.iter().zip(self.values()).zip(&self.origins);
        values
            .map(|((setting, value), origin)| {
                (setting.name, setting.shown(&value), origin.to_string())
            })
            .collect()
    }
}

impl ServerSettings {
    /// Loads and checks all settings of a server and of its applications.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn load(sources: &Sources) -> Result<Self, ConfigErrors> {
        layers::load(sources, THIS_MACHINE)
    }
}

impl Default for Settings {
    /// The defaults in production, on two cores; reads nothing of the machine.
    fn default() -> Self {
        // A folder that cannot exist: no file is found there.
        let sources = Sources {
            dir: "/dev/null".into(),
            flags: vec![("environment".into(), "production".into())],
            ..Sources::default()
        };
        let machine = Machine {
            cores: || 2,
            has_ipv6: || false,
        };
        Self::load_on(sources, machine).expect("the defaults are good")
    }
}

/// The place of a setting in the table, where `name` is one.
fn index_of(name: &str) -> Option<usize> {
    SETTINGS.iter().position(|setting| setting.name == name)
}

/// The raw value of a flag or variable, where lists are separated by commas.
fn raw(index: usize, text: &str, place: &Place) -> Raw {
    let item = |text: &str| Item {
        text: text.trim().to_owned(),
        place: place.clone(),
    };
    let items = match (SETTINGS[index].is_list(), text.trim()) {
        (true, "") => Vec::new(),
        (true, text) => text.split(',').map(item).collect(),
        (false, _) => vec![Item {
            text: text.to_owned(),
            place: place.clone(),
        }],
    };
    Raw {
        index,
        place: place.clone(),
        items,
    }
}

fn defaults() -> Vec<Raw> {
    let default =
        |(index, setting): (usize, &Setting)| raw(index, setting.default, &Place::Default);
    SETTINGS.iter().enumerate().map(default).collect()
}

/// The environments in which a developer works: some defaults are others there.
const DEVELOPMENT: [&str; 2] = ["development", "test"];

impl Settings {
    /// Whether the environment is one in which a developer works.
    pub fn is_development(&self) -> bool {
        DEVELOPMENT.contains(&&*self.environment)
    }

    /// Whether the environment is `development` only because nothing names one: an operator may have forgotten to.
    pub fn environment_is_default(&self) -> bool {
        let index = index_of("environment").expect("a setting of the table");
        self.origins[index].place == Place::Default
    }
}

/// Replaces defaults by those of the environment, where that has others.
fn development_defaults(values: &mut [(Value, Origin)]) {
    let environment = index_of("environment").map(|index| values[index].0.clone());
    let Some(Value::Text(name)) = environment else {
        return;
    };
    if !DEVELOPMENT.contains(&&*name) {
        return;
    }
    for (index, (value, origin)) in values.iter_mut().enumerate() {
        let Some(default) = SETTINGS[index].development else {
            continue;
        };
        if origin.place == Place::Default {
            let place = Place::Environment(name.clone());
            let checked = check(&raw(index, default, &place), &mut Vec::new());
            *value = checked.expect("the defaults are good");
            origin.place = place;
        }
    }
}

fn from_file(sources: &Sources, errors: &mut Vec<ConfigError>) -> FileContent {
    let candidates = match &sources.config {
        Some(path) => vec![path.clone()],
        None => CONFIG_FILES
            .iter()
            .map(|name| sources.dir.join(name))
            .collect(),
    };
    for path in candidates {
        match std::fs::read_to_string(&path) {
            Ok(_) if is_ruby(&path) => {
                errors.push(ConfigError::Ruby { path });
                break;
            }
            Ok(text) => return file::read(&path, &text, errors),
            Err(error) if sources.config.is_none() && is_absent(&error) => {}
            Err(source) => {
                errors.push(ConfigError::Unreadable { path, source });
                break;
            }
        }
    }
    FileContent::default()
}

/// Whether a file is the configuration of another server, such as `config/puma.rb`.
fn is_ruby(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rb")
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn from_flags(flags: &[(String, String)], errors: &mut Vec<ConfigError>) -> Vec<Raw> {
    let mut raws: Vec<Raw> = Vec::new();
    for (name, text) in flags {
        let place = Place::Flag(name.replace('_', "-"));
        let Some(index) = index_of(&name.replace('-', "_")) else {
            let (nearest, _) = nearest_setting(name);
            errors.push(ConfigError::Unknown {
                name: place.to_string(),
                place,
                nearest: format!("--{}", nearest.flag()),
            });
            continue;
        };
        let raw = raw(index, text, &place);
        match raws
            .iter_mut()
            .find(|earlier| earlier.index == index && SETTINGS[index].is_list())
        {
            Some(earlier) => earlier.items.extend(raw.items),
            None => raws.push(raw),
        }
    }
    raws
}

/// Returns the setting whose name is nearest to this one, and by how many edits they differ.
fn nearest_setting(name: &str) -> (&'static Setting, usize) {
    let names = SETTINGS.iter().map(|setting| setting.name);
    let (index, edits) = nearest(name, names).expect("the table is not empty");
    (&SETTINGS[index], edits)
}

fn check(raw: &Raw, errors: &mut Vec<ConfigError>) -> Option<Value> {
    let setting = &SETTINGS[raw.index];
    let before = errors.len();
    let mut refuse = |place: &Place, message| {
        errors.push(ConfigError::Value {
            place: place.clone(),
            setting: setting.name,
            message,
        });
    };
    if !setting.is_list() {
        let item = &raw.items[0];
        return setting
            .kind
            .parse(&item.text)
            .map_err(|message| refuse(&item.place, message))
            .ok();
    }
    for item in &raw.items {
        if let Err(message) = setting.kind.check_item(&item.text) {
            refuse(&item.place, message);
        }
    }
    if errors.len() > before {
        return None;
    }
    let items: Vec<String> = raw.items.iter().map(|item| item.text.clone()).collect();
    let mut refuse = |message| {
        errors.push(ConfigError::Value {
            place: raw.place.clone(),
            setting: setting.name,
            message,
        });
    };
    setting.kind.parse_list(&items).map_err(&mut refuse).ok()
}

#[cfg(test)]
mod applications_tests;
#[cfg(test)]
mod tests;
