//! Tables of events and the actions they cause, and a world in which everything may happen at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::rules::limits;

const BOOT_TIMEOUT: Duration = Duration::from_secs(90);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

fn rules(worker_by_worker: bool, check: bool) -> Rules {
    Rules {
        places: 2,
        workers: 2,
        boot_timeout: BOOT_TIMEOUT,
        drain_timeout: DRAIN_TIMEOUT,
        worker_by_worker,
        check,
        experiment: false,
    }
}

/// A fleet and its clock, which stops between calls of `after`.
struct Run {
    fleet: Fleet,
    now: Instant,
    rules: Rules,
}

impl Run {
    /// A fleet whose first generation, of two workers, serves.
    fn serving(rules: Rules) -> Self {
        let mut run = Self {
            fleet: Fleet::default(),
            now: Instant::now(),
            rules,
        };
        run.check(run.launch(1), &[spawn(1)]);
        run.check(booted(1), &[fork(1, 0, 1), fork(1, 1, 1)]);
        run.ready(1, 0, 1, &[]);
        run.ready(1, 1, 1, &[feed(&[1]), Action::Serves { generation: 1 }]);
        assert!(run.fleet.is_settled());
        run
    }

    fn launch(&self, generation: u32) -> Event {
        let rules = self.rules;
        Event::Launch { generation, rules }
    }

    #[track_caller]
    fn check(&mut self, event: Event, expect: &[Action]) {
        assert_eq!(self.fleet.handle(event, self.now), expect, "{event:?}");
    }

    /// A worker is forked and becomes ready; `expect` comes after it is up.
    #[track_caller]
    fn ready(&mut self, generation: u32, worker: u16, life: u32, expect: &[Action]) {
        self.check(of(generation, pool::Event::Forked { worker }), &[]);
        let mut all = vec![own(generation, pool::Action::Up { worker })];
        all.extend_from_slice(expect);
        self.check(of(generation, pool::Event::Ready { worker, life }), &all);
    }

    /// Goes on to the moment that the fleet asks for, which must be that far away.
    #[track_caller]
    fn after(&mut self, wait: Duration, expect: &[Action]) {
        let next = self.fleet.next().map(|next| next - self.now);
        assert_eq!(next, Some(wait));
        self.now += wait;
        self.check(Event::Tick, expect);
    }

    fn stages(&self) -> Vec<(u32, Stage)> {
        let all = self.fleet.generations().iter();
        all.map(|one| (one.number, one.stage)).collect()
    }
}

fn of(generation: u32, event: pool::Event) -> Event {
    Event::Pool { generation, event }
}

fn own(generation: u32, action: pool::Action) -> Action {
    Action::Pool { generation, action }
}

fn booted(generation: u32) -> Event {
    of(generation, pool::Event::Booted)
}

fn template_died(generation: u32) -> Event {
    of(generation, pool::Event::TemplateDied)
}

fn died(generation: u32, worker: u16, life: u32) -> Event {
    let served = true;
    of(
        generation,
        pool::Event::Died {
            worker,
            life,
            served,
        },
    )
}

fn spawn(generation: u32) -> Action {
    own(generation, pool::Action::SpawnTemplate)
}

fn fork(generation: u32, worker: u16, life: u32) -> Action {
    own(generation, pool::Action::Fork { worker, life })
}

fn down(generation: u32, worker: u16) -> Action {
    own(generation, pool::Action::Reclaim { worker })
}

fn stop(generation: u32, worker: u16) -> Action {
    own(generation, pool::Action::StopWorker { worker })
}

fn kill(generation: u32, worker: u16) -> Action {
    own(generation, pool::Action::Kill { worker })
}

fn kill_template(generation: u32) -> Action {
    own(generation, pool::Action::KillTemplate)
}

fn dismiss(generation: u32) -> Action {
    own(generation, pool::Action::DismissTemplate)
}

fn feed(generations: &[u32]) -> Action {
    let generations = generations.to_vec();
    Action::RouteTo { generations }
}

fn given_up(why: GiveUpReason) -> Action {
    Action::GiveUp { generation: 2, why }
}

const WHY: limits::RetireReason = limits::RetireReason::Requests {
    finished: 1000,
    limit: 990,
};

const SERVES: Action = Action::Serves { generation: 2 };

#[test]
fn all_at_once_takes_over_when_all_new_workers_are_ready() {
    let mut run = Run::serving(rules(false, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 1, 1, &[]);
    assert_eq!(run.stages(), [(1, Stage::Serving), (2, Stage::Booting)]);
    run.ready(2, 0, 1, &[feed(&[2]), SERVES, stop(1, 0), stop(1, 1)]);
    assert_eq!(run.stages(), [(1, Stage::Draining), (2, Stage::Serving)]);
    assert!(!run.fleet.is_settled());
    run.check(died(1, 0, 1), &[down(1, 0)]);
    run.check(died(1, 1, 1), &[down(1, 1), dismiss(1)]);
    run.check(template_died(1), &[Action::Close { generation: 1 }]);
    assert!(run.fleet.is_settled());
    assert_eq!(run.fleet.next(), None);
    // From here on it is as any other.
    run.check(died(2, 0, 1), &[down(2, 0), fork(2, 0, 2)]);
}

#[test]
fn worker_by_worker_there_is_never_more_than_one_too_many() {
    let mut run = Run::serving(rules(true, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1)]);
    run.ready(2, 0, 1, &[feed(&[1, 2]), stop(1, 1)]);
    assert_eq!(run.stages(), [(1, Stage::Serving), (2, Stage::Serving)]);
    // The next one only when there is room for it.
    run.check(died(1, 1, 1), &[down(1, 1), fork(2, 1, 1)]);
    run.ready(2, 1, 1, &[feed(&[2]), SERVES, stop(1, 0)]);
    run.check(died(1, 0, 1), &[down(1, 0), dismiss(1)]);
    run.check(template_died(1), &[Action::Close { generation: 1 }]);
    assert!(run.fleet.is_settled());
}

