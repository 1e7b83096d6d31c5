//! The shutdown of a server: running requests may finish, idle connections go to the new server if there is one, and a
//! server that this one has replaced is waited for. Then the workers are stopped.

use std::io::{IsTerminal, stdin};
use std::rc::Rc;
use std::time::{Duration, Instant};

use front::Unfinished;
use front::log::{Level, Value};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use crate::application::{LEAST_GRACE, counted};
use crate::changes::successor::Successor;
use crate::server::Server;
use crate::system::signals::{Stop, Stops};
use crate::traces;

/// A server that ends.
pub(crate) struct Shutdown {
    pub(crate) server: Rc<Server>,
    /// The server that has taken over, if there is one.
    pub(crate) successor: Option<Successor>,
    /// What stops applications that nobody uses, and starts them again.
    pub(crate) idle: JoinSet<()>,
}

impl Shutdown {
    /// Lets requests finish for as long as the settings allow, or until a stop at once is requested; then stops the
    /// workers.
    pub(crate) async fn run(mut self, stop: Stop, stops: &mut Stops) {
        let server = &self.server;
        // Probes of a server that was replaced hear of the new one, which serves.
        if self.successor.is_none() {
            server.state.set("stopping");
            server.front.leave();
        }
        let stop = self.delay(stop, stops).await;
        if self.successor.is_none() {
            // No application starts any more.
            self.idle.abort_all();
        }
        // An order on its way is continued by the next server.
        if let Some(manager) = server.certificates.take() {
            manager.end_soon();
        }
        if self.successor.is_none() {
            // Requesters get the answer that the server is stopping.
            server.queue.close();
        }
        server.boots.borrow_mut().abort_all();
        let replaced = self.successor.is_some();
        server
            .hosted
            .iter()
            .for_each(|one| one.cancel_launch(replaced));
        if self.successor.is_none() {
            server.manager.stopping().await;
        }
        let limit = server.longest_drain();
        let text = match (stop, &self.successor) {
            (Stop::Now, _) => "stopping at once".to_owned(),
            (_, None) => draining(
                server.front.unfinished().await,
                limit,
                stdin().is_terminal(),
            ),
            (_, Some(_)) => format!(
                "draining: running requests may finish within their deadlines, everything else within {limit:?}"
            ),
        };
        server.log.event(Level::Info, &text, &[]);
        let (ended, counted) = oneshot::channel();
        let end = async {
            tokio::select! {
                biased;
                () = self.aborted(limit, stop, stops) => {
                    server.front.end().await;
                    server.stop_workers(Duration::ZERO).await;
                }
                () = self.drain(limit) => {}
                () = self.pass_on_requests() => {}
            }
            if let Some(statsd) = &server.statsd {
                statsd.tell();
            }
            // Every request has ended.
            traces::finish(&server.exporter).await;
            drop(ended);
        };
        tokio::join!(end, self.pass_on_counts(counted));
        server.control.close();
        if let Some(terminal) = &server.terminal {
            terminal.restore();
        }
        if let Some(successor) = self.successor {
            successor.give_state(&server.gathered).await;
            successor.leave_open();
        }
    }

    /// Goes on serving for `stop_delay`, so that clients hear first that no further request is wanted. Returns how to stop
    /// then: at once, if that was asked for meanwhile.
    async fn delay(&self, stop: Stop, stops: &mut Stops) -> Stop {
        let server = &self.server;
        let delay = server.front.settings().stop_delay;
        if delay.is_zero() || stop == Stop::Now || self.successor.is_some() {
            return stop;
        }
        let text = format!(
            "stopping after {delay:?} (stop_delay): requests are served until then, and probes hear that the server is not ready"
        );
        server.log.event(Level::Info, &text, &[]);
        // Requesters get the answer that the server is stopping.
        server.queue.close();
        let until = tokio::time::Instant::now() + delay;
        loop {
            match timeout_at(until, stops.next()).await {
                Err(_) => return stop,
                // As while it drains: a second `highball stop` waits like the first, anything else is more urgent.
                Ok(Stop::Drain) => {}
                Ok(Stop::Signal | Stop::Now) => return Stop::Now,
            }
        }
    }

