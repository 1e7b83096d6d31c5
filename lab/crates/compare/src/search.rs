//! One step of a search for the largest rate: a fresh server, a rate, whether it was held; and what happens beyond the
//! peak. Which rate comes next is [`super::peak`]'s to say.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, ensure};

use super::criterion::{self, Within};
use super::lab::{FindPeak, Participant};
use super::meter;
use super::peak::{self, Search};
use super::progress::first_line;
use super::results::{Overload, Peak, Step, Trial};
use super::trial_context::{Server, TrialContext};
use loadgen::plan::{Arrivals, ConnectionUse, End, Mode};
use loadgen::run;

/// The first rate is this share of what a closed loop got out of the server: far from the peak, yet not too far.
const FIRST: f64 = 0.25;
/// Beyond the peak.
const OVERLOAD: f64 = 1.5;
/// How long the unloaded server is measured, with one request after the other.
const UNLOADED: Duration = Duration::from_secs(1);
/// How long a server has to recover after an overload.
const RECOVERY: Duration = Duration::from_secs(60);
/// Requests that must all be quick for a server to have recovered.
const QUICK_REQUESTS: u64 = 5;

/// What comes next in `peak`'s search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next {
    /// What the server takes with next to nothing to do: from that of all stacks follows what a rate may take.
    Unloaded,
    /// A rate.
    Rate(f64),
    /// What is beyond the peak.
    Overload,
    /// The search is complete.
    Done,
}

/// What comes next where a rate must keep `within`; nothing is known of that before the first server was asked.
pub(super) fn next(find: &FindPeak, peak: &Peak, within: Option<Within>) -> Next {
    if peak.finished {
        return Next::Done;
    }
    let Some((unloaded_ms, within)) = peak.unloaded_ms.zip(within) else {
        return Next::Unloaded;
    };
    if within.is_beyond(unloaded_ms) {
        return Next::Done;
    }
    match search(find, peak).next() {
        Some(rate) => Next::Rate(rate),
        None if find.overload
            && peak.overload.is_none()
            && search(find, peak).bracket().0 > 0.0 =>
        {
            Next::Overload
        }
        None => Next::Done,
    }
}

/// Asks a fresh, warm server one request after the other, and writes down in `peak` how long they took and which rate is to
/// be tried first. Gives the raw data.
///
/// # Errors
/// The server gave no figures; with the end of its log.
pub(super) fn unloaded(
    context: &TrialContext<'_>,
    participant: &Participant,
    peak: &mut Peak,
    seed: u64,
    name: &str,
) -> Result<Trial> {
    let mut server = warm(context, participant, seed, name)?;
    let mode = Mode::Closed {
        connections: 1,
        end: End::After(UNLOADED),
    };
    let plan = context.plan(&server, mode, ConnectionUse::KeepAlive, 0);
    let measured = server.measure(context, &plan)?;
    ensure!(
        measured.outcome.good > 0,
        "no good answer from the unloaded server"
    );
    peak.unloaded_ms = Some(measured.outcome.latency.at(50.0));
    peak.start = first_rate(&server.trial.warm_up.rates);
    let mut trial = server.stop();
    trial.outcome = measured.outcome;
    Ok(trial)
}

/// Takes the next step of a search on a fresh server and writes it down in `peak`. Gives the raw data.
///
/// # Errors
/// The server gave no figures; with the end of its log.
pub(super) fn step(
    context: &TrialContext<'_>,
    participant: &Participant,
    find: &FindPeak,
    within: Within,
    peak: &mut Peak,
    seed: u64,
    name: &str,
) -> Result<Trial> {
    let mut server = warm(context, participant, seed, name)?;
    peak.criterion = within.text();
    let (rate, is_overload) = match next(find, peak, Some(within)) {
        Next::Rate(rate) => (rate, false),
        _ => (peak::round(search(find, peak).bracket().0 * OVERLOAD), true),
    };
    let plan = context.plan(
        &server,
        open(rate, context.lab.duration),
        ConnectionUse::KeepAlive,
        seed,
    );
    let found = server.measure(context, &plan).and_then(|measured| {
        let recovered_s = is_overload.then(|| recovery(context, &mut server, within, peak));
        Ok((measured, recovered_s.transpose()?))
    });
    let (measured, recovered_s) = match found {
        Ok(found) => found,
        Err(death) if server.running.still_up().is_err() => {
            died(peak, rate, is_overload, &death);
            return Ok(Trial {
                failure: Some(format!("{death:#}")),
                ..server.trial
            });
        }
        Err(error) => return Err(error),
    };
    let mut trial = server.stop();
    trial.limit = meter::limit(
        &measured,
        &context.placement,
        context.cores,
        context.size(participant).0,
    );
    trial.outcome = measured.outcome;
    if let Some(recovered_s) = recovered_s {
        peak.overload = Some(Overload {
            rate,
            outcome: trial.outcome.clone(),
            recovered_s,
            died: None,
        });
    } else {
        peak.steps.push(Step {
            other_cores: measured.other_cores,
            ..criterion::judge(rate, &trial.outcome, within)
        });
    }
    Ok(trial)
}

/// Records that the server ended under `rate`: it was not held. The results at other rates remain.
fn died(peak: &mut Peak, rate: f64, is_overload: bool, death: &Error) {
    let how = death.root_cause().to_string();
    let why = format!("the server died: {}", first_line(&how));
    if is_overload {
        peak.overload = Some(Overload {
            rate,
            died: Some(why),
            ..Overload::default()
        });
    } else {
        peak.steps.push(Step {
            rate,
            errors: 1.0,
            why: Some(why),
            died: true,
            ..Step::default()
        });
    }
}

