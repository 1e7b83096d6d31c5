//! The part of a study in the page: published figures next to today's, and whether the ranking is the same.

use serde::Serialize;

use crate::chart::Chart;
use crate::curves;
use crate::number::{figure, interval};
use crate::table::{Cell, Head, Row, Table, head};
use crate::then_and_now::{Finding as Published, Order, ThenAndNow};
use crate::words::{Sentence, colour};
use compare::results::Results;

/// One measure of a study, then and now.
#[derive(Debug, Serialize)]
pub(super) struct OfStudy {
    title: String,
    table: Table,
    chart: Option<Chart>,
    order: Sentence,
    note: String,
}

/// A study's head and notes.
#[derive(Debug, Serialize)]
pub(super) struct Study<'a> {
    title: &'a str,
    source: &'a str,
    method: &'a str,
    notes: &'a [String],
}

impl<'a> Study<'a> {
    pub(super) fn of(study: &'a ThenAndNow) -> Self {
        Self {
            title: &study.title,
            source: &study.source,
            method: &study.method,
            notes: &study.notes,
        }
    }
}

pub(super) fn of_study(results: &Results, finding: &Published, index: usize) -> OfStudy {
    let reference = finding.reference().map(|row| row.then_name.as_str());
    let mut rows = Vec::new();
    for row in &finding.rows {
        let (then, now) = finding.ratios(row);
        let times =
            |ratio: Option<f64>| ratio.map_or("–".into(), |ratio| format!("{} ×", figure(ratio)));
        let certain = row.ratio.and_then(interval).unwrap_or_default();
        let today = row.now.map_or_else(
            || Cell::new("–"),
            |now| {
                let detail = match row.set_aside {
                    true => "not ranked".to_owned(),
                    false => interval(now).unwrap_or_default(),
                };
                Cell::with(figure(now.value), detail)
            },
        );
        rows.push(Row {
            name: row.then_name.clone(),
            id: String::new(),
            colour: row.stack.as_deref().map(|stack| colour(results, stack)),
            cells: vec![
                Cell::new(row.then.map_or("–".into(), figure)),
                Cell::new(times(then)),
                Cell {
                    text: if row.now_name.is_empty() {
                        "–".into()
                    } else {
                        row.now_name.clone()
                    },
                    detail: row.stand_in.clone().unwrap_or_default(),
                    kind: "long",
                    ..Cell::default()
                },
                today,
                Cell::with(times(now), certain),
            ],
        });
    }
    let ratio = reference.map_or(String::new(), |name| format!("of {name}"));
    OfStudy {
        title: finding.title.clone(),
        table: Table {
            caption: finding.title.clone(),
            heads: vec![
                head("Then", &finding.unit),
                head("Ratio then", &ratio),
                Head {
                    kind: "long",
                    ..head("Today", "")
                },
                head("Now", &finding.unit),
                head("Ratio now", &ratio),
            ],
            rows,
        },
        chart: curves::then_and_now(results, finding, index),
        order: order(&finding.order()),
        note: finding.note.clone(),
    }
}

/// For each measure of a study, whether its participants rank as they did then.
pub(crate) fn orders(study: &ThenAndNow) -> Vec<Sentence> {
    let findings = study.findings.iter().map(|finding| {
        let Sentence { strong, rest } = order(&finding.order());
        Sentence {
            strong: format!("{}, then and now:", finding.title),
            rest: format!(" {}{rest}", strong.replacen("The", "the", 1)),
        }
    });
    findings.collect()
}

/// Largest number of pairs that a sentence lists; the others are counted.
const LISTED_PAIRS: usize = 4;

fn order(order: &Order) -> Sentence {
    let pairs = |pairs: &[(String, String)], word: &str| {
        let listed = pairs.iter().take(LISTED_PAIRS);
        let mut listed: Vec<String> = listed
            .map(|(first, second)| format!("{first} {word} {second}"))
            .collect();
        if pairs.len() > LISTED_PAIRS {
            listed.push(format!("and {} more pairs", pairs.len() - LISTED_PAIRS));
        }
        listed.join("; ")
    };
    let (strong, rest) = match order {
        Order::Same => ("The order of finish is the same.".to_owned(), String::new()),
        Order::SameAsFarAsKnown(open) => (
            "The order of finish is the same where it can be decided.".to_owned(),
            format!(" Too close to call today: {}.", pairs(open, "and")),
        ),
        Order::TooClose => (
            "The order of finish is open.".to_owned(),
            " All are too close to call today.".to_owned(),
        ),
        Order::TooFewRounds => (
            "The order of finish is open.".to_owned(),
            " There are too few rounds today for a verdict.".to_owned(),
        ),
        Order::Different(swapped) => (
            "The order of finish is different.".to_owned(),
            format!(" Reversed today: {}.", pairs(swapped, "was better than")),
        ),
        Order::Unknown => (
            "The order of finish cannot be compared.".to_owned(),
            " Fewer than two participants have both figures, with one of today that ranks."
                .to_owned(),
        ),
    };
    Sentence { strong, rest }
}
