//! The table of the searches for the largest rate, and of what happened beyond it.

use super::{Cell, Table, dash, head, order, row, verdict};
use crate::number::{count, figure, interval, seconds};
use crate::words::{error_share, name};
use compare::results::{Overload, Peak, Results};
use compare::statistics::median;
use compare::statistics::starts::merged;
use compare::verdict::admission::kinds;
use compare::verdict::{Judgement, Measure};
use loadgen::outcome::Outcome;

/// The largest rates held and what happened beyond them; `None` without searches.
pub(crate) fn peaks(results: &Results, judgement: &Judgement<'_>) -> Option<Table> {
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
        let bad = median(&bad).map_or_else(
            || Cell::new("not reached"),
            |rate| Cell::with(figure(rate), deaths(&searches)),
        );
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

/// In how many searches the server died at the first rate that was not held; empty where it never did.
fn deaths(searches: &[&Peak]) -> String {
    let died = searches.iter().filter(|peak| {
        let mut steps = peak.steps.iter();
        steps.any(|step| step.died && Some(step.rate) == peak.first_bad)
    });
    match (died.count(), searches.len()) {
        (0, _) => String::new(),
        (died, all) if died == all => "the server died".into(),
        (died, all) => format!("the server died in {died} of {all}"),
    }
}

/// Rate answered, failures, p99 and recovery at 1.5 times the peak.
fn overload(searches: &[&Peak]) -> [Cell; 4] {
    let all = searches.iter().filter_map(|peak| peak.overload.as_ref());
    let (dead, overloads): (Vec<&Overload>, Vec<&Overload>) =
        all.partition(|one| one.died.is_some());
    let tried = dead.len() + overloads.len();
    if overloads.is_empty() {
        let answered = match dead.first() {
            Some(_) => Cell::new("the server died"),
            None => dash(),
        };
        return [answered, dash(), dash(), dash()];
    }
    let middle = |value: &dyn Fn(&Overload) -> f64| {
        median(&overloads.iter().map(|one| value(one)).collect::<Vec<_>>()).unwrap_or_default()
    };
    let of_all = |number: u64, one: &Overload| number as f64 / one.outcome.demanded.max(1) as f64;
    let failed = middle(&|one| of_all(failed(&one.outcome), one));
    let late = middle(&|one| of_all(one.outcome.late, one));
    // Arrivals are random: in a short load they are more or fewer than the rate says.
    let demanded = middle(&|one| one.outcome.demanded as f64 / one.outcome.elapsed_s.max(1e-9));
    let late = match late > 0.0 {
        true => format!(", {} after the end", error_share(late)),
        false => String::new(),
    };
    let latency = merged(overloads.iter().map(|one| &one.outcome.latency));
    let recovered: Vec<f64> = overloads.iter().filter_map(|one| one.recovered_s).collect();
    let recovered_text = match median(&recovered) {
        Some(value) if recovered.len() == tried => seconds(value),
        Some(value) => format!("{}, in {} of {tried}", seconds(value), recovered.len()),
        None => "not within the time".into(),
    };
    [
        Cell::with(
            figure(middle(&|one| one.outcome.good_per_second())),
            format!("of {}{late}", figure(demanded)),
        ),
        Cell {
            kind: "wrapped",
            ..Cell::with(error_share(failed), failure_reasons(&overloads, dead.len()))
        },
        latency
            .percentile_ms(99.0)
            .map_or_else(dash, |value| Cell::new(figure(value))),
        Cell::new(recovered_text),
    ]
}

/// Requests that were not answered well. What was answered after the load's end is late and no failure.
fn failed(outcome: &Outcome) -> u64 {
    let lost = outcome.demanded.saturating_sub(outcome.good + outcome.late);
    lost.max(outcome.errors.total())
}

/// How requests failed in the first overload that has failures.
fn failure_reasons(overloads: &[&Overload], dead: usize) -> String {
    let mut reasons = overloads.iter().filter_map(|one| {
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
    let died = (dead > 0).then(|| {
        let tried = dead + overloads.len();
        format!("the server died in {dead} of {tried}")
    });
    let texts: Vec<String> = died.into_iter().chain(reasons.next()).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::results::Step;

    #[test]
    fn late_answers_above_the_peak_are_not_failures() {
        let mut peak = Peak {
            overload: Some(Overload {
                rate: 90.2,
                outcome: Outcome {
                    elapsed_s: 3.0,
                    demanded: 279,
                    completed: 248,
                    good: 248,
                    late: 31,
                    ..Outcome::default()
                },
                ..Overload::default()
            }),
            ..Peak::default()
        };
        let [answered, failed, ..] = overload(&[&peak]);
        let detail = answered.detail.replace('\u{a0}', " ");
        assert_eq!(
            (answered.text.as_str(), detail.as_str()),
            ("82.7", "of 93.0, 11 % after the end")
        );
        assert_eq!(failed.text, error_share(0.0));
        let outcome = peak.overload.as_mut().map(|one| &mut one.outcome).unwrap();
        outcome.late = 3;
        outcome.errors.reset = 28;
        let [_, failed, ..] = overload(&[&peak]);
        assert_eq!(failed.text, error_share(28.0 / 279.0));
        assert_eq!(failed.detail, "28 connections reset");
    }

    #[test]
    fn a_server_that_died_at_or_above_the_peak_is_reported() {
        let step = |rate, died| Step {
            rate,
            died,
            ..Step::default()
        };
        let mut peak = Peak {
            first_bad: Some(200.0),
            steps: vec![step(100.0, false), step(200.0, true)],
            ..Peak::default()
        };
        assert_eq!(deaths(&[&peak]), "the server died");
        assert_eq!(
            deaths(&[&peak, &Peak::default()]),
            "the server died in 1 of 2"
        );
        peak.steps[1].died = false;
        assert_eq!(deaths(&[&peak]), "");
        peak.overload = Some(Overload {
            died: Some("the server died".into()),
            ..Overload::default()
        });
        assert_eq!(overload(&[&peak])[0].text, "the server died");
    }
}
