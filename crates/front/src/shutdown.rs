//! The end of a front whose place another one has taken. Its clients take and give at their own pace, so what ends here
//! is the need for workers. It ends no process.

use std::time::{Duration, Instant};

use crate::failure::Outcome;
use crate::{Front, TICK};

impl Front {
    /// Waits until no worker is needed any more: no request is being read, waits or runs, and all that clients still wait
    /// for is here. From `limit` on what has no deadline to end at is ended: connections that the application took over,
    /// and responses that are not whole when their deadline passes. No request is taken afterwards.
    pub async fn let_workers_go(&self, limit: Duration) {
        let dispatcher = &self.service.dispatcher;
        let began = Instant::now();
        let mut look = tokio::time::interval(TICK);
        loop {
            look.tick().await;
            let over = began.elapsed() >= limit;
            if over {
                dispatcher.cut_late();
            }
            let mut needed = dispatcher.is_awaited();
            for connection in self.connections.borrow().values() {
                needed |= connection.may_need_worker();
                if over && connection.is_spliced() {
                    connection.kill(Outcome::Aborted);
                }
            }
            if !needed {
                return dispatcher.stop();
            }
        }
    }

    /// For how long something that workers run is in time, at most.
    pub fn in_time(&self) -> Duration {
        let deadline = self.service.dispatcher.last_deadline();
        deadline.map_or(Duration::ZERO, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        })
    }
}
