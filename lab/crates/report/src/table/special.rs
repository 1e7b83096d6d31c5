//! The tables of loads that do more than send: with idle connections, and with a restart. Medians over the trials.

use super::{Cell, Head, Table, head, row};
use crate::number::{count, figure, seconds};
use compare::results::{BesideIdle, Load, Results, Stretch, Trial, UnderRestart};
use compare::statistics::median;
use compare::verdict::measure::MEGABYTE;

/// One row a stack that has such figures, `cells` of all its trials' figures; `None` where no stack has any.
fn table<'a, T: 'a>(
    results: &'a Results,
    load: &Load,
    (caption, heads): (&str, Vec<Head>),
    of: impl Fn(&'a Trial) -> Option<&'a T>,
    cells: impl Fn(&[&T]) -> Vec<Cell>,
) -> Option<Table> {
    let mut rows = Vec::new();
    for stack in &results.stacks {
        let trials = results.trials.iter().filter(|trial| {
            trial.stack == stack.id && trial.load == load.id && trial.failure.is_none()
        });
        let figures: Vec<&T> = trials.filter_map(&of).collect();
        if !figures.is_empty() {
            rows.push(row(results, &stack.id, cells(&figures)));
        }
    }
    (!rows.is_empty()).then(|| Table {
        caption: format!("{caption}: {}", load.title),
        heads,
        rows,
    })
}

fn middle<T>(figures: &[&T], value: impl Fn(&T) -> f64) -> f64 {
    let values: Vec<f64> = figures.iter().map(|one| value(one)).collect();
    median(&values).unwrap_or_default()
}

/// A load with idle connections: what they cost the server and other clients.
pub(crate) fn with_idle_connections(results: &Results, load: &Load) -> Option<Table> {
    let heads = vec![
        head("Idle connections", ""),
        head("Rate", "of that without them"),
        head("CPU per request", "of that without them"),
        head("Slowest new client", "ms"),
        head("Front's memory", "MB (RSS), with them"),
        head("Front's memory before", "MB (RSS)"),
    ];
    let cells = |figures: &[&BesideIdle]| {
        let cell = |value: fn(&BesideIdle) -> f64| Cell::new(figure(middle(figures, value)));
        vec![
            Cell::new(count(figures[0].connections as u64)),
            cell(|one| one.rate_ratio),
            cell(|one| one.cpu_ratio),
            cell(|one| one.newcomer_ms),
            cell(|one| one.front.rss as f64 / MEGABYTE),
            cell(|one| one.front_before.rss as f64 / MEGABYTE),
        ]
    };
    let caption = "With idle connections";
    table(
        results,
        load,
        (caption, heads),
        |trial| trial.beside_idle.as_ref(),
        cells,
    )
}

/// A restart under an open loop: latency before, during and after it.
pub(crate) fn under_restart(results: &Results, load: &Load) -> Option<Table> {
    let heads = vec![
        head("Load", "requests/s"),
        head("Command ended", "after"),
        head("Old processes gone", "after"),
        head("p99 before", "ms"),
        head("p99 during", "ms"),
        head("p99 after", "ms"),
        head("Slowest during", "ms"),
        head("Failed", "requests, all trials"),
    ];
    let cells = |figures: &[&UnderRestart]| {
        let p99 = |stretch: fn(&UnderRestart) -> &Stretch| {
            let values = figures
                .iter()
                .filter_map(|one| stretch(one).latency.percentile_ms(99.0));
            let middle = median(&values.collect::<Vec<_>>());
            middle.map_or_else(super::dash, |value| Cell::new(figure(value)))
        };
        let failed = figures.iter().map(|one| one.errors()).sum();
        vec![
            Cell::new(figure(middle(figures, |one| one.rate))),
            Cell::new(seconds(middle(figures, |one| one.served_s))),
            Cell::new(seconds(middle(figures, |one| one.gone_s))),
            p99(|one| &one.before),
            p99(|one| &one.during),
            p99(|one| &one.after),
            Cell::new(figure(middle(figures, |one| one.during.latency.max_ms()))),
            Cell::new(count(failed)),
        ]
    };
    let caption = "Restart under load";
    table(
        results,
        load,
        (caption, heads),
        |trial| trial.restart.as_ref(),
        cells,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use compare::results::{Footprint, Stack};

    fn results(trials: Vec<Trial>) -> Results {
        let of_load = |trial| Trial {
            stack: "one".into(),
            load: "c12".into(),
            ..trial
        };
        Results {
            stacks: vec![Stack {
                id: "one".into(),
                ..Stack::default()
            }],
            loads: vec![Load {
                id: "c12".into(),
                title: "12 connections".into(),
                ..Load::default()
            }],
            trials: trials.into_iter().map(of_load).collect(),
            ..Results::default()
        }
    }

    fn texts(table: Option<Table>) -> Vec<String> {
        let table = table.expect("a table");
        assert_eq!(table.heads.len(), table.rows[0].cells.len());
        let cells = table.rows[0].cells.iter();
        cells.map(|cell| cell.text.replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn idle_connections_are_shown_with_what_they_cost() {
        let footprint = |megabytes: u64| Footprint {
            rss: megabytes * 1_000_000,
            ..Footprint::default()
        };
        let trial = |ratio| Trial {
            beside_idle: Some(BesideIdle {
                connections: 10_000,
                newcomer_ms: 3.5,
                front: footprint(52),
                front_before: footprint(12),
                rate_ratio: ratio,
                cpu_ratio: 1.02,
            }),
            ..Trial::default()
        };
        let results = results(vec![trial(0.9), trial(0.97), trial(0.99)]);
        let load = &results.loads[0];
        assert_eq!(
            texts(with_idle_connections(&results, load)),
            ["10,000", "0.970", "1.02", "3.50", "52.0", "12.0"]
        );
        assert!(under_restart(&results, load).is_none());
    }

    #[test]
    fn a_restart_is_shown_with_latencies_and_failures() {
        let stretch = |milliseconds, errors| {
            let mut stretch = Stretch {
                errors,
                ..Stretch::default()
            };
            for _ in 0..1_000 {
                stretch.latency.record(Duration::from_millis(milliseconds));
            }
            stretch
        };
        let trial = Trial {
            restart: Some(UnderRestart {
                capacity: 100.0,
                rate: 60.0,
                served_s: 4.2,
                gone_s: 5.5,
                before: stretch(20, 0),
                during: stretch(30, 2),
                after: Stretch::default(),
            }),
            ..Trial::default()
        };
        let results = results(vec![trial]);
        let load = &results.loads[0];
        assert_eq!(
            texts(under_restart(&results, load)),
            ["60.0", "4.20 s", "5.50 s", "20.0", "30.0", "–", "30.0", "2"]
        );
        assert!(with_idle_connections(&results, load).is_none());
    }
}
