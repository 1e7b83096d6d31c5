//! Which trials count. A trial that failed, that had too many errors, or whose generator was the limit does not describe
//! the server: it is set aside with its reason and never ranks.

use crate::results::{Limit, Load, Peak, Trial};
use loadgen::outcome::{Errors, Outcome};

/// More failed requests than this share of the demanded ones set a trial aside.
pub const ERRORS: f64 = 0.001;

/// A rate beyond this share of what the generator can take at all is the generator's own. From half of it on its time is a
/// part of what is measured, which is a warning.
pub const CEILING: f64 = 0.9;

/// A trial or search that does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The stack's id.
    pub stack: String,
    /// The load's id; `None` for a search for the largest rate.
    pub load: Option<String>,
    /// Its round.
    pub round: usize,
    /// What kind of reason it is.
    pub cause: Cause,
    /// Why, in words, on one line.
    pub reason: String,
}

/// Why a trial does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It gave no figures.
    Failure,
    /// Too many requests failed.
    Errors,
    /// Too many responses were not what was expected.
    WrongResponses,
    /// The generator was the limit.
    Client,
}

/// Why a trial does not count; `None` where it does.
pub(super) fn refusal(trial: &Trial, load: Option<&Load>) -> Option<(Cause, String)> {
    let outcome = &trial.outcome;
    if let Some(failure) = &trial.failure {
        return Some((Cause::Failure, first_line(failure)));
    }
    if outcome.demanded == 0 || outcome.elapsed_s <= 0.0 {
        return Some((Cause::Failure, "nothing was sent".into()));
    }
    if outcome.errors.no_address > 0 || outcome.errors.no_descriptor > 0 {
        let reason = "the generator had no local port or descriptor left";
        return Some((Cause::Client, reason.into()));
    }
    let wrong = wrong_responses(outcome);
    let failed = outcome.errors.total() - outcome.errors.unexpected - cut_off(outcome, load);
    let share = (wrong + failed) as f64 / outcome.demanded as f64;
    if share > ERRORS {
        let percent = share * 100.0;
        return Some(if wrong > failed {
            let reason = format!(
                "{percent:.2} % of its responses were wrong: {}",
                statuses(outcome)
            );
            (Cause::WrongResponses, reason)
        } else {
            let kinds = kinds(outcome.errors).into_iter();
            let kinds: Vec<String> = kinds
                .map(|(count, name)| format!("{count} {name}"))
                .collect();
            let reason = format!(
                "{percent:.2} % of its requests failed: {}",
                kinds.join(", ")
            );
            (Cause::Errors, reason)
        });
    }
    let limit = outcome.generator.limit.as_deref().map(first_line);
    let limit = limit.or_else(|| at_ceiling(outcome, load?.ceiling?));
    let limit =
        limit.or_else(|| (trial.limit == Limit::Client).then(|| "it had no more to give".into()));
    limit.map(|reason| {
        let reason = format!("the generator was the limit: {reason}");
        (Cause::Client, reason)
    })
}

/// What limited a trial under its load: what was recorded, or the generator where the rate is at its ceiling.
pub fn limit(trial: &Trial, load: Option<&Load>) -> Limit {
    let ceiling = load.and_then(|load| load.ceiling);
    let at_ceiling = ceiling.and_then(|ceiling| at_ceiling(&trial.outcome, ceiling));
    at_ceiling.map_or(trial.limit, |_| Limit::Client)
}

/// Whether a rate is close to the most that the generator can take of this load from any server.
fn at_ceiling(outcome: &Outcome, ceiling: f64) -> Option<String> {
    let share = outcome.completed as f64 / outcome.elapsed_s / ceiling;
    (share > CEILING && ceiling > 0.0).then(|| {
        format!(
            "{:.0} % of the {ceiling:.0} responses a second that it can take at all",
            share * 100.0
        )
    })
}

/// The same of a search for the largest rate.
pub(super) fn refusal_of_peak(peak: &Peak) -> Option<(Cause, String)> {
    if let Some(failure) = &peak.failure {
        Some((Cause::Failure, first_line(failure)))
    } else if !peak.finished {
        Some((Cause::Failure, "the search was stopped midway".into()))
    } else if peak.last_good <= 0.0 {
        let alone = peak.unloaded_ms.filter(|_| peak.steps.is_empty());
        let alone = alone.map_or(String::new(), |median| {
            format!(": one request after the other takes {median:.1} ms, beyond the limit of all")
        });
        Some((Cause::Errors, format!("no rate was held{alone}")))
    } else if peak.first_bad.is_none() {
        let reason = format!(
            "the generator's own limit came first, at {:.0} requests/s",
            peak.last_good
        );
        Some((Cause::Client, reason))
    } else {
        None
    }
}

/// Whole responses that are not what was expected, whether the load knew the body or only the status.
fn wrong_responses(outcome: &Outcome) -> u64 {
    let not_good = outcome.completed.saturating_sub(outcome.good);
    not_good.max(outcome.errors.unexpected)
}

/// Requests without an answer only because the load ended: as many as are in flight at any moment.
fn cut_off(outcome: &Outcome, load: Option<&Load>) -> u64 {
    let usual = if load.is_some_and(|load| load.open) {
        10 + (2.0 * outcome.in_flight_s / outcome.elapsed_s) as u64
    } else {
        outcome.peak_in_flight
    };
    outcome.errors.unanswered.min(usual)
}

/// The errors that there were, by kind, in words, largest first.
pub fn kinds(errors: Errors) -> Vec<(u64, &'static str)> {
    let mut kinds = vec![
        (errors.connect_refused, "connections refused"),
        (errors.connect_timeout, "connects timed out"),
        (errors.no_address, "without a local port"),
        (errors.no_descriptor, "without a descriptor"),
        (errors.reset, "connections reset"),
        (errors.closed, "connections closed without a response"),
        (errors.short_body, "bodies cut short"),
        (errors.timeout, "timed out"),
        (errors.invalid, "no HTTP"),
        (errors.unexpected, "wrong responses"),
        (errors.unanswered, "unanswered at the end"),
    ];
    kinds.retain(|(count, _)| *count > 0);
    kinds.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    kinds
}

fn statuses(outcome: &Outcome) -> String {
    let wrong = outcome
        .statuses
        .iter()
        .filter(|(status, _)| !(200..400).contains(*status));
    let words: Vec<String> = wrong
        .map(|(status, count)| format!("{count} with status {status}"))
        .collect();
    if words.is_empty() {
        "another body or status than the other stacks give".into()
    } else {
        words.join(", ")
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}
