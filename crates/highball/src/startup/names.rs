//! The names under which a server answers commands: its folder and its file of settings. It opens no socket of its own.

use anyhow::{Context, Result};
use front::log::{AccessLog, Level};

use crate::changes::predecessor::Names;
use crate::control::name::ServerName;
use crate::control::search::connect_by_name;
use crate::control::socket::ControlSocket;
use crate::setup::Setup;
use crate::system::privileges::User;
use crate::system::program::own_pid;

/// Has the server answer commands under the names of its folder and of its file of settings.
pub(super) async fn claim_names(
    control: &ControlSocket,
    setup: &Setup,
    handed_over: Names,
    log: &AccessLog,
) -> Result<()> {
    let mut names = vec![ServerName::Dir(&setup.dir)];
    if setup.named != setup.dir {
        names.push(ServerName::Dir(&setup.named));
    }
    names.extend(setup.config.as_deref().map(ServerName::Config));
    let mut elsewhere = 0;
    if handed_over.is_empty() {
        let all = names.len();
        let (folder, uid) = (Some(&*setup.dir), User::of_this_process().uid);
        // Another server of this user, with other variables, may have them in another directory.
        names.retain(|name| matches!(connect_by_name(*name, folder, Some(uid)), Ok(None)));
        elsewhere = all - names.len();
    }
    let added = control.add_names(&names, handed_over).await;
    added.context("cannot open the control socket")?;
    if control.names_taken() + elsewhere > 0 {
        let text = format!(
            "another server runs for this folder or file of settings: commands find that one by them, and this one with \
             --pid {}",
            own_pid()
        );
        log.event(Level::Warn, &text, &[]);
    }
    Ok(())
}
