//! Tables of events and the actions they cause.

use super::backoff::{FIRST_DELAY, HEALTHY_UPTIME, LONGEST_DELAY};
use super::*;
use crate::rules::limits::RetireReason;
use exchange::Stall;

const BOOT_TIMEOUT: Duration = Duration::from_secs(90);
const GRACE: Duration = Duration::from_secs(30);
const WHY: RetireReason = RetireReason::Requests {
    finished: 1000,
    limit: 990,
};

/// A pool and its clock, which stops between calls of `after`.
struct Run {
    pool: Pool,
    now: Instant,
}

impl Run {
    /// A pool of two workers whose template has just booted: both are being forked.
    fn booted() -> Self {
        let mut run = Self {
            pool: Pool::new(2, BOOT_TIMEOUT),
            now: Instant::now(),
        };
        run.check(Event::Booted, &[fork(0, 1), fork(1, 1)]);
        run
    }

    /// A pool whose two workers serve requests.
    fn ready() -> Self {
        let mut run = Self::booted();
        for worker in 0..2 {
            run.check(Event::Forked { worker }, &[]);
            run.check(Event::Ready { worker, life: 1 }, &[Action::Up { worker }]);
        }
        assert_eq!(run.pool.workers().ready(), 2);
        run
    }

    #[track_caller]
    fn check(&mut self, event: Event, expect: &[Action]) {
        assert_eq!(self.pool.handle(event, self.now), expect, "{event:?}");
    }

    /// Goes on to the moment the pool asks for, which must be that far away.
    #[track_caller]
    fn after(&mut self, wait: Duration, expect: &[Action]) {
        assert_eq!(self.pool.next(), Some(self.now + wait));
        self.now += wait;
        self.check(Event::Tick, expect);
    }
}

fn fork(worker: u16, life: u32) -> Action {
    Action::Fork { worker, life }
}

/// A death of a worker that had been of use, where it was ready.
fn died(worker: u16, life: u32) -> Event {
    let served = true;
    Event::Died {
        worker,
        life,
        served,
    }
}

fn down(worker: u16) -> Action {
    Action::Reclaim { worker }
}

fn retire(worker: u16) -> Event {
    Event::Retire {
        worker,
        why: WHY,
        grace: GRACE,
    }
}

fn retiring(worker: u16, successor: u16) -> Action {
    Action::Retiring {
        worker,
        successor,
        why: WHY,
    }
}

/// A worker that is stuck now, and has so long to leave.
fn stuck(worker: u16, run: &Run, time: Duration) -> Event {
    let until = run.now + time;
    Event::Stalled {
        worker,
        stall: Stall::LateRequest,
        until,
    }
}

/// What is done with one that served.
fn stopped_with_log(worker: u16) -> [Action; 2] {
    let stall = Stall::LateRequest;
    [
        Action::Stalled { worker, stall },
        Action::StopWorker { worker },
    ]
}

fn follow(worker: u16) -> Event {
    Event::StartSuccessor { worker }
}

fn followed(worker: u16, successor: u16) -> Action {
    Action::SuccessorStarted { worker, successor }
}

fn resize(limit: u16, now: Instant) -> Event {
    let until = now + GRACE;
    Event::Resize {
        limit,
        leaves: None,
        until,
    }
}

#[test]
fn a_template_that_takes_the_place_of_another_makes_the_forks_that_it_owed() {
    let abandon = |worker| Action::Abandon { worker };
    let mut run = Run::ready();
    // Without owed forks nothing is to be done.
    run.check(Event::FellBack, &[]);
    run.check(retire(1), &[retiring(1, 2), fork(2, 1)]);
    run.check(Event::FellBack, &[abandon(2), fork(2, 2)]);
    // It may have been killed because it did not fork.
    run.after(BOOT_TIMEOUT, &[Action::KillTemplate]);
    assert!(!run.pool.template_up());
    run.check(Event::FellBack, &[abandon(2), fork(2, 3)]);
    run.check(Event::Forked { worker: 2 }, &[]);
    let ready = Event::Ready { worker: 2, life: 3 };
    let stop = Action::StopWorker { worker: 1 };
    run.check(ready, &[Action::Up { worker: 2 }, stop]);
}

#[test]
fn a_dead_worker_is_taken_down_and_replaced_in_one_step() {
    let mut run = Run::ready();
    for life in 1..100 {
        run.check(died(1, life), &[down(1), fork(1, life + 1)]);
        assert_eq!(run.pool.workers().ready(), 1);
        run.check(Event::Forked { worker: 1 }, &[]);
        let ready = Event::Ready {
            worker: 1,
            life: life + 1,
        };
        run.check(ready, &[Action::Up { worker: 1 }]);
        assert_eq!(run.pool.workers().ready(), 2);
    }
    assert_eq!(run.pool.next(), None);
}

#[test]
fn events_of_an_earlier_life_change_nothing() {
    let mut run = Run::ready();
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    run.check(died(0, 1), &[]);
    run.check(Event::Ready { worker: 0, life: 1 }, &[]);
    assert_eq!(run.pool.workers().state(0), State::Forking);
    run.check(died(7, 1), &[]);
    run.check(Event::Forked { worker: 7 }, &[]);
}

#[test]
fn ready_may_come_before_forked_and_twice() {
    let mut run = Run::booted();
    let ready = Event::Ready { worker: 0, life: 1 };
    run.check(ready, &[Action::Up { worker: 0 }]);
    run.check(ready, &[]);
    run.check(Event::Forked { worker: 0 }, &[]);
    assert_eq!(run.pool.workers().state(0), State::Ready { since: run.now });
    assert_eq!(run.pool.workers().ready(), 1);
}

