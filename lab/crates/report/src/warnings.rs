//! Warnings that a reader needs before relying on the figures, most important first. They are facts; nothing is judged here.

use std::collections::BTreeMap;

use super::number::{count, counted, figure, listed, percent};
use super::words::name;
use compare::results::{Results, Trial};
use compare::statistics::drift::Drift;
use compare::steady;
use compare::verdict::admission::CEILING;
use compare::verdict::contamination::DISTURBED_CORES;
use compare::verdict::{Cause, Judgement, ROUNDS};

/// A generator whose threads waited for a core for more than this share of the time measures its own waiting.
const WAITED: f64 = 0.05;

/// Beyond this share of what the generator can take, its own time is a part of what is measured.
const HEADROOM: f64 = 0.5;

/// A rate that changes by more than this share from one half of a load to the other is not steady.
const MOVED: f64 = 0.05;

/// A change must also exceed this many standard errors; chance alone does that in about 2 of 100 loads.
const STANDARD_ERRORS: f64 = 3.0;

/// Halves with fewer seconds than this are not compared.
const HALF_SECONDS: usize = 4;

/// All warnings of a comparison.
pub(super) fn warnings(results: &Results, judgement: &Judgement<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if results.quick {
        warnings.push("This was a quick run: its figures and verdicts are indicative only.".into());
    }
    if results.finished.is_none() {
        warnings.push(format!(
            "The comparison was stopped midway, after {}.",
            counted(results.trials.len(), "trial")
        ));
    }
    let rounds = results.trials.iter().map(|trial| trial.round).max();
    if rounds.is_some_and(|rounds| rounds < ROUNDS) {
        warnings.push(format!(
            "Fewer than {ROUNDS} rounds were run: nothing is known of how far two starts of the same stack differ."
        ));
    }
    warnings.extend(varying(results));
    warnings.extend(set_aside(results, judgement));
    if results.placement.is_shared() && !results.trials.is_empty() {
        warnings.push(
            "The load generator could run on the servers' cores: rates are lower than with cores of its own, for \
             every stack. CPU time per request does not contain it."
                .into(),
        );
    }
    warnings.extend(near_ceiling(results));
    warnings.extend(contradictions(results));
    warnings.extend(not_settled(results));
    warnings.extend(moved(results));
    warnings.extend(disturbed(results));
    warnings.extend(crashed_starts(results));
    warnings.extend(left_behind(results));
    warnings
}

/// Pages whose bodies were not compared.
fn varying(results: &Results) -> impl Iterator<Item = String> + '_ {
    results.varying.iter().map(|page| {
        let stacks = page.stacks.iter().map(|id| name(results, id).to_owned());
        let stacks: Vec<String> = stacks.collect();
        let compared = if page.length {
            "statuses, and lengths roughly"
        } else {
            "statuses alone"
        };
        format!(
            "{} had two different bodies under {}: the lab can't check that all stacks send the same page. It compared \
             {compared}.",
            page.name,
            listed(&stacks)
        )
    })
}

/// One line for each stack, load and cause.
fn set_aside(results: &Results, judgement: &Judgement<'_>) -> Vec<String> {
    type Group<'a> = (Option<&'a str>, &'a str, Cause);
    let mut groups: BTreeMap<Group<'_>, Vec<(usize, &str)>> = BTreeMap::new();
    for one in &judgement.set_aside {
        let key = (one.load.as_deref(), one.stack.as_str(), one.cause);
        groups
            .entry(key)
            .or_default()
            .push((one.round, &one.reason));
    }
    let lines = groups.into_iter().map(|((load, stack, cause), trials)| {
        let (what, all) = match load {
            Some(id) => (
                load_title(results, id).to_owned(),
                results
                    .trials
                    .iter()
                    .filter(|trial| trial.stack == stack && trial.load == id)
                    .count(),
            ),
            None => (
                "search for the largest rate".into(),
                results
                    .peaks
                    .iter()
                    .filter(|peak| peak.stack == stack)
                    .count(),
            ),
        };
        let verb = match cause {
            Cause::Failure => "failed",
            Cause::Errors | Cause::WrongResponses => "cannot count",
            Cause::Client => "cannot rank",
        };
        let rounds: Vec<String> = trials.iter().map(|(round, _)| round.to_string()).collect();
        let word = if rounds.len() == 1 { "round" } else { "rounds" };
        format!(
            "{}, {what}: {} of {all} {verb} ({word} {}): {}.",
            name(results, stack),
            trials.len(),
            listed(&rounds),
            trials[0].1.trim_end_matches(['.', ':'])
        )
    });
    lines.collect()
}

pub(super) fn load_title<'a>(results: &'a Results, id: &'a str) -> &'a str {
    let load = results.loads.iter().find(|load| load.id == id);
    load.map_or(id, |load| &load.title)
}

/// Trials whose rate came close to the generator's largest rate.
fn near_ceiling(results: &Results) -> Vec<String> {
    let lines = results.loads.iter().filter_map(|load| {
        let ceiling = load.ceiling.filter(|rate| *rate > 0.0)?;
        // Above that the trial does not rank, and the list of excluded trials has it.
        let near = |trial: &Trial| {
            let share = trial.outcome.good_per_second() / ceiling;
            share > HEADROOM && share <= CEILING
        };
        let parts = by_stack(results, Some(&load.id), near);
        (!parts.is_empty()).then(|| {
            format!(
                "{}: the load generator can take {} responses a second at most, and more than {} of that were reached \
                 by {}. These may be faster than was measured.",
                load.title,
                figure(ceiling),
                percent(HEADROOM),
                listed(&parts)
            )
        })
    });
    lines.collect()
}

