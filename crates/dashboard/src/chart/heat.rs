//! A heat map of latency: a column a piece of time, a row half an octave, a cell the darker the more requests it has.

use charts::Scale;

use super::drawing::Drawing;
use super::time::TimeAxis;
use super::{Chart, Frame};
use crate::series::{Bucket, Point};
use crate::text::duration;

/// Number of colours.
const SHADES: usize = 6;
/// Rows of an octave.
const ROWS_AN_OCTAVE: f64 = 2.0;
/// The rows of durations from 0.1 ms to 20 min; shorter and longer ones are in the rows at the ends.
const ROWS: (i32, i32) = (-27, 20);
/// Rows of a map at least, so that a steady server has no map of one row.
const LEAST_ROWS: i32 = 8;

/// Draws the points; those of a day may be some minutes long.
pub(crate) fn chart(id: &str, title: &str, points: &[Point], axis: &TimeAxis) -> Chart {
    let Frame { top, base, .. } = Frame::PLOT;
    let points: Vec<(f64, &Point)> = points
        .iter()
        .filter_map(|point| axis.place(point.at).map(|place| (place, point)))
        .collect();
    let rows = points
        .iter()
        .flat_map(|(_, point)| point.latency.iter().map(row));
    let (low, high) = rows.fold((i32::MAX, i32::MIN), |(low, high), row| {
        (low.min(row), high.max(row))
    });
    let mut drawing = Drawing::default();
    let description = if low > high {
        drawing.inside("empty", (250.0, (top + base) / 2.0), "no figures yet");
        "no figures yet".to_owned()
    } else {
        let high = high.max(low + LEAST_ROWS - 1);
        draw(&mut drawing, &points, axis, (low, high));
        let (least, most) = (duration(start(low)), duration(start(high + 1)));
        format!("Requests by duration, from {least} to {most}; the darker, the more requests")
    };
    axis.draw(&mut drawing);
    axis.draw_marks(&mut drawing);
    Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        unit: "darker: more requests".to_owned(),
        svg: drawing.finish(id, title, &description),
    }
}

fn draw(drawing: &mut Drawing, points: &[(f64, &Point)], axis: &TimeAxis, (low, high): (i32, i32)) {
    let Frame {
        left, top, base, ..
    } = Frame::PLOT;
    let rows = usize::try_from(high - low + 1).unwrap_or(1);
    let height = (base - top) / rows as f64;
    let seconds = Scale::logarithmic(start(low), start(high + 1), (base, top));
    // The axis of ticks ends at round values, that of rows where they end.
    let edge = |row: i32| base - f64::from(row - low) * height;
    for tick in seconds.ticks(4) {
        let place = (tick.log2() * ROWS_AN_OCTAVE - f64::from(low)) * height;
        if (0.0..=base - top).contains(&place) {
            drawing.side_tick(base - place, &duration(tick));
        }
    }
    let counts: Vec<(f64, Vec<u64>)> = points
        .iter()
        .map(|(place, point)| {
            let mut counts = vec![0; rows];
            for bucket in &point.latency {
                let index = usize::try_from(row(bucket) - low).unwrap_or_default();
                counts[index.min(rows - 1)] += bucket.count;
            }
            (*place, counts)
        })
        .collect();
    let most = counts.iter().flat_map(|(_, counts)| counts).copied().max();
    let across = axis.scale();
    let width = across.at(0.0) - across.at(-axis.step_s);
    let mut shades: Vec<Vec<(f64, f64)>> = vec![Vec::new(); SHADES];
    for (place, counts) in &counts {
        for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let x = (across.at(*place) - width).max(left);
            let row = low + i32::try_from(index).unwrap_or_default();
            shades[shade(*count, most.unwrap_or(1))].push((x, edge(row + 1)));
        }
    }
    for (shade, cells) in shades
        .iter()
        .enumerate()
        .filter(|(_, cells)| !cells.is_empty())
    {
        drawing.cells(&format!("heat h{shade}"), cells, (width, height));
    }
}

/// The row of a bucket: that in which its middle is.
fn row(bucket: &Bucket) -> i32 {
    let middle = (bucket.above_s.max(bucket.up_to_s / 2.0) * bucket.up_to_s).sqrt();
    let row = (middle.log2() * ROWS_AN_OCTAVE).floor();
    // A conversion from a float saturates.
    (row as i32).clamp(ROWS.0, ROWS.1)
}

/// The duration at which a row begins, in seconds.
fn start(row: i32) -> f64 {
    (f64::from(row) / ROWS_AN_OCTAVE).exp2()
}

/// The colour of a count: equal factors between one request and the most, so that single slow ones are seen.
fn shade(count: u64, most: u64) -> usize {
    let share = ((count as f64).ln_1p()) / (most as f64).ln_1p();
    ((share * SHADES as f64) as usize).min(SHADES - 1)
}

#[cfg(test)]
mod tests {
    use super::super::time::RECENT_TICKS;
    use super::*;

    fn drawn(buckets: &[(f64, u64)]) -> String {
        let latency = buckets.iter().map(|&(up_to_s, count)| Bucket {
            above_s: up_to_s / 1.09,
            up_to_s,
            count,
        });
        let point = Point {
            at: 9_990,
            latency: latency.collect(),
            ..Point::default()
        };
        let axis = TimeAxis {
            now: 10_000,
            length_s: 600,
            step_s: 5.0,
            ticks: RECENT_TICKS,
            marks: Vec::new(),
        };
        chart("heat", "Latency", &[point], &axis).svg
    }

    #[test]
    fn a_single_slow_request_is_seen_beside_many_fast_ones() {
        let svg = drawn(&[(0.010, 100_000), (4.0, 1)]);
        assert!(svg.contains("heat h5") && svg.contains("heat h0"), "{svg}");
    }

    #[test]
    fn odd_buckets_and_none_give_a_chart() {
        for buckets in [
            &[][..],
            &[(0.0, 1)],
            &[(f64::INFINITY, 1)],
            &[(1e-9, 1), (1e9, u64::MAX / 2)],
        ] {
            let svg = drawn(buckets);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
