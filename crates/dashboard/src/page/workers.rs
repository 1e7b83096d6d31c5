//! The table of workers, with what their threads run.

use super::Scope;
use super::table::{Cell, Row, Table};
use crate::model::{Thread, Worker};
use crate::text::{NOTHING, age, milliseconds, size};

pub(super) fn table(scope: &Scope<'_>) -> Table {
    let applications = scope.applications.iter();
    let workers =
        applications.flat_map(|one| one.workers.iter().map(|worker| (scope.name(one), worker)));
    let rows = workers.map(|(application, worker)| row(scope, application, worker));
    Table {
        id: "workers",
        caption: "Workers".to_owned(),
        heads: Table::heads([
            "Worker", "State", "Up", "Requests", "PSS", "Private", "Runs now",
        ]),
        rows: rows.collect(),
        empty: "No worker has been started yet.",
        more: None,
    }
}

fn row(scope: &Scope<'_>, application: Option<&str>, worker: &Worker) -> Row {
    let bytes = |bytes: Option<u64>| Cell::number(bytes.map_or_else(|| NOTHING.to_owned(), size));
    let up = scope.model.server.now.saturating_sub(worker.started);
    let detail = format!("generation {}, pid {}", worker.generation, worker.pid);
    Row {
        name: format!("worker {}", worker.number),
        detail: Some(match application {
            Some(name) => format!("{name}, {detail}"),
            None => detail,
        }),
        link: None,
        cells: vec![
            Cell::number(&worker.state).bad_if(worker.state != "ready"),
            Cell::number(age(up)),
            Cell::number(worker.requests),
            bytes(worker.pss_bytes),
            bytes(worker.private_bytes),
            Cell::lines(runs(&worker.threads)),
        ],
    }
}

/// What the busy threads do, a line each, and how many are idle.
fn runs(threads: &[Thread]) -> Vec<String> {
    let busy = threads.iter().filter(|thread| thread.is_busy());
    let mut lines: Vec<String> = busy
        .map(|thread| {
            let what = thread.request.as_deref().unwrap_or(&thread.state);
            match thread.since_ms {
                Some(since) => format!("{what} for {}", milliseconds(since)),
                None => what.to_owned(),
            }
        })
        .collect();
    match threads.len() - lines.len() {
        0 => {}
        idle if idle == threads.len() => lines.push("idle".to_owned()),
        idle => lines.push(format!("{idle} idle")),
    }
    lines
}
