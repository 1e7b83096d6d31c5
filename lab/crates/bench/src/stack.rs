//! The servers of the benchmark: which of `lab/stacks` each of them is. How one is started stands there, and nowhere else.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A server that takes part.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// This project's server.
    Highball,
    /// Puma as a cluster that loads the application before it forks.
    Puma,
    /// Unicorn with a preloaded application.
    Unicorn,
    /// Passenger standalone with its builtin engine.
    Passenger,
}

impl Stack {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Highball, Self::Puma, Self::Unicorn, Self::Passenger];

    /// Its id in `lab/stacks`.
    pub fn id(self) -> &'static str {
        match self {
            Self::Highball => "highball",
            Self::Puma => "puma-cluster",
            Self::Unicorn => "unicorn",
            Self::Passenger => "passenger",
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Highball => "Highball",
            Self::Puma => "Puma",
            Self::Unicorn => "Unicorn",
            Self::Passenger => "Passenger",
        })
    }
}
