//! One row a stack: a dot at its value, whiskers for the interval, faint dots for the trials, the value in figures.

use super::drawing::{Anchor, Drawing, text_width};
use super::scale::Scale;
use super::{Caption, Chart, Size, both};
use crate::number::{figure, interval, round, within};
use compare::statistics::Estimate;

/// One stack's row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The stack's id.
    pub(crate) stack: String,
    /// Its place among the colours.
    pub(crate) colour: usize,
    pub(crate) estimate: Estimate,
    /// Each trial's own.
    pub(crate) values: Vec<f64>,
    /// Whether it takes part in the ranking; otherwise the dot is hollow.
    pub(crate) ranks: bool,
}

/// Draws the rows in their order; `unit` stands at the axis.
pub(crate) fn chart(id: &str, title: &str, caption: &str, unit: &str, rows: &[Row]) -> Chart {
    both(id, title, caption, |size, id| {
        draw(size, id, title, unit, rows)
    })
}

fn draw(size: Size, id: &str, title: &str, unit: &str, rows: &[Row]) -> String {
    let width = size.width();
    let labels = rows.iter().map(|row| text_width(&row.stack));
    let (left, right, pitch) = match size {
        Size::Wide => (labels.fold(60.0, f64::max).min(220.0) + 14.0, 150.0, 34.0),
        Size::Narrow => (8.0, 8.0, 46.0),
    };
    let (top, bottom) = (6.0, 44.0);
    let height = top + pitch * rows.len() as f64 + bottom;
    let base = height - bottom;
    let most = rows.iter().map(extent).fold(0.0, f64::max);
    let ticks = if size == Size::Wide { 5 } else { 3 };
    let scale = Scale::linear(0.0, most, ticks, (left, width - right));
    let mut drawing = Drawing::new(width, height);
    for tick in scale.ticks(ticks) {
        let x = scale.at(tick);
        drawing.line("grid", (x, top), (x, base));
        drawing.inside("tick", (x, base + 16.0), &round(tick));
    }
    let middle = f64::midpoint(left, width - right);
    drawing.text("unit", (middle, base + 36.0), Anchor::Middle, unit);
    for (index, row) in rows.iter().enumerate() {
        let row_top = top + pitch * index as f64;
        let y = match size {
            Size::Wide => row_top + pitch / 2.0,
            Size::Narrow => row_top + 32.0,
        };
        let words = words(row);
        match size {
            Size::Wide => {
                drawing.text("label", (left - 12.0, y + 4.0), Anchor::End, &row.stack);
                drawing.text(
                    "value",
                    (width - right + 14.0, y + 4.0),
                    Anchor::Start,
                    &words,
                );
            }
            Size::Narrow => {
                drawing.text("label", (left, row_top + 16.0), Anchor::Start, &row.stack);
                drawing.text(
                    "value",
                    (width - right, row_top + 16.0),
                    Anchor::End,
                    &words,
                );
            }
        }
        drawing.series(&row.stack, row.colour, |drawing| {
            marks(drawing, row, &scale, y, unit)
        });
    }
    drawing.finish(&Caption {
        id,
        title,
        description: description(rows, unit),
    })
}

fn marks(drawing: &mut Drawing, row: &Row, scale: &Scale, y: f64, unit: &str) {
    let at = scale.at(row.estimate.value);
    drawing.line("stem", (scale.at(0.0), y), (at, y));
    for value in &row.values {
        drawing.dot("trial", (scale.at(*value), y), 2.5, "");
    }
    if let Some((low, high)) = row.estimate.interval() {
        let (low, high) = (scale.at(low), scale.at(high));
        drawing.line("whisker", (low, y), (high, y));
        for end in [low, high] {
            drawing.line("whisker", (end, y - 6.0), (end, y + 6.0));
        }
    }
    let class = if row.ranks { "dot" } else { "dot hollow" };
    let tooltip = format!("{}: {} {unit}", row.stack, words(row));
    drawing.dot(class, (at, y), 4.5, &tooltip);
}

/// The largest value that has to fit. An interval of very few trials may end far out; it is cut at three times the value.
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
