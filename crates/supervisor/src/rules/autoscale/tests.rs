//! Scenes of load and the steps that follow, and worlds in which the load changes as it likes while a simulated clock runs.

use super::*;
use crate::draws;

const ENDS: Ends = Ends { least: 2, most: 8 };
const INTERVAL: Duration = Duration::from_millis(500);
const THREADS: u16 = 3;

/// A look at so many workers of three threads that have so much to do: what they cannot run waits for long.
fn at(wanted: u16, engaged: usize) -> Look {
    let threads = usize::from(wanted) * usize::from(THREADS);
    let waiting = engaged.saturating_sub(threads) as u64;
    let waits = |all, late| Waits { all, late };
    Look {
        claimed: waits(20, if waiting > 0 { 20 } else { 0 }),
        waiting: waits(waiting, 0),
        busy: engaged.min(threads),
        threads: THREADS,
        wanted,
        allowed: wanted,
        cpu: CpuUse::default(),
    }
}

/// A rule and its clock.
struct World {
    rule: Autoscale,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let (rule, now) = (Autoscale::default(), Instant::now());
        Self { rule, now }
    }

    fn look(&mut self, look: Look) -> Option<Step> {
        self.now += INTERVAL;
        self.rule.look(ENDS, look, self.now)
    }

    /// Looks at the same load for so long, and returns the first step and when it came.
    fn during(&mut self, length: Duration, look: Look) -> Option<(Duration, Step)> {
        let began = self.now;
        while self.now < began + length {
            if let Some(step) = self.look(look) {
                return Some((self.now - began, step));
            }
        }
        None
    }
}

const QUIET: Duration = Duration::from_secs(5);

#[test]
fn a_scene_of_load_leads_to_its_step() {
    let check = |name: &str, look: Look, expect: Option<Step>| {
        let mut world = World::new();
        assert_eq!(world.during(QUIET, at(look.wanted, 0)), None);
        let step = world.during(QUIET, look).map(|(_, step)| step);
        assert_eq!(step, expect, "{name}");
    };
    // The threads of the last look had all waited.
    let add = |to, waiting: u64| {
        let (all, late) = (80 + waiting, 20);
        let waits = Waits { all, late };
        Some(Step::Add { to, waits })
    };
    let blocked = |why| Some(Step::Blocked(why));
    check("nothing to do", at(2, 0), None);
    check("all threads busy, and nobody waits", at(2, 6), None);
    check("one waits", at(2, 7), add(3, 1));
    check(
        "as many wait as another worker has threads",
        at(2, 9),
        add(3, 3),
    );
    check("more wait", at(2, 10), add(4, 4));
    check(
        "so many wait that the number doubles",
        at(3, 100),
        add(6, 91),
    );
    check("never more than the most", at(6, 100), add(8, 82));
    check(
        "there are as many as may be",
        at(8, 100),
        blocked(Obstacle::Most),
    );
    let short = Look {
        allowed: 3,
        ..at(4, 40)
    };
    check("memory is short", short, blocked(Obstacle::Memory));
    let few = Look {
        claimed: Waits { all: 20, late: 1 },
        ..at(2, 7)
    };
    check("one in twenty waits", few, None);
    let idle = Look {
        busy: 5,
        ..at(2, 7)
    };
    check("a thread idles", idle, None);
}

#[test]
fn where_the_cpu_is_the_limit_the_number_stays_and_the_log_hears_once() {
    let mut world = World::new();
    let mut own = Duration::ZERO;
    let mut steps = Vec::new();
    for _ in 0..(9 * 60 * 2) {
        own += INTERVAL * 2;
        let cpu = CpuUse {
            own,
            own_cores: 2,
            machine_cores: 2,
            machine: own,
            ..CpuUse::default()
        };
        let step = world.look(Look { cpu, ..at(2, 50) });
        steps.extend(step);
    }
    assert_eq!(steps, [Step::Blocked(Obstacle::Cpu)]);
    // Also where it was idle until just now.
    let (mut fresh, own) = (World::new(), INTERVAL * 2);
    fresh.during(QUIET, at(2, 0));
    let cpu = CpuUse {
        own,
        own_cores: 2,
        ..CpuUse::default()
    };
    let step = fresh.look(Look { cpu, ..at(2, 50) });
    assert_eq!(step, Some(Step::Blocked(Obstacle::Cpu)));
    assert_eq!(world.rule.obstacle(), Some(Obstacle::Cpu));
    // It passes with the wait.
    world.during(QUIET, at(2, 0));
    assert_eq!(world.rule.obstacle(), None);
    // The same load without that.
    let step = world.during(QUIET, at(2, 50));
    assert!(
        matches!(step, Some((_, Step::Add { to: 4, .. }))),
        "{step:?}"
    );
}

