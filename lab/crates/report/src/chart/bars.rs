//! One row a stack: a bar that is divided into parts, from dark to light.

use super::{Caption, Chart, both, rows};
use crate::number::figure;

/// One stack's row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The stack's id.
    pub(crate) stack: String,
    /// Index of the stack's colour.
    pub(crate) colour: usize,
    /// Name and value of each part, in the order of the bar; parts without a value are left out.
    pub(crate) parts: Vec<(&'static str, f64)>,
}

impl Row {
    /// All parts together.
    pub(crate) fn total(&self) -> f64 {
        self.parts.iter().map(|(_, value)| value).sum()
    }
}

/// Draws the rows in their order; `names` are those of all parts, from dark to light.
pub(crate) fn chart(
    id: &str,
    title: &str,
    caption: &str,
    unit: &str,
    (rows, names): (&[Row], &[&str]),
) -> Chart {
    both(id, title, caption, |size, id| {
        let frame = rows.iter().map(|row| rows::Row {
            label: &row.stack,
            stack: &row.stack,
            colour: row.colour,
            value: words(row),
            most: row.total(),
        });
        let frame: Vec<_> = frame.collect();
        let described = rows
            .iter()
            .map(|row| format!("{}: {} {unit}", row.stack, words(row)));
        let caption = Caption {
            id,
            title,
            description: described.collect::<Vec<_>>().join("; "),
        };
        rows::draw(size, &caption, unit, &frame, |drawing, index, scale, y| {
            let mut from = 0.0;
            for (name, value) in &rows[index].parts {
                let shade = names.iter().position(|other| other == name);
                let class = format!("bar p{}", shade.unwrap_or_default());
                let (left, right) = (scale.at(from), scale.at(from + value));
                drawing.cells(&class, &[(left, y - 8.0)], (right - left, 16.0));
                from += value;
            }
        })
    })
}

fn words(row: &Row) -> String {
    let parts = row
        .parts
        .iter()
        .map(|(name, value)| format!("{} {name}", figure(*value)));
    let parts: Vec<String> = parts.collect();
    match row.parts.len() {
        0 | 1 => parts.join(""),
        _ => format!("{}: {}", figure(row.total()), parts.join(", ")),
    }
}
