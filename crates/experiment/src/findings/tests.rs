//! Verdicts on recorded and on simulated halves. All draws have fixed seeds.

use std::time::Duration;

use metrics::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;
use crate::slice::Memory;

/// Draws from 0 to 1.
struct Draws(Xoshiro256PlusPlus);

impl Draws {
    fn next(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Of a normal distribution.
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.next().max(1e-300), self.next());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

#[test]
fn a_small_difference_is_not_called_one_however_sure_it_is() {
    let of = |factor: f64| Recorded {
        routes: [(
            "/".to_owned(),
            RouteCost {
                requests: 100,
                cpu_ns: (1e9 * factor) as u64,
            },
        )]
        .into(),
        ..Recorded::default()
    };
    let found = |factor| {
        let slice = Slice {
            base: of(1.0),
            variant: of(factor),
        };
        Findings::of(&vec![slice; 9]).cpu.difference
    };
    assert_eq!(found(1.04), Difference::None);
    assert_eq!(found(0.97), Difference::None);
    assert_eq!(found(1.06), Difference::Worse);
    assert_eq!(found(0.94), Difference::Better);
}

/// A half in a slice of so many requests, a tenth of which belong to a route that costs ten times as much. Costs have a long
/// tail; `factor` multiplies all of them.
fn half(draws: &mut Draws, requests: u64, factor: f64) -> Recorded {
    let mut half = Recorded::default();
    let times = Histogram::default();
    for _ in 0..requests {
        let (route, mean_ms) = if draws.next() < 0.1 {
            ("/slow", 40.0)
        } else {
            ("/quick", 4.0)
        };
        let cpu_ms = mean_ms * factor * (0.6 * draws.normal()).exp();
        // Waiting for a database is no matter of the setting.
        let app_ms = cpu_ms + 2.0 * draws.next();
        let cost = half.routes.entry(route.to_owned()).or_default();
        cost.requests += 1;
        cost.cpu_ns += (cpu_ms * 1e6) as u64;
        half.app_ns += (app_ms * 1e6) as u64;
        times.record(Duration::from_secs_f64(app_ms / 1e3));
    }
    half.app = times.read();
    half
}

/// Twenty slices, in which the second half costs `factor` as much as the first. Something else on the machine makes some slices
/// dearer for both.
fn experiment(seed: u64, factor: f64) -> Findings {
    let mut draws = Draws(Xoshiro256PlusPlus::seed_from_u64(seed));
    let slices: Vec<Slice> = (0..20)
        .map(|_| {
            let common = (0.1 * draws.normal()).exp();
            let requests = 100 + (draws.next() * 100.0) as u64;
            Slice {
                base: half(&mut draws, requests, common),
                variant: half(&mut draws, requests, common * factor),
            }
        })
        .collect();
    Findings::of(&slices)
}

fn differences(found: &Findings) -> [Difference; 3] {
    [&found.cpu, &found.app_p50, &found.app_p99].map(|one| one.difference)
}

#[test]
fn of_twenty_experiments_with_equal_halves_one_at_most_differs() {
    let differs = |seed: &u64| {
        let found = differences(&experiment(*seed, 1.0));
        assert!(!found.contains(&Difference::Unknown), "{found:?}");
        found.iter().any(|one| *one != Difference::None)
    };
    for first in [0, 100, 200] {
        let differing = (first..first + 20).filter(differs).count();
        assert!(differing <= 1, "{differing} of 20 from seed {first}");
    }
}

#[test]
fn a_setting_that_costs_a_fifth_more_is_found_worse() {
    let worse = |seed: &u64| experiment(*seed, 1.2).cpu.difference == Difference::Worse;
    let found = (0..20).filter(worse).count();
    assert!(found >= 19, "{found} of 20");
    let better = |seed: &u64| experiment(*seed, 0.8).cpu.difference == Difference::Better;
    let found = (0..20).filter(better).count();
    assert!(found >= 19, "{found} of 20");
}

#[test]
fn a_half_with_dearer_requests_is_not_worse() {
    let of = |slow: u64| {
        let cost = |requests, each_ms: u64| RouteCost {
            requests,
            cpu_ns: requests * each_ms * 1_000_000,
        };
        let routes = [("/slow", cost(slow, 100)), ("/quick", cost(100, 1))];
        Recorded {
            routes: routes.map(|(name, cost)| (name.to_owned(), cost)).into(),
            ..Recorded::default()
        }
    };
    let slice = Slice {
        base: of(10),
        variant: of(30),
    };
    let found = Findings::of(&vec![slice; 5]);
    let ratio = found.cpu.ratio.unwrap();
    assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
    assert_eq!(found.cpu.difference, Difference::None);
    assert!(found.variant.cpu_ms > 2.0 * found.base.cpu_ms);
}

#[test]
fn too_little_says_nothing() {
    assert_eq!(Findings::of(&[]), Findings::default());
    let mut draws = Draws(Xoshiro256PlusPlus::seed_from_u64(1));
    let mut slices: Vec<_> = (0..2)
        .map(|_| Slice {
            base: half(&mut draws, 10, 1.0),
            variant: half(&mut draws, 10, 9.0),
        })
        .collect();
    // One half had no request.
    slices.extend((0..9).map(|_| Slice {
        base: half(&mut draws, 10, 1.0),
        variant: Recorded::default(),
    }));
    let found = Findings::of(&slices);
    assert_eq!((found.slices, found.variant.requests), (2, 20));
    assert_eq!(differences(&found), [Difference::Unknown; 3]);
    // Too few requests for a percentile of the slow ones.
    let slices: Vec<_> = (0..5)
        .map(|_| Slice {
            base: half(&mut draws, 100, 1.0),
            variant: half(&mut draws, 100, 1.0),
        })
        .collect();
    let found = Findings::of(&slices);
    assert_ne!(found.app_p50.difference, Difference::Unknown);
    assert_eq!(found.app_p99, Comparison::default());
}

#[test]
fn figures_are_means_of_a_half() {
    let memory = |pss_bytes| {
        Some(Memory {
            pss_bytes,
            private_bytes: 1.0,
        })
    };
    let one = |pss, gc_ns| Recorded {
        routes: [(
            "/".to_owned(),
            RouteCost {
                requests: 2,
                cpu_ns: 8_000_000,
            },
        )]
        .into(),
        app_ns: 10_000_000,
        gc_ns,
        errors: 1,
        memory: memory(pss),
        ..Recorded::default()
    };
    let slices = [(100.0, 1_000_000), (300.0, 3_000_000)].map(|(pss, gc_ns)| Slice {
        base: one(pss, gc_ns),
        variant: one(1.0, 0),
    });
    let base = Findings::of(&slices).base;
    assert_eq!((base.requests, base.errors), (4, 2));
    assert_eq!((base.cpu_ms, base.gc_share), (4.0, 0.2));
    assert_eq!((base.pss_bytes, base.private_bytes), (Some(200), Some(1)));
}
