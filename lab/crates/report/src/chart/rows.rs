//! The frame of charts with one row a stack: its name, its marks along a common axis from zero, its value in figures.
//! The marks are drawn by the kind of chart.

use charts::Scale;

use super::drawing::{Anchor, Drawing, text_width};
use super::{Caption, Size};
use crate::number::round;

/// One row.
pub(super) struct Row<'a> {
    /// Name of the row.
    pub(super) label: &'a str,
    /// The stack's id; empty where none was measured.
    pub(super) stack: &'a str,
    /// Index of the stack's colour.
    pub(super) colour: usize,
    /// The value in figures.
    pub(super) value: String,
    /// The largest value that has to fit.
    pub(super) most: f64,
}

/// Distance of texts from marks and edges.
const GAP: f64 = 12.0;

/// Draws the rows in their order. `marks` draws those of a row, given by its index, at a height in the drawing.
pub(super) fn draw(
    size: Size,
    caption: &Caption<'_>,
    unit: &str,
    rows: &[Row<'_>],
    marks: impl Fn(&mut Drawing, usize, &Scale, f64),
) -> String {
    let width = size.width();
    let widest = |text: fn(&Row<'_>) -> f64| rows.iter().map(text).fold(60.0, f64::max);
    let labels = widest(|row| text_width(row.label));
    let values = widest(|row| text_width(&row.value));
    // A name and a value that do not fit on one line of a narrow page get a line each.
    let lines = match labels + values + 3.0 * GAP > width {
        true => 2.0,
        false => 1.0,
    };
    let (left, right, pitch) = match size {
        Size::Wide => (labels + 2.0 + GAP, values + 2.0 * GAP, 34.0),
        Size::Narrow => (8.0, 8.0, 30.0 + 16.0 * lines),
    };
    let top = 6.0;
    let base = top + pitch * rows.len() as f64;
    let ticks = if size == Size::Wide { 5 } else { 3 };
    let most = rows.iter().map(|row| row.most).fold(0.0, f64::max);
    let scale = Scale::linear(0.0, most, ticks, (left, width - right));
    let mut drawing = Drawing::new(width, base + 44.0);
    for tick in scale.ticks(ticks) {
        let x = scale.at(tick);
        drawing.line("grid", (x, top), (x, base));
        drawing.inside("tick", (x, base + 16.0), &round(tick));
    }
    drawing.inside(
        "unit",
        (f64::midpoint(left, width - right), base + 36.0),
        unit,
    );
    for (index, row) in rows.iter().enumerate() {
        let row_top = top + pitch * index as f64;
        let middle = match size {
            Size::Wide => row_top + pitch / 2.0,
            Size::Narrow => row_top + pitch - 14.0,
        };
        let first_line = row_top + 16.0;
        let (label, value) = match size {
            Size::Wide => (
                (left - GAP, middle + 4.0, Anchor::End),
                (width - right + GAP, middle + 4.0, Anchor::Start),
            ),
            Size::Narrow if lines > 1.0 => (
                (left, first_line, Anchor::Start),
                (left, first_line + 16.0, Anchor::Start),
            ),
            Size::Narrow => (
                (left, first_line, Anchor::Start),
                (width - right, first_line, Anchor::End),
            ),
        };
        drawing.text("label", (label.0, label.1), label.2, row.label);
        drawing.text("value", (value.0, value.1), value.2, &row.value);
        drawing.series(row.stack, row.colour, |drawing| {
            marks(drawing, index, &scale, middle);
        });
    }
    drawing.finish(caption)
}
