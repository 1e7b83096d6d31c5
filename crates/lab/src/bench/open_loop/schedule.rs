//! When which request leaves. A schedule depends on its plan alone: every stack gets the same one.

use std::time::Duration;

use crate::random::Random;

/// How the gaps between requests are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrivals {
    /// One request every 1/rate seconds.
    Constant,
    /// Independent arrivals: exponential gaps with the mean 1/rate.
    Poisson,
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Its target.
    pub path: String,
    /// Its share of the requests, relative to the others'.
    pub weight: f64,
}

/// What an open-loop generator is to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Requests a second.
    pub rate: f64,
    /// For how long.
    pub duration: Duration,
    /// How the gaps are drawn.
    pub arrivals: Arrivals,
    /// What the draws depend on.
    pub seed: u64,
    /// The kinds of request; each request's is drawn independently.
    pub classes: Vec<Class>,
}

/// One request to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrival {
    /// Its time, from the start of the run.
    pub at: Duration,
    /// Index of its class.
    pub class: usize,
}

impl Plan {
    /// Every request of the plan in the order of time.
    pub fn schedule(&self) -> Vec<Arrival> {
        let mut random = Random::new(self.seed);
        let gap = 1.0 / self.rate;
        let total: f64 = self.classes.iter().map(|class| class.weight).sum();
        let mut arrivals = Vec::new();
        let mut at = 0.0;
        loop {
            at += match self.arrivals {
                Arrivals::Constant => gap,
                Arrivals::Poisson => random.exponential(gap),
            };
            if at > self.duration.as_secs_f64() {
                return arrivals;
            }
            let mut draw = random.fraction() * total;
            let class = self.classes.iter().position(|class| {
                draw -= class.weight;
                draw < 0.0
            });
            arrivals.push(Arrival {
                at: Duration::from_secs_f64(at),
                class: class.unwrap_or(0),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arrivals: Arrivals) -> Plan {
        let class = |path: &str, weight| Class {
            path: path.into(),
            weight,
        };
        Plan {
            rate: 200.0,
            duration: Duration::from_secs(50),
            arrivals,
            seed: 3,
            classes: vec![class("/fast", 9.0), class("/slow", 1.0)],
        }
    }

    #[test]
    fn a_schedule_has_its_rate_its_shares_and_its_order() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let schedule = plan(arrivals).schedule();
            assert!(
                (9_600..10_400).contains(&schedule.len()),
                "{arrivals:?}: {}",
                schedule.len()
            );
            let slow = schedule.iter().filter(|arrival| arrival.class == 1).count();
            assert!((850..1_150).contains(&slow), "{arrivals:?}: {slow} slow");
            assert!(schedule.is_sorted_by_key(|arrival| arrival.at));
        }
    }

    #[test]
    fn constant_gaps_are_equal_and_poisson_gaps_are_not() {
        let gaps = |arrivals| {
            let schedule = plan(arrivals).schedule();
            schedule
                .windows(2)
                .map(|pair| (pair[1].at - pair[0].at).as_secs_f64())
                .collect::<Vec<_>>()
        };
        assert!(
            gaps(Arrivals::Constant)
                .iter()
                .all(|gap| (gap - 0.005).abs() < 1e-6)
        );
        // The exponential's deviation equals its mean.
        let poisson = gaps(Arrivals::Poisson);
        let deviation = (poisson.iter().map(|gap| (gap - 0.005).powi(2)).sum::<f64>()
            / poisson.len() as f64)
            .sqrt();
        assert!((deviation - 0.005).abs() < 0.0005, "{deviation}");
    }

    #[test]
    fn a_seed_repeats_its_schedule() {
        assert_eq!(
            plan(Arrivals::Poisson).schedule(),
            plan(Arrivals::Poisson).schedule()
        );
        let other = Plan {
            seed: 4,
            ..plan(Arrivals::Poisson)
        };
        assert_ne!(plan(Arrivals::Poisson).schedule(), other.schedule());
    }
}
