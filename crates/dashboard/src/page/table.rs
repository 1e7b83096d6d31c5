//! A table as the template writes it: heads that may sort, rows with a name. It computes no figure.

use serde::Serialize;

/// A table.
#[derive(Debug, Default, Serialize)]
pub(super) struct Table {
    pub(super) id: &'static str,
    pub(super) caption: String,
    /// Of the names of rows, then of the cells.
    pub(super) heads: Vec<Head>,
    pub(super) rows: Vec<Row>,
    /// What stands there without rows.
    pub(super) empty: &'static str,
    /// A link to more rows, with its text.
    pub(super) more: Option<(String, String)>,
}

/// The head of a column.
#[derive(Debug, Default, Serialize)]
pub(super) struct Head {
    pub(super) title: &'static str,
    /// Where it leads: the same sorted by this column.
    pub(super) link: Option<String>,
    /// `ascending` or `descending`, where it is sorted by this column.
    pub(super) sort: Option<&'static str>,
}

/// A row.
#[derive(Debug, Default, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) detail: Option<String>,
    pub(super) link: Option<String>,
    pub(super) cells: Vec<Cell>,
}

/// A cell.
#[derive(Debug, Default, Serialize)]
pub(super) struct Cell {
    /// Its lines.
    pub(super) lines: Vec<String>,
    /// A share from 0 to 1, drawn as a bar of 100.
    pub(super) bar: Option<f64>,
    /// Whether it holds words, and no number.
    pub(super) words: bool,
    /// Whether it needs somebody.
    pub(super) bad: bool,
}

impl Table {
    /// Heads that do not sort.
    pub(super) fn heads<const N: usize>(titles: [&'static str; N]) -> Vec<Head> {
        let head = |title| Head {
            title,
            ..Head::default()
        };
        titles.map(head).into()
    }
}

impl Cell {
    /// A number with its unit.
    pub(super) fn number(text: impl ToString) -> Self {
        Self {
            lines: vec![text.to_string()],
            ..Self::default()
        }
    }

    /// A text.
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self::lines(vec![text.into()])
    }

    /// Several texts below each other.
    pub(super) fn lines(lines: Vec<String>) -> Self {
        Self {
            lines,
            words: true,
            ..Self::default()
        }
    }

    /// With a bar for a share from 0 to 1.
    pub(super) fn with_bar(self, share: f64) -> Self {
        let percent = (share.clamp(0.0, 1.0) * 1000.0).round() / 10.0;
        Self {
            bar: share.is_finite().then_some(percent),
            ..self
        }
    }

    /// Marked where it needs somebody.
    pub(super) fn bad_if(self, bad: bool) -> Self {
        Self { bad, ..self }
    }
}