#[test]
fn deaths_before_ready_are_delayed_from_the_fifth_on_and_longer_each_time() {
    let mut run = Run::booted();
    for life in 1..5 {
        run.check(Event::Forked { worker: 0 }, &[]);
        run.check(died(0, life), &[down(0), fork(0, life + 1)]);
        assert_eq!(run.pool.workers().hopeless(), None);
    }
    run.check(Event::Forked { worker: 1 }, &[]);
    let up = [Action::Up { worker: 1 }];
    run.check(Event::Ready { worker: 1, life: 1 }, &up);
    for (life, millis) in (5..).zip([500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]) {
        run.check(Event::Forked { worker: 0 }, &[]);
        let delay = Duration::from_millis(millis);
        let delayed = Action::Delayed {
            worker: 0,
            deaths: life,
            delay,
        };
        run.check(died(0, life), &[down(0), delayed]);
        assert_eq!(run.pool.workers().hopeless(), Some((0, life)));
        run.check(Event::Tick, &[]);
        run.after(delay, &[fork(0, life + 1)]);
    }
    run.check(Event::Forked { worker: 0 }, &[]);
    let up = [Action::Up { worker: 0 }];
    run.check(
        Event::Ready {
            worker: 0,
            life: 13,
        },
        &up,
    );
    assert_eq!(run.pool.workers().hopeless(), None);
    run.check(died(0, 13), &[down(0), fork(0, 14)]);
}

#[test]
fn deaths_right_after_ready_without_a_request_are_delayed_as_well() {
    let idle = |life| Event::Died {
        worker: 0,
        life,
        served: false,
    };
    let live = |run: &mut Run, life| {
        run.check(Event::Forked { worker: 0 }, &[]);
        let up = [Action::Up { worker: 0 }];
        run.check(Event::Ready { worker: 0, life }, &up);
    };
    let mut run = Run::booted();
    for life in 1..5 {
        live(&mut run, life);
        run.check(idle(life), &[down(0), fork(0, life + 1)]);
    }
    live(&mut run, 5);
    // While it is up there is hope.
    assert_eq!(run.pool.workers().hopeless(), None);
    let delay = FIRST_DELAY;
    let delayed = Action::Delayed {
        worker: 0,
        deaths: 5,
        delay,
    };
    run.check(idle(5), &[down(0), delayed]);
    assert_eq!(run.pool.workers().hopeless(), Some((0, 5)));
    run.after(delay, &[fork(0, 6)]);
    // A request that was finished or some time makes up for all of them.
    live(&mut run, 6);
    run.check(died(0, 6), &[down(0), fork(0, 7)]);
    for life in 7..20 {
        live(&mut run, life);
        run.now += HEALTHY_UPTIME;
        run.check(idle(life), &[down(0), fork(0, life + 1)]);
    }
}

#[test]
fn a_worker_that_does_not_get_ready_is_killed() {
    let mut run = Run::booted();
    let since = Duration::from_secs(1);
    run.now += since;
    run.check(Event::Forked { worker: 0 }, &[]);
    run.check(Event::Forked { worker: 1 }, &[]);
    let up = [Action::Up { worker: 1 }];
    run.check(Event::Ready { worker: 1, life: 1 }, &up);
    run.after(BOOT_TIMEOUT, &[Action::Kill { worker: 0 }]);
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
}

#[test]
fn a_template_that_does_not_fork_is_killed_and_another_forks() {
    let mut run = Run::booted();
    run.after(BOOT_TIMEOUT, &[Action::KillTemplate]);
    run.check(
        Event::TemplateDied,
        &[
            Action::Abandon { worker: 0 },
            Action::Abandon { worker: 1 },
            Action::SpawnTemplate,
        ],
    );
    run.check(Event::Booted, &[fork(0, 2), fork(1, 2)]);
}

#[test]
fn a_template_that_does_not_fork_is_killed_for_unwanted_workers_too() {
    const LATER: Duration = Duration::from_secs(20);
    let abandon = |worker| Action::Abandon { worker };
    // Its retirement was called off.
    let mut run = Run::ready();
    run.check(retire(0), &[retiring(0, 2), fork(2, 1)]);
    run.now += LATER;
    run.check(resize(2, run.now), &[Action::Kill { worker: 2 }]);
    assert!(run.pool.awaits_leaving());
    run.after(BOOT_TIMEOUT - LATER, &[Action::KillTemplate]);
    assert_eq!(run.pool.next(), None, "its death is on its way");
    assert!(!run.pool.awaits_leaving());
    run.check(
        Event::TemplateDied,
        &[down(2), abandon(2), Action::SpawnTemplate],
    );
    run.check(Event::Booted, &[]);
    assert!(run.pool.is_whole());
    // All stop.
    let mut run = Run::ready();
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    run.now += LATER;
    let until = Some(run.now + GRACE);
    let left = [Action::Kill { worker: 0 }, Action::StopWorker { worker: 1 }];
    run.check(Event::Stop { until }, &left);
    run.check(died(1, 1), &[down(1)]);
    run.after(BOOT_TIMEOUT - LATER, &[Action::KillTemplate]);
    run.check(Event::TemplateDied, &[abandon(0)]);
    assert!(run.pool.finished());
    // It forked, the worker is ready, and it does not say which process that is.
    let mut run = Run::ready();
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    run.now += LATER;
    let up = [Action::Up { worker: 0 }];
    run.check(Event::Ready { worker: 0, life: 2 }, &up);
    run.after(BOOT_TIMEOUT - LATER, &[Action::KillTemplate]);
    let lost = [down(0), abandon(0), Action::SpawnTemplate];
    run.check(Event::TemplateDied, &lost);
}

#[test]
fn workers_outlive_their_template_and_are_replaced_by_the_next_one() {
    let mut run = Run::ready();
    run.check(Event::TemplateDied, &[Action::SpawnTemplate]);
    assert!(!run.pool.template_up());
    assert_eq!(run.pool.workers().ready(), 2);
    run.check(died(0, 1), &[down(0)]);
    assert_eq!(run.pool.workers().state(0), State::Absent);
    run.check(Event::Booted, &[fork(0, 2)]);
}

#[test]
fn a_worker_whose_process_the_template_never_named_is_abandoned_with_it() {
    let mut run = Run::booted();
    let up = [Action::Up { worker: 0 }];
    run.check(Event::Ready { worker: 0, life: 1 }, &up);
    run.check(
        Event::TemplateDied,
        &[
            down(0),
            Action::Abandon { worker: 0 },
            Action::Abandon { worker: 1 },
            Action::SpawnTemplate,
        ],
    );
    run.check(Event::Booted, &[fork(0, 2), fork(1, 2)]);
}

