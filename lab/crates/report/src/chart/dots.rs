//! One row a stack: a dot at its value, a whisker for the interval, faint dots for the trials.

use charts::Scale;

use super::drawing::Drawing;
use super::{Caption, Chart, both, rows};
use crate::number::{figure, interval, within};
use compare::statistics::Estimate;

/// One stack's row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The stack's id.
    pub(crate) stack: String,
    /// Index of the stack's colour.
    pub(crate) colour: usize,
    pub(crate) estimate: Estimate,
    /// The value of each trial.
    pub(crate) values: Vec<f64>,
    /// Whether it takes part in the ranking; otherwise the dot is hollow.
    pub(crate) ranks: bool,
}

/// Draws the rows in their order; `unit` is the title of the axis.
pub(crate) fn chart(id: &str, title: &str, caption: &str, unit: &str, rows: &[Row]) -> Chart {
    both(id, title, caption, |size, id| {
        let frame = rows.iter().map(|row| rows::Row {
            label: &row.stack,
            stack: &row.stack,
            colour: row.colour,
            value: words(row),
            most: extent(row),
        });
        let caption = Caption {
            id,
            title,
            description: description(rows, unit),
        };
        let frame: Vec<_> = frame.collect();
        rows::draw(size, &caption, unit, &frame, |drawing, index, scale, y| {
            marks(drawing, &rows[index], scale, y, unit);
        })
    })
}

fn marks(drawing: &mut Drawing, row: &Row, scale: &Scale, y: f64, unit: &str) {
    let at = scale.at(row.estimate.value);
    drawing.line("stem", (scale.at(0.0), y), (at, y));
    for value in &row.values {
        drawing.dot("trial", (scale.at(*value), y), 2.5, "");
    }
    if let Some((low, high)) = row.estimate.interval() {
        drawing.line("whisker", (scale.at(low), y), (scale.at(high), y));
        // An end without a cap says that the interval goes on outside of the chart.
        for end in [low, high].into_iter().filter(|end| scale.contains(*end)) {
            let x = scale.at(end);
            drawing.line("whisker cap", (x, y - 6.0), (x, y + 6.0));
        }
    }
    let class = if row.ranks { "dot" } else { "dot hollow" };
    let tooltip = format!("{}: {} {unit}", row.stack, words(row));
    drawing.dot(class, (at, y), 4.5, &tooltip);
}

/// The largest value that has to fit. An interval of few trials may be wide; it is cut at three times the value.
fn extent(row: &Row) -> f64 {
    let most = row
        .values
        .iter()
        .copied()
        .fold(row.estimate.value, f64::max);
    let high = row.estimate.interval().map_or(0.0, |(_, high)| high);
    most.max(high.min(row.estimate.value * 3.0))
}

fn words(row: &Row) -> String {
    if row.ranks {
        within(row.estimate)
    } else {
        format!("{}, not ranked", figure(row.estimate.value))
    }
}

fn description(rows: &[Row], unit: &str) -> String {
    let lines = rows.iter().map(|row| {
        let of = interval(row.estimate).map_or(String::new(), |ends| format!(" ({ends})"));
        let place = if row.ranks { "" } else { ", not ranked" };
        format!(
            "{}: {} {unit}{of}{place}",
            row.stack,
            figure(row.estimate.value)
        )
    });
    lines.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps(estimate: Estimate) -> usize {
        let row = Row {
            stack: "puma".into(),
            colour: 0,
            estimate,
            values: vec![estimate.value],
            ranks: true,
        };
        let chart = chart("rate", "Rate", "", "requests/s", &[row]);
        chart.wide.matches("whisker cap").count()
    }

    #[test]
    fn an_interval_that_leaves_the_chart_has_no_cap_at_that_end() {
        let estimate = |low, high| Estimate {
            value: 100.0,
            low,
            high,
        };
        assert_eq!(caps(estimate(90.0, 110.0)), 2);
        assert_eq!(caps(estimate(90.0, 9_000.0)), 1);
    }
}
