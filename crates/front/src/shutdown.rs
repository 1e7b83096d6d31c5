//! The end of a front: it drains, ends at once, or gives its idle connections and its workers up because another server has
//! taken its place. An idle connection has no state but its socket, so its client notices nothing. It ends no process.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use exchange::WorkerId;

use crate::dispatch::DispatcherShutdown;
use crate::edge::{Edge, TICK};
use crate::edges::{EdgeParts, EdgeThread};
use crate::front::Front;
use crate::http::h1::state::IdleConnection;
use crate::http::incoming::HijackedBy;
use crate::log::{Level, Value};
use crate::net::connections::Connections;

/// How long the last answers may take to go out when the server ends at once.
const FINAL_ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

/// Connections of an edge of another thread that are given away before it is asked for more.
const RELEASED_AT_ONCE: usize = 16;

/// Whose hijacked connections are closed: the application with this number, and of its workers these, or all.
type HijackedOf = (u16, Option<Vec<WorkerId>>);

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
    pub async fn unfinished(&self) -> Unfinished {
        let count = |parts: &EdgeParts| parts.edge.connections.count_hijacked(&|_| true);
        let of_others = self.edges.sum(count).await;
        let snapshot = self.snapshot();
        Unfinished {
            requests: snapshot.queue.length + snapshot.running.len(),
            hijacked: self.edge.connections.count_hijacked(&|_| true) + of_others,
        }
    }

    /// Counts the connections that the application with this number has taken over.
    pub async fn hijacked_of(&self, application: u16) -> usize {
        let of = move |edge: &Edge| {
            let count = |by: HijackedBy| by.0 == application;
            edge.connections.count_hijacked(&count)
        };
        of(&self.edge) + self.edges.sum(move |parts| of(&parts.edge)).await
    }

    /// Accepts nothing more, closes what is idle, lets what was begun end, and returns when all connections are closed
    /// or `limit` is over. Returns whether all ended on their own.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.acceptors().stop();
        self.edge.connections.stop();
        self.edges.tell_all(|parts| parts.edge.connections.stop());
        let ended = until_all_closed(self);
        let clean = tokio::select! {
            ended = tokio::time::timeout(limit, ended) => ended.is_ok(),
            never = self.close_hijacked_after_time() => match never {},
        };
        self.shutdowns().for_each(|one| one.stop());
        if !clean {
            self.end().await;
        }
        self.shutdowns().for_each(|one| one.log_poison());
        flush_log(self).await;
        clean
    }

    /// Closes hijacked connections, also those that are hijacked later, once they have had the time of their application.
    async fn close_hijacked_after_time(&self) -> Infallible {
        let began = Instant::now();
        let mut check = tokio::time::interval(TICK);
        loop {
            check.tick().await;
            self.close_hijacked_since(began, Duration::MAX);
        }
    }

    /// Closes the hijacked connections of each application whose time for them, at most `limit`, is over since then.
    fn close_hijacked_since(&self, began: Instant, limit: Duration) {
        let passed = began.elapsed();
        for (number, one) in (0..).zip(self.applications()) {
            if passed >= limit.min(one.settings().websocket_drain_timeout) {
                self.close_hijacked((number, None));
            }
        }
    }

    /// The ends of the dispatchers of all applications.
    fn shutdowns(&self) -> impl Iterator<Item = DispatcherShutdown> {
        self.applications()
            .iter()
            .map(|one| one.dispatcher().shutdown())
    }

    /// Closes these hijacked connections.
    pub(crate) fn close_hijacked(&self, of: HijackedOf) {
        self.edges.tell_all({
            let of = of.clone();
            move |parts| close_hijacked(&parts.edge, &of)
        });
        close_hijacked(&self.edge, &of);
    }

    /// Ends everything now: what runs is answered with a failure where that can still be written.
    pub async fn end(&self) {
        self.acceptors().stop();
        let mut cut = 0;
        for shutdown in self.shutdowns() {
            shutdown.stop();
            shutdown.log_poison();
            cut += shutdown.fail_all();
        }
        if cut > 0 {
            let text = "requests cut before their deadline: the server stops immediately";
            let log = &self.edge.log;
            log.event(
                Level::Warn,
                text,
                &[("requests", Value::Number(cut as u64))],
            );
        }
        self.edge.connections.cut_openings();
        self.edges
            .tell_all(|parts| parts.edge.connections.cut_openings());
        let ended = until_all_closed(self);
        let _ = tokio::time::timeout(FINAL_ANSWER_TIMEOUT, ended).await;
        self.edge.connections.kill();
        self.edges
            .ask_all(|parts| parts.edge.connections.kill())
            .await;
        tokio::task::yield_now().await;
        flush_log(self).await;
    }

    /// Waits until no worker is needed any more: no request is being read, waits or runs, and all that clients still wait
    /// for is here. Clients take and give at their own pace, so what ends here is the need for workers. Work without a
    /// deadline ends as well: hijacked connections after `websocket_drain_timeout`, and from `limit` on responses that are not
    /// whole when their deadline passes. No request is taken afterwards.
    pub async fn let_workers_go(&self, limit: Duration) {
        let began = Instant::now();
        let mut check = tokio::time::interval(TICK);
        loop {
            check.tick().await;
            if began.elapsed() >= limit {
                self.shutdowns().for_each(|one| one.cut_late());
            }
            self.close_hijacked_since(began, limit);
            // First: what they hold back now they have submitted when the dispatcher is asked.
            let need = |parts: &EdgeParts| parts.edge.connections.may_need_worker();
            let mut needed = self.edges.ask_all(need).await.contains(&true);
            needed |= self.shutdowns().any(|one| one.is_awaited())
                || self.edge.connections.may_need_worker();
            if !needed {
                return self.shutdowns().for_each(|one| one.stop());
            }
        }
    }

    /// How long something that workers run is within its deadline, at most.
    pub fn in_time(&self) -> Duration {
        let deadlines = self.shutdowns().filter_map(|one| one.last_deadline());
        let deadline = deadlines.max();
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
        connections.prepare_to_give();
        self.edges
            .tell_all(|parts| parts.edge.connections.prepare_to_give());
        loop {
            // Before the look, so that nothing between the two is missed.
            let (rested, ended) = (connections.rested.notified(), connections.ended.notified());
            if connections.is_empty() && self.edges.connections() == 0 {
                return Ok(());
            }
            let all = connections.all();
            let idle = all.iter().filter(|one| one.is_giveable());
            for connection in idle {
                while let Err(error) = connection.give(&give) {
                    match error.kind() {
                        io::ErrorKind::WouldBlock => room().await?,
                        _ => return Err(error),
                    }
                }
            }
            drop(all);
            for other in self.edges.threads() {
                self.give_those_of(other, &give).await?;
            }
            tokio::select! {
                () = rested => {}
                () = ended => {}
            }
        }
    }

    /// Gives away what is idle at an edge of another thread. That lets go of it first, so what cannot be given now is this
    /// thread's from then on.
    async fn give_those_of(
        &self,
        other: &EdgeThread,
        give: &impl Fn(BorrowedFd<'_>, &IdleConnection) -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            let release = |parts: &EdgeParts| parts.edge.connections.release_idle(RELEASED_AT_ONCE);
            let released = other.ask(release).await.unwrap_or_default();
            let is_last = released.len() < RELEASED_AT_ONCE;
            let mut result = Ok(());
            for (socket, idle) in released {
                if result.is_ok() {
                    result = give(socket.as_fd(), &idle);
                }
                if result.is_err() {
                    // Its client may have left.
                    let _ = self.acceptors().take_back(socket, &idle);
                }
            }
            match result {
                // They are given with the next look, as soon as there is room.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
                Ok(()) if is_last => return Ok(()),
                Ok(()) => {}
            }
        }
    }
}

/// Waits until all edges have no connection.
async fn until_all_closed(front: &Front) {
    let closed = |own: &Connections| own.is_empty() && front.edges.connections() == 0;
    front.edge.connections.until(closed).await;
}

/// Hands the log of all edges over to its writer.
async fn flush_log(front: &Front) {
    front.edges.ask_all(|parts| parts.edge.log.flush()).await;
    front.edge.log.flush();
}

/// Closes these hijacked connections of an edge.
fn close_hijacked(edge: &Edge, (number, workers): &HijackedOf) {
    let chosen = |(application, by): HijackedBy| {
        let is_of = |workers: &Vec<WorkerId>| by.is_some_and(|by| workers.contains(&by));
        application == *number && workers.as_ref().is_none_or(is_of)
    };
    let all = edge.connections.all();
    let closed = all
        .iter()
        .map(|connection| connection.close_hijacked(&chosen));
    let count = closed.sum();
    if count > 0 {
        let text = "closing hijacked connections: websocket_drain_timeout is over";
        let fields = [("connections", Value::Number(count))];
        edge.log.event(Level::Info, text, &fields);
    }
}
