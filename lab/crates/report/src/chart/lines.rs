//! Lines over a common axis, one colour a stack, named at their ends. On a narrow page long names are below the plot.

use charts::Scale;

use super::drawing::{Anchor, Drawing, text_width};
use super::{Caption, Chart, Size, both};
use crate::number::round;

/// Distance between two names.
const PITCH: f64 = 15.0;

/// One stack.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// Its id.
    pub(crate) stack: String,
    /// Its place among the colours.
    pub(crate) colour: usize,
    /// Lines, each with its points from left to right.
    pub(crate) lines: Vec<Vec<(f64, f64)>>,
    /// Thin lines below them: single trials.
    pub(crate) thin: Vec<Vec<(f64, f64)>>,
    /// Points that are marked: where, whether full or hollow, and what a tooltip says.
    pub(crate) marks: Vec<((f64, f64), bool, String)>,
    /// What the series says, in words.
    pub(crate) words: String,
}

/// An axis.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// What it counts, with the unit.
    pub(crate) title: String,
    /// Whether equal distances are equal factors.
    pub(crate) logarithmic: bool,
    /// Ticks with their texts, where they are no round values.
    pub(crate) ticks: Option<Vec<(f64, String)>>,
}

/// A chart of lines.
#[derive(Debug, Clone)]
pub(crate) struct Lines<'a> {
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    pub(crate) caption: &'a str,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: &'a [Series],
    /// Whether a dashed line shows where both axes are equal, and what it is called.
    pub(crate) diagonal: Option<&'a str>,
}

/// Draws it in both widths.
pub(crate) fn chart(lines: &Lines<'_>) -> Chart {
    both(lines.id, lines.title, lines.caption, |size, id| {
        draw(lines, size, id)
    })
}

/// Where the plot is.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    base: f64,
}

fn draw(lines: &Lines<'_>, size: Size, id: &str) -> String {
    let names = lines.series.iter().map(|series| text_width(&series.stack));
    let widest = names.fold(0.0, f64::max);
    let names_at_ends = size == Size::Wide || widest < 92.0;
    let plot = if size == Size::Wide { 320.0_f64 } else { 250.0 };
    let plot = plot.max(if names_at_ends {
        PITCH * lines.series.len() as f64
    } else {
        0.0
    });
    let frame = Frame {
        left: 58.0,
        right: size.width() - if names_at_ends { widest + 22.0 } else { 12.0 },
        top: 26.0,
        base: 26.0 + plot,
    };
    let below = if names_at_ends {
        Vec::new()
    } else {
        rows_below(lines, size)
    };
    let height = frame.base + 46.0 + 20.0 * below.len() as f64;
    let (x, y) = scales(lines, &frame);
    let mut drawing = Drawing::new(size.width(), height);
    axes(&mut drawing, lines, &frame, &x, &y, size);
    let mut ends = Vec::new();
    for series in lines.series {
        let place = |(from, to): (f64, f64)| (x.at(from), y.at(to));
        drawing.series(&series.stack, series.colour, |drawing| {
            for line in &series.thin {
                drawing.path("thin", &line.iter().copied().map(place).collect::<Vec<_>>());
            }
            for line in &series.lines {
                drawing.path("line", &line.iter().copied().map(place).collect::<Vec<_>>());
            }
            for (at, full, tooltip) in &series.marks {
                let class = if *full { "dot" } else { "dot hollow" };
                drawing.dot(class, place(*at), 3.0, tooltip);
            }
        });
        let last = series.lines.iter().filter_map(|line| line.last());
        ends.extend(
            last.max_by(|a, b| a.0.total_cmp(&b.0))
                .map(|end| (series, place(*end))),
        );
    }
    if names_at_ends {
        names_at_line_ends(&mut drawing, &frame, ends);
    }
    names_below(&mut drawing, &frame, &below);
    let words: Vec<String> = lines
        .series
        .iter()
        .map(|series| format!("{}: {}", series.stack, series.words))
        .collect();
    drawing.finish(&Caption {
        id,
        title: lines.title,
        description: words.join("; "),
    })
}

