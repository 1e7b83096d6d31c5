//! Formats of a load's results: our own text, data for programs, and the layouts of ab, wrk and httperf. It formats an
//! [`loadgen::outcome::Outcome`]; it measures nothing and writes no file.

#![forbid(unsafe_code)]

mod ab;
mod data;
pub mod export;
mod figures;
mod httperf;
mod measured;
mod number;
mod text;
mod words;
mod wrk;

pub use measured::Measured;
pub use number::{grouped, milliseconds};
pub use words::{counted, generator_verdict, in_words, main_error};

/// A format of results.
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

/// Formats a load's results; the text ends with a line break.
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

#[cfg(test)]
mod tests;
