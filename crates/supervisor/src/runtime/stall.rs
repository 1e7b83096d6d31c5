//! Workers that are slow or stall: those whose requests run for long or past their deadline are asked where their threads
//! are. They are replaced where late threads do not come to an end; so are those that come for no request. Which ones that are is the front's to say.

use std::rc::Rc;
use std::time::Duration;

use exchange::control::ToWorker;
use exchange::{Alarm, Run, Stall, WorkerId};
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::rules::pool::Event;
use crate::runtime::supervisor::Supervisor;

impl Supervisor {
    /// Acts upon what the dispatcher has seen of workers.
    pub fn alarm(&self, alarm: Alarm) {
        match alarm {
            Alarm::Late(run) | Alarm::Slow(run) => self.trace(run),
            Alarm::Stalled(worker, stall) => self.replace_stalled(worker, stall),
            // Nothing that it still runs is worth waiting for.
            Alarm::OnlyLateWork(worker) => {
                self.dismiss_stalled(worker, Stall::LateRequest, Duration::ZERO)
            }
            Alarm::Corrupt(generation, found) => {
                self.exchange_corrupt(generation, &found.to_string());
            }
        }
    }

    /// Asks a worker where one of its threads is, if that still runs this request. [`exchange::Dispatcher::traced`] hears the
    /// answer. A stopped worker gives none.
    fn trace(&self, run: Run) {
        let mut inner = self.shared.inner.borrow_mut();
        if let Some(Some(process)) = inner.worker(run.by) {
            // Where there is no room the worker is stopped, and has said nothing.
            let _ = process.send(&ToWorker::Backtrace {
                thread: run.thread,
                slot: run.slot,
                sequence: run.sequence,
            });
        }
    }

    /// Replaces a worker one of whose threads does not come to an end. The others may finish what they run, for as long
    /// as those of any worker that leaves; its successor does not wait for that where a number is spare and memory left.
    fn replace_stalled(&self, id: WorkerId, stall: Stall) {
        let WorkerId { generation, worker } = id;
        let time = self.shared.inner.borrow().fleet.drain_timeout(generation);
        self.dismiss_stalled(id, stall, time);
        let (shared, limits) = (Rc::clone(&self.shared), self.limits.clone());
        spawn_local(async move {
            if limits.has_room().await {
                shared.handle(generation, Event::StartSuccessor { worker });
            }
        });
    }

    fn dismiss_stalled(&self, id: WorkerId, stall: Stall, time: Duration) {
        let WorkerId { generation, worker } = id;
        let until = Instant::now().into_std() + time;
        let stalled = Event::Stalled {
            worker,
            stall,
            until,
        };
        self.shared.handle(generation, stalled);
    }
}
