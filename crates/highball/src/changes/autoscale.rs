//! The number of workers by load, where the setting `workers` is a range. What the load is, is known to the front; what follows
//! from it, to the supervisor's rule; this looks at the one and asks the other. It changes no number that an operator has set.

mod cpu;

use std::time::{Duration, Instant};

use front::log::Level;
use front::{Front, Load, LoadWatch, WaitCount, settings_changed};
use supervisor::{
    Autoscale, CpuUse, Ends, LONG_WAIT, Look, Role, Scale, Step, Waits, is_attended, is_calm,
    scale_of, worker_count,
};
use tokio::time::{MissedTickBehavior, interval};

use crate::application::counted;
use crate::changes::scale::are;
use crate::hosted::Hosted;

/// How often the load is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Has the number of workers of an application of this front follow its load, whenever the settings say so. Never returns.
pub(crate) async fn scale_by_load(hosted: &Hosted, front: &Front) {
    let follower = Follower { hosted };
    loop {
        if follower.is_range() {
            follower.follow_load(front).await;
        } else {
            settings_changed(&hosted.front).await;
        }
    }
}

/// What has an application's number of workers follow its load.
struct Follower<'a> {
    hosted: &'a Hosted,
}

impl Follower<'_> {
    fn is_range(&self) -> bool {
        self.hosted.application.borrow().settings.workers.is_range()
    }

    /// Follows the load until the settings have a fixed number.
    async fn follow_load(&self, front: &Front) {
        let watch = LoadWatch::of(self.hosted.front.dispatcher(), LONG_WAIT);
        let mut rule = Autoscale::default();
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.is_range() {
            looks.tick().await;
            // Each look begins where the last one ended, also where nothing follows from it.
            let load = watch.look();
            if front.is_leaving() || !self.may_scale() {
                rule.interrupt();
            } else {
                self.take_step(&mut rule, load).await;
            }
            self.hosted.obstacle.set(rule.obstacle());
        }
        self.hosted.obstacle.set(None);
    }

    /// Whether all workers serve, and the number is not an operator's.
    fn may_scale(&self) -> bool {
        let supervisor = &self.hosted.supervisor;
        self.hosted.serves() && scale_of(supervisor).operator.is_none() && is_calm(supervisor)
    }

    /// Takes the step that follows from the load, if there is one.
    async fn take_step(&self, rule: &mut Autoscale, load: Load) {
        let cpu = cpu::read(self.worker_pids(), config::usable_cores).await;
        // Meanwhile a change may have begun.
        let Some(cpu) = cpu.filter(|_| self.may_scale()) else {
            return rule.interrupt();
        };
        let range = self.hosted.application.borrow().settings.workers;
        let ends = Ends {
            least: range.least(),
            most: range.most(),
        };
        match rule.look(ends, self.seen(load, cpu), Instant::now()) {
            None => {}
            Some(Step::Blocked(obstacle)) => {
                let workers = counted(self.hosted.wanted_workers().into(), "worker");
                let text = format!(
                    "requests wait longer than {LONG_WAIT:?} for a thread, and there are no more than {workers}: {obstacle} \
                     (setting workers: {range})"
                );
                self.hosted.log().event(Level::Warn, &text, &[]);
            }
            Some(Step::Add { to, waits }) => {
                let why = format!(
                    "{} of {} requests waited longer than {LONG_WAIT:?} for a thread",
                    waits.late, waits.all
                );
                self.change_to(to, &why).await;
            }
            // It is asked again when one worker fewer has been enough for as long again.
            Some(Step::Remove { .. }) if is_attended(&self.hosted.supervisor) => {}
            Some(Step::Remove { to, spare }) => {
                let why = format!(
                    "{} would have been enough for {} s",
                    counted(to.into(), "worker"),
                    spare.as_secs()
                );
                self.change_to(to, &why).await;
            }
        }
    }

    /// What the rule is told of this moment.
    fn seen(&self, load: Load, cpu: CpuUse) -> Look {
        let count = worker_count(&self.hosted.supervisor);
        let active = self.hosted.thread_limit.get().map(|limit| limit.active);
        Look {
            claimed: waits(load.claimed),
            waiting: waits(load.waiting),
            busy: load.saturation.busy,
            threads: active.unwrap_or(self.hosted.front.settings().threads.most()),
            wanted: count.wanted,
            allowed: count.allowed,
            cpu,
        }
    }

    /// Gives the application so many workers, unless another change has begun. Nobody waits for them: the rule looks again
    /// when they serve.
    async fn change_to(&self, workers: u16, why: &str) {
        let Ok(_turn) = self.hosted.turn.try_lock() else {
            return;
        };
        let before = self.hosted.wanted_workers();
        let to = Scale {
            load: Some(workers),
            ..scale_of(&self.hosted.supervisor)
        };
        let changed = supervisor::scale(&self.hosted.supervisor, to, Duration::ZERO).await;
        if changed.is_ok() {
            let range = self.hosted.application.borrow().settings.workers;
            let text = format!(
                "{} wanted, {before} before: {why} (setting workers: {range})",
                are(workers)
            );
            self.hosted.log().event(Level::Info, &text, &[]);
        }
    }

    fn worker_pids(&self) -> Vec<i32> {
        let all = self.hosted.supervisor.processes().into_iter();
        let workers = all.filter(|one| one.role == Role::Worker);
        workers.map(|one| one.pid).collect()
    }
}

fn waits(count: WaitCount) -> Waits {
    Waits {
        all: count.all,
        late: count.late,
    }
}
