//! The settings of a server and of its applications. Data only.

use std::path::PathBuf;

use crate::hosts::HostPattern;
use crate::table::Settings;

/// The most applications of a server.
pub const MAX_APPLICATIONS: usize = 64;
/// All settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Those of the server; where no application is listed, also those of the only one.
    pub server: Settings,
    /// The applications that the file lists, in its order.
    pub applications: Vec<ApplicationSettings>,
}

/// One of several applications.
#[derive(Clone, Debug)]
pub struct ApplicationSettings {
    /// What its table says beside settings.
    pub table: ApplicationTable,
    /// Its settings; those of the server's scope are the server's.
    pub settings: Settings,
}

/// What the table of an application says beside settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationTable {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its folder; a relative one is within the server's.
    pub path: PathBuf,
    /// The hosts whose requests it gets; none for all that no other application has.
    pub hosts: Vec<HostPattern>,
    /// What the paths of its requests begin with, without a slash at the end; empty for all.
    pub prefix: String,
    /// Variables of its processes.
    pub variables: Vec<(String, String)>,
    /// The user of its processes; `None` for the server's.
    pub user: Option<String>,
    /// Their group; `None` for the one of `user` in the system's table.
    pub group: Option<String>,
}
