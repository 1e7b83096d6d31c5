//! Checks before a load: a server listens, and there are enough descriptors for the connections.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{Resource, getrlimit, setrlimit};

use loadgen::page;
use loadgen::plan::{Plan, Target};

/// Descriptors apart from those of the connections: poll sets, stdio, libraries.
const SPARE: u64 = 64;
/// Time-out of the first connection.
const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects once, so that a wrong port is one message at once and not ten seconds of refused connections.
///
/// # Errors
/// No server listens there, its certificate is not accepted, or it does not speak HTTP/2.
pub(super) fn server_of(plan: &Plan) -> Result<()> {
    let server = match &plan.target {
        Target::Tcp(address) | Target::Tls(address, _) => address.to_string(),
        Target::Unix(path) => path.display().to_string(),
    };
    let timeout = FIRST_CONNECT_TIMEOUT.min(plan.timeout);
    page::reach(&plan.target, plan.streams.is_some(), timeout).map_err(|error| {
        let cause = error.root_cause();
        let advice = match (&plan.target, cause.downcast_ref::<std::io::Error>()) {
            (Target::Tls(..), Some(error)) if error.kind() == ErrorKind::InvalidData => {
                "--cacert names the authority, --insecure accepts every certificate"
            }
            _ => "is the server running?",
        };
        anyhow!("can't connect to {server}: {cause}; {advice}")
    })
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
