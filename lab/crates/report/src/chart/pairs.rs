//! One row a participant: a hollow dot for then, a full one for now, and the way between them.

use super::drawing::{Anchor, Drawing, text_width};
use super::scale::Scale;
use super::{Caption, Chart, Size, both};
use crate::number::{figure, round};

/// One participant's row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The stack's id; empty where none was measured.
    pub(crate) stack: String,
    /// Its place among the colours.
    pub(crate) colour: usize,
    pub(crate) then: Option<f64>,
    pub(crate) now: Option<f64>,
}

/// Draws the rows in their order.
pub(crate) fn chart(id: &str, title: &str, caption: &str, unit: &str, rows: &[Row]) -> Chart {
    both(id, title, caption, |size, id| {
        draw(size, id, title, unit, rows)
    })
}

fn draw(size: Size, id: &str, title: &str, unit: &str, rows: &[Row]) -> String {
    let width = size.width();
    let widest = rows.iter().map(|row| text_width(&row.name));
    let (left, right, pitch) = match size {
        Size::Wide => (widest.fold(60.0, f64::max).min(330.0) + 14.0, 120.0, 34.0),
        Size::Narrow => (8.0, 8.0, 46.0),
    };
    let (top, bottom) = (6.0, 44.0);
    let base = top + pitch * rows.len() as f64;
    let values = rows.iter().flat_map(|row| [row.then, row.now]).flatten();
    let most = values.fold(0.0, f64::max);
    let ticks = if size == Size::Wide { 5 } else { 3 };
    let scale = Scale::linear(0.0, most, ticks, (left, width - right));
    let mut drawing = Drawing::new(width, base + bottom);
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
        let (words, above) = (words(row), row_top + 16.0);
        if size == Size::Wide {
            drawing.text("label", (left - 12.0, y + 4.0), Anchor::End, &row.name);
            let at = (width - right + 14.0, y + 4.0);
            drawing.text("value", at, Anchor::Start, &words);
        } else {
            drawing.text("label", (left, above), Anchor::Start, &row.name);
            drawing.text("value", (width - right, above), Anchor::End, &words);
        }
        drawing.series(&row.stack, row.colour, |drawing| {
            marks(drawing, row, &scale, y);
        });
    }
    let words: Vec<String> = rows
        .iter()
        .map(|row| format!("{}: {}", row.name, self::words(row)))
        .collect();
    drawing.finish(&Caption {
        id,
        title,
        description: format!("then → now; {}", words.join("; ")),
    })
}

fn marks(drawing: &mut Drawing, row: &Row, scale: &Scale, y: f64) {
    if let (Some(then), Some(now)) = (row.then, row.now) {
        drawing.line("way", (scale.at(then), y), (scale.at(now), y));
    }
    for (value, class, when) in [(row.then, "dot hollow", "then"), (row.now, "dot", "now")] {
        if let Some(value) = value {
            let tooltip = format!("{}: {} {when}", row.name, figure(value));
            drawing.dot(class, (scale.at(value), y), 5.0, &tooltip);
        }
    }
}

fn words(row: &Row) -> String {
    let text = |value: Option<f64>| value.map_or("–".to_owned(), figure);
    format!("{} → {}", text(row.then), text(row.now))
}
