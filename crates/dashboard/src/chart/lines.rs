//! Lines over time.

use charts::Scale;

use super::drawing::Drawing;
use super::time::TimeAxis;
use super::{Chart, Frame};

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// Its place among the colours.
    pub(crate) colour: usize,
    /// Time and value; a time without a value is a gap.
    pub(crate) points: Vec<(u64, Option<f64>)>,
}

/// A chart of lines.
#[derive(Debug, Clone)]
pub(crate) struct Lines<'a> {
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) logarithmic: bool,
    /// A value of the axis, or of the last point, as text.
    pub(crate) name: fn(f64) -> String,
    pub(crate) lines: Vec<Line>,
}

/// Draws it.
pub(crate) fn chart(lines: &Lines<'_>, axis: &TimeAxis) -> Chart {
    let Frame { top, base, .. } = Frame::PLOT;
    let shown = || {
        let points = lines.lines.iter().flat_map(|line| &line.points);
        let points = points.filter(|(at, _)| axis.place(*at).is_some());
        points
            .filter_map(|(_, value)| *value)
            .filter(|value| value.is_finite())
    };
    let most = shown().fold(0.0, f64::max);
    let scale = match lines.logarithmic {
        true => {
            let least = shown().fold(f64::INFINITY, f64::min);
            // From a millisecond, where nothing or no time at all is shown.
            let known = least > 0.0 && least.is_finite();
            Scale::logarithmic(if known { least } else { 0.001 }, most, (base, top))
        }
        false => Scale::linear(0.0, most, 4, (base, top)),
    };
    let mut drawing = Drawing::default();
    match shown().next() {
        Some(_) => drawing.side(&scale, 4, lines.name),
        None => drawing.inside("empty", (250.0, (top + base) / 2.0), "no figures yet"),
    }
    axis.draw(&mut drawing);
    for line in &lines.lines {
        for piece in pieces(line, axis, &scale) {
            drawing.path(&format!("line s{}", line.colour), &piece);
        }
    }
    axis.draw_marks(&mut drawing);
    let names: Vec<_> = lines
        .lines
        .iter()
        .map(|line| (line.colour, line.name))
        .collect();
    drawing.key(&names);
    Chart {
        id: lines.id.to_owned(),
        title: lines.title.to_owned(),
        unit: lines.unit.to_owned(),
        svg: drawing.finish(lines.id, lines.title, &description(lines)),
    }
}

/// The line in pixels, broken where something is missing. A point alone becomes a short line, so that it is seen.
fn pieces(line: &Line, axis: &TimeAxis, scale: &Scale) -> Vec<Vec<(f64, f64)>> {
    let across = axis.scale();
    let mut pieces = vec![Vec::new()];
    let mut last: Option<u64> = None;
    for (at, value) in &line.points {
        let far = last.is_some_and(|last| at.saturating_sub(last) as f64 > axis.step_s * 2.5);
        last = Some(*at);
        let value = value.filter(|value| value.is_finite());
        if far || value.is_none() {
            pieces.push(Vec::new());
        }
        if let (Some(place), Some(value), Some(piece)) = (axis.place(*at), value, pieces.last_mut())
        {
            piece.push((across.at(place), scale.at(value)));
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    for piece in &mut pieces {
        if let [(x, y)] = piece[..] {
            piece.push(((x - 2.0).max(Frame::PLOT.left), y));
        }
    }
    pieces
}

fn description(lines: &Lines<'_>) -> String {
    let words = lines.lines.iter().map(|line| {
        let values = || line.points.iter().filter_map(|(_, value)| *value);
        match values().next_back() {
            None => format!("{}: no figures yet", line.name),
            Some(last) => {
                let least = (lines.name)(values().fold(f64::INFINITY, f64::min));
                let most = (lines.name)(values().fold(0.0, f64::max));
                format!(
                    "{}: {} now, from {least} to {most}",
                    line.name,
                    (lines.name)(last)
                )
            }
        }
    });
    words.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::time::RECENT_TICKS;
    use super::*;
    use crate::text::figure;

    fn drawn(points: Vec<(u64, Option<f64>)>, logarithmic: bool) -> String {
        let axis = TimeAxis {
            now: 10_000,
            length_s: 600,
            step_s: 5.0,
            ticks: RECENT_TICKS,
            marks: vec![(9_700, 1), (9_701, 2), (10, 3)],
        };
        let line = Line {
            name: "all",
            colour: 0,
            points,
        };
        let lines = Lines {
            id: "rate",
            title: "Requests",
            unit: "a second",
            logarithmic,
            name: figure,
            lines: vec![line],
        };
        chart(&lines, &axis).svg
    }

    #[test]
    fn a_line_is_broken_where_something_is_missing() {
        let some = |at| (at, Some(1.0));
        let pieces = |points| drawn(points, false).matches("line s0").count() - 1;
        assert_eq!(pieces(vec![some(9_990), some(9_995), some(10_000)]), 1);
        assert_eq!(pieces(vec![some(9_900), some(9_995), some(10_000)]), 2);
        assert_eq!(pieces(vec![some(9_990), (9_995, None), some(10_000)]), 2);
        assert_eq!(pieces(vec![some(1_000)]), 0, "too long ago");
    }

    #[test]
    fn no_point_and_odd_values_give_a_chart() {
        for points in [
            vec![],
            vec![(10_000, None)],
            vec![(10_000, Some(0.0))],
            vec![(20_000, Some(1.0))],
            vec![(10_000, Some(f64::NAN)), (9_000, Some(f64::INFINITY))],
        ] {
            for logarithmic in [false, true] {
                let svg = drawn(points.clone(), logarithmic);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn marks_that_lie_close_have_one_number() {
        let svg = drawn(vec![], false);
        assert_eq!(
            svg.matches("class=\"mark\"").count(),
            2,
            "one is too long ago"
        );
        assert_eq!(svg.matches("class=\"mark-name\"").count(), 1);
    }
}
