//! Clauses that compare stacks: the best with the next, the last and the reference with the best.

use super::names::name;
use super::phrases::{comparison_with, value};
use crate::number::{differences, listed};
use compare::results::Results;
use compare::verdict::{Figure, Finding, Verdict};

/// An interval whose ends are further apart than this factor is too wide for a verdict.
const WIDE: f64 = 1.5;

/// `28 % more than Puma, the next best (95 % interval +24 to +32 %)`.
pub(super) fn against(
    results: &Results,
    finding: &Finding<'_>,
    first: &Figure<'_>,
    second: &Figure<'_>,
    among: &str,
) -> String {
    let other = name(results, second.stack);
    let ratio = finding
        .versus(first.stack, second.stack)
        .and_then(|versus| versus.ratio);
    let Some(ratio) = ratio else {
        return format!("before {other}");
    };
    let words = comparison_with(finding.measure, ratio.value);
    let interval = differences(ratio).map_or(String::new(), |ends| {
        format!(" (95\u{a0}% interval {ends})")
    });
    format!("{words} {other}, the next best{among}{interval}")
}

/// How uncertain a tie is: the interval of the ratio of two stacks, and whether their trials differ too much.
pub(super) fn doubt(finding: &Finding<'_>, unbeaten: &[&Figure<'_>]) -> String {
    let [first, .., last] = unbeaten else {
        return String::new();
    };
    let ratio = finding.versus(first.stack, last.stack);
    let Some(ratio) = ratio.and_then(|versus| versus.ratio) else {
        return String::new();
    };
    let interval = match (unbeaten.len(), differences(ratio)) {
        (2, Some(ends)) => format!(" (95\u{a0}% interval {ends})"),
        _ => String::new(),
    };
    let wide = ratio.high / ratio.low > WIDE;
    let advice = if wide {
        "; the trials differ too much among themselves for a verdict"
    } else {
        ""
    };
    format!("{interval}{advice}")
}

/// Compares the last in the ranking with the first; empty where the sentence has named it already.
pub(super) fn last(results: &Results, finding: &Finding<'_>, ranking: &[&Figure<'_>]) -> String {
    let [first, _, .., last] = ranking else {
        return String::new();
    };
    let versus = finding.versus(last.stack, first.stack);
    let Some(ratio) = versus
        .filter(|versus| versus.verdict == Verdict::Worse)
        .and_then(|v| v.ratio)
    else {
        return String::new();
    };
    let words = comparison_with(finding.measure, ratio.value);
    format!(
        " Last is {} with {}, {words} {}.",
        name(results, last.stack),
        value(finding.measure, last.estimate),
        name(results, first.stack)
    )
}

/// A tie of more than two stacks, by its best and its last value.
pub(super) fn no_clear_winner(
    results: &Results,
    finding: &Finding<'_>,
    ranking: &[&Figure<'_>],
    unbeaten: &[&Figure<'_>],
) -> String {
    let [first, .., tied] = unbeaten else {
        return String::new();
    };
    let [best, worst] = [first, tied].map(|figure| {
        let value = value(finding.measure, figure.estimate);
        format!("{} ({value})", name(results, figure.stack))
    });
    format!(
        "{} stacks from {best} to {worst} are too close to call{}.{}",
        unbeaten.len(),
        doubt(finding, unbeaten),
        last(results, finding, ranking) + &reference(results, finding, ranking, &[first, tied])
    )
}

/// The reference, which is the first stack of the comparison, compared with the best; empty where the sentence has `named`
/// it, or where it is the last in the ranking, which [`last`] names.
pub(super) fn reference(
    results: &Results,
    finding: &Finding<'_>,
    ranking: &[&Figure<'_>],
    named: &[&Figure<'_>],
) -> String {
    let own = results
        .stacks
        .first()
        .and_then(|stack| finding.of(&stack.id));
    let Some((own, best)) = own.zip(ranking.first()) else {
        return String::new();
    };
    let is_last = ranking.last().is_some_and(|last| last.stack == own.stack);
    let is_named = named.iter().any(|figure| figure.stack == own.stack)
        || (is_last && !last(results, finding, ranking).is_empty());
    if is_named {
        return String::new();
    }
    let versus = finding.versus(own.stack, best.stack);
    let compared = match versus {
        Some(versus) if versus.verdict == Verdict::Worse => versus.ratio.map(|ratio| {
            let words = comparison_with(finding.measure, ratio.value);
            format!(", {words} {}", name(results, best.stack))
        }),
        Some(versus) if versus.verdict == Verdict::TooClose => Some(format!(
            ", too close to {} to call",
            name(results, best.stack)
        )),
        _ => None,
    };
    format!(
        " {}, the reference, has {}{}.",
        name(results, own.stack),
        value(finding.measure, own.estimate),
        compared.unwrap_or_default()
    )
}

/// Stacks that do not rank although their figures look better than the best's.
pub(super) fn beyond(results: &Results, finding: &Finding<'_>, ranking: &[&Figure<'_>]) -> String {
    let Some(best) = ranking.first() else {
        return String::new();
    };
    let looks_better = |figure: &&Figure<'_>| {
        let more = figure.estimate.value > best.estimate.value;
        figure.rank.is_none() && more == finding.measure.more_is_better()
    };
    let hidden: Vec<String> = finding
        .figures
        .iter()
        .filter(looks_better)
        .map(|figure| {
            let value = value(finding.measure, figure.estimate);
            format!("{} ({value})", name(results, figure.stack))
        })
        .collect();
    if hidden.is_empty() {
        return String::new();
    }
    format!(
        " Not ranked, for reasons given below, although the figure looks better: {}.",
        listed(&hidden)
    )
}
