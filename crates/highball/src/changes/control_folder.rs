//! Moves the control sockets into the server's present folder, if they are in an earlier one: deploy tools remove old
//! releases.

use std::rc::Rc;

use anyhow::Result;
use front::log::{Level, Value};

use crate::application::folder;
use crate::control::directory::ControlDirectory;
use crate::control::places::is_of_folder;
use crate::server::Server;
use crate::setup::Setup;
use crate::system::privileges::User;

/// Moves them. If that fails they stay, and the log says so.
pub(crate) async fn follow(server: &Server, setup: &Setup) {
    let control = &server.control;
    let Some(directory) = control.directory() else {
        return;
    };
    let moved = match other_directory(server, setup, directory).await {
        Ok(Some(other)) => control.move_to(other).await.map_err(Into::into),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = moved {
        let text = "the control sockets stay in the folder of an earlier release; commands may not find this server once \
                    that is removed";
        let fields = [("reason", Value::Text(&error))];
        server.log.event(Level::Warn, text, &fields);
    }
}

/// The directory in which the control sockets should be instead, if that is another one.
async fn other_directory(
    server: &Server,
    setup: &Setup,
    directory: Rc<ControlDirectory>,
) -> Result<Option<ControlDirectory>> {
    let named = setup.named.clone();
    let present = directory.path().to_owned();
    if !directory.is_in_folder() {
        return Ok(None);
    }
    let limit = setup.settings.boot_timeout;
    let find = move || {
        let folder = folder(&named)?;
        if is_of_folder(&present, &folder) {
            return Ok(None);
        }
        let (other, _) = ControlDirectory::open(User::of_this_process(), Some(&folder));
        Ok(other.filter(|other| other.path() != present))
    };
    let what = setup.named.display();
    server.housekeeping.look(what, limit, find).await
}