    /// Never returns.
    async fn pass_on_requests(&self) {
        let server = &self.server;
        match &self.successor {
            Some(successor) => successor.pass_on_requests(&server.queue, &server.log).await,
            None => std::future::pending().await,
        }
    }

    /// Returns when the end has come.
    async fn pass_on_counts(&self, ended: oneshot::Receiver<()>) {
        if let Some(successor) = &self.successor {
            successor.give_counts(&self.server.gathered, ended).await;
        }
    }

    async fn drain(&self, limit: Duration) {
        let server = &self.server;
        let began = Instant::now();
        let rest = || limit.saturating_sub(began.elapsed());
        // The service manager takes this process for the last one, and kills what remains after it.
        let predecessor = server.predecessor.wait(limit);
        let own = async {
            match &self.successor {
                Some(successor) => self.drain_beside(successor, limit).await,
                None => {
                    server.front.drain(limit).await;
                    server.stop_workers(rest().max(LEAST_GRACE)).await;
                }
            }
        };
        let _ = tokio::join!(predecessor, own);
    }

    /// Drains while another server serves: requests finish within their deadlines, clients send and receive at their own
    /// pace, and the workers are stopped when nothing needs them any more.
    async fn drain_beside(&self, successor: &Successor, limit: Duration) {
        let (server, front) = (&self.server, &self.server.front);
        let clients = async {
            let error = tokio::select! {
                given = successor.give_connections(front) => match given {
                    Ok(()) => return,
                    Err(error) => error,
                },
                () = successor.wait_exit() => std::io::Error::other("it has exited"),
            };
            let text = "the new server accepts no connections; draining this one as for a stop";
            let log = &self.server.log;
            log.event(Level::Warn, text, &[("reason", Value::Text(&error))]);
            front.drain(limit).await;
        };
        let workers = async {
            let began = Instant::now();
            front.let_workers_go(limit).await;
            let rest = limit.saturating_sub(began.elapsed());
            let rest = rest.max(front.in_time()).max(LEAST_GRACE);
            server.stop_workers(rest).await;
        };
        tokio::join!(clients, workers);
    }

    /// Waits until the shutdown must be at once.
    async fn aborted(&self, limit: Duration, first: Stop, stops: &mut Stops) {
        // A second signal aborts, a second `highball stop` waits like the first. With a successor no stop was requested so far.
        let mut second = self.successor.is_none();
        let mut until = None;
        let mut next = first;
        while next != Stop::Now {
            next = match until {
                None => stops.next().await,
                Some(until) => match timeout_at(until, stops.next()).await {
                    Ok(next) => next,
                    Err(_) => return,
                },
            };
            if next == Stop::Signal && std::mem::replace(&mut second, true) {
                return;
            }
            // A server that was replaced has no limit for its whole shutdown until it is stopped itself.
            if self.successor.is_some() && until.is_none() {
                until = Some(tokio::time::Instant::now() + limit);
            }
        }
    }
}

/// What a stop waits for, and how long at most.
fn draining(unfinished: Unfinished, limit: Duration, at_terminal: bool) -> String {
    let Unfinished { requests, hijacked } = unfinished;
    let counts = [(requests, "request"), (hijacked, "hijacked connection")];
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    let counts: Vec<String> = counts.map(|(number, noun)| counted(number, noun)).collect();
    let hint = match at_terminal {
        true => "; press Ctrl-C again to stop at once",
        false => "",
    };
    match &*counts {
        [] => "draining: no request is running".to_owned(),
        counts => {
            let counts = counts.join(" and ");
            format!("draining: waiting for {counts}, at most {limit:?}{hint}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_says_what_it_waits_for() {
        let check = |requests, hijacked, at_terminal, expect| {
            let unfinished = Unfinished { requests, hijacked };
            let limit = Duration::from_millis(500);
            assert_eq!(draining(unfinished, limit, at_terminal), expect);
        };
        check(0, 0, true, "draining: no request is running");
        check(
            2,
            0,
            false,
            "draining: waiting for 2 requests, at most 500ms",
        );
        let text = "draining: waiting for 1 request and 1 hijacked connection, at most 500ms; press Ctrl-C again to stop at \
                    once";
        check(1, 1, true, text);
    }
}
