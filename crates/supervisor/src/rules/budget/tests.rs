//! Tables of usage and the steps they cause, and worlds in which workers grow while a simulated clock runs.

use super::*;
use crate::rules::memory::ProcessMemory;

const LOOK: Duration = Duration::from_secs(5);

/// A server whose template holds 100, and each worker so much of its own.
fn usage(workers: &[u64]) -> MemoryUsage {
    let memory = |private: u64| ProcessMemory {
        private,
        share: private,
    };
    MemoryUsage {
        held: 100 + workers.iter().sum::<u64>(),
        loaded: 100,
        workers: (0..).zip(workers.iter().map(|own| memory(*own))).collect(),
        ..MemoryUsage::default()
    }
}

/// The same, where others that leave hold so much.
fn with_leaving(workers: &[u64], leaving: u64) -> MemoryUsage {
    let usage = usage(workers);
    MemoryUsage {
        held: usage.held + leaving,
        leaving,
        ..usage
    }
}

#[test]
fn what_may_be_held_is_the_least_of_the_setting_and_what_the_groups_leave() {
    let check = |bound, groups: &[(u64, u64)], expect: Option<u64>| {
        let groups = groups.iter();
        let groups = groups.map(|&(limit, used)| Group { limit, used });
        let usage = MemoryUsage {
            held: 300,
            groups: groups.collect(),
            ..MemoryUsage::default()
        };
        let held = Budget::new(bound).held(&usage);
        assert_eq!(held.map(|held| held.budget), expect, "{bound:?} {usage:?}");
    };
    check(Bound::None, &[(1000, 300)], None);
    check(Bound::Auto, &[], None);
    // A twentieth is left alone.
    check(Bound::Auto, &[(1000, 300)], Some(950));
    // Others in the group hold 200 of it.
    check(Bound::Auto, &[(1000, 500)], Some(750));
    check(Bound::Auto, &[(1000, 500), (2000, 1900)], Some(300));
    check(Bound::Auto, &[(1000, 5000)], Some(0));
    // What the group was not charged for is no other process's.
    check(Bound::Auto, &[(1000, 100)], Some(950));
    check(Bound::Bytes(700), &[], Some(700));
    check(Bound::Bytes(700), &[(1000, 500)], Some(700));
    check(Bound::Bytes(800), &[(1000, 500)], Some(750));
}

#[test]
fn over_the_budget_the_largest_goes_and_never_the_last_one() {
    let mut now = Instant::now();
    let check = |budget: &mut Budget, workers: &[u64], now, expect: Option<Step>| {
        let step = budget.step(&usage(workers), true, now);
        assert_eq!(step, expect, "{workers:?} {budget:?}");
    };
    let budget = &mut Budget::new(Bound::Bytes(600));
    check(budget, &[200, 200, 100], now, None);
    check(budget, &[200, 301, 200], now, Some(Step::Shrink(1)));
    check(budget, &[600, 100], now, Some(Step::Shrink(0)));
    assert_eq!(budget.missing, 2);
    now += Duration::from_secs(60);
    // One comes back when there is room for what one takes at first: 100 was the least.
    check(budget, &[401], now, None);
    check(budget, &[400], now, Some(Step::Grow));
    check(budget, &[200, 20], now, Some(Step::Grow));
    check(budget, &[20, 20, 20], now, None);
}

#[test]
fn the_last_worker_is_replaced_only_where_a_fresh_one_fits() {
    let mut now = Instant::now();
    let check = |budget: &mut Budget, own, calm, now, expect: Option<Step>| {
        let step = budget.step(&usage(&[own]), calm, now);
        assert_eq!(step, expect, "{own} {budget:?}");
    };
    // It has not grown, or not by enough.
    let budget = &mut Budget::new(Bound::Bytes(110));
    check(budget, 20, true, now, Some(Step::Warn));
    check(budget, 20, true, now, None);
    check(budget, 50, true, now, None);
    check(budget, 5, true, now, None);
    check(budget, 11, true, now, Some(Step::Replace(0)));
    // It is told again when it happens again.
    budget.least = Some(11);
    check(budget, 11, true, now, Some(Step::Warn));

    let budget = &mut Budget::new(Bound::Bytes(600));
    check(budget, 100, true, now, None);
    // Only from a pool that is whole.
    check(budget, 501, false, now, None);
    let mut pause = FIRST_PAUSE;
    for _ in 0..10 {
        check(budget, 501, true, now, Some(Step::Replace(0)));
        assert_eq!(budget.missing, 0);
        now += pause - Duration::from_millis(1);
        check(budget, 501, true, now, None);
        now += Duration::from_millis(1);
        pause = LONGEST_PAUSE.min(2 * pause);
    }
}

