//! What the generator could do at most: the plan's requests against a server that does nothing but answer. A figure
//! near it says more of the generator than of the server.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::engine::run;
use super::plan::{End, Mode, Plan, Target};
use null_server::NullServer;

mod null_server;

/// Connections that stand for an open loop's, whose number only the server decides.
const OF_OPEN_LOOP: usize = 64;

/// The ceiling of the generator on this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Headroom {
    /// Responses a second that came from the null server.
    pub rate: f64,
    /// Cores that the generator's threads used for it.
    pub cores: f64,
    /// Responses a second that the generator could take with all the time of its threads: `rate` where the null
    /// server was not the slower side. A load should stay below half of it.
    pub ceiling: f64,
}

/// Drives a null server without TLS on `server_cores` (empty: wherever the kernel puts it) for `duration` in a closed loop with
/// the plan's requests and connections. A login is left out.
///
/// # Errors
/// Where the plan can't be carried out or speaks HTTP/2, or the null server has no port or thread.
pub fn headroom(plan: &Plan, server_cores: &[usize], duration: Duration) -> Result<Headroom> {
    plan.check()?;
    ensure!(
        plan.streams.is_none(),
        "the server that only answers does not speak HTTP/2"
    );
    let server = NullServer::start(plan, server_cores)?;
    let connections = match plan.mode {
        Mode::Closed { connections, .. } => connections,
        Mode::Open {
            max_connections, ..
        } => max_connections.min(OF_OPEN_LOOP),
    };
    let plan = Plan {
        target: Target::Tcp(server.address()),
        login: None,
        mode: Mode::Closed {
            connections,
            end: End::After(duration),
        },
        ..plan.clone()
    };
    let outcome = run(&plan, &mut |_| {}, &AtomicBool::new(false))?;
    ensure!(
        outcome.completed > 0,
        "the null server answered nothing: {:?}",
        outcome.errors
    );
    let rate = outcome.completed as f64 / outcome.elapsed_s;
    let cores = outcome.generator.cores;
    let share = cores / outcome.generator.threads as f64;
    Ok(Headroom {
        rate,
        cores,
        ceiling: rate / share.clamp(0.05, 1.0),
    })
}
