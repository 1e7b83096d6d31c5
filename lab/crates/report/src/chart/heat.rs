//! A heat map: one block a stack, one row a trial, one cell a piece of time, the darker the larger its value.

use charts::Scale;

use super::drawing::{Anchor, Drawing, text_width};
use super::{Caption, Chart, Size, both};
use crate::number::{figure, round};

/// Number of colours; they divide the range of values into equal factors.
const SHADES: usize = 6;

/// Largest number of cells in a row.
const COLUMNS: usize = 60;

/// One stack.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// The stack's id.
    pub(crate) stack: String,
    /// Index of the stack's colour.
    pub(crate) colour: usize,
    /// For each trial the value of each second; `None` where nothing ended in it.
    pub(crate) trials: Vec<Vec<Option<f64>>>,
}

/// Draws the blocks in their order; `unit` is that of the values.
pub(crate) fn chart(id: &str, title: &str, caption: &str, unit: &str, blocks: &[Block]) -> Chart {
    both(id, title, caption, |size, id| {
        draw(size, (id, title), unit, blocks)
    })
}

fn draw(size: Size, (id, title): (&str, &str), unit: &str, blocks: &[Block]) -> String {
    let seconds = blocks.iter().flat_map(|block| &block.trials).map(Vec::len);
    let seconds = seconds.max().unwrap_or_default().max(1);
    let each = seconds.div_ceil(COLUMNS);
    let width = size.width();
    let labels = blocks.iter().map(|block| text_width(&block.stack));
    let (left, label_height) = match size {
        Size::Wide => (labels.fold(60.0, f64::max) + 14.0, 0.0),
        Size::Narrow => (8.0, 20.0),
    };
    let right = width - 8.0;
    let row = if blocks.len() > 8 { 5.0 } else { 9.0 };
    let height = |block: &Block| label_height + (block.trials.len() as f64 * row).max(15.0) + 8.0;
    let base = 6.0 + blocks.iter().map(height).sum::<f64>();
    let mut drawing = Drawing::new(width, base + 74.0);
    let end = seconds.next_multiple_of(each) as f64;
    let scale = Scale::exact(0.0, end, (left, right));
    let cell = (scale.at(each as f64) - scale.at(0.0) - 1.0, row - 1.0);
    let range = range(blocks);
    let mut top = 6.0;
    for block in blocks {
        let first = top + label_height;
        let (at, anchor) = match size {
            Size::Wide => ((left - 12.0, first + 12.0), Anchor::End),
            Size::Narrow => ((left, first - 6.0), Anchor::Start),
        };
        drawing.text("label", at, anchor, &block.stack);
        let mut shades: Vec<Vec<(f64, f64)>> = vec![Vec::new(); SHADES + 1];
        for (index, trial) in block.trials.iter().enumerate() {
            for (column, part) in trial.chunks(each).enumerate() {
                let value = part.iter().copied().reduce(slower).flatten();
                let place = value.map_or(SHADES, |value| shade(value, range));
                let at = (scale.at((column * each) as f64), first + index as f64 * row);
                shades[place].push(at);
            }
        }
        drawing.series(&block.stack, block.colour, |drawing| {
            for (place, cells) in shades
                .iter()
                .enumerate()
                .filter(|(_, cells)| !cells.is_empty())
            {
                drawing.cells(&format!("heat h{place}"), cells, cell);
            }
        });
        top += height(block);
    }
    for tick in scale.ticks(if size == Size::Wide { 6 } else { 3 }) {
        drawing.inside("tick", (scale.at(tick), base + 12.0), &round(tick));
    }
    drawing.text("unit", (right, base + 30.0), Anchor::End, "seconds of load");
    legend(&mut drawing, (left, base + 44.0), unit, range);
    drawing.finish(&Caption {
        id,
        title,
        description: description(blocks, unit),
    })
}

/// The larger of two values; a time in which nothing ended counts as larger than any.
fn slower(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    Some(one?.max(other?))
}

/// Smallest and largest value.
fn range(blocks: &[Block]) -> (f64, f64) {
    let values = blocks.iter().flat_map(|block| &block.trials);
    let values = values.flatten().flatten().filter(|value| **value > 0.0);
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(*value), high.max(*value))
    });
    match low.is_finite() {
        true if low < high => (low, high),
        true => (low, low * 2.0),
        false => (1.0, 2.0),
    }
}

/// The colour of a value.
fn shade(value: f64, (low, high): (f64, f64)) -> usize {
    let share = (value.max(low) / low).ln() / (high / low).ln();
    ((share * SHADES as f64) as usize).min(SHADES - 1)
}

/// The colours with the values at which they begin, and at the end that of a second without an answer.
fn legend(drawing: &mut Drawing, (left, top): (f64, f64), unit: &str, (low, high): (f64, f64)) {
    let pitch = 44.0;
    for place in 0..SHADES {
        let x = left + pitch * place as f64;
        drawing.cells(&format!("heat h{place}"), &[(x, top)], (pitch - 1.0, 9.0));
        let from = low * (high / low).powf(place as f64 / SHADES as f64);
        drawing.text("tick", (x, top + 23.0), Anchor::Start, &short(from));
    }
    let end = left + pitch * SHADES as f64 + 4.0;
    drawing.text("unit", (end, top + 9.0), Anchor::Start, unit);
}

/// Two digits, so that the values of a legend fit below its colours.
fn short(value: f64) -> String {
    match value {
        value if value >= 10.0 => round(value.round()),
        value => {
            let digits = usize::from(value < 1.0) + 1;
            format!("{value:.digits$}")
        }
    }
}

fn description(blocks: &[Block], unit: &str) -> String {
    let words = blocks.iter().map(|block| {
        let values = || block.trials.iter().flatten().flatten().copied();
        let most = values().fold(0.0, f64::max);
        let least = values().fold(f64::INFINITY, f64::min);
        format!(
            "{}: {} to {} {unit}",
            block.stack,
            figure(least),
            figure(most)
        )
    });
    words.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_divided_into_equal_factors() {
        let shades = [1.0, 9.9, 10.1, 101.0, 1e6].map(|value| shade(value, (1.0, 1e6)));
        assert_eq!(shades, [0, 0, 1, 2, 5]);
    }

    #[test]
    fn a_second_in_which_nothing_ended_is_never_hidden_by_its_neighbours() {
        assert_eq!(slower(Some(1.0), None), None);
        assert_eq!(slower(Some(1.0), Some(3.0)), Some(3.0));
        let stall = Block {
            stack: "puma".into(),
            colour: 0,
            trials: vec![vec![Some(1.0), None, Some(2.0)]],
        };
        let chart = chart("heat", "Latency over time", "", "ms", &[stall]);
        assert!(chart.narrow.contains("heat h6") && chart.wide.contains("heat h6"));
    }

    #[test]
    fn equal_values_or_none_give_a_chart() {
        for trials in [vec![], vec![vec![Some(3.0); 4]], vec![vec![None]]] {
            let block = Block {
                stack: "puma".into(),
                colour: 0,
                trials,
            };
            let chart = chart("heat", "Latency over time", "", "ms", &[block]);
            assert!(!chart.wide.contains("NaN") && !chart.wide.contains("inf"));
        }
    }
}
