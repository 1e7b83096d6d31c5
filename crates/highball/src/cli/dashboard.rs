//! `highball dashboard`: has a running server open its dashboard on an address of this machine, prints that, and waits. The
//! server ends the dashboard when this command ends.

use anyhow::{Result, bail};
use command_line::ServerArguments;

use crate::cli::{api, client, print};
use crate::dashboard::opening::DashboardState;

/// What is printed below the address.
const EXPLANATION: &str = "\
The address works once, in the browser that opens it first. Ctrl-C ends the dashboard; so does an hour without use.
";

/// Opens the dashboard, and waits until it has ended.
///
/// # Errors
/// There is no server, it refuses, or it has ended.
pub(crate) fn run(server: &ServerArguments) -> Result<()> {
    let connection = client::connect(server)?;
    let body = serde_json::Map::new();
    let mut answer = api::post(&connection, "/v1/dashboard", &body)?;
    loop {
        match answer.json()? {
            Some(DashboardState::Opened { address }) => {
                print(&format!("{address}\n{EXPLANATION}"))?;
            }
            Some(DashboardState::Open) => {}
            Some(DashboardState::Unused) => {
                return print("Nobody has looked at the dashboard for an hour: it has ended.\n");
            }
            None => bail!("the server has exited or was replaced: run the command again"),
        }
    }
}
