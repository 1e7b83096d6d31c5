//! The end of a front: it drains, ends at once, or gives its idle connections and its workers up because another server has
//! taken its place. An idle connection has no state but its socket, so its client notices nothing. It ends no process.

use std::convert::Infallible;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use exchange::WorkerId;

use crate::edge::TICK;
use crate::failure::Outcome;
use crate::front::Front;
use crate::http::h1::state::IdleConnection;
use crate::log::{Level, Value};

/// How long the last answers may take to go out when the server ends at once.
const FINAL_ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

/// What a drain waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Requests that wait or run.
    pub requests: usize,
    /// Connections that the application took over, such as WebSockets.
    pub hijacked: usize,
}

impl Front {
    /// Counts what a drain would wait for now.
    pub fn unfinished(&self) -> Unfinished {
        let snapshot = self.snapshot();
        let connections = self.edge.connections.all();
        let hijacked = connections.iter().filter(|one| one.is_spliced());
        Unfinished {
            requests: snapshot.queue.length + snapshot.running.len(),
            hijacked: hijacked.count(),
        }
    }

    /// Accepts nothing more, closes what is idle, lets what was begun end, and returns when all connections are closed
    /// or `limit` is over. Returns whether all ended on their own.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.acceptors().stop();
        let connections = &self.edge.connections;
        for connection in connections.all() {
            connection.stop();
        }
        let ended = connections.until(|connections| connections.is_empty());
        let clean = tokio::select! {
            ended = tokio::time::timeout(limit, ended) => ended.is_ok(),
            never = self.close_hijacked_after_time() => match never {},
        };
        self.dispatcher().shutdown().stop();
        if !clean {
            self.end().await;
        }
        self.dispatcher().shutdown().log_poison();
        self.edge.log.flush();
        clean
    }

    /// Closes hijacked connections, also those that are hijacked later, once they have had their time.
    async fn close_hijacked_after_time(&self) -> Infallible {
        tokio::time::sleep(self.settings().websocket_drain_timeout).await;
        let mut check = tokio::time::interval(TICK);
        loop {
            check.tick().await;
            self.close_hijacked(|_| true);
        }
    }

    /// Closes the hijacked connections whose worker is `chosen`.
    pub(crate) fn close_hijacked(&self, chosen: impl Fn(Option<WorkerId>) -> bool) {
        let all = self.edge.connections.all();
        let hijacked = all.iter().filter(|connection| connection.is_spliced());
        let chosen = hijacked.filter(|connection| chosen(connection.hijacked_by.get()));
        let mut count = 0;
        for connection in chosen.filter(|connection| !connection.killed.get()) {
            connection.kill(Outcome::Aborted);
            count += 1;
        }
        if count > 0 {
            let text = "closing hijacked connections: websocket_drain_timeout is over";
            let log = &self.edge.log;
            log.event(Level::Info, text, &[("connections", Value::Number(count))]);
        }
    }

    /// Ends everything now: what runs is answered with a failure where that can still be written.
    pub async fn end(&self) {
        self.acceptors().stop();
        let shutdown = self.dispatcher().shutdown();
        shutdown.stop();
        shutdown.log_poison();
        let cut = shutdown.fail_all();
        if cut > 0 {
            let text = "requests cut before their deadline: the server stops immediately";
            let log = &self.edge.log;
            log.event(
                Level::Warn,
                text,
                &[("requests", Value::Number(cut as u64))],
            );
        }
        let connections = &self.edge.connections;
        let ended = connections.until(|connections| connections.is_empty());
        let _ = tokio::time::timeout(FINAL_ANSWER_TIMEOUT, ended).await;
        for connection in connections.all() {
            connection.kill(Outcome::Aborted);
        }
        tokio::task::yield_now().await;
        self.edge.log.flush();
    }

    /// Waits until no worker is needed any more: no request is being read, waits or runs, and all that clients still wait
    /// for is here. Clients take and give at their own pace, so what ends here is the need for workers. Work without a
    /// deadline ends as well: hijacked connections after `websocket_drain_timeout`, and from `limit` on responses that are not
    /// whole when their deadline passes. No request is taken afterwards.
    pub async fn let_workers_go(&self, limit: Duration) {
        let shutdown = self.dispatcher().shutdown();
        let hijack_limit = limit.min(self.settings().websocket_drain_timeout);
        let began = Instant::now();
        let mut check = tokio::time::interval(TICK);
        loop {
            check.tick().await;
            if began.elapsed() >= limit {
                shutdown.cut_late();
            }
            if began.elapsed() >= hijack_limit {
                self.close_hijacked(|_| true);
            }
            let mut needed = shutdown.is_awaited();
            for connection in self.edge.connections.all() {
                needed |= connection.may_need_worker();
            }
            if !needed {
                return shutdown.stop();
            }
        }
    }

    /// How long something that workers run is within its deadline, at most.
    pub fn in_time(&self) -> Duration {
        let deadline = self.dispatcher().shutdown().last_deadline();
        deadline.map_or(Duration::ZERO, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        })
    }

    /// Accepts nothing more, and gives every connection away as soon as nothing is under way on it: until none is left.
    /// A connection that `give` fails for with `WouldBlock` is served on until `room` says that it may be tried again.
    ///
    /// # Errors
    /// The others of `give`, and those of `room`. The connections that are left are served on.
    pub async fn give_away(
        &self,
        give: impl Fn(BorrowedFd<'_>, &IdleConnection) -> io::Result<()>,
        room: impl AsyncFn() -> io::Result<()>,
    ) -> io::Result<()> {
        self.acceptors().stop();
        let connections = &self.edge.connections;
        for connection in connections.all() {
            connection.free_buffers_when_idle();
        }
        loop {
            // Before the look, so that nothing between the two is missed.
            let (rested, ended) = (connections.rested.notified(), connections.ended.notified());
            let all = connections.all();
            if all.is_empty() {
                return Ok(());
            }
            for connection in all.iter().filter(|connection| connection.is_hibernating()) {
                while let Err(error) = connection.give(&give) {
                    match error.kind() {
                        io::ErrorKind::WouldBlock => room().await?,
                        _ => return Err(error),
                    }
                }
            }
            drop(all);
            tokio::select! {
                () = rested => {}
                () = ended => {}
            }
        }
    }
}
