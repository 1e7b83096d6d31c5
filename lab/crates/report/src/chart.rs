//! Charts as inline SVG, each drawn twice: for wide pages and for narrow ones, where scaling would make the text too
//! small to read. No script, no font, no picture from elsewhere; colours are the page's, one for each stack.

use serde::Serialize;

pub(super) mod bars;
pub(super) mod dots;
mod drawing;
pub(super) mod heat;
pub(super) mod lines;
pub(super) mod pairs;
mod rows;

/// How many colours there are; further stacks repeat them with dashed lines.
pub(super) const COLOURS: usize = 8;

/// One chart in both widths.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Chart {
    /// Title, above the chart.
    title: String,
    /// How to read it, below it; may be empty.
    caption: String,
    /// Known causes of what it shows.
    notes: Vec<String>,
    wide: String,
    narrow: String,
}

impl Chart {
    /// The chart with notes on the causes of what it shows.
    pub(super) fn with_notes(self, notes: Vec<String>) -> Self {
        Self { notes, ..self }
    }
}

/// The page that a drawing is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Wide,
    Narrow,
}

impl Size {
    /// In pixels of CSS.
    fn width(self) -> f64 {
        match self {
            Self::Wide => 880.0,
            Self::Narrow => 340.0,
        }
    }
}

/// What assistive technology reads, and what the ids of its parts begin with.
struct Caption<'a> {
    id: &'a str,
    title: &'a str,
    description: String,
}

fn both(id: &str, title: &str, caption: &str, draw: impl Fn(Size, &str) -> String) -> Chart {
    Chart {
        title: title.to_owned(),
        caption: caption.to_owned(),
        notes: Vec::new(),
        wide: draw(Size::Wide, &format!("{id}-wide")),
        narrow: draw(Size::Narrow, &format!("{id}-narrow")),
    }
}