fn scales(lines: &Lines<'_>, frame: &Frame) -> (Scale, Scale) {
    let series = lines.series.iter();
    let points = series.flat_map(|series| {
        let marks = series.marks.iter().map(|mark| mark.0);
        let lines = series.lines.iter().chain(&series.thin);
        lines.flatten().copied().chain(marks)
    });
    let points: Vec<(f64, f64)> = points.collect();
    let (x_low, x_high) = range(points.iter().map(|point| point.0));
    let (y_low, y_high) = range(points.iter().map(|point| point.1));
    let across = (frame.left, frame.right);
    let up = (frame.base, frame.top);
    let horizontal = match &lines.x.ticks {
        Some(_) => Scale::exact(x_low, x_high, across),
        None => Scale::linear(0.0, x_high, 5, across),
    };
    let vertical = if lines.y.logarithmic {
        Scale::logarithmic(y_low, y_high, up)
    } else {
        Scale::linear(0.0, y_high, 5, up)
    };
    (horizontal, vertical)
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

fn axes(drawing: &mut Drawing, lines: &Lines<'_>, frame: &Frame, x: &Scale, y: &Scale, size: Size) {
    let Frame {
        left,
        right,
        top,
        base,
    } = *frame;
    for tick in y.ticks(5) {
        let at = y.at(tick);
        drawing.line("grid", (left, at), (right, at));
        drawing.text("tick", (left - 8.0, at + 4.0), Anchor::End, &round(tick));
    }
    let values = || x.ticks(if size == Size::Wide { 6 } else { 3 });
    let ticks = lines.x.ticks.clone().unwrap_or_else(|| {
        let values = values().into_iter();
        values.map(|tick| (tick, round(tick))).collect()
    });
    let mut free_from = f64::NEG_INFINITY;
    for (tick, text) in &ticks {
        let at = x.at(*tick);
        drawing.line("grid", (at, base), (at, base + 5.0));
        let half = text_width(text) / 2.0;
        // A text that would lie over the one before is left out.
        if at - half >= free_from {
            drawing.inside("tick", (at, base + 18.0), text);
            free_from = at + half;
        }
    }
    drawing.line("axis", (left, base), (right, base));
    drawing.text("unit", (0.0, top - 12.0), Anchor::Start, &lines.y.title);
    drawing.text("unit", (right, base + 38.0), Anchor::End, &lines.x.title);
    if let Some(name) = lines.diagonal {
        // Both axes begin at zero: the diagonal ends where the first of them does.
        let end = x.end().min(y.end());
        drawing.line("diagonal", (x.at(0.0), y.at(0.0)), (x.at(end), y.at(end)));
        let at = (x.at(end * 0.97) - 8.0, y.at(end * 0.97) + 4.0);
        drawing.text("tick", at, Anchor::End, name);
    }
}

/// Names at the right of the lines' ends, moved apart where they would cover each other.
fn names_at_line_ends(drawing: &mut Drawing, frame: &Frame, mut ends: Vec<(&Series, (f64, f64))>) {
    ends.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
    let mut places: Vec<f64> = ends.iter().map(|(_, end)| end.1).collect();
    for index in 1..places.len() {
        places[index] = places[index].max(places[index - 1] + PITCH);
    }
    // What was pushed below the plot pushes back up.
    let mut limit = frame.base;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - PITCH;
    }
    for ((series, end), place) in ends.into_iter().zip(places) {
        let from = frame.right + 14.0;
        drawing.series(&series.stack, series.colour, |drawing| {
            if (place - end.1).abs() > 2.0 || frame.right - end.0 > 2.0 {
                drawing.line("leader", (end.0 + 3.0, end.1), (from - 3.0, place));
            }
            drawing.text("name", (from, place + 4.0), Anchor::Start, &series.stack);
        });
    }
}

/// The names in rows that fit the width.
fn rows_below<'a>(lines: &Lines<'a>, size: Size) -> Vec<Vec<&'a Series>> {
    let mut rows: Vec<Vec<&Series>> = vec![Vec::new()];
    let mut used = 0.0;
    for series in lines.series {
        let needed = text_width(&series.stack) + 38.0;
        if used + needed > size.width() - 8.0 && used > 0.0 {
            rows.push(Vec::new());
            used = 0.0;
        }
        used += needed;
        if let Some(row) = rows.last_mut() {
            row.push(series);
        }
    }
    rows
}

fn names_below(drawing: &mut Drawing, frame: &Frame, rows: &[Vec<&Series>]) {
    for (index, row) in rows.iter().enumerate() {
        let y = frame.base + 60.0 + 20.0 * index as f64;
        let mut x = 8.0;
        for series in row {
            drawing.series(&series.stack, series.colour, |drawing| {
                drawing.path("line", &[(x, y - 4.0), (x + 18.0, y - 4.0)]);
                drawing.text("name", (x + 24.0, y), Anchor::Start, &series.stack);
            });
            x += text_width(&series.stack) + 38.0;
        }
    }
}