#[test]
fn a_template_that_cannot_boot_again_is_tried_later_and_later() {
    let mut run = Run::ready();
    run.check(Event::TemplateDied, &[Action::SpawnTemplate]);
    for millis in [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000] {
        run.check(Event::TemplateDied, &[]);
        run.after(Duration::from_millis(millis), &[Action::SpawnTemplate]);
    }
    // Having booted is not enough.
    run.check(Event::Booted, &[]);
    run.check(Event::TemplateDied, &[]);
    run.after(LONGEST_DELAY, &[Action::SpawnTemplate]);
    run.check(Event::Booted, &[]);
    run.now += LONGEST_DELAY;
    run.check(Event::TemplateDied, &[Action::SpawnTemplate]);
}

#[test]
fn a_template_that_dies_at_its_forks_is_delayed_until_a_worker_is_ready() {
    let mut run = Run::ready();
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    let abandoned = Action::Abandon { worker: 0 };
    run.check(Event::TemplateDied, &[abandoned, Action::SpawnTemplate]);
    for (life, millis) in (3..).zip([500, 1000, 2000, 4000]) {
        run.check(Event::Booted, &[fork(0, life)]);
        // However long that takes.
        run.now += BOOT_TIMEOUT / 2;
        run.check(Event::TemplateDied, &[abandoned]);
        run.after(Duration::from_millis(millis), &[Action::SpawnTemplate]);
    }
    run.check(Event::Booted, &[fork(0, 7)]);
    let ready = Event::Ready { worker: 0, life: 7 };
    run.check(ready, &[Action::Up { worker: 0 }]);
    run.check(Event::Forked { worker: 0 }, &[]);
    run.check(Event::TemplateDied, &[Action::SpawnTemplate]);
}

#[test]
fn without_workers_only_a_template_without_delay_is_awaited() {
    let mut run = Run::ready();
    run.check(Event::TemplateDied, &[Action::SpawnTemplate]);
    run.check(died(0, 1), &[down(0)]);
    run.check(died(1, 1), &[down(1)]);
    assert_eq!(run.pool.next_start(), None);
    run.check(Event::Booted, &[fork(0, 2), fork(1, 2)]);
    let abandon = |worker| Action::Abandon { worker };
    run.check(Event::TemplateDied, &[abandon(0), abandon(1)]);
    let until = run.now + FIRST_DELAY;
    assert_eq!(run.pool.next_start(), Some(until));
    run.after(FIRST_DELAY, &[Action::SpawnTemplate]);
    run.now += Duration::from_secs(10);
    assert_eq!(run.pool.next_start(), Some(until));
    // What it forks may come to serve.
    run.check(Event::Booted, &[fork(0, 3), fork(1, 3)]);
    assert_eq!(run.pool.next_start(), None);
}

#[test]
fn stopping_asks_ready_workers_kills_others_and_dismisses_the_template() {
    let mut run = Run::ready();
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    run.check(
        Event::Stop { until: None },
        &[Action::Kill { worker: 0 }, Action::StopWorker { worker: 1 }],
    );
    run.check(Event::Stop { until: None }, &[]);
    run.check(Event::Forked { worker: 0 }, &[]);
    assert_eq!(run.pool.next(), None);
    run.check(Event::Ready { worker: 0, life: 2 }, &[]);
    run.check(died(1, 1), &[down(1)]);
    assert!(!run.pool.workers().are_gone());
    run.check(died(0, 2), &[down(0), Action::DismissTemplate]);
    assert!(run.pool.workers().are_gone());
    assert!(!run.pool.finished());
    run.check(Event::TemplateDied, &[]);
    assert!(run.pool.finished());
}

#[test]
fn killing_names_every_worker_that_is_left_and_the_template() {
    let mut run = Run::ready();
    run.check(
        Event::Kill,
        &[
            Action::Kill { worker: 0 },
            Action::Kill { worker: 1 },
            Action::KillTemplate,
        ],
    );
    run.check(Event::TemplateDied, &[]);
    run.check(died(0, 1), &[down(0)]);
    run.check(died(1, 1), &[down(1)]);
    assert!(run.pool.finished());
}

#[test]
fn a_stop_that_takes_too_long_is_followed_by_a_kill() {
    let mut run = Run::ready();
    let stop = |worker| Action::StopWorker { worker };
    run.check(Event::Stop { until: None }, &[stop(0), stop(1)]);
    run.check(died(1, 1), &[down(1)]);
    run.check(
        Event::Kill,
        &[Action::Kill { worker: 0 }, Action::KillTemplate],
    );
}

#[test]
fn a_stop_while_the_template_is_stuck_in_a_fork_still_ends() {
    let mut run = Run::booted();
    let kill = |worker| Action::Kill { worker };
    run.check(Event::Stop { until: None }, &[kill(0), kill(1)]);
    run.check(Event::Kill, &[kill(0), kill(1), Action::KillTemplate]);
    let abandon = |worker| Action::Abandon { worker };
    run.check(Event::TemplateDied, &[abandon(0), abandon(1)]);
    assert!(run.pool.finished());
}

#[test]
fn a_stop_while_the_template_boots_again_kills_it() {
    let mut run = Run::ready();
    run.check(Event::TemplateDied, &[Action::SpawnTemplate]);
    let stop = |worker| Action::StopWorker { worker };
    run.check(
        Event::Stop { until: None },
        &[stop(0), stop(1), Action::KillTemplate],
    );
    run.check(Event::Booted, &[Action::KillTemplate]);
    run.check(died(0, 1), &[down(0)]);
    run.check(died(1, 1), &[down(1)]);
    run.check(Event::TemplateDied, &[]);
    assert!(run.pool.finished());
}

#[test]
fn a_stop_while_no_template_is_there_starts_none() {
    let mut run = Run::ready();
    run.check(Event::TemplateDied, &[Action::SpawnTemplate]);
    run.check(Event::TemplateDied, &[]);
    let stop = |worker| Action::StopWorker { worker };
    run.check(Event::Stop { until: None }, &[stop(0), stop(1)]);
    run.check(died(0, 1), &[down(0)]);
    run.check(died(1, 1), &[down(1)]);
    assert!(run.pool.finished());
    run.now += LONGEST_DELAY;
    run.check(Event::Tick, &[]);
}

