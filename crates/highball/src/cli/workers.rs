//! The commands `backtraces` and `gc`: what workers say of themselves. They change nothing.

use std::fmt::Write;

use anyhow::Result;
use command_line::ViewArguments;
use profiles::ThreadStack;

use crate::cli::{client, print};
use crate::control::inspections::{Figures, OfWorker, WorkerName};

/// Columns of the table of garbage collectors: name, heading, and what a figure is divided by.
const GC_COLUMNS: [(&str, &str, u64); 8] = [
    ("count", "runs", 1),
    ("major_gc_count", "major", 1),
    ("time", "ms", 1),
    ("heap_available_slots", "slots", 1),
    ("heap_live_slots", "live", 1),
    ("old_objects", "old", 1),
    ("malloc_increase_bytes", "malloc KB", 1024),
    ("oldmalloc_increase_bytes", "old malloc KB", 1024),
];

/// Prints where all threads of workers are.
///
/// # Errors
/// There is no server, or it cannot tell.
pub(crate) fn backtraces(view: &ViewArguments) -> Result<()> {
    let all: Vec<OfWorker<Vec<ThreadStack>>> = client::inspect(view, "/v1/backtraces")?;
    if view.json {
        return print(&(serde_json::to_string_pretty(&all)? + "\n"));
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    for one in &all {
        let _ = writeln!(text, "{}", heading(&one.worker));
        for thread in one.answer.iter().flatten() {
            let _ = writeln!(text, "  {}", thread.name);
            for frame in &thread.frames {
                let _ = writeln!(text, "    {}  {}", frame.method, frame.place());
            }
        }
        if let Some(reason) = &one.error {
            let _ = writeln!(text, "  {reason}");
        }
        text.push('\n');
    }
    print(&text)
}

/// Prints the figures of the garbage collectors of workers.
///
/// # Errors
/// There is no server, or it cannot tell.
pub(crate) fn gc(view: &ViewArguments) -> Result<()> {
    let all: Vec<OfWorker<Figures>> = client::inspect(view, "/v1/gc")?;
    if view.json {
        return print(&(serde_json::to_string_pretty(&all)? + "\n"));
    }
    let headings: Vec<&str> = GC_COLUMNS.iter().map(|(_, heading, _)| *heading).collect();
    let mut text = format!("{:>32}  {}\n", "", row(&headings));
    // Writing to a string cannot fail.
    for one in &all {
        let cell = |(name, _, unit): &(&str, &str, u64)| {
            let figure = one.answer.as_ref().and_then(|figures| figures.get(*name));
            figure.map_or_else(|| "-".to_owned(), |number| (number / unit).to_string())
        };
        let cells = match &one.error {
            Some(reason) => reason.clone(),
            None => row(&GC_COLUMNS.iter().map(cell).collect::<Vec<_>>()),
        };
        let _ = writeln!(text, "{:>32}  {cells}", heading(&one.worker));
    }
    print(&text)
}

fn heading(worker: &WorkerName) -> String {
    let application = worker.application.as_ref();
    let application = application.map_or_else(String::new, |name| format!("{name}: "));
    format!("{application}worker {} (pid {})", worker.worker, worker.pid)
}

fn row<T: AsRef<str>>(cells: &[T]) -> String {
    let cells = cells.iter().map(|cell| format!("{:>13}", cell.as_ref()));
    cells.collect::<Vec<_>>().concat()
}