/// Trials whose figures contradict each other.
fn contradictions(results: &Results) -> Option<String> {
    let parts = by_stack(results, None, |trial| {
        trial.outcome.contradiction().is_some()
    });
    (!parts.is_empty()).then(|| {
        format!(
            "Requests per second times mean latency is not the number of requests in flight (Little's law): {}. One of \
             these figures is wrong; do not rely on such trials.",
            listed(&parts)
        )
    })
}

/// Warm-ups after which rate or latency still changed, and those that were too short to judge.
fn not_settled(results: &Results) -> Vec<String> {
    let short = |trial: &Trial| steady::judged(&trial.warm_up).len() < steady::SECONDS;
    let open = |trial: &Trial| !trial.warm_up.medians_ms.is_empty();
    let too_short = by_stack(results, None, |trial| !settled(trial) && short(trial));
    let mut lines = Vec::new();
    for (what, by_latency) in [("rate", false), ("median latency", true)] {
        let moving = by_stack(results, None, |trial| {
            !settled(trial) && !short(trial) && open(trial) == by_latency
        });
        if !moving.is_empty() {
            lines.push(format!(
                "The {what} still rose or fell when the warm-up was over: {}.",
                listed(&moving)
            ));
        }
    }
    if !too_short.is_empty() {
        lines.push(format!(
            "The warm-up had fewer than {} seconds, too few to judge whether the server was steady: {}.",
            steady::SECONDS,
            listed(&too_short)
        ));
    }
    lines
}

/// Closed loops whose rate changed between the first and the second half by more than chance explains.
fn moved(results: &Results) -> Option<String> {
    let open: Vec<&str> = results
        .loads
        .iter()
        .filter(|load| load.open)
        .map(|load| load.id.as_str())
        .collect();
    let parts = by_stack(results, None, |trial| {
        let rates = trial.outcome.rates();
        let (first, second) = rates.split_at(rates.len() / 2);
        let drift = Drift::between(first, second).filter(|_| first.len() >= HALF_SECONDS);
        !open.contains(&trial.load.as_str())
            && drift
                .is_some_and(|drift| drift.change.abs() > MOVED.max(STANDARD_ERRORS * drift.error))
    });
    (!parts.is_empty()).then(|| {
        format!(
            "From the first half of the load to the second the rate rose or fell by more than {}, and by more than it \
             scatters: {}.",
            percent(MOVED),
            listed(&parts)
        )
    })
}

/// Whether the warm-up ended steady: by the comparison's own rule, or by today's.
pub(super) fn settled(trial: &Trial) -> bool {
    trial.warm_up.settled || steady::is_steady(steady::judged(&trial.warm_up))
}

/// With more stacks than this, one part stands for all of them where every trial is affected.
const NAMED_STACKS: usize = 4;

/// `Puma in 2 of 5 trials`, for each stack with such a trial, or one part for all stacks. `load` limits it to the trials of
/// that load.
fn by_stack(results: &Results, load: Option<&str>, holds: impl Fn(&Trial) -> bool) -> Vec<String> {
    let measured = |trial: &&Trial| {
        let wanted = load.is_none_or(|load| trial.load == load);
        wanted && trial.failure.is_none()
    };
    let measured: Vec<&Trial> = results.trials.iter().filter(measured).collect();
    let many = results.stacks.len() > NAMED_STACKS && !measured.is_empty();
    if many && measured.iter().all(|trial| holds(trial)) {
        return vec![format!("all {}", counted(measured.len(), "trial"))];
    }
    let parts = results.stacks.iter().filter_map(|stack| {
        let of_stack = |trial: &&&Trial| trial.stack == stack.id;
        let trials: Vec<&&Trial> = measured.iter().filter(of_stack).collect();
        let number = trials.iter().filter(|trial| holds(trial)).count();
        (number > 0).then(|| {
            format!(
                "{} in {number} of {}",
                name(results, &stack.id),
                counted(trials.len(), "trial")
            )
        })
    });
    parts.collect()
}

fn disturbed(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    let others = results.trials.iter().map(|trial| trial.other_cores);
    let disturbed: Vec<f64> = others.filter(|cores| *cores > DISTURBED_CORES).collect();
    let most = disturbed.iter().copied().fold(0.0, f64::max);
    if !disturbed.is_empty() {
        lines.push(format!(
            "Something else on the machine used more than {DISTURBED_CORES} cores in {} of {}, at most {}.",
            count(disturbed.len() as u64),
            counted(results.trials.len(), "trial"),
            figure(most)
        ));
    }
    let waited = results
        .trials
        .iter()
        .map(|trial| trial.outcome.generator.waited);
    let waited: Vec<f64> = waited.filter(|share| *share > WAITED).collect();
    let most = waited.iter().copied().fold(0.0, f64::max);
    if !waited.is_empty() {
        lines.push(format!(
            "The load generator waited for a core itself for more than {} of the time in {} of {}, at most {}: \
             latencies contain that.",
            percent(WAITED),
            count(waited.len() as u64),
            counted(results.trials.len(), "trial"),
            percent(most)
        ));
    }
    lines
}

fn crashed_starts(results: &Results) -> Option<String> {
    let parts = by_stack(results, None, |trial| trial.crashed_start.is_some());
    (!parts.is_empty()).then(|| {
        format!(
            "A process crashed at the start of a stack, which was started once more: {}.",
            listed(&parts)
        )
    })
}

fn left_behind(results: &Results) -> Option<String> {
    let parts = by_stack(results, None, |trial| trial.left_behind > 0);
    (!parts.is_empty()).then(|| {
        format!(
            "Processes outlived the stop and had to be killed: {}.",
            listed(&parts)
        )
    })
}
