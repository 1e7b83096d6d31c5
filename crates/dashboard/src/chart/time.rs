//! The axis of time that all charts have, with marks of what happened to the server.

use charts::Scale;

use super::Frame;
use super::drawing::{Anchor, Drawing, text_width};

/// A time that charts show, up to now.
#[derive(Clone, Debug)]
pub(crate) struct TimeAxis {
    /// Now, in seconds of the UNIX epoch.
    pub(crate) now: u64,
    /// How far back it goes, in seconds.
    pub(crate) length_s: u64,
    /// The usual distance of points, in seconds. What lies further apart is a gap.
    pub(crate) step_s: f64,
    /// Texts along the axis: how long ago, and how it is called.
    pub(crate) ticks: &'static [(u64, &'static str)],
    /// When something happened, and by which number the page's list names it.
    pub(crate) marks: Vec<(u64, usize)>,
}

/// Ten minutes.
pub(crate) const RECENT_TICKS: &[(u64, &str)] = &[
    (600, "10 min ago"),
    (480, "8"),
    (360, "6"),
    (240, "4"),
    (120, "2"),
    (0, "now"),
];
/// A day.
pub(crate) const DAY_TICKS: &[(u64, &str)] = &[
    (86_400, "24 h ago"),
    (64_800, "18"),
    (43_200, "12"),
    (21_600, "6"),
    (0, "now"),
];

impl TimeAxis {
    /// Pixels of seconds before now, as a negative number.
    pub(super) fn scale(&self) -> Scale {
        let Frame { left, right, .. } = Frame::PLOT;
        Scale::exact(-(self.length_s as f64), 0.0, (left, right))
    }

    /// Where a time is on [`TimeAxis::scale`]; `None` where it is too long ago.
    pub(super) fn place(&self, at: u64) -> Option<f64> {
        let before = self.now.saturating_sub(at);
        (before <= self.length_s).then_some(-(before as f64))
    }

    /// Draws the axis.
    pub(super) fn draw(&self, drawing: &mut Drawing) {
        let Frame {
            left, right, base, ..
        } = Frame::PLOT;
        let scale = self.scale();
        for (before, name) in self.ticks {
            let x = scale.at(-(*before as f64));
            drawing.line("grid", (x, base), (x, base + 4.0));
            drawing.inside("tick", (x, base + 18.0), name);
        }
        drawing.line("axis", (left, base), (right, base));
    }

    /// Draws the marks. A number that would lie over the one before is left out.
    pub(super) fn draw_marks(&self, drawing: &mut Drawing) {
        let Frame { top, base, .. } = Frame::PLOT;
        let scale = self.scale();
        let mut free_from = f64::NEG_INFINITY;
        for (at, number) in &self.marks {
            let Some(place) = self.place(*at) else {
                continue;
            };
            let x = scale.at(place);
            drawing.line("mark", (x, top - 4.0), (x, base));
            let name = number.to_string();
            if x >= free_from {
                drawing.text("mark-name", (x + 3.0, top + 6.0), Anchor::Start, &name);
                free_from = x + 4.0 + text_width(&name);
            }
        }
    }
}
