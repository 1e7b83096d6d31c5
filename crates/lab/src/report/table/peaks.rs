//! The table of the searches for the largest rate, and of what happened beyond it.

use super::{Cell, Table, dash, head, order, row, verdict};
use crate::comparison::results::{Overload, Peak, Results};
use crate::report::number::{count, figure, interval, seconds};
use crate::report::words::{error_share, name};
use crate::statistics::median;
use crate::statistics::starts::merged;
use crate::verdict::admission::kinds;
use crate::verdict::{Judgement, Measure};

/// The largest rates held and what happened beyond them; `None` where nobody searched.
pub(in crate::report) fn peaks(results: &Results, judgement: &Judgement<'_>) -> Option<Table> {
    let finding = judgement.finding(Measure::Peak, None);
    if results.peaks.is_empty() {
        return None;
    }
    let first = results.stacks.first();
    let first_name = first.map_or("", |stack| name(results, &stack.id));
    let mut table = Table {
        caption: "Largest rate held, and behaviour at 1.5 times of it".into(),
        heads: vec![
            head("Place", "").brief("#"),
            head("Largest rate held", "requests/s").brief("held /s"),
            head("First not held", "requests/s").brief("not held /s"),
            head(&format!("Against {first_name}"), "95 % interval").brief("against first"),
            head("At 1.5 times: answered", "requests/s").brief("at 1.5 times: good /s"),
            head("Failed", "of requests").brief("failed"),
            head("p99", "ms").brief("p99 ms"),
            head("Recovered", "after the load").brief("recovered"),
        ],
        rows: Vec::new(),
    };
    for id in order(results, judgement, Measure::Peak, None) {
        let searches: Vec<&Peak> = results
            .peaks
            .iter()
            .filter(|peak| peak.stack == id)
            .collect();
        if searches.is_empty() {
            continue;
        }
        let own = finding.and_then(|finding| finding.of(id));
        let place = own.and_then(|figure| figure.rank);
        let place = place.map_or_else(
            || Cell {
                kind: "word",
                ..Cell::new("not ranked")
            },
            |rank| Cell::new(rank.to_string()),
        );
        let largest = own.map_or_else(dash, |of| {
            Cell::with(
                figure(of.estimate.value),
                interval(of.estimate).unwrap_or_default(),
            )
        });
        let bad: Vec<f64> = searches.iter().filter_map(|peak| peak.first_bad).collect();
        let bad =
            median(&bad).map_or_else(|| Cell::new("not reached"), |rate| Cell::new(figure(rate)));
        let first = results.stacks.first().map(|stack| stack.id.as_str());
        let against = finding
            .zip(first.filter(|first| *first != id))
            .and_then(|(finding, first)| finding.versus(id, first));
        let against = against.map_or_else(dash, |versus| verdict(Measure::Peak, versus));
        let mut cells = vec![place, largest, bad, against];
        cells.extend(overload(&searches));
        table.rows.push(row(results, id, cells));
    }
    Some(table)
}

/// Rate answered, failures, p99 and recovery at 1.5 times the peak.
fn overload(searches: &[&Peak]) -> [Cell; 4] {
    let overloads: Vec<&Overload> = searches
        .iter()
        .filter_map(|peak| peak.overload.as_ref())
        .collect();
    if overloads.is_empty() {
        return [dash(), dash(), dash(), dash()];
    }
    let middle = |value: &dyn Fn(&Overload) -> f64| {
        median(&overloads.iter().map(|one| value(one)).collect::<Vec<_>>()).unwrap_or_default()
    };
    let share = middle(&|one| {
        let lost = one.outcome.demanded.saturating_sub(one.outcome.good);
        lost as f64 / one.outcome.demanded.max(1) as f64
    });
    let latency = merged(overloads.iter().map(|one| &one.outcome.latency));
    let recovered: Vec<f64> = overloads.iter().filter_map(|one| one.recovered_s).collect();
    let recovered_text = match median(&recovered) {
        Some(value) if recovered.len() == overloads.len() => seconds(value),
        Some(value) => format!(
            "{}, in {} of {}",
            seconds(value),
            recovered.len(),
            overloads.len()
        ),
        None => "not within the time".into(),
    };
    [
        Cell::with(
            figure(middle(&|one| one.outcome.good_per_second())),
            format!("of {}", figure(middle(&|one| one.rate))),
        ),
        Cell {
            kind: "wrapped",
            ..Cell::with(error_share(share), fate(&overloads))
        },
        latency
            .percentile_ms(99.0)
            .map_or_else(dash, |value| Cell::new(figure(value))),
        Cell::new(recovered_text),
    ]
}

/// What became of most requests that were not answered well, in the first search that says so.
fn fate(overloads: &[&Overload]) -> String {
    let mut fates = overloads.iter().filter_map(|one| {
        let refused = one
            .outcome
            .statuses
            .iter()
            .filter(|(status, _)| **status >= 400);
        let mut parts: Vec<String> = refused
            .map(|(status, number)| format!("{} with status {status}", count(*number)))
            .collect();
        let mut errors = one.outcome.errors;
        // Their statuses say more.
        errors.unexpected = 0;
        let errors = kinds(errors).into_iter();
        parts.extend(errors.map(|(number, name)| format!("{} {name}", count(number))));
        let limit = one.outcome.generator.limit.is_some();
        parts.extend(limit.then(|| "the load generator was the limit".to_owned()));
        (!parts.is_empty()).then(|| parts.join(", "))
    });
    fates.next().unwrap_or_default()
}
