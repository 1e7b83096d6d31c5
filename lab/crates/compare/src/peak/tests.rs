//! Searches on a simulated server.

use super::*;
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

/// Searches with a server that holds a rate where `holds` says so; gives the steps.
fn search(start: f64, mut holds: impl FnMut(f64) -> bool) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(rate) = next(start, &steps) {
        assert!(steps.len() < 60, "no end after {steps:?}");
        steps.push(Step {
            rate,
            why: (!holds(rate)).then(|| "too slow".to_owned()),
            ..Step::default()
        });
    }
    steps
}

fn next(start: f64, steps: &[Step]) -> Option<f64> {
    of(start, steps).next()
}

fn of(start: f64, steps: &[Step]) -> Search<'_> {
    Search {
        start,
        precision: 0.05,
        steps,
    }
}

#[test]
fn the_bracket_holds_the_capacity_within_the_precision() {
    for capacity in [1.5, 7.0, 99.0, 1234.5, 20_000.0, 187_654.0] {
        for start in [1.0, 10.0, 500.0, 300_000.0] {
            let steps = search(start, |rate| rate <= capacity);
            let (held, lost) = of(start, &steps).bracket();
            let lost = lost.unwrap();
            assert!(
                held <= capacity && capacity < lost,
                "{capacity}: {held} {lost}"
            );
            assert!(lost / held <= 1.05 + 1e-9, "{capacity}: {held} {lost}");
        }
    }
}

#[test]
fn a_good_guess_takes_few_steps() {
    let steps = search(250.0, |rate| rate <= 900.0);
    let rates: Vec<f64> = steps.iter().map(|step| step.rate).collect();
    assert_eq!(
        rates,
        [250.0, 500.0, 1000.0, 750.0, 875.0, 938.0, 907.0, 907.0]
    );
}

#[test]
fn one_bad_moment_does_not_end_a_search() {
    for hiccup in 0..8 {
        let mut step = 0;
        let steps = search(100.0, |rate| {
            step += 1;
            rate <= 5000.0 && step - 1 != hiccup
        });
        let (held, lost) = of(100.0, &steps).bracket();
        assert!(held <= 5000.0 && held > 4500.0, "hiccup {hiccup}: {held}");
        assert!(lost.unwrap() > 5000.0, "hiccup {hiccup}: {lost:?}");
    }
}

#[test]
fn a_noisy_edge_is_found_about_where_it_is() {
    for seed in 0..200 {
        let mut random = SplitMix64::seed_from_u64(seed);
        // Held for certain up to 950, never from 1050, by chance between.
        let steps = search(30.0, |rate| rate < 950.0 + 100.0 * random.random::<f64>());
        let (held, _) = of(30.0, &steps).bracket();
        assert!((900.0..1050.0).contains(&held), "seed {seed}: {held}");
    }
}

#[test]
fn a_server_that_holds_nothing_has_no_peak() {
    let steps = search(100.0, |_| false);
    assert_eq!(of(100.0, &steps).bracket().0, 0.0);
    assert!(steps.last().unwrap().rate >= LEAST);
}

#[test]
fn the_generators_limit_is_no_upper_end() {
    let mut steps = Vec::new();
    while let Some(rate) = next(100.0, &steps) {
        let limited = rate > 700.0;
        steps.push(Step {
            rate,
            why: limited.then(|| "the generator was the limit".to_owned()),
            limit: if limited {
                Limit::Client
            } else {
                Limit::Neither
            },
            ..Step::default()
        });
    }
    let (held, lost) = of(100.0, &steps).bracket();
    assert!(held > 650.0 && held <= 700.0, "{held}");
    assert_eq!(lost, None);
}

#[test]
fn a_search_goes_on_from_what_was_written() {
    let whole = search(100.0, |rate| rate <= 777.0);
    for done in 0..whole.len() {
        assert_eq!(next(100.0, &whole[..done]), Some(whole[done].rate));
    }
    assert_eq!(next(100.0, &whole), None);
}

#[test]
fn rates_have_three_digits() {
    let check = |rate: f64, expect: f64| assert_eq!(round(rate), expect, "{rate}");
    check(1234.5, 1230.0);
    check(0.123_456, 0.123);
    check(99.95, 100.0);
    check(250.0, 250.0);
    check(0.0, 0.0);
}
