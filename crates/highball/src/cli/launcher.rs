//! The life of a launcher: it becomes its user before anything else, and then serves its server. It is no command for people:
//! servers start it, by a variable.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result};
use supervisor::launcher_service;

use crate::system::privileges::Identity;

/// The variable that is set for a process that is to be a launcher. Its arguments are user and group.
pub(crate) const VARIABLE: &str = "HIGHBALL_LAUNCHER";

/// Whether this process is to be a launcher.
pub(crate) fn is_wanted() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Serves the server at the other end of stdin.
///
/// # Errors
/// Stdin is no socket of a server, or this process may not become its user; the server gets the reason.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let socket = io::stdin().as_fd().try_clone_to_owned();
    let socket: OwnedFd = socket.context("cannot duplicate stdin")?;
    // Commands look for servers by the name of their processes.
    let _ = rustix::thread::set_name(c"highball-launch");
    if let Err(error) = become_user(arguments) {
        launcher_service::refuse(&socket, format!("{error:#}"));
        return Err(error);
    }
    launcher_service::serve(socket).context("the launcher cannot serve")
}

fn become_user(arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let mut texts = arguments.skip(1).filter_map(|text| text.into_string().ok());
    let user = texts.next().with_context(|| {
        format!("{VARIABLE} is set, but only servers start launchers: unset it")
    })?;
    Identity::of_application(&user, texts.next().as_deref())?.become_alone()
}
