//! Whether a stack held a rate: the criterion of the search for the largest one. Pure.
//!
//! It did where it answered 99 of 100 demanded requests, at most one of a thousand failed, its latency stayed within the
//! limit, and its backlog did not grow from the load's beginning to its end. Answers count that came after the load's end:
//! some requests are under way at any end. What a backlog holds then shows in its growth and in the latency.
//!
//! A generator that fell behind makes requests come in bursts and adds to every latency: a rate that was held nevertheless
//! was held, and one that was not says nothing of the server.

use super::lab::FindPeak;
use super::results::{Limit, Peak, Step};
use loadgen::outcome::{Outcome, Second};

/// Good answers over demanded ones.
const ANSWERED: f64 = 0.99;
/// Failed requests over demanded ones.
const ERRORS: f64 = 0.001;
/// A backlog that grew over the load by more than this share of all requests will not end by itself.
const GROWTH: f64 = 0.005;
/// And by more than so many requests: chance moves a few.
const GROWTH_REQUESTS: f64 = 10.0;
/// Growth of the median over the unloaded server's that is too much where no limit is set (rails/rails#50450).
const SLOWER: f64 = 1.5;
/// A server that answers in a tenth of a millisecond is not too slow at two tenths: so much in addition, in milliseconds,
/// goes unnoticed by people and is within what timers and scheduling cost on a shared machine.
const UNNOTICED_MS: f64 = 5.0;
/// The limit of p99 where none is set (rails/rails#50450), in milliseconds.
const SLOWEST_MS: f64 = 1000.0;

/// The latency that must be kept, by every stack of a comparison alike: a slow one with a limit of its own would be granted
/// more than the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Within {
    /// For 99 of 100 requests, in milliseconds.
    P99(f64),
    /// The median of the quickest unloaded server in milliseconds; from it follows what the median may be.
    Unloaded(f64),
}

impl Within {
    /// The limit that was named, or the one that follows from the quickest of the unloaded servers. Those of the first
    /// searches decide, so that it is the same in all rounds; `None` while none is known.
    pub(super) fn of(find: &FindPeak, peaks: &[Peak]) -> Option<Self> {
        if let Some(p99) = find.p99 {
            return Some(Self::P99(p99.as_secs_f64() * 1000.0));
        }
        let known = peaks
            .iter()
            .filter_map(|peak| Some((peak.round, peak.unloaded_ms?)));
        let first = known.clone().map(|(round, _)| round).min()?;
        let of_first = known.filter(|(round, _)| *round == first);
        let quickest = of_first.map(|(_, unloaded_ms)| unloaded_ms);
        quickest.min_by(f64::total_cmp).map(Self::Unloaded)
    }

    /// Whether a server that takes so long with nothing else to do keeps it at no rate.
    pub(super) fn is_beyond(self, unloaded_ms: f64) -> bool {
        matches!(self, Self::Unloaded(quickest) if unloaded_ms > median_limit(quickest))
    }

    /// In words.
    pub(super) fn text(self) -> String {
        match self {
            Self::P99(limit) => format!("p99 within {limit:.0} ms"),
            Self::Unloaded(unloaded) => format!(
                "median within {:.1} ms (the quickest stack unloaded: {unloaded:.1} ms) and p99 within {SLOWEST_MS:.0} ms",
                median_limit(unloaded)
            ),
        }
    }

    /// The slowest that a single request may be on a server that has nothing else to do, in milliseconds.
    pub(super) fn median_ms(self) -> f64 {
        match self {
            Self::P99(limit) => limit,
            Self::Unloaded(unloaded) => median_limit(unloaded),
        }
    }

    fn fault(self, outcome: &Outcome) -> Option<String> {
        let (median, p99) = (outcome.latency.at(50.0), outcome.latency.at(99.0));
        let (value, limit, name) = match self {
            Self::P99(limit) => (p99, limit, "p99"),
            Self::Unloaded(_) if p99 > SLOWEST_MS => (p99, SLOWEST_MS, "p99"),
            Self::Unloaded(unloaded) => (median, median_limit(unloaded), "median latency"),
        };
        (value > limit).then(|| format!("{name} {value:.1} ms, over {limit:.1} ms"))
    }
}

/// What `outcome` says of a demanded `rate`.
pub(super) fn judge(rate: f64, outcome: &Outcome, within: Within) -> Step {
    let demanded = (outcome.demanded as f64).max(1.0);
    let errors = outcome.errors.total() as f64 / demanded;
    let answered = (outcome.good + outcome.late) as f64 / demanded;
    let why = if outcome.demanded == 0 {
        Some("nothing was demanded".to_owned())
    } else if errors > ERRORS {
        Some(format!("{:.2} % of the requests failed", errors * 100.0))
    } else if answered < ANSWERED {
        Some(format!(
            "{:.1} % of the requests were answered well",
            answered * 100.0
        ))
    } else if backlog_grew(&outcome.seconds) {
        Some("the backlog grew to the end".to_owned())
    } else {
        within.fault(outcome)
    };
    let client = outcome.generator.limit.as_ref().filter(|_| why.is_some());
    Step {
        rate,
        achieved: outcome.good_per_second(),
        errors,
        p99_ms: outcome.latency.percentile_ms(99.0),
        p50_ms: outcome.latency.percentile_ms(50.0),
        limit: if client.is_some() {
            Limit::Client
        } else {
            Limit::Neither
        },
        why: client
            .map(|reason| format!("the generator was the limit: {reason}"))
            .or(why),
        other_cores: 0.0,
        died: false,
    }
}

