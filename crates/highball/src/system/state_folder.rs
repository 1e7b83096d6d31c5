//! The folder in which a server keeps what outlives it, such as certificates. Makes nothing.

use std::path::{Path, PathBuf};

use crate::setup::Setup;

/// Returns the first of these that there can be for the server's user: `STATE_DIRECTORY` (systemd), `/var/lib/highball`,
/// `highball` in `XDG_STATE_HOME` or in `~/.local/state`.
pub(crate) fn state_folder(setup: &Setup) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folders) = variable("STATE_DIRECTORY") {
        // systemd separates several with colons.
        return std::env::split_paths(&folders).next();
    }
    let common = Path::new("/var/lib/highball");
    if rustix::process::geteuid().is_root()
        || rustix::fs::access(common, rustix::fs::Access::WRITE_OK).is_ok()
    {
        return Some(common.to_owned());
    }
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    if let Some(state) = variable("XDG_STATE_HOME")
        .map(PathBuf::from)
        .and_then(absolute)
    {
        return Some(state.join("highball"));
    }
    // Of the user that the server has become, where it changed the user.
    let mut own = setup.child_environment().variables.iter();
    let home = own
        .find(|(name, _)| name == "HOME")
        .map(|(_, home)| PathBuf::from(home));
    let home = home.or_else(|| variable("HOME").map(PathBuf::from));
    Some(home.and_then(absolute)?.join(".local/state/highball"))
}