/// A generation for an experiment, of one worker beside the other of [`Run::serving`], on its way.
fn experiment(run: &mut Run) {
    let rules = Rules {
        workers: 1,
        experiment: true,
        ..rules(true, false)
    };
    let generation = 2;
    run.check(Event::Launch { generation, rules }, &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1)]);
    run.ready(2, 0, 1, &[feed(&[1, 2]), stop(1, 1)]);
    let shares = Action::Shares { generation };
    run.check(died(1, 1, 1), &[down(1, 1), shares]);
    assert_eq!(run.stages(), [(1, Stage::Serving), (2, Stage::Serving)]);
    assert_eq!(run.fleet.experiment(), Some(2));
    assert_eq!(run.fleet.next(), None);
}

#[test]
fn an_experiment_has_half_of_the_workers_until_it_is_ended() {
    let mut run = Run::serving(rules(false, false));
    experiment(&mut run);
    // What dies comes again in its own half, and nothing else changes.
    run.check(died(1, 0, 1), &[down(1, 0), fork(1, 0, 2)]);
    run.ready(1, 0, 2, &[]);
    run.check(died(2, 0, 1), &[down(2, 0), fork(2, 0, 2)]);
    run.ready(2, 0, 2, &[]);
    run.check(run.launch(3), &[]);
    let (workers, leaves) = (1, None);
    run.check(Event::Resize { workers, leaves }, &[]);
    // One comes before one goes.
    run.check(Event::EndExperiment, &[fork(1, 1, 2)]);
    assert_eq!(run.fleet.experiment(), None);
    run.check(Event::EndExperiment, &[]);
    let over = given_up(GiveUpReason::ExperimentOver);
    run.ready(1, 1, 2, &[over, feed(&[1]), stop(2, 0)]);
    run.check(died(2, 0, 2), &[down(2, 0), dismiss(2)]);
    run.check(template_died(2), &[Action::Close { generation: 2 }]);
    assert!(run.fleet.is_calm());
    run.check(Event::EndExperiment, &[]);
}

#[test]
fn an_experiment_whose_workers_do_not_come_back_ends_nevertheless() {
    let mut run = Run::serving(rules(false, false));
    experiment(&mut run);
    run.check(Event::EndExperiment, &[fork(1, 1, 2)]);
    run.check(of(1, pool::Event::Forked { worker: 1 }), &[]);
    run.after(BOOT_TIMEOUT, &[kill(1, 1)]);
    run.check(died(1, 1, 2), &[down(1, 1), fork(1, 1, 3)]);
    let over = given_up(GiveUpReason::ExperimentOver);
    run.after(DRAIN_TIMEOUT, &[over, feed(&[1]), stop(2, 0)]);
    run.check(died(2, 0, 1), &[down(2, 0), dismiss(2)]);
}

#[test]
fn an_experiment_whose_template_dies_is_over() {
    let mut run = Run::serving(rules(false, false));
    experiment(&mut run);
    let failed = given_up(GiveUpReason::Template);
    run.check(
        template_died(2),
        &[failed, feed(&[1]), stop(2, 0), fork(1, 1, 2)],
    );
    run.ready(1, 1, 2, &[]);
    let closed = Action::Close { generation: 2 };
    run.check(died(2, 0, 1), &[down(2, 0), closed]);
    assert!(run.fleet.is_calm());
}