#[test]
fn memory_of_those_that_leave_counts_when_they_take_their_time() {
    let mut now = Instant::now();
    let check = |budget: &mut Budget, workers: &[u64], now, expect: Option<Step>| {
        let step = budget.step(&with_leaving(workers, 200), false, now);
        assert_eq!(step, expect, "{workers:?} {budget:?}");
    };
    let budget = &mut Budget::new(Bound::Bytes(750));
    check(budget, &[300, 300], now, None);
    // Without them it is too much as well.
    check(budget, &[300, 300, 51], now, Some(Step::Shrink(1)));
    now += LEAVING_MEMORY_TIMEOUT - Duration::from_millis(1);
    check(budget, &[300, 300], now, None);
    now += Duration::from_millis(1);
    check(budget, &[300, 300], now, Some(Step::Shrink(1)));
    // That one has its time, too.
    check(budget, &[300, 300], now, None);
    // No worker is started while others leave, or start.
    now += LONGEST_PAUSE;
    check(budget, &[20], now, None);
    for calm in [false, true] {
        let mut budget = Budget::new(Bound::Bytes(750));
        budget.missing = 1;
        let grown = budget.step(&usage(&[20]), calm, now);
        assert_eq!(grown, calm.then_some(Step::Grow));
    }
}

#[test]
fn a_successor_may_use_what_the_groups_leave_alone() {
    let check = |used, expect| {
        let usage = MemoryUsage {
            groups: vec![Group { limit: 1000, used }],
            ..usage(&[20])
        };
        let mut budget = Budget::new(Bound::Auto);
        budget.step(&usage, true, Instant::now());
        assert_eq!(budget.has_reserve(&usage), expect, "{used}");
    };
    check(980, true);
    check(981, false);
}

#[test]
fn without_a_budget_nothing_is_too_much() {
    let mut budget = Budget::new(Bound::None);
    let much = usage(&[u64::MAX / 8; 4]);
    assert_eq!(budget.step(&much, true, Instant::now()), None);
    assert!(budget.has_room(&much) && budget.has_room_for_all(&much) && !budget.is_set());
}

#[test]
fn another_server_gets_as_many_workers_as_fit_with_its_template() {
    let check = |bytes, expect| {
        let usage = MemoryUsage {
            front: 50,
            ..usage(&[200, 100])
        };
        let budget = Budget::new(Bound::Bytes(bytes));
        assert_eq!(
            budget.fits_with_other_server(&usage),
            Some(expect),
            "{bytes}"
        );
    };
    // 400 are held, and 150 of each is the mean.
    check(850, 2);
    check(849, 1);
    check(700, 1);
    check(699, 0);
    check(300, 0);
    let budget = Budget::new(Bound::None);
    assert_eq!(budget.fits_with_other_server(&usage(&[200])), None);
}

#[test]
fn the_memory_of_another_server_is_not_foreign_and_no_worker_starts() {
    let now = Instant::now();
    let crowded = MemoryUsage {
        groups: vec![Group {
            limit: 1000,
            used: 990,
        }],
        ..usage(&[100, 100])
    };
    for bound in [Bound::Auto, Bound::Bytes(700)] {
        let mut budget = Budget::new(bound);
        budget.start_alongside(bound, 2);
        assert_eq!(budget.step(&crowded, true, now), None, "{bound:?}");
        assert!(!budget.has_room(&crowded) && !budget.has_room_for_all(&crowded));
        // Also where there is room: the other one may need it.
        assert_eq!(budget.step(&usage(&[100]), true, now), None, "{bound:?}");
        assert_eq!(budget.affordable(4, bound), 2);
        budget.set_other_server(false);
        let step = budget.step(&crowded, true, now);
        assert_eq!(step, Some(Step::Shrink(1)), "{bound:?}");
    }
    let mut budget = Budget::new(Bound::None);
    budget.start_alongside(Bound::Bytes(700), 2);
    budget.set_bound(Bound::Bytes(700));
    budget.set_other_server(false);
    let grown = budget.step(&usage(&[100]), true, now);
    assert_eq!((grown, budget.missing), (Some(Step::Grow), 1));
    // Another bound is another beginning.
    assert_eq!(budget.affordable(4, Bound::Auto), 4);
    let mut budget = Budget::new(Bound::None);
    budget.start_alongside(Bound::None, 2);
    assert_eq!(budget.affordable(4, Bound::None), 4);
}

#[test]
fn a_second_generation_fits_where_template_and_workers_do_once_more() {
    let check = |bytes, expect| {
        let budget = Budget::new(Bound::Bytes(bytes));
        assert_eq!(budget.has_room_for_all(&usage(&[200, 100])), expect);
    };
    check(800, true);
    check(799, false);
}

#[test]
fn a_worker_restored_too_early_stays_away_twice_as_long_next_time() {
    let mut budget = Budget::new(Bound::Bytes(600));
    let mut now = Instant::now();
    let (over, under) = (usage(&[300, 300]), usage(&[300]));
    let mut pause = FIRST_PAUSE;
    for _ in 0..12 {
        assert_eq!(budget.step(&over, true, now), Some(Step::Shrink(1)));
        // Not a moment earlier.
        now += pause - Duration::from_millis(1);
        budget.least = Some(10);
        assert_eq!(budget.step(&under, true, now), None, "{pause:?}");
        now += Duration::from_millis(1);
        let grown = budget.step(&under, true, now);
        assert_eq!(grown, Some(Step::Grow), "{pause:?}");
        now += LOOK;
        pause = LONGEST_PAUSE.min(2 * pause);
    }
    // After a long time without trouble it begins again.
    now += 2 * LONGEST_PAUSE;
    assert_eq!(budget.step(&over, true, now), Some(Step::Shrink(1)));
    now += FIRST_PAUSE;
    assert_eq!(budget.step(&under, true, now), Some(Step::Grow));
}

