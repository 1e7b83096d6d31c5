//! Phrases for a value and for a ratio of two values, in sentences and cells. It knows no results.

use crate::number::{distance, figure, listed};
use compare::statistics::Estimate;
use compare::verdict::{Figure, Measure, Verdict};

/// A stack compared with another, in a cell: `22 % fewer`; in brackets where there is no verdict.
pub(crate) fn short(measure: Measure, ratio: Estimate, verdict: Verdict) -> String {
    let words = if (ratio.value - 1.0).abs() < 0.0005 {
        "equal".to_owned()
    } else {
        comparative(measure, ratio.value)
    };
    match verdict {
        Verdict::Better | Verdict::Worse => words,
        Verdict::TooClose => "too close to call".into(),
        Verdict::Unknown => format!("({words})"),
    }
}

/// `28 % more`, `2.4 times`.
fn comparative(measure: Measure, ratio: f64) -> String {
    let (more, less) = match measure {
        Measure::Rate | Measure::PerGigabyte | Measure::PerCore => ("more", "fewer"),
        Measure::Cpu | Measure::Memory => ("more", "less"),
        _ => ("higher", "lower"),
    };
    let distance = distance(ratio);
    match ratio {
        ratio if ratio >= 2.0 => distance,
        ratio if ratio >= 1.0 => format!("{distance}\u{a0}{more}"),
        _ => format!("{distance}\u{a0}{less}"),
    }
}

/// The same with the conjunction before the other stack: `28 % more than`, `2.4 times as many as`.
pub(super) fn comparison_with(measure: Measure, ratio: f64) -> String {
    let words = comparative(measure, ratio);
    let link = match measure {
        _ if ratio < 2.0 => "than",
        Measure::Rate | Measure::PerGigabyte | Measure::PerCore => "as many as",
        Measure::Cpu | Measure::Memory => "as much as",
        _ => "as high as",
    };
    format!("{words} {link}")
}

/// What is said of the winner by a measure.
pub(super) fn winner_phrase(measure: Measure) -> &'static str {
    match measure {
        Measure::Rate => "answers the most requests",
        Measure::Peak => "holds the largest rate",
        Measure::Replies => "answers the most at any rate",
        Measure::P50 | Measure::P90 | Measure::P95 | Measure::P99 | Measure::Mean => {
            "answers fastest"
        }
        Measure::Cpu => "needs the least CPU time",
        Measure::Memory => "needs the least memory",
        Measure::PerGigabyte | Measure::PerCore => "does the most with what it has",
    }
}

/// A value with its unit, as in a sentence.
pub(super) fn value(measure: Measure, estimate: Estimate) -> String {
    let figure = figure(estimate.value);
    match measure {
        Measure::Rate | Measure::Peak | Measure::Replies => {
            format!("{figure}\u{a0}requests a second")
        }
        _ => format!("{figure}\u{a0}{}", measure.unit()),
    }
}

/// Several values with one unit.
pub(super) fn values(measure: Measure, figures: &[&Figure<'_>]) -> String {
    let figures: Vec<String> = figures.iter().map(|of| figure(of.estimate.value)).collect();
    let unit = match measure {
        Measure::Rate | Measure::Peak | Measure::Replies => "requests a second",
        _ => measure.unit(),
    };
    format!("{}\u{a0}{unit}", listed(&figures))
}
