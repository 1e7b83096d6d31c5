//! What is told of a load: our own text, data for programs, and the layouts of ab, wrk and httperf. It only words
//! what [`Outcome`] holds; it measures nothing and writes nowhere.

#![forbid(unsafe_code)]

use loadgen::Headroom;
use loadgen::outcome::Outcome;
use loadgen::plan::Plan;

mod ab;
mod data;
mod figures;
mod httperf;
mod number;
mod text;
mod words;
mod wrk;

pub use number::{grouped, milliseconds};
pub use words::{counted, generator_verdict, in_words, main_error};

/// A layout of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// The whole outcome, the plan in words, and the figures by name.
    Json,
    /// One figure a line: name, unit, value.
    Csv,
    /// The fields that ApacheBench prints.
    Ab,
    /// The fields that wrk prints.
    Wrk,
    /// The fields that httperf prints.
    Httperf,
}

/// A load and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// What was to be sent.
    pub plan: &'a Plan,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// Whether somebody ended it before its time.
    pub ended_early: bool,
    /// What the generator can take on this machine, where that was measured.
    pub headroom: Option<&'a Headroom>,
}

/// Words a load in the given layout; the text ends with a line break.
pub fn render(format: Format, measured: &Measured<'_>) -> String {
    match format {
        Format::Text => text::render(measured),
        Format::Json => data::json(measured),
        Format::Csv => data::csv(measured),
        Format::Ab => ab::render(measured),
        Format::Wrk => wrk::render(measured),
        Format::Httperf => httperf::render(measured),
    }
}

/// Footnotes beneath another tool's fields: lines that begin with `#`, which no reader of those fields expects.
fn footnotes(out: &mut String, notes: &[String]) {
    for note in notes {
        out.push_str("# ");
        out.push_str(note);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests;
