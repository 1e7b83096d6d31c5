//! A server whose application tells each call and waits at a gate: a test sees what has begun, and lets it end.

use crate::application::Application;
use crate::fifo::{Events, Gate};
use crate::process::Process;
use crate::server::Server;
use crate::server::builder::ServerBuilder;
use crate::until;

/// A server, what its application tells, and the gate `work` at which that waits.
#[derive(Debug)]
pub struct Gated {
    /// The server.
    pub server: Server,
    /// What its application tells.
    pub events: Events,
    /// Where its application waits.
    pub gate: Gate,
}

impl Gated {
    /// Starts one with settings of its own: one worker with one thread where they do not say otherwise.
    #[track_caller]
    pub fn start(
        application: Application,
        settings: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let (events, gate) = (application.events(), application.gate("work"));
        Self {
            server: settings(Server::application_of(application)).start(),
            events,
            gate,
        }
    }

    /// The next call, of an application that tells `call NAME PID`: its name and its worker.
    ///
    /// # Panics
    /// When another event comes, or none.
    #[track_caller]
    pub fn called(&mut self) -> (String, Process) {
        let event = self.events.wait();
        let words: Vec<&str> = event.split(' ').collect();
        match words[..] {
            ["call", name, pid] => (name.to_owned(), Process(pid.parse().expect("a number"))),
            _ => panic!("no call: {event}"),
        }
    }

    /// Waits until this many requests are in the queue.
    ///
    /// # Panics
    /// When there are more, or it takes too long.
    #[track_caller]
    pub fn wait_queued(&self, count: u64) {
        until("so many are in the queue", || {
            let status = self.server.status();
            let queued = status.number("/queue/length");
            assert!(queued <= count, "{:#}", status.0);
            queued == count
        });
    }
}
