//! Where a value came from, and what is wrong with it. Words only; decides nothing.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The place that gave a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The table's default.
    Default,
    /// The table's default for this environment, `development` or `test`.
    Environment(String),
    /// A line of the file, counted from 1.
    File {
        /// The file, as it was opened.
        path: PathBuf,
        /// The line of the key, or of the item of a list.
        line: usize,
    },
    /// A variable of the environment, by its name.
    Variable(String),
    /// A flag, by its name without dashes in front.
    Flag(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Environment(name) => write!(f, "default in {name}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// Where the value of a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The strongest place that gave one.
    pub place: Place,
    /// Whether that place said `auto`, and the value was worked out.
    pub auto: bool,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let auto = if self.auto { " (auto)" } else { "" };
        write!(f, "{}{auto}", self.place)
    }
}

/// One thing that is wrong with the settings.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file exists or was named, but cannot be read.
    #[error("{}: cannot read the file: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is Ruby: the configuration of another server.
    #[error(
        "{0}: settings are TOML, and this file is Ruby; `highball init --from {0}` translates the configuration of Puma and \
         Unicorn",
        path.display()
    )]
    Ruby {
        /// The file.
        path: PathBuf,
    },
    /// The file is not TOML.
    #[error("{}:{line}: not valid TOML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What the parser says, in one line.
        message: String,
    },
    /// A key, a flag or a `HIGHBALL_*` variable that no setting has.
    #[error(
        "{}unknown setting {name}; the nearest known one is {nearest}",
        before(place, None)
    )]
    Unknown {
        /// Where it stands.
        place: Place,
        /// What was written.
        name: String,
        /// The nearest known name, written for the same place.
        nearest: String,
    },
    /// A value of the wrong type, out of range, or otherwise not allowed.
    #[error("{}{message}", before(place, Some(setting)))]
    Value {
        /// Where it stands.
        place: Place,
        /// The setting.
        setting: &'static str,
        /// What is wrong with it and what is allowed.
        message: String,
    },
}

impl ConfigError {
    /// The line of the file, to list what is wrong there from top to bottom.
    pub(crate) fn line(&self) -> usize {
        match self {
            Self::Syntax { line, .. }
            | Self::Unknown {
                place: Place::File { line, .. },
                ..
            }
            | Self::Value {
                place: Place::File { line, .. },
                ..
            } => *line,
            _ => 0,
        }
    }
}

/// The start of a message: the place, and the key where the place does not name it already.
fn before(place: &Place, setting: Option<&str>) -> String {
    match (place, setting) {
        (Place::File { .. } | Place::Default, Some(setting)) => format!("{place}: {setting}: "),
        (Place::Variable(_) | Place::Flag(_), None) => String::new(),
        _ => format!("{place}: "),
    }
}

/// Everything that is wrong with the settings; written with one line each.
#[derive(Debug)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let joint = if index == 0 { "" } else { "\n" };
            write!(f, "{joint}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
