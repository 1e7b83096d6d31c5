//! Writes SVG: escapes every text, rounds every number, and closes what it opened.

use std::fmt::{Display, Write as _};

use minijinja::HtmlEscape;

use charts::Scale;

use super::{Frame, WIDTH};

/// Width of an average character of 12 pixels, on the wide side, so that labels fit.
const CHARACTER: f64 = 7.0;

/// Which end of a text stands at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing under way.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    body: String,
}

/// The space that a text needs.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

impl Drawing {
    fn push(&mut self, text: impl Display) {
        write!(self.body, "{text}").expect("writing to a string cannot fail");
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A line through points.
    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        self.push(format_args!("<path class=\"{class}\" d=\""));
        for (index, (x, y)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            self.push(format_args!("{command}{x:.1} {y:.1}"));
        }
        self.push("\"/>");
    }

    /// Rectangles of one size in pixels, given by their corners at the top left.
    pub(super) fn cells(
        &mut self,
        class: &str,
        corners: &[(f64, f64)],
        (width, height): (f64, f64),
    ) {
        self.push(format_args!("<path class=\"{class}\" d=\""));
        for (x, y) in corners {
            self.push(format_args!(
                "M{x:.1} {y:.1}h{width:.2}v{height:.2}h-{width:.2}z"
            ));
        }
        self.push("\"/>");
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            HtmlEscape(text)
        ));
    }

    /// A text around a position, moved inwards where it would leave the drawing.
    pub(super) fn inside(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let half = text_width(text) / 2.0;
        let x = x.clamp(half, (WIDTH - half).max(half));
        self.text(class, (x, y), Anchor::Middle, text);
    }

    /// Names of series in a row at the right above the plot, each with a piece of its line or area.
    pub(super) fn key(&mut self, names: &[(usize, &str)]) {
        let mut x = Frame::PLOT.right;
        for (colour, name) in names.iter().rev() {
            x -= text_width(name);
            self.text("key", (x, 12.0), Anchor::Start, name);
            self.path(
                &format!("line s{colour}"),
                &[(x - 18.0, 8.0), (x - 5.0, 8.0)],
            );
            x -= 30.0;
        }
    }

    /// The ticks of the axis at the left.
    pub(super) fn side(&mut self, scale: &Scale, about: usize, name: impl Fn(f64) -> String) {
        for tick in scale.ticks(about) {
            self.side_tick(scale.at(tick), &name(tick));
        }
    }

    /// One tick of the axis at the left.
    pub(super) fn side_tick(&mut self, at: f64, name: &str) {
        let Frame { left, right, .. } = Frame::PLOT;
        self.line("grid", (left, at), (right, at));
        self.text("tick", (left - 8.0, at + 4.0), Anchor::End, name);
    }

    /// Returns the picture; assistive technology reads the title and the description.
    pub(super) fn finish(self, id: &str, title: &str, description: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH:.0} {:.0}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\
             <title id=\"{id}-title\">{}</title><desc id=\"{id}-desc\">{}</desc>{}</svg>",
            Frame::HEIGHT,
            HtmlEscape(title),
            HtmlEscape(description),
            self.body
        )
    }
}
