//! Small tables: applications, how requests ended, caches, certificates.

use std::collections::BTreeMap;

use super::Scope;
use super::table::{Cell, Row, Table};
use super::tiles::threads;
use crate::model::{Application, Cache, Certificate};
use crate::series::Point;
use crate::text::{NOTHING, figure, maybe_duration, percent, size};
use crate::view::View;

/// A row for each application, which leads to its own page.
pub(super) fn applications(scope: &Scope<'_>) -> Table {
    let rows = scope.applications.iter().map(|one| application(scope, one));
    Table {
        id: "applications",
        caption: "Applications".to_owned(),
        heads: Table::heads([
            "Application",
            "Requests a second",
            "Errors",
            "p50",
            "p95",
            "Queue",
            "Busy threads",
            "Workers ready",
        ]),
        rows: rows.collect(),
        empty: "No application has been started yet.",
        more: None,
    }
}

fn application(scope: &Scope<'_>, one: &Application) -> Row {
    let recent = &one.measured.recent;
    let all = Point::joined(recent);
    let percentile = |share| maybe_duration(all.as_ref().and_then(|all| all.percentile(share)));
    let errors = all.as_ref().and_then(Point::error_share);
    let (busy, threads) = threads(&[one]);
    let ready = one
        .workers
        .iter()
        .filter(|worker| worker.state == "ready")
        .count();
    let text = |value: Option<f64>, text: fn(f64) -> String| {
        Cell::number(value.map_or_else(|| NOTHING.to_owned(), text))
    };
    let view = View {
        application: Some(one.name.clone()),
        ..scope.view.clone()
    };
    Row {
        name: one.name.clone(),
        detail: Some(match one.hosts.is_empty() {
            true => "any host".to_owned(),
            false => one.hosts.join(", "),
        }),
        link: Some(view.link()),
        cells: vec![
            text(recent.last().map(Point::rate), figure),
            text(errors, percent),
            Cell::number(percentile(0.5)),
            Cell::number(percentile(0.95)),
            Cell::number(format!("{} of {}", one.queue.length, one.queue.limit)),
            Cell::number(format!("{busy} of {threads}")),
            Cell::number(format!("{ready} of {}", one.workers.len())).bad_if(ready == 0),
        ],
    }
}

/// The tables at the end of the page; those without rows are left out.
pub(super) fn tables(scope: &Scope<'_>) -> Vec<Table> {
    let (outcomes, responses) = match &scope.applications[..] {
        [one] if !scope.several => (&one.outcomes, &one.responses),
        _ => (&scope.model.outcomes, &scope.model.responses),
    };
    let applications = scope.applications.iter();
    let caches = applications.filter_map(|one| Some(cache(&one.name, one.cache.as_ref()?)));
    let certificates = scope.model.certificates.iter().map(certificate);
    let tables = [
        Table {
            id: "outcomes",
            caption: "How requests ended".to_owned(),
            heads: Table::heads(["Outcome", "Requests", "Share"]),
            rows: counts(outcomes),
            ..Table::default()
        },
        Table {
            id: "responses",
            caption: "Responses by status".to_owned(),
            heads: Table::heads(["Status", "Responses", "Share"]),
            rows: counts(responses),
            ..Table::default()
        },
        Table {
            id: "caches",
            caption: "Response cache".to_owned(),
            heads: Table::heads(["Application", "Hits", "Hit ratio", "Responses", "Memory"]),
            rows: caches.collect(),
            ..Table::default()
        },
        Table {
            id: "certificates",
            caption: "Certificates".to_owned(),
            heads: Table::heads(["Names", "Until", "Warning"]),
            rows: certificates.collect(),
            ..Table::default()
        },
    ];
    tables
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect()
}

fn counts(counts: &BTreeMap<String, u64>) -> Vec<Row> {
    let total: u64 = counts.values().sum();
    let seen = counts.iter().filter(|(_, count)| **count > 0);
    let row = |(name, count): (&String, &u64)| {
        let share = *count as f64 / total as f64;
        Row {
            name: name.clone(),
            cells: vec![
                Cell::number(count),
                Cell::number(percent(share)).with_bar(share),
            ],
            ..Row::default()
        }
    };
    seen.map(row).collect()
}

fn cache(name: &str, cache: &Cache) -> Row {
    let all = cache.hits + cache.misses;
    let ratio = cache.hits as f64 / all as f64;
    let memory = format!("{} of {}", size(cache.bytes), size(cache.limit_bytes));
    Row {
        name: name.to_owned(),
        cells: vec![
            Cell::number(cache.hits),
            Cell::number(percent(ratio)).with_bar(ratio),
            Cell::number(cache.targets),
            Cell::number(memory),
        ],
        ..Row::default()
    }
}

fn certificate(certificate: &Certificate) -> Row {
    let warning = certificate.warning.clone();
    Row {
        name: certificate.names.join(", "),
        cells: vec![
            Cell::number(&certificate.ends),
            Cell::words(warning.unwrap_or_else(|| "none".to_owned()))
                .bad_if(certificate.warning.is_some()),
        ],
        ..Row::default()
    }
}
