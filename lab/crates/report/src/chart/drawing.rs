//! Writes SVG: escapes every text, rounds every number, and closes what it opened.

use std::fmt::{Display, Write as _};

use minijinja::HtmlEscape;

use super::Caption;

/// Width of an average character relative to the font size, on the wide side, so that labels fit.
const CHARACTER: f64 = 0.6;

/// Size of all text in pixels.
pub(super) const FONT: f64 = 12.0;

/// Which end of a text stands at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing under way.
#[derive(Debug)]
pub(super) struct Drawing {
    width: f64,
    height: f64,
    body: String,
}

/// The space that a text needs.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * FONT * CHARACTER
}

impl Drawing {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
        }
    }

    fn push(&mut self, text: impl Display) {
        write!(self.body, "{text}").expect("writing to a string cannot fail");
    }

    /// Everything of one stack: its colour, and dashes where the colours repeat.
    pub(super) fn series(&mut self, stack: &str, colour: usize, draw: impl FnOnce(&mut Self)) {
        let dashed = match colour >= super::COLOURS {
            _ if stack.is_empty() => " absent",
            true => " dashed",
            false => "",
        };
        self.push(format_args!(
            "<g class=\"series s{}{dashed}\" data-stack=\"{}\">",
            colour % super::COLOURS,
            HtmlEscape(stack)
        ));
        draw(self);
        self.push("</g>");
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut data = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            write!(data, "{command}{x:.1} {y:.1}").expect("writing to a string cannot fail");
        }
        self.push(format_args!("<path class=\"{class}\" d=\"{data}\"/>"));
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
                "M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z"
            ));
        }
        self.push("\"/>");
    }

    /// A dot; `tooltip` shows when a pointer rests on it and may be empty.
    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, tooltip: &str) {
        self.push(format_args!(
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\""
        ));
        if tooltip.is_empty() {
            self.push("/>");
        } else {
            self.push(format_args!(
                "><title>{}</title></circle>",
                HtmlEscape(tooltip)
            ));
        }
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
        let x = x.clamp(half, (self.width - half).max(half));
        self.text(class, (x, y), Anchor::Middle, text);
    }

    pub(super) fn finish(self, caption: &Caption<'_>) -> String {
        let Self {
            width,
            height,
            body,
        } = self;
        let id = HtmlEscape(caption.id);
        format!(
            "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\
             <title id=\"{id}-title\">{}</title><desc id=\"{id}-desc\">{}</desc>{body}</svg>",
            HtmlEscape(caption.title),
            HtmlEscape(&caption.description)
        )
    }
}