fn median_limit(unloaded_ms: f64) -> f64 {
    (unloaded_ms * SLOWER).max(unloaded_ms + UNNOTICED_MS)
}

/// Whether what was demanded and not ended yet became more over the load: the mean of its last third against that of
/// its first. Loads of fewer than three seconds are too short for that; searches refuse them.
fn backlog_grew(seconds: &[Second]) -> bool {
    let mut open = 0.0;
    let backlog: Vec<f64> = seconds
        .iter()
        .map(|second| {
            open += second.demanded as f64 - second.completed as f64 - second.errors as f64;
            open
        })
        .collect();
    let third = backlog.len() / 3;
    if third == 0 {
        return false;
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let growth = mean(&backlog[backlog.len() - third..]) - mean(&backlog[..third]);
    let demanded: u64 = seconds.iter().map(|second| second.demanded).sum();
    growth > (demanded as f64 * GROWTH).max(GROWTH_REQUESTS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use loadgen::outcome::{Errors, Generator};

    /// Ten seconds at 100 requests a second, all answered within `milliseconds`.
    fn held(milliseconds: u64) -> Outcome {
        let mut outcome = Outcome {
            elapsed_s: 10.0,
            demanded: 1000,
            sent: 1000,
            completed: 1000,
            good: 1000,
            seconds: (0..10).map(|_| second(100, 100)).collect(),
            ..Outcome::default()
        };
        for _ in 0..1000 {
            outcome.latency.record(Duration::from_millis(milliseconds));
        }
        outcome
    }

    fn second(demanded: u64, completed: u64) -> Second {
        Second {
            demanded,
            completed,
            good: completed,
            ..Second::default()
        }
    }

    fn why(outcome: &Outcome, within: Within) -> String {
        judge(100.0, outcome, within).why.unwrap_or_default()
    }

    #[test]
    fn a_rate_is_held_where_nothing_speaks_against_it() {
        let step = judge(100.0, &held(3), Within::P99(500.0));
        assert_eq!(step.why, None);
        assert_eq!(
            (step.rate, step.achieved, step.p99_ms),
            (100.0, 100.0, Some(3.001))
        );
        assert_eq!(why(&held(7), Within::Unloaded(3.0)), "");
        assert_eq!(why(&held(29), Within::Unloaded(20.0)), "");
    }

    #[test]
    fn the_quickest_unloaded_server_of_the_first_round_sets_the_limit_of_all() {
        let peak = |round, unloaded_ms| Peak {
            round,
            unloaded_ms,
            ..Peak::default()
        };
        let find = FindPeak::default();
        let peaks = [
            peak(1, Some(18.8)),
            peak(1, None),
            peak(1, Some(13.6)),
            peak(2, Some(9.0)),
        ];
        assert_eq!(Within::of(&find, &[]), None);
        let within = Within::of(&find, &peaks).unwrap();
        assert_eq!(within, Within::Unloaded(13.6));
        assert_eq!(
            within.text(),
            "median within 20.4 ms (the quickest stack unloaded: 13.6 ms) and p99 within 1000 ms"
        );
        assert!(!within.is_beyond(18.8) && within.is_beyond(20.5));
        let named = FindPeak {
            p99: Some(Duration::from_millis(500)),
            ..find
        };
        assert_eq!(Within::of(&named, &[]), Some(Within::P99(500.0)));
        assert!(!Within::P99(500.0).is_beyond(600.0));
    }

    #[test]
    fn each_part_of_the_criterion_has_its_reason() {
        let p99 = Within::P99(500.0);
        let mut failing = held(3);
        failing.errors = Errors {
            reset: 2,
            ..Errors::default()
        };
        assert_eq!(why(&failing, p99), "0.20 % of the requests failed");
        let mut late = held(3);
        late.good = 989;
        assert_eq!(why(&late, p99), "98.9 % of the requests were answered well");
        assert_eq!(why(&held(600), p99), "p99 600.1 ms, over 500.0 ms");
        assert_eq!(
            why(&held(31), Within::Unloaded(20.0)),
            "median latency 31.0 ms, over 30.0 ms"
        );
        assert_eq!(
            why(&held(1200), Within::Unloaded(900.0)),
            "p99 1200.1 ms, over 1000.0 ms"
        );
        late.late = 10;
        assert_eq!(why(&late, p99), "");
        let mut limited = held(600);
        limited.generator = Generator {
            limit: Some("lag".to_owned()),
            ..Generator::default()
        };
        let step = judge(100.0, &limited, p99);
        assert_eq!(step.limit, Limit::Client);
        assert_eq!(
            step.why.as_deref(),
            Some("the generator was the limit: lag")
        );
        limited.latency = held(3).latency;
        assert_eq!(judge(100.0, &limited, p99).why, None);
        assert_eq!(why(&Outcome::default(), p99), "nothing was demanded");
    }

    #[test]
    fn a_backlog_that_grows_is_seen_and_one_that_comes_and_goes_is_not() {
        let grows: Vec<Second> = (0..9).map(|_| second(1000, 985)).collect();
        assert!(backlog_grew(&grows));
        let stall: Vec<Second> = [1000, 200, 1800, 1000, 1000, 300, 1700, 1000, 1000]
            .map(|completed| second(1000, completed))
            .to_vec();
        assert!(!backlog_grew(&stall));
        assert!(!backlog_grew(&[second(100, 0)]));
    }
}
