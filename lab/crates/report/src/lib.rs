//! The report of a comparison: `report.html`, `results.csv`, and a summary for the terminal. Made from the results
//! alone, so that it can be written again later; it measures nothing and reads no file.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result};

pub use page::Page;
pub use then_and_now::ThenAndNow;

mod chart;
mod csv;
mod curves;
mod explain;
mod number;
mod page;
mod table;
mod terminal;
pub mod then_and_now;
mod warnings;
mod words;

/// Writes `report.html` and `results.csv` into `directory`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(page: &Page<'_>, directory: &Path) -> Result<()> {
    let path = directory.join("report.html");
    fs::write(&path, page::render(page)?).with_context(|| format!("write {}", path.display()))?;
    let path = directory.join("results.csv");
    let file = File::create(&path).with_context(|| format!("write {}", path.display()))?;
    csv::write(page.results, BufWriter::new(file))
        .with_context(|| format!("write {}", path.display()))
}

/// The answer, tables and warnings, as wide as the terminal is.
pub fn terminal(page: &Page<'_>) -> String {
    terminal::render(page, terminal::width())
}
