//! Two comparisons of the same stacks, made at different times: what changed from one to the other, and how sure that is.
//! Their rounds have nothing in common, so the interval is that of two independent samples.

use super::{NOISE, ROUNDS, Verdict, judge, verdict};
use crate::results::{Load, Results};
use crate::statistics::Estimate;
use crate::store::difference;
use crate::verdict::Measure;

/// One measure of one stack under one load, in both comparisons.
#[derive(Debug, Clone)]
pub struct Change {
    /// The stack's id.
    pub stack: String,
    /// The load's title; `None` for the largest rate.
    pub load: Option<String>,
    /// What was measured.
    pub measure: Measure,
    /// In the first comparison.
    pub before: Estimate,
    /// In the second one.
    pub after: Estimate,
    /// The second as a multiple of the first.
    pub ratio: Estimate,
    /// What the second is.
    pub verdict: Verdict,
}

/// All measures that both comparisons have, in the order of the first: by load, then by stack.
pub fn changes(before: &Results, after: &Results) -> Vec<Change> {
    let (first, second) = (judge(before), judge(after));
    let mut changes = Vec::new();
    for finding in &first.findings {
        let load = finding.load.map(|load| load.id.as_str());
        let Some(other) = second.finding(finding.measure, load) else {
            continue;
        };
        for own in &finding.figures {
            let Some(now) = other.of(own.stack) else {
                continue;
            };
            let ratio = now.sample.ratio_to_independent(&own.sample);
            let rounds = own.sample.rounds().len().min(now.sample.rounds().len());
            let ranks = own.rank.is_some() && now.rank.is_some();
            let clean = !finding.contaminated && !other.contaminated;
            let grain = own.grain.max(now.grain);
            changes.push(Change {
                stack: own.stack.to_owned(),
                load: finding.load.map(|load| load.title.clone()),
                measure: finding.measure,
                before: own.estimate,
                after: now.estimate,
                ratio,
                verdict: match ranks && clean && rounds >= ROUNDS {
                    true => verdict(ratio, NOISE.max(grain), finding.measure.more_is_better()),
                    false => Verdict::Unknown,
                },
            });
        }
    }
    // Stable: the measures of a stack stay in their order.
    let stacks: Vec<&str> = before
        .stacks
        .iter()
        .map(|stack| stack.id.as_str())
        .collect();
    let loads: Vec<&str> = before
        .loads
        .iter()
        .map(|load| load.title.as_str())
        .collect();
    changes.sort_by_key(|change| {
        let load = change.load.as_deref();
        let load = load.map_or(loads.len(), |title| {
            loads.iter().take_while(|other| **other != title).count()
        });
        let stack = stacks.iter().position(|id| *id == change.stack);
        (load, stack)
    });
    changes
}

/// The conditions that differ between the two comparisons, a line for each: such a difference may be the cause of a change.
pub fn conditions(before: &Results, after: &Results) -> Vec<String> {
    // The generator's largest rate is measured again each time.
    let loads = |results: &Results| -> Vec<Load> {
        let plain = |load: &Load| Load {
            ceiling: None,
            ..load.clone()
        };
        results.loads.iter().map(plain).collect()
    };
    let lasting = |results: &Results| results.machine.lasting();
    let parts = [
        (
            "the machine",
            difference(&lasting(before).facts, &lasting(after).facts),
        ),
        (
            "a version",
            difference(&before.machine.versions, &after.machine.versions),
        ),
        ("the cores", difference(&before.placement, &after.placement)),
        (
            "the application",
            difference(&before.application, &after.application),
        ),
        ("a stack", difference(&before.stacks, &after.stacks)),
        ("a load", difference(&loads(before), &loads(after))),
    ];
    let differing = parts.into_iter().filter_map(|(what, difference)| {
        let (place, first, second) = difference.ok()??;
        Some(format!("{what} differs ({place}): {first} and {second}"))
    });
    differing.collect()
}
