//! What the benchmark sends itself, beside wrk: GETs to which status 200 alone is a good answer. It measures nothing.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, bail};

use loadgen::outcome::Outcome;
use loadgen::plan::{Arrivals, ConnectionUse, End, Expected, Mode, Plan, Request, Target};
use loadgen::run;
use stacks::Running;

/// A request without its whole answer after so long has failed, and counts with this time.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// More connections than these an open loop never has open.
const MAX_CONNECTIONS: usize = 10_000;

/// Where a server listens: all of the benchmark's do on a port.
///
/// # Errors
/// It listens on a UNIX socket.
pub(super) fn address(running: &Running) -> Result<SocketAddr> {
    match running.target() {
        Target::Tcp(address) => Ok(address),
        Target::Unix(path) => bail!("it listens on {} and on no port", path.display()),
    }
}

/// Pages, drawn by their weights, over connections that are kept.
pub(super) fn plan(address: SocketAddr, pages: &[(&str, f64)], mode: Mode, seed: u64) -> Plan {
    let request = |(path, weight): &(&str, f64)| Request {
        method: "GET".to_owned(),
        path: (*path).to_owned(),
        headers: vec![("Accept".to_owned(), "*/*".to_owned())],
        body: Vec::new(),
        weight: *weight,
        expected: Some(Expected {
            status: 200,
            length: None,
        }),
    };
    Plan {
        target: Target::Tcp(address),
        host: address.to_string(),
        requests: pages.iter().map(request).collect(),
        login: None,
        mode,
        connections: ConnectionUse::KeepAlive,
        timeout: TIMEOUT,
        threads: 1,
        cores: Vec::new(),
        seed,
    }
}

/// Requests that leave at their scheduled times.
pub(super) fn open(rate: f64, arrivals: Arrivals, duration: Duration) -> Mode {
    Mode::Open {
        rate,
        arrivals,
        duration,
        max_connections: MAX_CONNECTIONS,
    }
}

/// Sends so many GETs of one page over so many connections.
///
/// # Errors
/// The machine refuses threads or poll sets; what the server does wrong is an outcome.
pub(super) fn send(
    address: SocketAddr,
    path: &str,
    connections: usize,
    requests: usize,
) -> Result<Outcome> {
    let mode = Mode::Closed {
        connections,
        end: End::Requests(requests as u64),
    };
    let plan = Plan {
        timeout: 2 * TIMEOUT,
        ..plan(address, &[(path, 1.0)], mode, 0)
    };
    run(&plan, &mut |_| {}, &AtomicBool::new(false))
}