/// Workers that begin with 20 and grow to a size, or for ever, for some hours: what they hold is back within the budget
/// as soon as the workers that have to go are gone, at least one is always there, and those that fit come back.
#[test]
fn any_growth_is_kept_within_the_budget_and_leaves_a_worker() {
    let mut all_replaced = 0;
    for seed in 1..300_u64 {
        let mut draw = crate::draws(seed);
        let places = 1 + draw(6) as u16;
        let bytes = 150 + draw(1500);
        // What each grows by at each look, and up to where.
        let (growth, size) = (1 + draw(20), [60, 150, 400, u64::MAX][draw(4) as usize]);
        let mut budget = Budget::new(Bound::Bytes(bytes));
        let mut now = Instant::now();
        let mut workers = vec![20; usize::from(places)];
        // What leaves takes some looks to be gone.
        let mut leaving: Vec<(u64, u64)> = Vec::new();
        let (mut steps, mut replaced) = (0, 0);
        for _ in 0..2000 {
            now += LOOK;
            for own in &mut workers {
                *own = size.min(*own + draw(2 * growth));
            }
            leaving.iter_mut().for_each(|(_, looks)| *looks -= 1);
            leaving.retain(|(_, looks)| *looks > 0);
            let weighed = with_leaving(&workers, leaving.iter().map(|(own, _)| own).sum());
            let over = weighed.held - weighed.leaving > bytes;
            let calm = leaving.is_empty() && draw(8) > 0;
            match budget.step(&weighed, calm, now) {
                Some(Step::Shrink(worker)) => {
                    assert!(over && workers.len() > 1, "seed {seed}");
                    let gone = workers.remove(usize::from(worker));
                    assert!(workers.iter().all(|own| *own <= gone), "seed {seed}");
                    leaving.push((gone, 1 + draw(4)));
                    steps += 1;
                }
                Some(Step::Replace(worker)) => {
                    assert!(over && calm && workers.len() == 1, "seed {seed}");
                    assert!(120 <= bytes, "seed {seed}: a fresh one is too much as well");
                    let gone = std::mem::replace(&mut workers[usize::from(worker)], 20);
                    leaving.push((gone, 1 + draw(4)));
                    steps += 1;
                    replaced += 1;
                }
                Some(Step::Grow) => {
                    assert!(!over && calm, "seed {seed}");
                    workers.push(20);
                    let held = 100 + workers.iter().sum::<u64>();
                    assert!(held <= bytes, "seed {seed}: {held} of {bytes}");
                    steps += 1;
                }
                Some(Step::Warn) => assert!(over && workers.len() == 1, "seed {seed}"),
                None => assert!(!over || workers.len() == 1, "seed {seed}"),
            }
            assert!(
                (1..=usize::from(places)).contains(&workers.len()),
                "seed {seed}"
            );
            assert_eq!(usize::from(places - budget.missing), workers.len());
        }
        // A pool that is too large for its budget settles: it is not tried every ten seconds for hours.
        if size == 400 && growth > 5 {
            assert!(steps < 200, "seed {seed}: {steps} steps");
        }
        // One that fits is complete.
        if 100 + u64::from(places) * size.min(1 << 40) <= bytes {
            assert_eq!((budget.missing, steps), (0, 0), "seed {seed}");
        }
        all_replaced += replaced;
    }
    assert!(all_replaced > 100, "{all_replaced}");
}

#[test]
fn no_worker_leaves_for_buffers_of_the_front_unless_a_group_is_short() {
    let at = |front: u64, groups: &[(u64, u64)]| {
        let workers = usage(&[300, 300]);
        let groups = groups.iter();
        MemoryUsage {
            held: workers.held + front,
            front,
            groups: groups.map(|&(limit, used)| Group { limit, used }).collect(),
            ..workers
        }
    };
    let now = Instant::now();
    let mut budget = Budget::new(Bound::Bytes(800));
    assert_eq!(budget.step(&at(50, &[]), true, now), None);
    assert_eq!(budget.step(&at(600, &[]), true, now + LOOK), None);
    // What it holds at the least counts, and so does the whole of it where the kernel would kill.
    let held = budget.held(&at(600, &[])).map(|held| held.held);
    assert_eq!(held, Some(750));
    let short = at(600, &[(1300, 1300)]);
    let step = budget.step(&short, true, now + 2 * LOOK);
    assert!(matches!(step, Some(Step::Shrink(_))), "{step:?}");
    // One that never held less is as large as that.
    let mut budget = Budget::new(Bound::Bytes(800));
    let step = budget.step(&at(600, &[]), true, now);
    assert!(matches!(step, Some(Step::Shrink(_))), "{step:?}");
}