#[test]
fn a_retired_worker_leaves_when_its_successor_is_ready() {
    let mut run = Run::ready();
    let (mut gone, mut spare) = (0, 2);
    let mut lives = [1, 1, 0];
    for _ in 0..10 {
        lives[usize::from(spare)] += 1;
        let life = lives[usize::from(spare)];
        run.check(retire(gone), &[retiring(gone, spare), fork(spare, life)]);
        run.check(Event::Forked { worker: spare }, &[]);
        assert_eq!(run.pool.workers().ready(), 2, "both serve on");
        run.check(
            Event::Ready {
                worker: spare,
                life,
            },
            &[
                Action::Up { worker: spare },
                Action::StopWorker { worker: gone },
            ],
        );
        assert_eq!(
            (run.pool.workers().ready(), run.pool.workers().leaving()),
            (2, 1)
        );
        run.check(died(gone, lives[usize::from(gone)]), &[down(gone)]);
        assert_eq!(run.pool.workers().state(gone), State::Spare);
        // The other one is next, and comes to where this one was.
        let other = (0..3).find(|&place| place != gone && place != spare);
        (gone, spare) = (other.unwrap(), gone);
    }
    assert_eq!(run.pool.next(), None);
}

#[test]
fn a_worker_that_does_not_leave_for_its_successor_is_killed() {
    let mut run = Run::ready();
    run.check(retire(1), &[retiring(1, 2), fork(2, 1)]);
    run.check(Event::Forked { worker: 2 }, &[]);
    run.now += Duration::from_secs(5);
    let left = [Action::Up { worker: 2 }, Action::StopWorker { worker: 1 }];
    run.check(Event::Ready { worker: 2, life: 1 }, &left);
    run.after(GRACE, &[Action::Kill { worker: 1 }]);
    run.check(died(1, 1), &[down(1)]);
}

#[test]
fn a_worker_that_leaves_has_until_the_last_deadline_of_what_it_runs() {
    const LONGER: Duration = Duration::from_secs(300);
    let left = [Action::Up { worker: 2 }, Action::StopWorker { worker: 1 }];
    let retired = || {
        let mut run = Run::ready();
        run.check(retire(1), &[retiring(1, 2), fork(2, 1)]);
        run.check(Event::Forked { worker: 2 }, &[]);
        run.check(Event::Ready { worker: 2, life: 1 }, &left);
        run
    };
    let stop = |worker| Action::StopWorker { worker };
    let resized = || {
        let mut run = Run::ready();
        run.check(resize(1, run.now), &[stop(1)]);
        run
    };
    let stopped = || {
        let mut run = Run::ready();
        let until = Some(run.now + GRACE);
        run.check(Event::Stop { until }, &[stop(0), stop(1)]);
        run.check(died(0, 1), &[down(0)]);
        run
    };
    for begin in [&retired as &dyn Fn() -> Run, &resized, &stopped] {
        let mut run = begin();
        let kill = [Action::Kill { worker: 1 }];
        assert_eq!(
            run.pool.workers().exit_deadlines().collect::<Vec<_>>(),
            [(1, run.now + GRACE)]
        );
        let in_time = |until| Event::Prolong { worker: 1, until };
        run.check(in_time(run.now + LONGER), &[]);
        // Never less than it had.
        run.check(in_time(run.now + GRACE), &[]);
        run.after(LONGER, &kill);
        run.check(in_time(run.now + LONGER), &[]);
        assert_eq!(
            run.pool.workers().exit_deadlines().count(),
            0,
            "it is being killed"
        );
        // Where nothing is worth waiting for any more it is killed before.
        let mut run = begin();
        run.check(in_time(run.now + LONGER), &[]);
        run.check(stuck(1, &run, Duration::ZERO), &kill);
    }
    // One that serves has no time that could be longer.
    let mut run = Run::ready();
    let until = run.now + LONGER;
    for worker in [0, 2, 7] {
        run.check(Event::Prolong { worker, until }, &[]);
    }
    assert_eq!(run.pool.next(), None);
}

#[test]
fn only_one_worker_is_replaced_at_a_time_and_only_in_a_pool_that_is_whole() {
    let mut run = Run::booted();
    run.check(retire(0), &[]);
    let mut run = Run::ready();
    run.check(retire(2), &[]);
    run.check(retire(7), &[]);
    run.check(retire(0), &[retiring(0, 2), fork(2, 1)]);
    run.check(retire(1), &[]);
    run.check(Event::Forked { worker: 2 }, &[]);
    let left = [Action::Up { worker: 2 }, Action::StopWorker { worker: 0 }];
    run.check(Event::Ready { worker: 2, life: 1 }, &left);
    run.check(retire(1), &[]);
    run.check(died(0, 1), &[down(0)]);
    run.check(retire(1), &[retiring(1, 0), fork(0, 2)]);
    // Nor while one is missing, or there would be no template to fork.
    let mut run = Run::ready();
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    run.check(retire(1), &[]);
    let mut run = Run::ready();
    run.check(Event::TemplateDied, &[Action::SpawnTemplate]);
    run.check(retire(1), &[]);
}

#[test]
fn a_successor_takes_the_place_of_a_worker_that_dies_before_it_is_ready() {
    let mut run = Run::ready();
    run.check(retire(0), &[retiring(0, 2), fork(2, 1)]);
    run.check(died(0, 1), &[down(0)]);
    assert_eq!(run.pool.workers().state(0), State::Spare);
    run.check(Event::Forked { worker: 2 }, &[]);
    let up = [Action::Up { worker: 2 }];
    run.check(Event::Ready { worker: 2, life: 1 }, &up);
    run.check(retire(1), &[retiring(1, 0), fork(0, 2)]);
}

#[test]
fn a_successor_that_fails_is_tried_again_while_its_predecessor_serves() {
    let mut run = Run::ready();
    run.check(retire(0), &[retiring(0, 2), fork(2, 1)]);
    for life in 1..5 {
        run.check(Event::Forked { worker: 2 }, &[]);
        run.check(died(2, life), &[down(2), fork(2, life + 1)]);
    }
    run.check(Event::Forked { worker: 2 }, &[]);
    let delayed = Action::Delayed {
        worker: 2,
        deaths: 5,
        delay: FIRST_DELAY,
    };
    run.check(died(2, 5), &[down(2), delayed]);
    assert_eq!(run.pool.workers().ready(), 2);
    run.after(FIRST_DELAY, &[fork(2, 6)]);
    // Another worker that dies meanwhile comes back as ever.
    run.check(died(1, 1), &[down(1), fork(1, 2)]);
}

