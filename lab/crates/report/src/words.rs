//! Verdicts as sentences, for readers who do not know the lab. Terminal and page show the same sentences.

use serde::Serialize;

use super::number::{counted, listed, percent};
use compare::results::{Limit, Results, Stack, Trial};
use compare::verdict::{Figure, Finding, Judgement, Measure, Verdict, admission};

mod clauses;
mod names;
mod phrases;

use clauses::{against, beyond, doubt, last, no_clear_winner, reference};
pub(super) use names::name;
use names::names;
pub(super) use phrases::short;
use phrases::{value, values, winner_phrase};

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