#[test]
fn workers_come_within_a_second_and_others_only_after_the_window() {
    let mut world = World::new();
    world.during(QUIET, at(2, 6));
    let (after, _) = world.during(QUIET, at(2, 30)).expect("a step");
    assert!(after <= Duration::from_secs(1), "{after:?}");
    let (after, _) = world.during(QUIET, at(4, 30)).expect("a step");
    assert!(
        after >= LOAD_WINDOW && after <= LOAD_WINDOW + INTERVAL,
        "{after:?}"
    );
}

#[test]
fn one_worker_goes_after_ten_minutes_without_need_and_then_the_next() {
    let mut world = World::new();
    let long = Duration::from_secs(11 * 60);
    for wanted in [8, 7, 6, 5, 4, 3] {
        let (after, step) = world.during(long, at(wanted, 0)).expect("a step");
        assert_eq!(
            step,
            Step::Remove {
                to: wanted - 1,
                spare: FIRST_SPARE_TIME
            }
        );
        assert!(after <= FIRST_SPARE_TIME + INTERVAL, "{after:?}");
    }
    assert_eq!(world.during(2 * long, at(2, 0)), None);
}

#[test]
fn a_single_moment_of_need_keeps_the_worker_for_ten_minutes_more() {
    let mut world = World::new();
    let nearly = FIRST_SPARE_TIME - Duration::from_secs(1);
    assert_eq!(world.during(nearly, at(3, 6)), None);
    assert_eq!(world.look(at(3, 7)), None);
    assert_eq!(world.during(nearly, at(3, 6)), None);
    assert!(world.during(QUIET, at(3, 6)).is_some());
    // A change from outside begins anew as well.
    world.during(nearly, at(3, 6));
    world.rule.interrupt();
    assert_eq!(world.during(nearly, at(3, 6)), None);
}

/// The changes of a day under a load that goes by the time, at most one in a minute for a start: when, from how many and to how
/// many.
fn day(load: impl Fn(Duration) -> usize) -> Vec<(Duration, u16, u16)> {
    let (mut world, mut wanted, mut changes) = (World::new(), ENDS.least, Vec::new());
    let began = world.now;
    while world.now < began + Duration::from_secs(24 * 3600) {
        let passed = world.now - began;
        let to = match world.look(at(wanted, load(passed))) {
            Some(Step::Add { to, .. } | Step::Remove { to, .. }) => to,
            Some(Step::Blocked(_)) | None => continue,
        };
        assert!((ENDS.least..=ENDS.most).contains(&to), "{to}");
        changes.push((passed, wanted, to));
        wanted = to;
        world.rule.interrupt();
    }
    changes
}

#[test]
fn no_load_makes_the_number_flap() {
    for seed in 0..12 {
        let mut draw = draws(seed);
        let period = Duration::from_secs(30 + draw(30 * 60));
        let busy = period * (1 + draw(90) as u32) / 100;
        let (low, high) = (draw(12) as usize, draw(40) as usize);
        let load = |passed: Duration| {
            let within = passed.as_nanos() % period.as_nanos();
            if within < busy.as_nanos() { high } else { low }
        };
        let changes = day(load);
        let case = format!("{period:?} {busy:?} {low} {high}: {changes:?}");
        for pair in changes.windows(2) {
            let ((before, ..), (then, from, to)) = (pair[0], pair[1]);
            let least = if to > from {
                LOAD_WINDOW
            } else {
                FIRST_SPARE_TIME
            };
            assert!(then - before >= least, "{case}");
        }
        // Each return of a removed worker makes the next removal wait twice as long.
        let returns = changes
            .windows(2)
            .filter(|two| two[0].1 > two[0].2 && two[1].1 < two[1].2);
        assert!(returns.count() <= 4, "{case}");
        let half = Duration::from_secs(12 * 3600);
        assert!(changes.iter().all(|(at, ..)| *at < half), "{case}");
    }
}

#[test]
fn a_load_by_chance_changes_the_number_a_few_times_a_day() {
    for seed in 0..6 {
        let random = std::cell::RefCell::new(draws(seed));
        let changes = day(|_| (random.borrow_mut())(30) as usize);
        assert!(changes.len() <= 6, "{changes:?}");
    }
}