#[test]
fn a_change_of_size_calls_a_retirement_off_and_leaves_one_place_spare() {
    // Its successor was to be forked, is being started, waits for its next try.
    let mut run = Run::ready();
    run.check(retire(0), &[retiring(0, 2), fork(2, 1)]);
    run.check(Event::Forked { worker: 2 }, &[]);
    run.check(resize(2, run.now), &[Action::Kill { worker: 2 }]);
    assert_eq!(run.pool.workers().leaving(), 1);
    run.check(Event::Ready { worker: 2, life: 1 }, &[]);
    run.check(retire(0), &[]);
    run.check(died(2, 1), &[down(2)]);
    run.check(retire(0), &[retiring(0, 2), fork(2, 2)]);
    run.check(
        Event::TemplateDied,
        &[Action::Abandon { worker: 2 }, Action::SpawnTemplate],
    );
    run.check(resize(1, run.now), &[Action::StopWorker { worker: 1 }]);
    run.check(died(1, 1), &[down(1)]);
    run.check(Event::Booted, &[]);
    run.check(resize(2, run.now), &[fork(1, 2)]);
    assert_eq!(run.pool.workers().state(2), State::Spare);
}

#[test]
fn a_pool_that_shrinks_lets_go_of_whom_it_is_told_to_and_grows_again() {
    let mut run = Run::ready();
    let shrink = Event::Resize {
        limit: 1,
        leaves: Some(0),
        until: run.now + GRACE,
    };
    run.check(shrink, &[Action::StopWorker { worker: 0 }]);
    assert!(!run.pool.is_whole());
    run.check(died(0, 1), &[down(0)]);
    assert!(run.pool.is_whole());
    assert_eq!(run.pool.next(), None);
    // One that is to go has its successor first as ever.
    run.check(retire(1), &[retiring(1, 2), fork(2, 1)]);
    run.check(Event::Forked { worker: 2 }, &[]);
    let left = [Action::Up { worker: 2 }, Action::StopWorker { worker: 1 }];
    run.check(Event::Ready { worker: 2, life: 1 }, &left);
    run.check(died(1, 1), &[down(1)]);
    run.check(resize(2, run.now), &[fork(0, 2)]);
    // It does not shrink by more than it is told to.
    run.check(shrink, &[Action::Kill { worker: 0 }]);
    assert_eq!(run.pool.workers().ready(), 1);
}

#[test]
fn a_pool_that_shrinks_keeps_the_only_worker_that_is_ready() {
    let mut run = Run::booted();
    run.check(Event::Forked { worker: 0 }, &[]);
    let up = Action::Up { worker: 0 };
    run.check(Event::Ready { worker: 0, life: 1 }, &[up]);
    let shrink = Event::Resize {
        limit: 1,
        leaves: Some(0),
        until: run.now + GRACE,
    };
    run.check(shrink, &[Action::Kill { worker: 1 }]);
    assert_eq!(run.pool.workers().ready(), 1);
}

#[test]
fn a_template_that_dies_while_a_worker_is_replaced_leaves_one_place_spare() {
    // A successor whose process was not named yet is forked by the next template.
    let mut run = Run::ready();
    run.check(retire(0), &[retiring(0, 2), fork(2, 1)]);
    run.check(
        Event::TemplateDied,
        &[Action::Abandon { worker: 2 }, Action::SpawnTemplate],
    );
    run.check(Event::Booted, &[fork(2, 2)]);
    // One that had said it is ready before that is gone, and its predecessor is told already.
    let left = [Action::Up { worker: 2 }, Action::StopWorker { worker: 0 }];
    run.check(Event::Ready { worker: 2, life: 2 }, &left);
    run.check(
        Event::TemplateDied,
        &[
            down(2),
            Action::Abandon { worker: 2 },
            Action::SpawnTemplate,
        ],
    );
    run.check(died(0, 1), &[down(0)]);
    run.check(Event::Booted, &[fork(2, 3)]);
    assert_eq!(run.pool.workers().state(0), State::Spare);
}

#[test]
fn a_stop_ends_a_retirement() {
    let mut run = Run::ready();
    run.check(retire(0), &[retiring(0, 2), fork(2, 1)]);
    let stop = |worker| Action::StopWorker { worker };
    run.check(
        Event::Stop { until: None },
        &[stop(0), stop(1), Action::Kill { worker: 2 }],
    );
    run.check(Event::Ready { worker: 2, life: 1 }, &[]);
    for worker in 0..2 {
        run.check(died(worker, 1), &[down(worker)]);
    }
    run.check(died(2, 1), &[down(2), Action::DismissTemplate]);
    run.check(Event::TemplateDied, &[]);
    assert!(run.pool.finished());
}

#[test]
fn a_worker_without_room_for_a_successor_is_followed_when_it_is_gone() {
    let renew = |run: &Run, worker| Event::ReplaceAfterExit {
        worker,
        until: run.now + GRACE,
    };
    let mut run = Run::ready();
    let stop = [Action::StopWorker { worker: 0 }];
    run.check(renew(&run, 0), &stop);
    // The pool is not whole, and no request to retire a worker is kept.
    run.check(renew(&run, 1), &[]);
    run.check(retire(1), &[]);
    assert_eq!(
        (run.pool.workers().wanted(), run.pool.next_start()),
        (2, None)
    );
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    let mut run = Run::ready();
    run.check(renew(&run, 0), &stop);
    run.after(GRACE, &[Action::Kill { worker: 0 }]);
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    run.check(renew(&run, 7), &[]);
}