/// A fresh server after its warm-up.
fn warm(
    context: &TrialContext<'_>,
    participant: &Participant,
    seed: u64,
    name: &str,
) -> Result<Server> {
    let mut server = context.start(participant, name)?;
    let warm_up = context.busy(&server, participant, context.lab.warm_up, !seed);
    server.warm_up(context, &warm_up)?;
    Ok(server)
}

/// The state of the search: the largest rate held, the smallest that was not.
pub(super) fn bracket(find: &FindPeak, peak: &Peak) -> (f64, Option<f64>) {
    search(find, peak).bracket()
}

fn search<'a>(find: &FindPeak, peak: &'a Peak) -> Search<'a> {
    Search {
        start: peak.start,
        precision: find.precision,
        steps: &peak.steps,
    }
}

/// From the good responses of each second of a closed loop.
fn first_rate(rates: &[f64]) -> f64 {
    let last = rates.last().copied().unwrap_or(0.0);
    peak::round((last * FIRST).max(1.0))
}

fn open(rate: f64, duration: Duration) -> Mode {
    Mode::Open {
        rate,
        arrivals: Arrivals::Poisson,
        duration,
        max_connections: super::lab::MAX_CONNECTIONS,
    }
}

/// Seconds until requests are answered as quickly as before: in a row, none slower than what 99 of 100 took at the
/// largest rate that was held.
fn recovery(
    context: &TrialContext<'_>,
    server: &mut Server,
    within: Within,
    peak: &Peak,
) -> Result<Option<f64>> {
    let held = peak.steps.iter().filter(|step| step.why.is_none());
    let best = held.max_by(|a, b| a.rate.total_cmp(&b.rate));
    let quick_ms = best
        .and_then(|step| step.p99_ms)
        .unwrap_or(0.0)
        .max(within.median_ms());
    let mode = Mode::Closed {
        connections: 1,
        end: End::Requests(QUICK_REQUESTS),
    };
    let plan = context.plan(server, mode, ConnectionUse::KeepAlive, 0);
    let begin = Instant::now();
    while begin.elapsed() < RECOVERY && !context.stop.load(Ordering::Relaxed) {
        let at = begin.elapsed().as_secs_f64();
        let outcome = run(&plan, &mut |_| {}, context.stop)?;
        if outcome.good == QUICK_REQUESTS && outcome.latency.max_ms() <= quick_ms {
            return Ok(Some(at));
        }
        server.running.still_up()?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    const WITHIN: Option<Within> = Some(Within::Unloaded(2.0));

    fn peak(steps: &[(f64, bool)]) -> Peak {
        Peak {
            unloaded_ms: Some(3.0),
            start: 100.0,
            steps: steps
                .iter()
                .map(|(rate, held)| Step {
                    rate: *rate,
                    why: (!held).then(|| "too slow".to_owned()),
                    ..Step::default()
                })
                .collect(),
            ..Peak::default()
        }
    }

    #[test]
    fn a_search_ends_with_what_is_beyond_the_peak() {
        let find = FindPeak::default();
        let check = |peak: &Peak, expect: Next| assert_eq!(next(&find, peak, WITHIN), expect);
        check(&peak(&[]), Next::Rate(100.0));
        check(&peak(&[(100.0, true)]), Next::Rate(200.0));
        let mut over = peak(&[(100.0, true), (104.0, false), (104.0, false)]);
        check(&over, Next::Overload);
        over.overload = Some(Overload::default());
        check(&over, Next::Done);
        check(&peak(&[(1.0, false)]), Next::Done);
        let without = FindPeak {
            overload: false,
            ..find.clone()
        };
        over.overload = None;
        assert_eq!(next(&without, &over, WITHIN), Next::Done);
    }

    #[test]
    fn a_search_begins_with_the_unloaded_server_and_ends_there_where_that_is_too_slow() {
        let find = FindPeak::default();
        let mut slow = peak(&[]);
        slow.unloaded_ms = None;
        assert_eq!(next(&find, &slow, WITHIN), Next::Unloaded);
        assert_eq!(next(&find, &peak(&[]), None), Next::Unloaded);
        slow.unloaded_ms = Some(7.5);
        assert_eq!(next(&find, &slow, WITHIN), Next::Done);
    }

    #[test]
    fn a_server_that_dies_has_not_held_the_rate_and_the_search_goes_on() {
        let find = FindPeak::default();
        let death = anyhow!("thin ended (exit status: 3)\nout of memory").context("under load");
        let mut peak = peak(&[(100.0, true), (200.0, true)]);
        died(&mut peak, 400.0, false, &death);
        let why = peak.steps[2].why.as_deref();
        assert_eq!(why, Some("the server died: thin ended (exit status: 3)"));
        assert_eq!(next(&find, &peak, WITHIN), Next::Rate(300.0));
        assert_eq!(bracket(&find, &peak), (200.0, Some(400.0)));
        died(&mut peak, 206.0, false, &death);
        died(&mut peak, 206.0, false, &death);
        assert_eq!(next(&find, &peak, WITHIN), Next::Overload);
        died(&mut peak, 300.0, true, &death);
        assert!(peak.overload.as_ref().is_some_and(|one| one.died.is_some()));
        assert_eq!(next(&find, &peak, WITHIN), Next::Done);
        assert_eq!(bracket(&find, &peak), (200.0, Some(206.0)));
    }

    #[test]
    fn the_first_rate_is_far_from_what_a_closed_loop_got() {
        assert_eq!(first_rate(&[10.0, 4321.0]), 1080.0);
        assert_eq!(first_rate(&[]), 1.0);
    }
}
