//! The supervisor as its owner sees it: stops generations, and ends every process when it is dropped. Other parts of it are
//! in `launch.rs`, `coexist.rs`, `drain.rs`, `stall.rs` and `status.rs`; the work is done by the tasks of
//! `template_task.rs` and `worker_task.rs`. It decides nothing.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use exchange::control::Purge;
use exchange::{Dispatcher, WorkerId};
use rustix::process::Signal;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::note::{GenerationNote, Note};
use crate::rules::fleet::{self, Fleet, Stage};
use crate::rules::pool::TEMPLATE_EXIT_TIMEOUT;
use crate::runtime::exit_status::KILL_TIMEOUT;
use crate::runtime::limit_check::LimitCheck;
use crate::runtime::purges::Purging;
use crate::runtime::shared::Shared;

/// The processes of all generations. Dropping it kills them.
pub struct Supervisor {
    pub(crate) shared: Rc<Shared>,
    pub(crate) limits: LimitCheck,
    /// The tasks that run for as long as it lives.
    pub(super) tasks: RefCell<Vec<JoinHandle<()>>>,
    pub(crate) since: SystemTime,
    /// Whose turn it is to read memory for a status.
    pub(crate) measuring: Arc<Semaphore>,
}

impl Supervisor {
    /// A supervisor that has started nothing yet. `on_note` gets the log lines of each generation. While `has_debugger`
    /// returns true no change ends a worker, for a person debugs in one of them.
    pub fn new(
        dispatcher: Rc<dyn Dispatcher>,
        on_note: impl Fn(u32, &Note) + 'static,
        has_debugger: impl Fn() -> bool + 'static,
    ) -> Self {
        let shared = Shared::new(dispatcher, Box::new(on_note), Box::new(has_debugger));
        let shared = Rc::new(shared);
        Self {
            limits: LimitCheck::new(&shared),
            shared,
            tasks: RefCell::default(),
            since: SystemTime::now(),
            measuring: Arc::new(Semaphore::new(1)),
        }
    }

    /// Lets the workers finish their requests and exit, kills those that are left after `grace` (at once if it is
    /// zero), and ends the templates. May be called again with a shorter grace when the first call is dropped.
    pub async fn stop(&self, grace: Duration) {
        let shared = &self.shared;
        if !grace.is_zero() {
            shared.decide(fleet::Event::Stop);
            if timeout(
                grace,
                shared.until(|fleet| fleet.generations().have_no_workers()),
            )
            .await
            .is_err()
            {
                let latest = shared.inner.borrow().fleet.generations().latest();
                shared.note(latest, Note::Killed { grace });
            } else if timeout(TEMPLATE_EXIT_TIMEOUT, shared.until(Fleet::finished))
                .await
                .is_ok()
            {
                return;
            }
        }
        shared.decide(fleet::Event::Kill);
        // A process in an uninterruptible sleep is the kernel's to end.
        let _ = timeout(KILL_TIMEOUT, shared.until(Fleet::finished)).await;
    }

    /// Kills every process of a generation, one of whose workers wrote into the exchange what no sound worker writes.
    /// The generation that serves starts again with the exchange that took its place.
    pub(crate) fn exchange_corrupt(&self, generation: u32, what: &str) {
        let shared = &self.shared;
        let mut inner = shared.inner.borrow_mut();
        let Some(processes) = inner.processes.get_mut(&generation) else {
            return;
        };
        processes.corrupt = true;
        // It has the old exchange, and must not come back to its place.
        let older = processes.older.take();
        older.inspect(|older| older.kill.notify_one());
        let fleet = &inner.fleet;
        let serves = |own: &fleet::Generation| own.stage == Stage::Serving && !own.pool.stopping();
        let again =
            fleet.generations().get(generation).is_some_and(serves) && !fleet.rolls_out(generation);
        drop(inner);
        let what = what.to_owned();
        let note = GenerationNote::Corrupt { what, again };
        shared.note(generation, note);
        shared.decide(fleet::Event::Corrupt { generation });
    }

    /// Has `purger` carry out what workers want the response cache to forget.
    pub fn on_purge(&self, purger: impl Fn(Purge) -> Purging + 'static) {
        self.shared.purger.replace(Some(Rc::new(purger)));
    }

    /// Has `take` get what the application has counted outside of requests: in this generation, in the worker with this number
    /// or in the template. Only the first call counts.
    pub fn on_counts(&self, take: impl Fn(u32, Option<u16>, &str) + 'static) {
        self.shared.counts.pass_to(take);
    }

    /// Kills a worker; it is replaced like any other that died.
    pub fn kill_worker(&self, generation: u32, worker: u16) {
        self.shared.kill_worker(WorkerId::new(generation, worker));
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
        for processes in self.shared.inner.borrow_mut().processes.values_mut() {
            processes.workers.clear();
            for template in [processes.older.take(), processes.template.take()] {
                let Some(template) = template else { continue };
                if let Some(group) = template.group {
                    group.signal(Signal::KILL);
                }
                if let Some(task) = template.task {
                    // With the task goes the template, which kills its process group.
                    task.abort();
                }
            }
        }
    }
}