#[test]
fn a_stuck_worker_is_told_to_leave_killed_in_time_and_replaced() {
    // It does not leave.
    let mut run = Run::ready();
    run.check(stuck(0, &run, GRACE), &stopped_with_log(0));
    assert_eq!(
        (run.pool.workers().ready(), run.pool.workers().wanted()),
        (1, 2)
    );
    run.after(GRACE, &[Action::Kill { worker: 0 }]);
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    // Nothing is left that is worth waiting for.
    let mut run = Run::ready();
    run.check(stuck(0, &run, GRACE), &stopped_with_log(0));
    run.now += Duration::from_secs(1);
    run.check(
        stuck(0, &run, Duration::ZERO),
        &[Action::Kill { worker: 0 }],
    );
    assert_eq!(run.pool.next(), None);
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    // It comes to an end after all.
    let mut run = Run::ready();
    run.check(stuck(0, &run, GRACE), &stopped_with_log(0));
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    assert_eq!(run.pool.workers().hopeless(), None);
}

#[test]
fn a_stuck_worker_that_leaves_already_has_no_longer_than_before() {
    let (short, long) = (Duration::from_secs(5), GRACE);
    let mut run = Run::ready();
    let stop = |worker| Action::StopWorker { worker };
    let until = Some(run.now + short);
    run.check(Event::Stop { until }, &[stop(0), stop(1)]);
    run.check(stuck(1, &run, long), &[]);
    run.check(stuck(1, &run, Duration::from_secs(1)), &[]);
    run.after(Duration::from_secs(1), &[Action::Kill { worker: 1 }]);
    run.after(Duration::from_secs(4), &[Action::Kill { worker: 0 }]);
    run.check(died(1, 1), &[down(1)]);
    // One that is not there, or comes only now, holds no request.
    run.check(stuck(1, &run, short), &[]);
    let mut run = Run::booted();
    run.check(stuck(1, &run, short), &[]);
    run.check(stuck(7, &run, Duration::ZERO), &[]);
}

#[test]
fn a_stuck_worker_s_successor_is_forked_before_its_death() {
    let mut run = Run::ready();
    let (mut gone, mut spare) = (0, 2);
    let mut lives = [1, 1, 0];
    for _ in 0..10 {
        lives[usize::from(spare)] += 1;
        let life = lives[usize::from(spare)];
        run.check(stuck(gone, &run, GRACE), &stopped_with_log(gone));
        run.check(follow(gone), &[followed(gone, spare), fork(spare, life)]);
        run.check(follow(gone), &[]);
        assert_eq!(
            (run.pool.workers().wanted(), run.pool.workers().leaving()),
            (2, 1)
        );
        run.check(Event::Forked { worker: spare }, &[]);
        let worker = spare;
        run.check(Event::Ready { worker, life }, &[Action::Up { worker }]);
        assert_eq!(
            (run.pool.workers().ready(), run.pool.workers().leaving()),
            (2, 1)
        );
        run.check(
            stuck(gone, &run, Duration::ZERO),
            &[Action::Kill { worker: gone }],
        );
        run.check(died(gone, lives[usize::from(gone)]), &[down(gone)]);
        assert_eq!(run.pool.workers().state(gone), State::Spare);
        assert!(run.pool.is_whole());
        let other = (0..3).find(|&place| place != gone && place != spare);
        (gone, spare) = (other.unwrap(), gone);
    }
}

#[test]
fn a_stuck_worker_without_a_spare_number_is_replaced_after_its_death() {
    // Another one that was stuck is still there.
    let mut run = Run::ready();
    run.check(stuck(0, &run, GRACE), &stopped_with_log(0));
    run.check(follow(0), &[followed(0, 2), fork(2, 1)]);
    run.check(stuck(1, &run, GRACE), &stopped_with_log(1));
    run.check(follow(1), &[]);
    run.check(died(1, 1), &[down(1), fork(1, 2)]);
    run.check(died(0, 1), &[down(0)]);
    assert_eq!(run.pool.workers().state(0), State::Spare);
    // Another one is being replaced.
    let mut run = Run::ready();
    run.check(retire(0), &[retiring(0, 2), fork(2, 1)]);
    run.check(stuck(1, &run, GRACE), &stopped_with_log(1));
    run.check(follow(1), &[]);
    run.check(died(1, 1), &[down(1), fork(1, 2)]);
    // It is being replaced itself.
    let mut run = Run::ready();
    run.check(retire(0), &[retiring(0, 2), fork(2, 1)]);
    run.check(stuck(0, &run, GRACE), &stopped_with_log(0));
    run.check(follow(0), &[]);
    run.check(died(0, 1), &[down(0)]);
    // There is no template to fork it.
    let mut run = Run::ready();
    run.check(Event::TemplateDied, &[Action::SpawnTemplate]);
    run.check(stuck(0, &run, GRACE), &stopped_with_log(0));
    run.check(follow(0), &[]);
    run.check(Event::Booted, &[]);
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    // All leave.
    let mut run = Run::ready();
    run.check(stuck(0, &run, GRACE), &stopped_with_log(0));
    let stop = Action::StopWorker { worker: 1 };
    run.check(Event::Stop { until: None }, &[stop]);
    run.check(follow(0), &[]);
}

#[test]
fn only_a_worker_that_is_stuck_and_wanted_is_followed_so() {
    let mut run = Run::ready();
    run.check(follow(0), &[]);
    run.check(follow(7), &[]);
    // One that a smaller size has leave anyway.
    run.check(stuck(0, &run, GRACE), &stopped_with_log(0));
    run.check(resize(1, run.now), &[]);
    run.check(follow(0), &[]);
    run.check(died(0, 1), &[down(0)]);
    // In a small pool as well the successor comes to the spare place.
    run.check(stuck(1, &run, GRACE), &stopped_with_log(1));
    run.check(follow(1), &[followed(1, 2), fork(2, 1)]);
    run.check(died(1, 1), &[down(1)]);
    assert_eq!(run.pool.workers().state(1), State::Spare);
    // One that died meanwhile is there again, or about to be.
    let mut run = Run::ready();
    run.check(stuck(0, &run, GRACE), &stopped_with_log(0));
    run.check(died(0, 1), &[down(0), fork(0, 2)]);
    run.check(follow(0), &[]);
}

#[test]
fn a_stuck_worker_s_successor_that_does_not_come_up_is_tried_again() {
    let mut run = Run::ready();
    run.check(stuck(0, &run, GRACE), &stopped_with_log(0));
    run.check(follow(0), &[followed(0, 2), fork(2, 1)]);
    run.check(Event::Forked { worker: 2 }, &[]);
    run.check(died(2, 1), &[down(2), fork(2, 2)]);
    run.check(died(0, 1), &[down(0)]);
    assert_eq!(run.pool.workers().state(0), State::Spare);
    assert_eq!(
        (run.pool.workers().wanted(), run.pool.workers().leaving()),
        (2, 0)
    );
}