#[test]
fn an_experiment_does_not_end_a_restart() {
    let mut run = Run::serving(rules(true, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(Event::EndExperiment, &[]);
    run.check(booted(2), &[fork(2, 0, 1)]);
}

#[test]
fn an_old_worker_that_dies_during_a_restart_is_replaced_by_old_code() {
    for worker_by_worker in [false, true] {
        let mut run = Run::serving(rules(worker_by_worker, false));
        run.check(run.launch(2), &[spawn(2)]);
        run.check(died(1, 0, 1), &[down(1, 0), fork(1, 0, 2)]);
        run.ready(1, 0, 2, &[]);
    }
    // Unless it was to leave, or its place is another's by then.
    let mut run = Run::serving(rules(true, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1)]);
    run.ready(2, 0, 1, &[feed(&[1, 2]), stop(1, 1)]);
    run.check(died(1, 0, 1), &[down(1, 0), fork(1, 0, 2)]);
    run.check(died(1, 1, 1), &[down(1, 1), fork(2, 1, 1)]);
    // One that is not ready yet holds nothing and goes first.
    run.ready(2, 1, 1, &[feed(&[2]), SERVES, kill(1, 0)]);
}

#[test]
fn code_that_does_not_boot_is_given_up_and_changes_nothing() {
    for worker_by_worker in [false, true] {
        let mut run = Run::serving(rules(worker_by_worker, false));
        run.check(run.launch(2), &[spawn(2)]);
        run.check(
            template_died(2),
            &[
                given_up(GiveUpReason::Template),
                kill_template(2),
                Action::Close { generation: 2 },
            ],
        );
        assert_eq!(run.stages(), [(1, Stage::Serving)]);
        assert!(run.fleet.is_settled());
        run.check(died(1, 0, 1), &[down(1, 0), fork(1, 0, 2)]);
        run.check(run.launch(3), &[spawn(3)]);
    }
}

#[test]
fn a_new_template_that_dies_before_workers_are_ready_is_not_restarted() {
    let mut run = Run::serving(rules(false, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 0, 1, &[]);
    let abandon = own(2, pool::Action::Abandon { worker: 1 });
    run.check(
        template_died(2),
        &[
            given_up(GiveUpReason::Template),
            kill(2, 0),
            kill(2, 1),
            kill_template(2),
            abandon,
        ],
    );
    run.check(
        died(2, 0, 1),
        &[down(2, 0), Action::Close { generation: 2 }],
    );
    assert!(run.fleet.is_settled());
}

#[test]
fn a_worker_that_keeps_dying_at_its_start_gives_the_new_generation_up() {
    let mut run = Run::serving(rules(false, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 1, 1, &[]);
    for life in 1..5 {
        run.check(of(2, pool::Event::Forked { worker: 0 }), &[]);
        run.check(died(2, 0, life), &[down(2, 0), fork(2, 0, life + 1)]);
    }
    run.check(of(2, pool::Event::Forked { worker: 0 }), &[]);
    // It is not tried again, and nothing is said of another try.
    run.check(
        died(2, 0, 5),
        &[
            down(2, 0),
            given_up(GiveUpReason::Worker {
                worker: 0,
                deaths: 5,
            }),
            kill(2, 1),
            kill_template(2),
        ],
    );
    run.check(template_died(2), &[]);
    run.check(
        died(2, 1, 1),
        &[down(2, 1), Action::Close { generation: 2 }],
    );
}

#[test]
fn workers_that_are_not_ready_in_time_give_the_new_generation_up() {
    let mut run = Run::serving(rules(false, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.now += Duration::from_secs(60);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 0, 1, &[]);
    run.check(of(2, pool::Event::Forked { worker: 1 }), &[]);
    run.after(
        BOOT_TIMEOUT,
        &[
            given_up(GiveUpReason::Timeout),
            kill(2, 0),
            kill(2, 1),
            kill_template(2),
        ],
    );
    // Each of them may take as long where they come one by one.
    let mut run = Run::serving(rules(true, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1)]);
    run.now += Duration::from_secs(60);
    run.ready(2, 0, 1, &[feed(&[1, 2]), stop(1, 1)]);
    run.check(died(1, 1, 1), &[down(1, 1), fork(2, 1, 1)]);
    run.check(of(2, pool::Event::Forked { worker: 1 }), &[]);
    run.after(
        BOOT_TIMEOUT,
        &[
            given_up(GiveUpReason::Timeout),
            feed(&[1]),
            stop(2, 0),
            kill(2, 1),
        ],
    );
}

#[test]
fn worker_by_worker_the_old_generation_gets_its_workers_back_one_by_one() {
    let mut run = Run::serving(rules(true, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1)]);
    run.ready(2, 0, 1, &[feed(&[1, 2]), stop(1, 1)]);
    // Its template dies while three workers are there: one of the old ones must go before one comes back.
    run.check(
        template_died(2),
        &[given_up(GiveUpReason::Template), feed(&[1]), stop(2, 0)],
    );
    assert!(!run.fleet.is_settled());
    run.check(died(1, 1, 1), &[down(1, 1), fork(1, 1, 2)]);
    run.ready(1, 1, 2, &[]);
    run.check(
        died(2, 0, 1),
        &[down(2, 0), Action::Close { generation: 2 }],
    );
    assert!(run.fleet.is_settled());
    assert_eq!(run.stages(), [(1, Stage::Serving)]);
    assert_eq!(run.fleet.next(), None);
}

#[test]
fn a_check_decides_whether_the_new_generation_takes_over() {
    const CHECK: Action = Action::Check { generation: 2 };
    let checked = |passed| Event::Checked {
        generation: 2,
        passed,
    };
    let begin = |worker_by_worker| {
        let mut run = Run::serving(rules(worker_by_worker, true));
        run.check(run.launch(2), &[spawn(2)]);
        if worker_by_worker {
            run.check(booted(2), &[fork(2, 0, 1)]);
            run.ready(2, 0, 1, &[CHECK]);
        } else {
            run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
            run.ready(2, 0, 1, &[]);
            run.ready(2, 1, 1, &[CHECK]);
        }
        run
    };
    let mut run = begin(false);
    run.check(checked(true), &[feed(&[2]), SERVES, stop(1, 0), stop(1, 1)]);
    let mut run = begin(true);
    run.check(checked(true), &[feed(&[1, 2]), stop(1, 1)]);
    let mut run = begin(false);
    let ended = [kill(2, 0), kill(2, 1), kill_template(2)];
    run.check(
        checked(false),
        &[&[given_up(GiveUpReason::Check)], &ended[..]].concat(),
    );
    run.check(checked(true), &[]);
    let mut run = begin(false);
    run.after(
        BOOT_TIMEOUT,
        &[&[given_up(GiveUpReason::Check)], &ended[..]].concat(),
    );
    // A worker that dies meanwhile is waited for.
    let mut run = begin(false);
    run.check(died(2, 1, 1), &[down(2, 1), fork(2, 1, 2)]);
    run.check(checked(true), &[]);
    run.ready(2, 1, 2, &[feed(&[2]), SERVES, stop(1, 0), stop(1, 1)]);
}

#[test]
fn workers_that_do_not_finish_within_the_drain_are_killed() {
    let mut run = Run::serving(rules(false, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 0, 1, &[]);
    run.ready(2, 1, 1, &[feed(&[2]), SERVES, stop(1, 0), stop(1, 1)]);
    run.check(died(1, 0, 1), &[down(1, 0)]);
    run.after(DRAIN_TIMEOUT, &[kill(1, 1)]);
    run.check(died(1, 1, 1), &[down(1, 1), dismiss(1)]);
    // Nor does its template hold anything up.
    run.after(Duration::from_secs(2), &[kill_template(1)]);
    run.check(template_died(1), &[Action::Close { generation: 1 }]);
}

#[test]
fn a_change_that_waited_long_enough_kills_only_the_old_generation() {
    let mut run = Run::serving(rules(false, false));
    run.check(Event::KillDraining, &[]);
    run.check(run.launch(2), &[spawn(2)]);
    run.check(Event::KillDraining, &[]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 0, 1, &[]);
    run.ready(2, 1, 1, &[feed(&[2]), SERVES, stop(1, 0), stop(1, 1)]);
    let bounded: Vec<_> = run.fleet.generations().exit_deadlines().collect();
    let until = run.now + DRAIN_TIMEOUT;
    assert_eq!(bounded, [(1, 0, until), (1, 1, until)]);
    let until = run.now + 10 * DRAIN_TIMEOUT;
    run.check(of(1, pool::Event::Prolong { worker: 1, until }), &[]);
    run.after(DRAIN_TIMEOUT, &[kill(1, 0)]);
    run.check(
        Event::KillDraining,
        &[kill(1, 0), kill(1, 1), kill_template(1)],
    );
    run.check(died(1, 0, 1), &[down(1, 0)]);
    run.check(died(1, 1, 1), &[down(1, 1), dismiss(1)]);
    run.check(template_died(1), &[Action::Close { generation: 1 }]);
    assert!(run.fleet.is_settled());
}

#[test]
fn other_times_are_for_what_begins_in_every_generation_from_then_on() {
    const OTHER: Duration = Duration::from_secs(7);
    let mut run = Run::serving(rules(false, false));
    run.check(died(1, 0, 1), &[down(1, 0), fork(1, 0, 2)]);
    let times = Event::ApplySettings {
        boot_timeout: OTHER,
        drain_timeout: 2 * OTHER,
    };
    run.check(times, &[]);
    run.check(of(1, pool::Event::Forked { worker: 0 }), &[]);
    run.after(OTHER, &[kill(1, 0)]);
    run.check(died(1, 0, 2), &[down(1, 0), fork(1, 0, 3)]);
    run.ready(1, 0, 3, &[]);
    // The next one comes with what it is launched with.
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 0, 1, &[]);
    run.ready(2, 1, 1, &[feed(&[2]), SERVES, stop(1, 0), stop(1, 1)]);
    run.after(2 * OTHER, &[kill(1, 0), kill(1, 1)]);
}

#[test]
fn a_restart_within_a_restart_does_nothing() {
    let mut run = Run::serving(rules(false, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(run.launch(3), &[]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 0, 1, &[]);
    run.ready(2, 1, 1, &[feed(&[2]), SERVES, stop(1, 0), stop(1, 1)]);
    // The old one drains: a third one would be too many.
    run.check(run.launch(3), &[]);
    assert_eq!(run.stages(), [(1, Stage::Draining), (2, Stage::Serving)]);
}

#[test]
fn the_old_template_may_die_at_any_time() {
    let mut run = Run::serving(rules(false, false));
    run.check(run.launch(2), &[spawn(2)]);
    // It is started again: the new generation may yet be given up.
    run.check(template_died(1), &[spawn(1)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 0, 1, &[]);
    let drained = [stop(1, 0), stop(1, 1), kill_template(1)];
    run.ready(2, 1, 1, &[&[feed(&[2]), SERVES], &drained[..]].concat());
    run.check(template_died(1), &[]);
    run.check(died(1, 0, 1), &[down(1, 0)]);
    run.check(
        died(1, 1, 1),
        &[down(1, 1), Action::Close { generation: 1 }],
    );
}

#[test]
fn a_generation_that_nobody_needs_ends_and_the_next_launch_is_a_first_one() {
    let rules = rules(false, true);
    let mut run = Run::serving(rules);
    run.check(Event::StopServing, &[feed(&[]), stop(1, 0), stop(1, 1)]);
    assert_eq!(run.stages(), [(1, Stage::Draining)]);
    run.check(run.launch(2), &[]);
    // Nothing is to be stopped twice, and no worker comes back.
    run.check(died(1, 0, 1), &[down(1, 0)]);
    run.check(died(1, 1, 1), &[down(1, 1), dismiss(1)]);
    run.check(template_died(1), &[Action::Close { generation: 1 }]);
    assert!(run.fleet.finished() && !run.fleet.stopping());
    run.check(Event::StopServing, &[]);
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 0, 1, &[]);
    let serves = [feed(&[2]), Action::Serves { generation: 2 }];
    run.ready(2, 1, 1, &serves);
}

#[test]
fn a_stop_within_a_rollout_ends_both_generations() {
    let called_off = given_up(GiveUpReason::CalledOff);
    // While the new code is loaded.
    let mut run = Run::serving(rules(false, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(Event::CancelLaunch, &[called_off.clone(), kill_template(2)]);
    run.check(booted(2), &[kill_template(2)]);
    run.check(template_died(2), &[Action::Close { generation: 2 }]);
    run.check(Event::Stop, &[stop(1, 0), stop(1, 1)]);
    run.check(run.launch(3), &[]);
    // While workers are replaced one by one: both serve until they are told to leave.
    let mut run = Run::serving(rules(true, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1)]);
    run.ready(2, 0, 1, &[feed(&[1, 2]), stop(1, 1)]);
    run.check(Event::CancelLaunch, &[called_off]);
    run.check(died(1, 1, 1), &[down(1, 1)]);
    run.check(Event::Stop, &[stop(1, 0), stop(2, 0)]);
    run.check(died(1, 0, 1), &[down(1, 0), dismiss(1)]);
    let killed = [kill_template(1), kill(2, 0), kill_template(2)];
    run.check(Event::Kill, &killed);
}

fn outage(until: Option<Instant>) -> Action {
    Action::Outage { until }
}

#[test]
fn nothing_can_serve_from_when_all_workers_are_delayed_until_one_serves() {
    let mut run = Run::serving(rules(false, false));
    let delayed = |worker, deaths, delay| {
        own(
            1,
            pool::Action::Delayed {
                worker,
                deaths,
                delay,
            },
        )
    };
    let short = Duration::from_millis(500);
    for worker in [1, 0] {
        for life in 1..6 {
            let again = [down(1, worker), fork(1, worker, life + 1)];
            run.check(died(1, worker, life), &again);
        }
        // Requests wait for the other one as long as there is hope for it.
        let mut expect = vec![down(1, worker), delayed(worker, 5, short)];
        expect.extend((worker == 0).then(|| outage(Some(run.now + short))));
        run.check(died(1, worker, 6), &expect);
    }
    // An attempt changes nothing before it has failed or succeeded.
    run.after(short, &[fork(1, 0, 7), fork(1, 1, 7)]);
    let long = 2 * short;
    run.check(died(1, 0, 7), &[down(1, 0), delayed(0, 6, long)]);
    let until = Some(run.now + long);
    run.check(
        died(1, 1, 7),
        &[down(1, 1), delayed(1, 6, long), outage(until)],
    );
    run.after(long, &[fork(1, 0, 8), fork(1, 1, 8)]);
    run.ready(1, 1, 8, &[outage(None)]);
    run.check(died(1, 1, 8), &[down(1, 1), fork(1, 1, 9)]);
}

#[test]
fn nothing_can_serve_while_the_template_is_delayed_and_no_worker_is_left() {
    let dead = || {
        let mut run = Run::serving(rules(false, false));
        run.check(template_died(1), &[spawn(1)]);
        run.check(template_died(1), &[]);
        run.check(died(1, 0, 1), &[down(1, 0)]);
        let until = Some(run.now + Duration::from_millis(500));
        run.check(died(1, 1, 1), &[down(1, 1), outage(until)]);
        run
    };
    let mut run = dead();
    run.after(Duration::from_millis(500), &[spawn(1)]);
    let until = Some(run.now + Duration::from_secs(1));
    run.check(template_died(1), &[outage(until)]);
    run.after(Duration::from_secs(1), &[spawn(1)]);
    run.check(booted(1), &[fork(1, 0, 2), fork(1, 1, 2)]);
    run.ready(1, 0, 2, &[outage(None)]);
    // Also where the last worker dies while the template is loaded after a delay.
    let mut run = Run::serving(rules(false, false));
    run.check(template_died(1), &[spawn(1)]);
    run.check(template_died(1), &[]);
    run.after(Duration::from_millis(500), &[spawn(1)]);
    let began = Some(run.now);
    run.now += Duration::from_secs(1);
    run.check(died(1, 0, 1), &[down(1, 0)]);
    run.check(died(1, 1, 1), &[down(1, 1), outage(began)]);
    // New code that takes over ends it as well.
    let mut run = dead();
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 0, 1, &[]);
    let closed = Action::Close { generation: 1 };
    run.ready(2, 1, 1, &[feed(&[2]), SERVES, closed, outage(None)]);
}

fn retire(generation: u32, worker: u16) -> Event {
    let (why, grace) = (WHY, DRAIN_TIMEOUT);
    of(generation, pool::Event::Retire { worker, why, grace })
}

fn retiring(generation: u32, worker: u16, successor: u16) -> Action {
    let why = WHY;
    let retiring = pool::Action::Retiring {
        worker,
        successor,
        why,
    };
    own(generation, retiring)
}

#[test]
fn a_restart_calls_off_a_retirement_whose_successor_is_not_ready() {
    for worker_by_worker in [false, true] {
        let mut run = Run::serving(rules(worker_by_worker, false));
        run.check(retire(1, 0), &[retiring(1, 0, 2), fork(1, 2, 1)]);
        run.check(run.launch(2), &[kill(1, 2), spawn(2)]);
        // Until it is gone there is a worker too many, and no retirement begins within a rollout.
        run.check(retire(1, 0), &[]);
        let forks: &[Action] = if worker_by_worker {
            &[]
        } else {
            &[fork(2, 0, 1)]
        };
        run.check(booted(2), forks);
        run.check(retire(1, 0), &[]);
        let next = if worker_by_worker { 0 } else { 1 };
        run.check(died(1, 2, 1), &[down(1, 2), fork(2, next, 1)]);
    }
}

#[test]
fn a_restart_leaves_room_for_a_worker_that_is_on_its_way_out() {
    for worker_by_worker in [false, true] {
        let mut run = Run::serving(rules(worker_by_worker, false));
        run.check(retire(1, 0), &[retiring(1, 0, 2), fork(1, 2, 1)]);
        run.ready(1, 2, 1, &[stop(1, 0)]);
        run.check(run.launch(2), &[spawn(2)]);
        if worker_by_worker {
            run.check(booted(2), &[]);
            run.check(died(1, 0, 1), &[down(1, 0), fork(2, 0, 1)]);
            run.ready(2, 0, 1, &[feed(&[1, 2]), stop(1, 2)]);
            run.check(died(1, 2, 1), &[down(1, 2), fork(2, 1, 1)]);
            run.ready(2, 1, 1, &[feed(&[2]), SERVES, stop(1, 1)]);
        } else {
            run.check(booted(2), &[fork(2, 0, 1)]);
            run.ready(2, 0, 1, &[]);
            run.check(died(1, 0, 1), &[down(1, 0), fork(2, 1, 1)]);
            run.ready(2, 1, 1, &[feed(&[2]), SERVES, stop(1, 1), stop(1, 2)]);
        }
        run.check(retire(2, 0), &[]);
    }
}

#[test]
fn an_old_template_that_hangs_delays_a_restart_by_at_most_a_boot() {
    const LATER: Duration = Duration::from_secs(20);
    let killed = [kill_template(1)];
    let abandon = |worker| own(1, pool::Action::Abandon { worker });
    for worker_by_worker in [false, true] {
        // In that of a successor: it is not wanted any more, and may yet come.
        let mut run = Run::serving(rules(worker_by_worker, false));
        run.check(retire(1, 0), &[retiring(1, 0, 2), fork(1, 2, 1)]);
        run.now += LATER;
        run.check(run.launch(2), &[kill(1, 2), spawn(2)]);
        let mut next = 0;
        if worker_by_worker {
            run.check(booted(2), &[]);
        } else {
            run.check(booted(2), &[fork(2, 0, 1)]);
            run.ready(2, 0, 1, &[]);
            next = 1;
        }
        run.after(BOOT_TIMEOUT - LATER, &killed);
        // However long its death takes.
        run.now += LATER;
        run.check(
            template_died(1),
            &[down(1, 2), abandon(2), spawn(1), fork(2, next, 1)],
        );
        let rest = run.fleet.next().map(|next| next - run.now);
        assert_eq!(rest, Some(BOOT_TIMEOUT), "for the one that comes now");
        run.check(booted(1), &[]);
        let both = [stop(1, 0), stop(1, 1)];
        if worker_by_worker {
            run.ready(2, 0, 1, &[feed(&[1, 2]), stop(1, 1)]);
            run.check(died(1, 1, 1), &[down(1, 1), fork(2, 1, 1)]);
            run.ready(2, 1, 1, &[feed(&[2]), SERVES, stop(1, 0)]);
        } else {
            run.ready(2, 1, 1, &[&[feed(&[2]), SERVES], &both[..]].concat());
        }
    }
    // In that of a worker that died: the new generation serves, and the old one is to go.
    let mut run = Run::serving(rules(false, false));
    run.check(died(1, 0, 1), &[down(1, 0), fork(1, 0, 2)]);
    run.now += LATER;
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 0, 1, &[]);
    run.ready(2, 1, 1, &[feed(&[2]), SERVES, kill(1, 0), stop(1, 1)]);
    run.check(died(1, 1, 1), &[down(1, 1)]);
    run.after(BOOT_TIMEOUT - LATER, &killed);
    let closed = Action::Close { generation: 1 };
    run.check(template_died(1), &[abandon(0), closed]);
    assert!(run.fleet.is_settled());
}

#[test]
fn a_new_generation_without_room_is_given_up_once_no_worker_leaves() {
    let mut run = Run::serving(rules(true, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1)]);
    run.ready(2, 0, 1, &[feed(&[1, 2]), stop(1, 1)]);
    // What it runs in time may take longer than a boot.
    let until = run.now + 10 * BOOT_TIMEOUT;
    run.check(of(1, pool::Event::Prolong { worker: 1, until }), &[]);
    run.after(10 * BOOT_TIMEOUT, &[kill(1, 1)]);
    // It was killed, and the kernel does not end it.
    run.after(
        BOOT_TIMEOUT,
        &[given_up(GiveUpReason::Timeout), feed(&[1]), stop(2, 0)],
    );
    run.check(died(2, 0, 1), &[down(2, 0), dismiss(2)]);
}

#[test]
fn while_a_generation_drains_the_number_of_workers_only_shrinks() {
    let mut run = Run::serving(rules(false, false));
    let resize = |workers, leaves| Event::Resize { workers, leaves };
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    // Within a rollout there is nothing to change.
    run.check(resize(1, Some(0)), &[]);
    run.ready(2, 0, 1, &[]);
    run.ready(2, 1, 1, &[feed(&[2]), SERVES, stop(1, 0), stop(1, 1)]);
    run.check(resize(1, Some(0)), &[stop(2, 0)]);
    run.check(died(2, 0, 1), &[down(2, 0)]);
    run.check(resize(2, None), &[]);
    run.check(died(1, 0, 1), &[down(1, 0)]);
    run.check(died(1, 1, 1), &[down(1, 1), dismiss(1)]);
    run.check(template_died(1), &[Action::Close { generation: 1 }]);
    run.check(resize(2, None), &[fork(2, 0, 2)]);
}

/// What really runs, as the actions left it.
#[derive(Default)]
struct World {
    templates: BTreeMap<u32, bool>,
    /// Generations whose template never comes back from a fork.
    hung: BTreeSet<u32>,
    templates_killed: BTreeSet<u32>,
    lives: BTreeMap<(u32, u16), u32>,
    /// Workers whose process their template has named.
    named: BTreeSet<(u32, u16)>,
    killed: BTreeSet<(u32, u16)>,
    /// Workers that requests can go to.
    up: BTreeSet<(u32, u16)>,
    told_to_leave: BTreeSet<(u32, u16)>,
    fed: Vec<u32>,
    /// Whether requests are refused because nothing serves.
    outage: bool,
    launched: Option<u32>,
    checks: Vec<u32>,
}

impl World {
    fn take(&mut self, action: Action, seed: u64) {
        match action {
            Action::RouteTo { generations } => self.fed = generations,
            Action::Outage { until } => self.outage = until.is_some(),
            Action::Check { generation } => self.checks.push(generation),
            Action::Serves { generation } => {
                assert_eq!(self.launched.take(), Some(generation), "seed {seed}");
                assert_eq!(self.fed, [generation], "seed {seed}");
            }
            Action::Shares { generation } => {
                assert_eq!(self.launched, Some(generation), "seed {seed}");
                assert_eq!(self.fed.len(), 2, "seed {seed}");
            }
            Action::GiveUp { generation, .. } => {
                assert_eq!(self.launched.take(), Some(generation), "seed {seed}");
            }
            Action::Close { generation } => {
                assert!(!self.templates.contains_key(&generation), "seed {seed}");
                assert!(self.lives.keys().all(|(of, _)| *of != generation));
            }
            Action::Pool { generation, action } => self.pool(generation, action, seed),
        }
    }

    fn pool(&mut self, generation: u32, action: pool::Action, seed: u64) {
        match action {
            pool::Action::SpawnTemplate => {
                assert_eq!(
                    self.templates.insert(generation, false),
                    None,
                    "seed {seed}"
                );
            }
            pool::Action::Fork { worker, life } => {
                assert!(self.templates[&generation], "seed {seed}");
                let old = self.lives.insert((generation, worker), life);
                assert_eq!(old, None, "seed {seed}: two lives of one worker");
            }
            pool::Action::KillTemplate => {
                self.templates_killed.insert(generation);
            }
            pool::Action::Abandon { worker } => {
                self.end((generation, worker));
                self.told_to_leave.remove(&(generation, worker));
            }
            pool::Action::Up { worker } => {
                assert!(self.up.insert((generation, worker)), "seed {seed}");
            }
            pool::Action::Reclaim { worker } => {
                self.up.remove(&(generation, worker));
                self.told_to_leave.remove(&(generation, worker));
            }
            pool::Action::StopWorker { worker } | pool::Action::Kill { worker }
                if self.lives.contains_key(&(generation, worker)) =>
            {
                self.told_to_leave.insert((generation, worker));
                if matches!(action, pool::Action::Kill { .. }) {
                    self.killed.insert((generation, worker));
                }
            }
            _ => {}
        }
    }

    /// The present life of a worker, where it can do anything.
    fn life(&self, id: (u32, u16)) -> Option<u32> {
        let there = !self.hung.contains(&id.0) || self.named.contains(&id);
        self.lives.get(&id).copied().filter(|_| there)
    }

    fn end(&mut self, id: (u32, u16)) {
        self.lives.remove(&id);
        self.named.remove(&id);
        self.killed.remove(&id);
    }

    fn template_dies(&mut self, generation: u32) -> Event {
        self.templates.remove(&generation);
        self.hung.remove(&generation);
        self.templates_killed.remove(&generation);
        template_died(generation)
    }

    /// Something that is bound to happen, if there is anything: no process leaves by itself, and checks have no answer.
    fn bound(&mut self) -> Option<Event> {
        let killed = self.templates_killed.iter().copied();
        let killed: Vec<_> = killed
            .filter(|one| self.templates.contains_key(one))
            .collect();
        if let Some(&generation) = killed.first() {
            return Some(self.template_dies(generation));
        }
        if let Some((&generation, up)) = self.templates.iter_mut().find(|(_, up)| !**up) {
            *up = true;
            return Some(booted(generation));
        }
        let lives = self.lives.clone();
        lives.into_iter().find_map(|(id, life)| {
            let ((generation, worker), life) = (id, self.life(id).filter(|own| *own == life)?);
            if self.killed.contains(&id) {
                self.end(id);
                return Some(died(generation, worker, life));
            }
            if self.templates.contains_key(&generation) && self.named.insert(id) {
                return Some(of(generation, pool::Event::Forked { worker }));
            }
            let comes = !self.up.contains(&id) && !self.told_to_leave.contains(&id);
            comes.then(|| of(generation, pool::Event::Ready { worker, life }))
        })
    }

    /// Leaves the fleet alone until it is settled; what time it is then.
    fn rest(&mut self, fleet: &mut Fleet, mut now: Instant, seed: u64) -> Instant {
        for _ in 0..500 {
            if fleet.is_settled() {
                return now;
            }
            let event = self.bound().unwrap_or_else(|| {
                if fleet.next().is_none() && fleet.experiment().is_some() {
                    return Event::EndExperiment;
                }
                let next = fleet.next();
                now = next.expect("there is a clock").max(now);
                Event::Tick
            });
            for action in fleet.handle(event, now) {
                self.take(action, seed);
            }
        }
        panic!("seed {seed}: it does not come to rest: {fleet:?}");
    }

    /// Workers that requests go to.
    fn serving(&self) -> usize {
        let stays =
            |one: &&(u32, u16)| self.fed.contains(&one.0) && !self.told_to_leave.contains(one);
        self.up.iter().filter(stays).count()
    }
}

/// Whatever happens in whatever order: each launch has one end, there are never more workers than allowed, no
/// worker is told to leave before another has its place, in a rollout or outside of one, nothing that hangs holds it up for
/// ever, and a stop leaves nothing.
#[test]
fn any_order_of_events_keeps_the_promises_of_a_rollout() {
    let (mut served, mut given_up, mut outages) = (0, 0, 0);
    let (mut retired, mut followed, mut hung, mut shared) = (0, 0, 0, 0);
    for seed in 0..700_u64 {
        let mut draw = crate::draws(seed);
        let places = 1 + draw(3) as u16;
        let mut rules = Rules {
            places,
            workers: places,
            ..rules(draw(2) == 0, draw(2) == 0)
        };
        // In half of the worlds nothing goes wrong.
        let trouble = draw(2) == 0;
        // In some nearly everything does, so that at times nothing can serve.
        let odds = if seed % 4 == 0 { 1 } else { 6 };
        let mut fleet = Fleet::default();
        let mut world = World::default();
        let mut now = Instant::now();
        let mut last = 0;
        let (mut wanted, mut by_worker) = (places, false);
        // The most that were wanted since the fleet was settled.
        let mut ceiling = places;
        // So many served at once since that many are wanted.
        let mut floor = 0;
        let steps = 450 + draw(350);
        for step in 0.. {
            let numbers: Vec<u32> = fleet.generations().iter().map(|one| one.number).collect();
            let generation = match numbers.len() as u64 {
                0 => 0,
                count => numbers[draw(count) as usize],
            };
            let worker = draw(u64::from(places) + 1) as u16;
            let id = (generation, worker);
            let life = world.life(id);
            let leaves = world.told_to_leave.contains(&id);
            let template = world.templates.get(&generation).copied();
            let ending = step > steps + 60;
            let event = match draw(19) {
                _ if step == steps => Event::CancelLaunch,
                _ if step == steps + 20 => Event::Stop,
                _ if step == steps + 60 => Event::Kill,
                _ if trouble && step < steps && step % 40 == 39 => {
                    now = world.rest(&mut fleet, now, seed);
                    Event::Tick
                }
                0 if fleet.is_settled() && !fleet.stopping() && step < steps => {
                    last += 1;
                    world.launched = Some(last);
                    // Settings and memory may have changed since the last one.
                    rules.worker_by_worker = draw(2) == 0;
                    rules.workers = wanted;
                    rules.experiment = seed % 5 == 1 && !fleet.finished() && wanted > 1;
                    if rules.experiment {
                        (rules.workers, rules.worker_by_worker) = (wanted / 2, true);
                    }
                    by_worker = rules.worker_by_worker;
                    Event::Launch {
                        generation: last,
                        rules,
                    }
                }
                1 | 2 if template == Some(false) => {
                    world.templates.insert(generation, true);
                    booted(generation)
                }
                3 if template.is_some()
                    && (ending
                        || world.templates_killed.contains(&generation)
                        || trouble && draw(odds + 2) == 0) =>
                {
                    world.template_dies(generation)
                }
                3 if template == Some(true)
                    && world.lives.keys().all(|one| one.0 != generation)
                    && !world.fed.contains(&generation) =>
                {
                    world.template_dies(generation)
                }
                4 | 5 if life.is_some() && template == Some(true) => {
                    world.named.insert(id);
                    of(generation, pool::Event::Forked { worker })
                }
                6 | 7 if life.is_some() && !leaves => of(
                    generation,
                    pool::Event::Ready {
                        worker,
                        life: life.unwrap(),
                    },
                ),
                8 | 9 if life.is_some() && (leaves || ending || trouble && draw(odds) == 0) => {
                    world.end(id);
                    died(generation, worker, life.unwrap())
                }
                10 if seed % 5 == 1 && step % 20 == 0 => Event::EndExperiment,
                10 if !world.checks.is_empty() => Event::Checked {
                    generation: world.checks.remove(0),
                    passed: !trouble || draw(3) > 0,
                },
                11 if trouble || ending || fleet.next().is_none_or(|next| next <= now) => {
                    now = fleet.next().unwrap_or(now).max(now);
                    Event::Tick
                }
                12 if step < steps => retire(generation, worker),
                13 if step < steps && draw(3) == 0 => {
                    let workers = 1 + draw(u64::from(places)) as u16;
                    let fewer = workers < wanted && !fleet.is_rolling_out();
                    if fleet.is_settled() || fewer {
                        wanted = workers;
                        floor = floor.min(usize::from(wanted));
                    }
                    let leaves = Some(worker);
                    Event::Resize { workers, leaves }
                }
                14 if trouble => of(
                    generation,
                    pool::Event::Stalled {
                        worker,
                        stall: exchange::Stall::LateRequest,
                        until: now + Duration::from_secs(draw(2)),
                    },
                ),
                15 if trouble => of(generation, pool::Event::StartSuccessor { worker }),
                16 if leaves => {
                    let until = now + Duration::from_secs(draw(600));
                    of(generation, pool::Event::Prolong { worker, until })
                }
                17 => Event::KillDraining,
                18 => Event::ApplySettings {
                    boot_timeout: Duration::from_secs(1 + draw(600)),
                    drain_timeout: Duration::from_secs(draw(600)),
                },
                _ => Event::Tick,
            };
            let before = world.launched;
            for action in fleet.handle(event, now) {
                match &action {
                    Action::Serves { .. } => served += 1,
                    Action::GiveUp { .. } => given_up += 1,
                    Action::Shares { .. } => shared += 1,
                    Action::Outage { until: Some(_) } => outages += 1,
                    Action::Pool {
                        generation,
                        action: pool::Action::Fork { .. },
                    } if trouble && draw(20) == 0 => {
                        hung += 1;
                        world.hung.insert(*generation);
                    }
                    Action::Pool {
                        action: pool::Action::Retiring { .. },
                        ..
                    } => {
                        retired += 1;
                        assert!(world.launched.is_none(), "seed {seed}: within a rollout");
                    }
                    Action::Pool {
                        action: pool::Action::SuccessorStarted { .. },
                        ..
                    } => {
                        followed += 1;
                        assert!(world.launched.is_none(), "seed {seed}: within a rollout");
                    }
                    _ => {}
                }
                world.take(action, seed);
            }
            if event == Event::KillDraining {
                // Of what drains nothing is waited for any longer.
                let drains = |number| {
                    let found = fleet.generations().get(number);
                    found.is_some_and(|one| one.stage == Stage::Draining)
                };
                let mut bounded = fleet.generations().exit_deadlines();
                assert!(bounded.all(|(number, ..)| !drains(number)), "seed {seed}");
            }
            if world.outage && step < steps {
                assert_eq!(world.serving(), 0, "seed {seed}, step {step}");
                // A moment, a template, its death, or that of a worker that was stuck.
                let awaited = fleet.next().is_some()
                    || world.templates.values().any(|up| !up)
                    || !world.templates_killed.is_empty()
                    || !world.told_to_leave.is_empty();
                assert!(awaited, "seed {seed}, step {step}: nothing is to come");
            }
            // Outside of a rollout there is one generation.
            if fleet.is_settled() {
                ceiling = wanted;
            }
            let extra = match fleet.generations().all.len() {
                2 if !by_worker => ceiling,
                _ => 1,
            };
            // Those that a smaller size has leave are there for a while, and none comes meanwhile.
            let most = (places + 1).max(ceiling + extra);
            assert!(
                world.lives.len() <= usize::from(most),
                "seed {seed}: {} workers of {wanted}",
                world.lives.len(),
            );
            if matches!(event, Event::Launch { .. }) {
                assert_eq!(before, Some(last), "seed {seed}");
            }
            let serving = world.serving();
            if !trouble && !world.fed.is_empty() && step < steps {
                assert!(
                    serving >= floor,
                    "seed {seed}, step {step}: {serving} of {wanted} serve",
                );
            }
            if serving >= usize::from(wanted) {
                floor = usize::from(wanted);
            }
            if step > steps + 60 && fleet.finished() {
                break;
            }
            assert!(step < 20_000, "seed {seed}: no end in sight: {fleet:?}");
        }
        assert_eq!(world.launched, None, "seed {seed}: a launch without an end");
    }
    assert!(
        served > 1000
            && given_up > 300
            && outages > 20
            && retired > 200
            && followed > 20
            && hung > 100
            && shared > 20,
        "{served} {given_up} {outages} {retired} {followed} {hung} {shared}"
    );
}

#[test]
fn a_corrupt_exchange_starts_what_serves_again_and_ends_what_does_not() {
    let corrupt = |generation| Event::Corrupt { generation };
    let killed = |generation| {
        [
            kill(generation, 0),
            kill(generation, 1),
            kill_template(generation),
        ]
    };
    // A generation that serves starts again, also while a new one starts.
    let mut run = Run::serving(rules(false, false));
    run.check(corrupt(1), &killed(1));
    run.check(template_died(1), &[spawn(1)]);
    // A new one is given up.
    let mut run = Run::serving(rules(false, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    let actions = run.fleet.handle(corrupt(2), run.now);
    assert_eq!(actions[0], given_up(GiveUpReason::Corrupt));
    assert!(actions.contains(&kill_template(2)), "{actions:?}");
    assert_eq!(run.stages(), [(1, Stage::Serving), (2, Stage::Draining)]);
    run.check(
        template_died(2),
        &[
            own(2, pool::Action::Abandon { worker: 0 }),
            own(2, pool::Action::Abandon { worker: 1 }),
            Action::Close { generation: 2 },
        ],
    );
    // An old one that drains is killed.
    let mut run = Run::serving(rules(false, false));
    run.check(run.launch(2), &[spawn(2)]);
    run.check(booted(2), &[fork(2, 0, 1), fork(2, 1, 1)]);
    run.ready(2, 0, 1, &[]);
    run.check(of(2, pool::Event::Forked { worker: 1 }), &[]);
    let ready = pool::Event::Ready { worker: 1, life: 1 };
    run.fleet.handle(of(2, ready), run.now);
    assert_eq!(run.stages(), [(1, Stage::Draining), (2, Stage::Serving)]);
    run.check(corrupt(1), &killed(1));
}
