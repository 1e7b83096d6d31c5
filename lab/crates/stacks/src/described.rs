//! What took part in a comparison, as its results keep it: an application and a stack. Plain data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The application under all stacks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Application {
    /// Its name.
    pub name: String,
    /// What it is and what it does for a request, in a sentence; may be empty.
    pub about: String,
    /// Versions of what it is made of, by name.
    pub versions: BTreeMap<String, String>,
    /// The commit it was at, where it is under git.
    pub commit: Option<String>,
}

/// One stack as it was deployed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// As on the command line: `nginx+thin`.
    pub id: String,
    /// For people: `nginx before 2 Thins`.
    pub name: String,
    /// Versions of its programs, by name.
    pub versions: BTreeMap<String, String>,
    /// The commands that started it, with names in the places of paths and ports.
    pub commands: Vec<String>,
    /// Variables that the comparison set for its processes alone.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The files that were generated for it, with the same names: path and content.
    pub files: Vec<(String, String)>,
    /// Worker processes.
    pub workers: usize,
    /// Threads of each.
    pub threads: usize,
    /// What is to be known of it; may be empty.
    pub note: String,
}
