//! The figures of the searches for the largest rate: which searches of a stack count, and what they found. It judges
//! nothing.

use super::{Figure, SetAside, Source, admission, measure, most_replies};
use crate::results::{Peak, Results};
use crate::statistics::median;

/// The searches of a stack that its figures are made from.
pub(super) struct Searched<'a> {
    stack: &'a str,
    peaks: Vec<&'a Peak>,
    ranks: bool,
}

/// Those of every stack; what describes something else is set aside.
pub(super) fn searches<'a>(
    results: &'a Results,
    set_aside: &mut Vec<SetAside>,
) -> Vec<Searched<'a>> {
    let mut searched = Vec::new();
    for stack in &results.stacks {
        let all: Vec<&Peak> = results
            .peaks
            .iter()
            .filter(|peak| peak.stack == stack.id)
            .collect();
        let mut good = Vec::new();
        for peak in &all {
            match admission::refusal_of_peak(peak) {
                None => good.push(*peak),
                Some((cause, reason)) => set_aside.push(SetAside {
                    stack: stack.id.clone(),
                    load: None,
                    round: peak.round,
                    cause,
                    reason,
                }),
            }
        }
        let ranks = good.len() * 2 > all.len();
        searched.push(Searched {
            stack: &stack.id,
            peaks: if ranks { good } else { all },
            ranks,
        });
    }
    searched
}

/// The largest rate held.
pub(super) fn held<'a>(searched: &Searched<'a>) -> Option<Figure<'a>> {
    let peaks = searched.peaks.iter();
    let grains: Vec<f64> = peaks.map(|peak| measure::grain(peak)).collect();
    let grain = median(&grains).unwrap_or_default();
    of_searches(searched, grain, |peak| peak.last_good)
}

/// The largest reply rate.
pub(super) fn replied<'a>(searched: &Searched<'a>) -> Option<Figure<'a>> {
    of_searches(searched, 0.0, most_replies)
}

fn of_searches<'a>(
    searched: &Searched<'a>,
    grain: f64,
    value: impl Fn(&Peak) -> f64,
) -> Option<Figure<'a>> {
    let peaks = searched.peaks.iter();
    let values = peaks.map(|peak| (peak.round, value(peak)));
    let values: Vec<(usize, f64)> = values.filter(|(_, value)| *value > 0.0).collect();
    let source = Source::Values(values.clone());
    Figure::new(searched.stack, values, source, grain, searched.ranks)
}
