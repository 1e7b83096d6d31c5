//! One row a participant: a hollow dot for then, a full one for now, and a line between them.

use super::{Caption, Chart, both, rows};
use crate::number::figure;

/// One participant's row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The stack's id; empty where none was measured.
    pub(crate) stack: String,
    /// Index of the stack's colour.
    pub(crate) colour: usize,
    pub(crate) then: Option<f64>,
    pub(crate) now: Option<f64>,
}

/// Draws the rows in their order.
pub(crate) fn chart(id: &str, title: &str, caption: &str, unit: &str, rows: &[Row]) -> Chart {
    both(id, title, caption, |size, id| {
        let frame = rows.iter().map(|row| rows::Row {
            label: &row.name,
            stack: &row.stack,
            colour: row.colour,
            value: words(row),
            most: row.then.unwrap_or(0.0).max(row.now.unwrap_or(0.0)),
        });
        let frame: Vec<_> = frame.collect();
        let described = frame
            .iter()
            .map(|row| format!("{}: {}", row.label, row.value));
        let caption = Caption {
            id,
            title,
            description: format!("then → now; {}", described.collect::<Vec<_>>().join("; ")),
        };
        rows::draw(size, &caption, unit, &frame, |drawing, index, scale, y| {
            let row = &rows[index];
            if let (Some(then), Some(now)) = (row.then, row.now) {
                drawing.line("way", (scale.at(then), y), (scale.at(now), y));
            }
            let marks = [(row.then, "dot hollow", "then"), (row.now, "dot", "now")];
            for (value, class, when) in marks {
                if let Some(value) = value {
                    let tooltip = format!("{}: {} {when}", row.name, figure(value));
                    drawing.dot(class, (scale.at(value), y), 5.0, &tooltip);
                }
            }
        })
    })
}

fn words(row: &Row) -> String {
    let text = |value: Option<f64>| value.map_or("–".to_owned(), figure);
    format!("{} → {}", text(row.then), text(row.now))
}
