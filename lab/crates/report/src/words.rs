//! Verdicts as sentences, for readers who do not know the lab. Terminal and page show the same sentences.

use serde::Serialize;

use super::number::{counted, differences, listed, percent};
use compare::results::{Limit, Results, Stack, Trial};
use compare::verdict::{Figure, Finding, Judgement, Measure, Verdict, admission};

mod phrases;

pub(super) use phrases::short;
use phrases::{comparison_with, value, values, winner_phrase};

/// An interval whose ends are further apart than this factor is too wide for a verdict.
const WIDE: f64 = 1.5;

/// A sentence with an emphasised beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Sentence {
    pub(super) strong: String,
    pub(super) rest: String,
}

impl Sentence {
    fn new(strong: impl Into<String>, rest: impl Into<String>) -> Self {
        Self {
            strong: strong.into(),
            rest: rest.into(),
        }
    }
}

/// What people call a stack.
pub(super) fn name<'a>(results: &'a Results, id: &'a str) -> &'a str {
    let stack = results.stacks.iter().find(|stack| stack.id == id);
    stack.map_or(id, |stack| {
        if stack.name.is_empty() {
            id
        } else {
            &stack.name
        }
    })
}

/// The index of a stack's colour.
pub(super) fn colour(results: &Results, id: &str) -> usize {
    let place = results.stacks.iter().position(|stack| stack.id == id);
    place.unwrap_or_default()
}

/// The answer of the comparison, the most important sentence first.
pub(super) fn answer(results: &Results, judgement: &Judgement<'_>) -> Vec<Sentence> {
    let Some(headline) = judgement.headline() else {
        return vec![Sentence::new("Nothing was measured.", "")];
    };
    let mut sentences = vec![lead(results, headline)];
    let load = headline.load.map(|load| load.id.as_str());
    let mut others = vec![(Measure::Peak, None)];
    if let Some(load) = load {
        let measures = judgement.tail(load).iter().copied();
        let measures = measures.chain([Measure::Cpu, Measure::Memory]);
        others.extend(measures.map(|measure| (measure, Some(load))));
    }
    for (measure, load) in others {
        let finding = judgement.finding(measure, load);
        let finding = finding.filter(|finding| finding.measure != headline.measure);
        sentences.extend(finding.and_then(|finding| standing(results, finding)));
    }
    sentences.extend(
        load.into_iter()
            .flat_map(|load| trade_offs(results, judgement, load)),
    );
    sentences.extend(limits(results));
    sentences
}

/// The stacks whose median and slow requests differ from the reference's in opposite directions.
fn trade_offs(results: &Results, judgement: &Judgement<'_>, load: &str) -> Vec<Sentence> {
    let finding = |measure| judgement.finding(measure, Some(load));
    let tail = judgement.tail(load).first().copied();
    let Some((median, tail)) = finding(Measure::P50).zip(tail.and_then(finding)) else {
        return Vec::new();
    };
    let [reference, others @ ..] = results.stacks.as_slice() else {
        return Vec::new();
    };
    let sentence = |stack: &Stack| {
        let [median, tail] = [median, tail].map(|finding| {
            let versus = finding.versus(&stack.id, &reference.id)?;
            Some((finding.measure, versus.ratio?, versus.verdict))
        });
        let (median, tail) = median.zip(tail)?;
        let words = match (median.2, tail.2) {
            (Verdict::Better, Verdict::Worse) => "Faster median, longer tail:",
            (Verdict::Worse, Verdict::Better) => "Slower median, shorter tail:",
            _ => return None,
        };
        let [median, tail] = [median, tail].map(|(measure, ratio, verdict)| {
            format!("{} {}", measure.title(), short(measure, ratio, verdict))
        });
        let names = [stack, reference].map(|stack| name(results, &stack.id));
        let rest = format!(
            " {} compared with {}, {median} and {tail}.",
            names[0], names[1]
        );
        Some(Sentence::new(words, rest))
    };
    others.iter().filter_map(sentence).collect()
}

