//! Changes of a running server, made one after the other: a restart loads the application's code again, a reload the
//! settings, an upgrade the program. Whether a new generation may take over is the supervisor's decision.

pub(crate) mod handover;
pub(crate) mod predecessor;
pub(crate) mod reload;
pub(crate) mod restart;
pub(crate) mod restart_file;
pub(crate) mod successor;
pub(crate) mod upgrade;

use crate::changes::restart::Restarts;
use crate::changes::successor::Successor;
use crate::changes::upgrade::Upgrades;
use crate::control::queue::{Change, ChangeQueue};

/// Makes the changes that are requested.
pub(crate) struct Changes {
    pub(crate) restarts: Restarts,
    pub(crate) upgrades: Upgrades,
}

impl Changes {
    /// Makes the requested changes, one at a time, until another program has taken over; requests that wait then are for
    /// that one.
    ///
    /// All requests for the change that begins are answered by it. A request that comes while a change is being made gets
    /// another one after it, with code and settings as they are then.
    pub(crate) async fn run(mut self, queue: &ChangeQueue) -> Successor {
        loop {
            queue.unblock();
            let first = queue.first().await;
            // A reload waits only if it needs a new generation.
            if first != Change::Reload {
                self.restarts.wait_for_previous(&first).await;
            }
            let change = queue.first().await;
            queue.begin(&change, self.progress(&change));
            let (answer, successor) = match &change {
                Change::Restart => (self.restarts.restart().await, None),
                Change::Reload => (reload::reload(&mut self.restarts).await, None),
                Change::Upgrade(binary) => {
                    let upgrade = self.upgrades.upgrade(&self.restarts, binary.as_deref());
                    upgrade.await
                }
            };
            queue.finish(&answer);
            if let Some(successor) = successor {
                return successor;
            }
        }
    }

    /// The reason that requesters get who wait while a change is being made.
    fn progress(&self, change: &Change) -> String {
        let limit = self.restarts.application.settings.boot_timeout;
        format!("{change} in progress, at most {limit:?} (boot_timeout) for each of its steps")
    }
}
