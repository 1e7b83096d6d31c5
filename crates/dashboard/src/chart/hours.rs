//! How often something happened in each hour of the last day, as bars.

use charts::Scale;

use super::drawing::{Anchor, Drawing};
use super::{Chart, Frame};
use crate::text::round;

/// Hours of a day.
const HOURS: usize = 24;
/// The space between two bars in pixels.
const GAP: f64 = 3.0;

/// Draws the counts of the last hours, that of the current one first.
pub(crate) fn chart(id: &str, title: &str, counts: &[u64]) -> Chart {
    let Frame {
        left,
        right,
        top,
        base,
    } = Frame::PLOT;
    let counts = &counts[..counts.len().min(HOURS)];
    let most = counts.iter().copied().max().unwrap_or_default();
    let scale = Scale::linear(0.0, most as f64, 4, (base, top));
    let mut drawing = Drawing::default();
    drawing.side(&scale, 4, round);
    let width = (right - left) / HOURS as f64;
    for (before, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let x = right - (before + 1) as f64 * width + GAP / 2.0;
        // At least a pixel, so that it is seen.
        let height = (base - scale.at(*count as f64)).max(1.0);
        drawing.cells("hour", &[(x, base - height)], (width - GAP, height));
    }
    for (before, name) in [(24, "24 h ago"), (18, "18"), (12, "12"), (6, "6")] {
        let x = right - f64::from(before) * width;
        drawing.line("grid", (x, base), (x, base + 4.0));
        drawing.inside("tick", (x, base + 18.0), name);
    }
    drawing.text("tick", (right, base + 18.0), Anchor::End, "this hour");
    drawing.line("axis", (left, base), (right, base));
    Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        unit: "an hour".to_owned(),
        svg: drawing.finish(id, title, &description(counts)),
    }
}

fn description(counts: &[u64]) -> String {
    let hours = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    let words = hours.map(|(before, count)| match before {
        0 => format!("{count} in this hour"),
        1 => format!("{count} in the hour before"),
        before => format!("{count} in the hour {before} hours ago"),
    });
    let words: Vec<String> = words.collect();
    match words.is_empty() {
        true => "none in the last 24 hours".to_owned(),
        false => words.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hour_with_exceptions_has_a_bar_and_words() {
        let chart = chart("hours", "Exceptions", &[3, 0, 1_000_000, u64::MAX]);
        assert_eq!(chart.svg.matches("class=\"hour\"").count(), 3);
        let words = "3 in this hour; 1000000 in the hour 2 hours ago; ";
        assert!(chart.svg.contains(words), "{}", chart.svg);
        assert!(!chart.svg.contains("NaN") && !chart.svg.contains("inf"));
    }

    #[test]
    fn no_hours_and_too_many_give_a_chart() {
        assert!(chart("hours", "E", &[]).svg.contains("none in the last"));
        let many = chart("hours", "E", &[1; 100]);
        assert_eq!(many.svg.matches("class=\"hour\"").count(), HOURS);
    }
}