/// The first sentence of the page.
fn lead(results: &Results, finding: &Finding<'_>) -> Sentence {
    let measure = finding.measure;
    let ranking = finding.ranking();
    let load = finding
        .load
        .map_or(String::new(), |load| format!(" ({})", load.title));
    let unbeaten = best(&ranking);
    let without = without_figure(results, finding);
    let among = if without.is_empty() {
        ""
    } else {
        " of those with a figure"
    };
    let mut sentence = match (ranking.as_slice(), unbeaten.as_slice()) {
        ([], _) => Sentence::new(
            "There is no ranking.",
            " No stack has enough trials that describe it; what was set aside and why is listed below.",
        ),
        ([only], _) => Sentence::new(
            format!("{} alone could be ranked", name(results, only.stack)),
            format!(": {}{load}.", value(measure, only.estimate)),
        ),
        ([first, second, ..], _) if is_unknown(finding, first, second) => Sentence::new(
            match finding.contaminated {
                true => "There is no verdict, because other programs disturbed too many trials.",
                false => "There are too few rounds for a verdict.",
            },
            format!(
                " In them {} was ahead with {}{load}.{}",
                name(results, first.stack),
                value(measure, first.estimate),
                reference(results, finding, &ranking, &[first])
            ),
        ),
        ([first, second, ..], [_]) => Sentence::new(
            format!(
                "{} {}{among}",
                name(results, first.stack),
                winner_phrase(measure)
            ),
            format!(
                ": {}{load}, {}.{}",
                value(measure, first.estimate),
                against(results, finding, first, second, among),
                last(results, finding, &ranking)
                    + &reference(results, finding, &ranking, &[first, second])
            ),
        ),
        (_, unbeaten @ [_, _]) => Sentence::new(
            format!("{} are too close to call", names(results, unbeaten)),
            format!(
                " by {}{load}: {}{}.{}",
                measure.title(),
                values(measure, unbeaten),
                doubt(finding, unbeaten),
                last(results, finding, &ranking) + &reference(results, finding, &ranking, unbeaten)
            ),
        ),
        (_, unbeaten) => Sentence::new(
            "There is no clear winner",
            format!(
                " by {}{load}: {}",
                measure.title(),
                no_clear_winner(results, finding, &ranking, unbeaten)
            ),
        ),
    };
    sentence.rest.push_str(&beyond(results, finding, &ranking));
    sentence.rest.push_str(&absent(results, measure, &without));
    sentence
}

/// One line on a measure that is not the headline; `None` where no stack ranks.
fn standing(results: &Results, finding: &Finding<'_>) -> Option<Sentence> {
    let measure = finding.measure;
    let ranking = finding.ranking();
    let unbeaten = best(&ranking);
    let title = capitalised(measure.title());
    let without = without_figure(results, finding);
    let among = if without.is_empty() {
        ""
    } else {
        " of those with a figure"
    };
    let rest = match (ranking.as_slice(), unbeaten.as_slice()) {
        ([], _) => return None,
        ([only], _) => format!(
            "{} {}{}.",
            name(results, only.stack),
            value(measure, only.estimate),
            match finding.figures.len() {
                1 => "",
                _ => "; no other stack ranks",
            }
        ),
        ([first, second, ..], _) if is_unknown(finding, first, second) => format!(
            "{} was ahead with {}, {}.{}",
            name(results, first.stack),
            value(measure, first.estimate),
            match finding.contaminated {
                true => "without a verdict",
                false => "in too few rounds for a verdict",
            },
            reference(results, finding, &ranking, &[first])
        ),
        ([first, second, ..], [_]) => format!(
            "{} is best{among} with {}, {}.{}",
            name(results, first.stack),
            value(measure, first.estimate),
            against(results, finding, first, second, among),
            last(results, finding, &ranking)
                + &reference(results, finding, &ranking, &[first, second])
        ),
        (_, unbeaten @ [_, _]) => format!(
            "{} are too close to call with {}{}.{}",
            names(results, unbeaten),
            values(measure, unbeaten),
            doubt(finding, unbeaten),
            last(results, finding, &ranking) + &reference(results, finding, &ranking, unbeaten)
        ),
        (_, unbeaten) => format!(
            "no clear winner; {}",
            no_clear_winner(results, finding, &ranking, unbeaten)
        ),
    };
    let absent = absent(results, measure, &without);
    Some(Sentence::new(
        format!("{title}:"),
        format!(" {rest}{absent}"),
    ))
}