/// Workers that come to the end of no request, whatever ends them and whenever.
#[test]
fn workers_of_no_use_are_forked_at_a_bounded_rate() {
    const MINUTE: Duration = Duration::from_secs(60);
    // So many lasted at least, each followed by so many without a delay, and the tries that are delayed.
    const MOST: usize = 7 * 5 + 8;
    for seed in 1..100_u64 {
        let mut draw = crate::draws(seed);
        // Most of them last for less than this, in milliseconds.
        let patience = [1, 100, 1100, 11_000][draw(4) as usize];
        let mut pool = Pool::new(1, BOOT_TIMEOUT);
        let begin = Instant::now();
        let (mut now, mut forks) = (begin, Vec::new());
        let mut actions = pool.handle(Event::Booted, now);
        while now < begin + 10 * MINUTE {
            for action in std::mem::take(&mut actions) {
                let Action::Fork { worker, life } = action else {
                    continue;
                };
                forks.push(now);
                pool.handle(Event::Forked { worker }, now);
                if draw(4) > 0 {
                    pool.handle(Event::Ready { worker, life }, now);
                }
                now += Duration::from_millis(draw(2 * patience));
                let served = false;
                let died = Event::Died {
                    worker,
                    life,
                    served,
                };
                actions.extend(pool.handle(died, now));
            }
            if actions.is_empty() {
                now = pool.next().expect("the next try").max(now);
                actions = pool.handle(Event::Tick, now);
            }
        }
        for (at, first) in forks.iter().enumerate() {
            let soon = forks[at..].iter().filter(|fork| **fork < *first + MINUTE);
            let soon = soon.count();
            assert!(soon <= MOST, "seed {seed}: {soon} in a minute");
        }
    }
}

/// What really runs, as the actions left it.
#[derive(Default)]
struct World {
    /// Whether it has booted.
    template: Option<bool>,
    /// Whether it never comes back from a fork.
    hangs: bool,
    template_killed: bool,
    lives: [Option<u32>; 4],
    /// Workers whose process the template has named.
    named: [bool; 4],
    killed: [bool; 4],
    up: [bool; 4],
}

impl World {
    fn take(&mut self, action: Action, seed: u64) {
        match action {
            Action::SpawnTemplate => {
                assert_eq!(self.template.replace(false), None, "seed {seed}");
            }
            Action::KillTemplate => {
                assert!(self.template.is_some(), "seed {seed}");
                self.template_killed = true;
            }
            Action::DismissTemplate => assert!(self.template.is_some(), "seed {seed}"),
            Action::Fork { worker, life } => {
                assert_eq!(self.template, Some(true), "seed {seed}");
                let old = self.lives[usize::from(worker)].replace(life);
                assert_eq!(old, None, "seed {seed}: two lives of one worker");
            }
            Action::Abandon { worker } => self.end(worker),
            Action::Kill { worker } => self.killed[usize::from(worker)] = true,
            Action::Up { worker } => {
                assert!(!std::mem::replace(&mut self.up[usize::from(worker)], true));
            }
            Action::Reclaim { worker } => self.up[usize::from(worker)] = false,
            _ => {}
        }
    }

    /// The present life of a worker, where it can do anything.
    fn life(&self, worker: u16) -> Option<u32> {
        let place = usize::from(worker);
        self.lives[place].filter(|_| !self.hangs || self.named[place])
    }

    fn end(&mut self, worker: u16) {
        let place = usize::from(worker);
        self.lives[place] = None;
        self.named[place] = false;
        self.killed[place] = false;
    }

    fn template_dies(&mut self) -> Event {
        self.template = None;
        self.hangs = false;
        self.template_killed = false;
        Event::TemplateDied
    }

    /// Something that is bound to happen, if there is anything: no process leaves by itself.
    fn bound(&mut self, pool: &Pool) -> Option<Event> {
        if self.template_killed {
            return Some(self.template_dies());
        }
        if self.template == Some(false) {
            self.template = Some(true);
            return Some(Event::Booted);
        }
        (0..4).find_map(|worker| {
            let life = self.life(worker)?;
            let comes = matches!(
                pool.workers().state(worker),
                State::Forking | State::Starting(_)
            );
            if self.killed[usize::from(worker)] {
                self.end(worker);
                return Some(died(worker, life));
            }
            if self.template.is_some()
                && !std::mem::replace(&mut self.named[usize::from(worker)], true)
            {
                return Some(Event::Forked { worker });
            }
            comes.then_some(Event::Ready { worker, life })
        })
    }

    /// Leaves the pool alone until it is whole; what time it is then.
    fn rest(&mut self, pool: &mut Pool, mut now: Instant, seed: u64) -> Instant {
        for _ in 0..200 {
            if pool.is_whole() {
                return now;
            }
            let event = self.bound(pool).unwrap_or_else(|| {
                let next = pool.next();
                now = next.expect("there is a clock").max(now);
                Event::Tick
            });
            for action in pool.handle(event, now) {
                self.take(action, seed);
            }
        }
        panic!("seed {seed}: it does not come to rest: {pool:?}");
    }
}

