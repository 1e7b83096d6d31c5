//! How long workers that leave have: `drain_timeout`, and until the deadlines of their requests, unless a change waits for
//! them. The dispatcher knows the deadlines; the pool and the fleet decide what follows.

use std::rc::Rc;
use std::time::Duration;

use exchange::WorkerId;
use tokio::time;

use crate::note::{GenerationNote, WorkerNote};
use crate::rules::fleet::{self, Fleet, Stage};
use crate::rules::pool::Event;
use crate::runtime::shared::Shared;
use crate::runtime::supervisor::Supervisor;

/// How often to look whether a debugger is still open in a worker whose time is up.
const DEBUGGER_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a worker goes on after the last deadline of its requests, so that late ones are still answered with 504.
const EXPIRED_ANSWER_TIME: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Where a generation is on its way in or out: the one that finishes what it holds, or else the earliest, and how long
    /// [`Supervisor::settled`] takes at most.
    pub fn unsettled(&self) -> Option<(u32, Duration)> {
        let inner = self.shared.inner.borrow();
        if inner.fleet.is_settled() {
            return None;
        }
        let all = inner.fleet.generations();
        let drains = all.iter().find(|one| one.stage == Stage::Draining);
        let awaited = drains.or(all.iter().next())?.number;
        let bounded = inner.fleet.generations().exit_deadlines();
        let bounded: Vec<_> = bounded.filter(|(of, ..)| *of == awaited).collect();
        drop(inner);
        let limit = self.shared.inner.borrow().fleet.drain_timeout(awaited);
        let now = time::Instant::now().into_std();
        let rests = bounded.into_iter().map(|(_, worker, until)| {
            let in_time = self
                .shared
                .dispatcher
                .deadline(WorkerId::new(awaited, worker));
            let until = in_time.map_or(until, |deadline| until.max(deadline + EXPIRED_ANSWER_TIME));
            until.saturating_duration_since(now)
        });
        Some((awaited, rests.max().unwrap_or(limit).min(limit)))
    }

    /// Waits until no generation starts or drains, and logs that. From now on requests before their deadline have
    /// `drain_timeout` there as well.
    pub async fn settled(&self) {
        let Some((generation, rest)) = self.unsettled() else {
            return;
        };
        let note = GenerationNote::Awaited { rest };
        self.shared.note(generation, note);
        let settled = || self.shared.until(Fleet::is_settled);
        let limit = self.shared.inner.borrow().fleet.drain_timeout(generation);
        while time::timeout(limit, settled()).await.is_err() {
            if !(self.shared.has_debugger)() {
                self.kill_draining();
                return settled().await;
            }
            self.shared
                .note(generation, GenerationNote::DebuggerAwaited);
            self.shared.debugger_closed().await;
        }
    }

    /// Kills the generations that drain: a change has waited for them long enough.
    pub fn kill_draining(&self) {
        let inner = self.shared.inner.borrow();
        let all = inner.fleet.generations().iter();
        let draining = all.filter(|one| one.stage == Stage::Draining);
        let draining: Vec<_> = draining.map(|one| one.number).collect();
        drop(inner);
        for generation in draining {
            let requests = self.shared.dispatcher.cut(generation);
            let note = GenerationNote::KilledForChange { requests };
            self.shared.note(generation, note);
        }
        self.shared.decide(fleet::Event::KillDraining);
    }

    /// Sets the times for what begins from now on, in every generation.
    pub fn apply_settings(&self, boot_timeout: Duration, drain_timeout: Duration) {
        self.shared.decide(fleet::Event::ApplySettings {
            boot_timeout,
            drain_timeout,
        });
    }
}

impl Shared {
    /// Waits until no debugger is open in a worker.
    async fn debugger_closed(&self) {
        while (self.has_debugger)() {
            time::sleep(DEBUGGER_CHECK_INTERVAL).await;
        }
    }

    /// A moment that the fleet asked for has come. No time to leave is up while a debugger is open. Whose time to leave is up has until the last deadline of what it runs,
    /// which is asked now and not when it began to leave: a thread may have taken a last request since.
    pub(crate) fn tick(self: &Rc<Self>) {
        let now = time::Instant::now().into_std();
        let inner = self.inner.borrow();
        let bounded = inner
            .fleet
            .generations()
            .exit_deadlines()
            .filter(|(.., until)| *until <= now);
        let overdue: Vec<_> = bounded.collect();
        drop(inner);
        let debugged = !overdue.is_empty() && (self.has_debugger)();
        for (generation, worker, _) in overdue {
            let id = WorkerId::new(generation, worker);
            if debugged {
                if self.debugged.replace(Some(generation)) != Some(generation) {
                    self.note(generation, GenerationNote::Debugged);
                }
                let until = now + DEBUGGER_CHECK_INTERVAL;
                self.handle(generation, Event::Prolong { worker, until });
            } else if let Some(deadline) = self.dispatcher.deadline(id) {
                let rest = deadline.saturating_duration_since(now);
                self.note_worker(id, WorkerNote::Prolonged { rest });
                let until = deadline + EXPIRED_ANSWER_TIME;
                self.handle(generation, Event::Prolong { worker, until });
            }
        }
        self.decide_at(fleet::Event::Tick, now);
    }
}
