//! Checks before a load: a server listens, and there are enough descriptors for the connections.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{Resource, getrlimit, setrlimit};

use loadgen::plan::{Plan, Target};

/// Descriptors apart from those of the connections: poll sets, stdio, libraries.
const SPARE: u64 = 64;
/// Time-out of the first connection.
const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects once, so that a wrong port is one message at once and not ten seconds of refused connections.
///
/// # Errors
/// No server listens there.
pub(super) fn server_of(plan: &Plan) -> Result<()> {
    let (server, connected) = match &plan.target {
        Target::Tcp(address) => (
            address.to_string(),
            TcpStream::connect_timeout(address, FIRST_CONNECT_TIMEOUT.min(plan.timeout)).map(drop),
        ),
        Target::Unix(path) => (
            path.display().to_string(),
            UnixStream::connect(path).map(drop),
        ),
    };
    connected.map_err(|error| anyhow!("can't connect to {server}: {error}; is the server running?"))
}

/// Raises this process's own limit of descriptors as far as the connections need.
///
/// # Errors
/// The system allows fewer.
pub(super) fn descriptors_for(plan: &Plan) -> Result<()> {
    let wanted = plan.connections_at_most() as u64 + SPARE;
    let mut limit = getrlimit(Resource::Nofile);
    // No limit is `None`.
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if let Some(most) = limit.maximum.filter(|most| *most < wanted) {
        bail!(
            "{} connections need {wanted} file descriptors, and this process may have {most}: use fewer, or raise the \
             hard limit (ulimit -Hn)",
            plan.connections_at_most()
        );
    }
    limit.current = Some(wanted);
    setrlimit(Resource::Nofile, limit).context("can't raise the limit of file descriptors")
}