/// Every order of a few hundred events keeps one life per worker; left alone, the pool is whole again whichever process hangs; and a
/// stop ends in nothing left.
#[test]
fn any_order_of_events_keeps_one_life_per_worker_and_comes_to_an_end() {
    let (mut retired, mut followed, mut hung) = (0, 0, 0);
    for seed in 0..300_u64 {
        let mut draw = crate::draws(seed);
        let mut pool = Pool::new(3, BOOT_TIMEOUT);
        let mut now = Instant::now();
        let mut world = World {
            template: Some(false),
            ..World::default()
        };
        let steps = 200 + draw(200);
        for step in 0.. {
            let worker = draw(4) as u16;
            let life = world.life(worker);
            let event = match (step, draw(9)) {
                (step, _) if step == steps => Event::Stop { until: None },
                (step, _) if step == steps + 30 => Event::Kill,
                (step, _) if step < steps && step % 40 == 39 => {
                    now = world.rest(&mut pool, now, seed);
                    retire(worker)
                }
                (_, 0) if world.template == Some(false) => {
                    world.template = Some(true);
                    Event::Booted
                }
                (_, 8) => retire(worker),
                (_, 1) if world.template.is_some() && (world.template_killed || draw(8) == 0) => {
                    world.template_dies()
                }
                (_, 2) if life.is_some() && world.template == Some(true) => {
                    world.named[usize::from(worker)] = true;
                    Event::Forked { worker }
                }
                (_, 3) if !world.hangs || life.is_some() => Event::Ready {
                    worker,
                    life: life.unwrap_or(0),
                },
                // Also one that could not be forked.
                (_, 4 | 5) if life.is_some() && draw(3) == 0 => {
                    world.end(worker);
                    Event::Died {
                        worker,
                        life: life.unwrap(),
                        served: draw(2) == 0,
                    }
                }
                (_, 7) if draw(4) == 0 => Event::ReplaceAfterExit {
                    worker,
                    until: now + Duration::from_secs(draw(2)),
                },
                (_, 6) if draw(8) == 0 => Event::Stalled {
                    worker,
                    stall: Stall::Unresponsive,
                    until: now + Duration::from_secs(draw(2)),
                },
                (_, 6) if draw(4) == 0 => resize(1 + draw(3) as u16, now),
                (_, 7) if draw(2) == 0 => follow(worker),
                _ => {
                    now = pool.next().unwrap_or(now).max(now);
                    Event::Tick
                }
            };
            for action in pool.handle(event, now) {
                match action {
                    Action::SpawnTemplate => assert!(step < steps),
                    Action::Fork { .. } if draw(60) == 0 => {
                        world.hangs = true;
                        hung += 1;
                    }
                    Action::Retiring { worker, .. } => {
                        assert!(world.up[usize::from(worker)], "seed {seed}");
                        retired += 1;
                    }
                    Action::SuccessorStarted { worker, .. } => {
                        let life = world.lives[usize::from(worker)];
                        assert!(life.is_some(), "seed {seed}: no worker is stuck");
                        followed += 1;
                    }
                    _ => {}
                }
                world.take(action, seed);
            }
            let spare = (0..4).filter(|&place| pool.workers().state(place) == State::Spare);
            let spare = spare.count();
            assert!(spare <= 1, "seed {seed}: {pool:?}");
            assert!(spare == 1 || !pool.is_whole(), "seed {seed}: {pool:?}");
            let empty = world.lives.iter().all(Option::is_none);
            if step > steps + 30 && world.template.is_none() && empty {
                break;
            }
            assert!(step < 10_000, "seed {seed}: no end in sight");
        }
        assert!(pool.finished(), "seed {seed}: {pool:?}");
    }
    assert!(
        retired > 5 && followed > 5 && hung > 50,
        "{retired} {followed} {hung}"
    );
}

#[test]
fn numbers_of_workers_have_no_gap_where_there_is_room_for_more() {
    let mut pool = Pool::new(6, BOOT_TIMEOUT);
    let now = Instant::now();
    assert_eq!(pool.handle(resize(2, now), now), []);
    assert_eq!(pool.workers().spare(), Some(2));
    assert_eq!(pool.handle(Event::Booted, now), [fork(0, 1), fork(1, 1)]);
    let forks = [fork(2, 1), fork(3, 1)];
    assert_eq!(pool.handle(resize(4, now), now), forks);
    assert_eq!(pool.workers().spare(), Some(4));
}

/// Kills of both workers and of their template.
const ALL_KILLED: [Action; 3] = [
    Action::Kill { worker: 0 },
    Action::Kill { worker: 1 },
    Action::KillTemplate,
];

#[test]
fn a_corrupt_exchange_kills_every_process_and_starts_them_again() {
    let mut run = Run::ready();
    run.check(Event::Corrupt, &ALL_KILLED);
    // A template that has the old exchange forks no worker.
    run.check(died(0, 1), &[down(0)]);
    run.check(Event::TemplateDied, &[Action::SpawnTemplate]);
    run.check(died(1, 1), &[down(1)]);
    run.check(Event::Booted, &[fork(0, 2), fork(1, 2)]);
}

#[test]
fn an_exchange_that_is_corrupt_again_and_again_is_made_again_with_delays() {
    let mut run = Run::ready();
    let mut delays = Vec::new();
    for life in 1..10 {
        run.check(Event::Corrupt, &ALL_KILLED);
        for worker in 0..2 {
            run.check(died(worker, life), &[down(worker)]);
        }
        let actions = run.pool.handle(Event::TemplateDied, run.now);
        match run.pool.next() {
            None => assert_eq!(actions, [Action::SpawnTemplate]),
            Some(next) => {
                delays.push(next - run.now);
                run.after(next - run.now, &[Action::SpawnTemplate]);
            }
        }
        run.check(Event::Booted, &[fork(0, life + 1), fork(1, life + 1)]);
        for worker in 0..2 {
            run.check(Event::Forked { worker }, &[]);
            let ready = Event::Ready {
                worker,
                life: life + 1,
            };
            run.check(ready, &[Action::Up { worker }]);
        }
    }
    let doubled = (0..8).map(|times| (FIRST_DELAY * (1 << times)).min(LONGEST_DELAY));
    assert_eq!(delays, doubled.collect::<Vec<_>>());
    // What lasts has nothing to do with that any more.
    run.now += LONGEST_DELAY;
    run.check(Event::Corrupt, &ALL_KILLED);
    run.check(Event::TemplateDied, &[Action::SpawnTemplate]);
}

#[test]
fn a_corrupt_exchange_of_a_pool_that_stops_only_ends_it_sooner() {
    let mut run = Run::ready();
    let until = Some(run.now + GRACE);
    let stops = [0, 1].map(|worker| Action::StopWorker { worker });
    run.check(Event::Stop { until }, &stops);
    run.check(Event::Corrupt, &ALL_KILLED);
    run.check(Event::TemplateDied, &[]);
    run.check(died(0, 1), &[down(0)]);
    run.check(died(1, 1), &[down(1)]);
    assert!(run.pool.finished());
}
