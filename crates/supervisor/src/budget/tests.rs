//! Tables of weights and the steps they cause, and worlds in which workers grow while a simulated clock runs.

use super::*;

const LOOK: Duration = Duration::from_secs(5);

/// A server whose template holds 100, and each worker so much of its own.
fn weights(workers: &[u64]) -> Weights {
    let memory = |private: u64| Memory {
        private,
        share: private,
    };
    Weights {
        held: 100 + workers.iter().sum::<u64>(),
        template: 100,
        workers: (0..).zip(workers.iter().map(|own| memory(*own))).collect(),
        groups: Vec::new(),
    }
}

#[test]
fn what_may_be_held_is_the_least_of_the_setting_and_what_the_groups_leave() {
    let check = |bound, groups: &[(u64, u64)], expect: Option<u64>| {
        let groups = groups.iter();
        let groups = groups.map(|&(limit, used)| Group { limit, used });
        let weights = Weights {
            held: 300,
            groups: groups.collect(),
            ..Weights::default()
        };
        let held = Budget::new(bound).held(&weights);
        assert_eq!(
            held.map(|held| held.budget),
            expect,
            "{bound:?} {weights:?}"
        );
    };
    check(Bound::None, &[(1000, 300)], None);
    check(Bound::Auto, &[], None);
    // A twentieth is left alone.
    check(Bound::Auto, &[(1000, 300)], Some(950));
    // Others in the group hold 200 of it.
    check(Bound::Auto, &[(1000, 500)], Some(750));
    check(Bound::Auto, &[(1000, 500), (2000, 1900)], Some(300));
    check(Bound::Auto, &[(1000, 5000)], Some(0));
    // What the group was not charged for is nobody else's.
    check(Bound::Auto, &[(1000, 100)], Some(950));
    check(Bound::Bytes(700), &[], Some(700));
    check(Bound::Bytes(700), &[(1000, 500)], Some(700));
    check(Bound::Bytes(800), &[(1000, 500)], Some(750));
}

#[test]
fn over_the_budget_the_largest_goes_and_never_the_last_one() {
    let mut now = Instant::now();
    let check = |budget: &mut Budget, workers: &[u64], now, expect: Option<Step>| {
        let step = budget.step(&weights(workers), now);
        assert_eq!(step, expect, "{workers:?} {budget:?}");
    };
    let budget = &mut Budget::new(Bound::Bytes(600));
    check(budget, &[200, 200, 100], now, None);
    check(budget, &[200, 301, 200], now, Some(Step::Shrink(1)));
    check(budget, &[600, 100], now, Some(Step::Shrink(0)));
    assert_eq!(budget.missing(), 2);
    check(budget, &[501], now, Some(Step::Warn));
    now += Duration::from_secs(60);
    check(budget, &[900], now, None);
    // One comes back when there is room for what one takes at first: 100 was the least.
    check(budget, &[401], now, None);
    check(budget, &[400], now, Some(Step::Grow));
    check(budget, &[200, 20], now, Some(Step::Grow));
    check(budget, &[20, 20, 20], now, None);
    // It is told again when it happens again.
    check(budget, &[501], now, Some(Step::Warn));
}

#[test]
fn without_a_budget_nothing_is_too_much() {
    let mut budget = Budget::new(Bound::None);
    let much = weights(&[u64::MAX / 8; 4]);
    assert_eq!(budget.step(&much, Instant::now()), None);
    assert!(budget.has_room(&much) && budget.has_room_for_all(&much) && !budget.is_set());
}

#[test]
fn a_second_generation_fits_where_template_and_workers_do_once_more() {
    let check = |bytes, expect| {
        let budget = Budget::new(Bound::Bytes(bytes));
        assert_eq!(budget.has_room_for_all(&weights(&[200, 100])), expect);
    };
    check(800, true);
    check(799, false);
}

#[test]
fn a_worker_that_comes_back_too_early_stays_away_twice_as_long_the_next_time() {
    let mut budget = Budget::new(Bound::Bytes(600));
    let mut now = Instant::now();
    let (over, under) = (weights(&[300, 300]), weights(&[300]));
    let mut pause = FIRST_PAUSE;
    for _ in 0..12 {
        assert_eq!(budget.step(&over, now), Some(Step::Shrink(1)));
        // Not a moment earlier.
        now += pause - Duration::from_millis(1);
        budget.least = Some(10);
        assert_eq!(budget.step(&under, now), None, "{pause:?}");
        now += Duration::from_millis(1);
        assert_eq!(budget.step(&under, now), Some(Step::Grow), "{pause:?}");
        now += LOOK;
        pause = LONGEST_PAUSE.min(2 * pause);
    }
    // After a long time without trouble it begins anew.
    now += 2 * LONGEST_PAUSE;
    assert_eq!(budget.step(&over, now), Some(Step::Shrink(1)));
    now += FIRST_PAUSE;
    assert_eq!(budget.step(&under, now), Some(Step::Grow));
}

/// Workers that begin with 20 and grow to a size, or for ever, for some hours: what they hold is back within the budget
/// as soon as whoever is to go has gone, at least one is always there, and whoever fits comes back.
#[test]
fn any_growth_is_kept_within_the_budget_and_leaves_a_worker() {
    for seed in 1..300_u64 {
        let mut draw = crate::draws(seed);
        let places = 1 + draw(6) as u16;
        let bytes = 150 + draw(1500);
        // What each grows by at each look, and up to where.
        let (growth, size) = (1 + draw(20), [60, 150, 400, u64::MAX][draw(4) as usize]);
        let mut budget = Budget::new(Bound::Bytes(bytes));
        let mut now = Instant::now();
        let mut workers = vec![20; usize::from(places)];
        let mut steps = 0;
        for _ in 0..2000 {
            now += LOOK;
            for own in &mut workers {
                *own = size.min(*own + draw(2 * growth));
            }
            let weighed = weights(&workers);
            let over = weighed.held > bytes;
            match budget.step(&weighed, now) {
                Some(Step::Shrink(worker)) => {
                    assert!(over && workers.len() > 1, "seed {seed}");
                    let gone = workers.remove(usize::from(worker));
                    assert!(workers.iter().all(|own| *own <= gone), "seed {seed}");
                    steps += 1;
                }
                Some(Step::Grow) => {
                    assert!(!over, "seed {seed}");
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
            assert_eq!(usize::from(places - budget.missing()), workers.len());
        }
        // A pool that is too large for its budget settles: it is not tried every ten seconds for hours.
        if size == 400 && growth > 5 {
            assert!(steps < 200, "seed {seed}: {steps} steps");
        }
        // One that fits is complete.
        if 100 + u64::from(places) * size.min(1 << 40) <= bytes {
            assert_eq!((budget.missing(), steps), (0, 0), "seed {seed}");
        }
    }
}