/// The ids of stacks that were measured and have no figure of it.
fn without_figure<'a>(results: &'a Results, finding: &Finding<'_>) -> Vec<&'a str> {
    let was_measured = |id: &str| match finding.load {
        Some(load) => results
            .trials
            .iter()
            .any(|trial| trial.stack == id && trial.load == load.id && trial.failure.is_none()),
        None => results
            .peaks
            .iter()
            .any(|peak| peak.stack == id && peak.failure.is_none()),
    };
    let stacks = results.stacks.iter().map(|stack| stack.id.as_str());
    let has_figure = |id: &str| finding.figures.iter().any(|figure| figure.stack == id);
    stacks
        .filter(|id| was_measured(id) && !has_figure(id))
        .collect()
}

/// Names the stacks without a figure: any of them could be the best or the last.
fn absent(results: &Results, measure: Measure, without: &[&str]) -> String {
    if without.is_empty() {
        return String::new();
    }
    let names: Vec<String> = without
        .iter()
        .map(|id| name(results, id).to_owned())
        .collect();
    let reason = match measure.percent() {
        Some(_) => ", which answered too few requests for one",
        None => "",
    };
    format!(" There is no figure of {}{reason}.", listed(&names))
}

/// `28 % more than Puma, the next best (95 % interval +24 to +32 %)`.
fn against(
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
fn doubt(finding: &Finding<'_>, unbeaten: &[&Figure<'_>]) -> String {
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
fn last(results: &Results, finding: &Finding<'_>, ranking: &[&Figure<'_>]) -> String {
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
fn no_clear_winner(
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
fn reference(
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
fn beyond(results: &Results, finding: &Finding<'_>, ranking: &[&Figure<'_>]) -> String {
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

/// What limited the rate, over all trials with figures.
fn limits(results: &Results) -> Option<Sentence> {
    let trials = results
        .trials
        .iter()
        .filter(|trial| trial.failure.is_none());
    let limit = |trial: &Trial| {
        let load = results.loads.iter().find(|load| load.id == trial.load);
        admission::limit(trial, load)
    };
    let limits: Vec<Limit> = trials.map(limit).collect();
    let count = |limit| limits.iter().filter(|other| **other == limit).count();
    let (server, client, neither) = (
        count(Limit::Server),
        count(Limit::Client),
        count(Limit::Neither),
    );
    let mut parts = Vec::new();
    if server > 0 {
        parts.push(format!("the server in {}", counted(server, "trial")));
    }
    if neither > 0 {
        let trials = counted(neither, "trial");
        parts.push(format!("neither server nor load generator in {trials}"));
    }
    if client > 0 {
        let trials = counted(client, "trial");
        parts.push(format!("the load generator in {trials}, which do not rank"));
    }
    (!parts.is_empty())
        .then(|| Sentence::new("What set the limit:", format!(" {}.", listed(&parts))))
}

fn names(results: &Results, figures: &[&Figure<'_>]) -> String {
    let names: Vec<String> = figures
        .iter()
        .map(|figure| name(results, figure.stack).to_owned())
        .collect();
    listed(&names)
}

fn best<'a, 'b>(ranking: &[&'b Figure<'a>]) -> Vec<&'b Figure<'a>> {
    let best = ranking.iter().copied();
    best.filter(|figure| figure.rank == Some(1)).collect()
}

fn is_unknown(finding: &Finding<'_>, first: &Figure<'_>, second: &Figure<'_>) -> bool {
    let versus = finding.versus(first.stack, second.stack);
    versus.is_none_or(|versus| versus.verdict == Verdict::Unknown)
}

pub(super) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    // `p99` is a name.
    if text.starts_with("p9") {
        return text.to_owned();
    }
    characters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

/// A share of failed requests.
pub(super) fn error_share(share: f64) -> String {
    if share > 0.0 && share < 0.0001 {
        "<\u{a0}0.01\u{a0}%".into()
    } else if share == 0.0 {
        "none".into()
    } else if share < 0.01 {
        format!("{:.2}\u{a0}%", share * 100.0)
    } else {
        percent(share)
    }
}

#[cfg(test)]
mod tests;
