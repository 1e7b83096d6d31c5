//! Which stack is better, by how much, and how sure that is. Made from the results alone; it measures nothing.
//!
//! Two stacks are compared by the ratio of a measure in the same rounds, with a 95 % interval
//! ([`crate::statistics::starts`]). One is better or worse where the interval leaves out 1 *and* the ratio itself is
//! further from 1 than [`NOISE`], as criterion.rs has it; all else is too close to call. The confidence is that of a
//! single question: of two equal stacks one is called better in fewer than one of twenty comparisons by one measure.
//! A comparison by many measures or of many stacks has a false verdict more often; nothing is corrected for that.
//!
//! Ranks follow: a stack's is one more than the number of stacks that are better than it, so that stacks too close to
//! call share a rank. Fewer than [`ROUNDS`] rounds in common give no verdict. A trial that does not describe its server
//! ([`admission`]) is set aside; a stack that lost half of its trials that way does not rank at all. Where something else
//! used the machine in too many trials ([`contamination`]), only memory gets a verdict.

use crate::results::{Load, Results, Trial};
use crate::statistics::Estimate;
use crate::statistics::starts;
use ::statistics::Sample;
pub use ::statistics::{NOISE, Verdict, verdict};
pub use admission::{Cause, SetAside};
pub use contamination::Contamination;
use loadgen::outcome::Latency;
pub use measure::Measure;
pub use measure::most_replies;

pub mod admission;
pub mod change;
pub mod contamination;
pub mod measure;
mod searches;

/// Fewer rounds in common than this give no verdict.
pub const ROUNDS: usize = starts::STARTS;

/// One measure under one load, of every stack.
#[derive(Debug, Clone)]
pub struct Finding<'a> {
    /// What was measured.
    pub measure: Measure,
    /// Under which load; `None` for [`Measure::Peak`] and [`Measure::Replies`].
    pub load: Option<&'a Load>,
    /// One a stack that has values, in the results' order.
    pub figures: Vec<Figure<'a>>,
    /// Whether it gets no verdict because of the comparison's [`Contamination`].
    pub contaminated: bool,
}

/// One measure of one stack.
#[derive(Debug, Clone)]
pub struct Figure<'a> {
    /// The stack's id.
    pub stack: &'a str,
    /// Its place among those that rank, from 1; `None` where it does not rank.
    pub rank: Option<usize>,
    /// The value over its trials with its interval. Trials that do not count are in it only where the stack does not rank.
    pub estimate: Estimate,
    /// Each trial's own value: round and value.
    pub values: Vec<(usize, f64)>,
    /// The data, from which ratios are made.
    source: Source<'a>,
    sample: Sample,
    /// Resolution of the measurement, as a share: smaller differences don't count.
    grain: f64,
}

/// The data that a sample is made from.
#[derive(Debug, Clone)]
enum Source<'a> {
    Values(Vec<(usize, f64)>),
    Latencies(Vec<(usize, &'a Latency)>, f64),
}

/// One stack compared with another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Versus {
    /// The first as a multiple of the second; `None` where they have no round in common.
    pub ratio: Option<Estimate>,
    /// Rounds in common.
    pub rounds: usize,
    /// The verdict on the first.
    pub verdict: Verdict,
}

/// All findings, and what did not count.
#[derive(Debug, Clone)]
pub struct Judgement<'a> {
    /// By load in the results' order, then by measure; the largest rate last.
    pub findings: Vec<Finding<'a>>,
    /// In the order of the trials.
    pub set_aside: Vec<SetAside>,
    /// Where something else used the machine in too many trials.
    pub contamination: Option<Contamination>,
    /// The measures that stand for the slow requests of each load, by its id.
    tails: Vec<(&'a str, Vec<Measure>)>,
}

/// Judges a comparison.
pub fn judge(results: &Results) -> Judgement<'_> {
    let mut set_aside = Vec::new();
    let (mut findings, mut tails) = (Vec::new(), Vec::new());
    let contamination = Contamination::of(results);
    let mut add = |measure: Measure, load, figures| {
        let contaminated = contamination.is_some() && measure.depends_on_cpu();
        findings.extend(Finding::new(measure, load, figures, contaminated));
    };
    for load in &results.loads {
        let admitted = admit(results, load, &mut set_aside);
        let ranking = || admitted.iter().filter(|of| of.ranks);
        let tail = Measure::tail(
            |measure| ranking().all(|of| figure(of, measure).is_some()),
            |measure| ranking().any(|of| figure(of, measure).is_some()),
        );
        let others = tail.iter().copied();
        let others = others.filter(|measure| !Measure::OF_LOAD.contains(measure));
        for measure in Measure::OF_LOAD.into_iter().chain(others) {
            let figures = admitted.iter().filter_map(|of| figure(of, measure));
            add(measure, Some(load), figures.collect());
        }
        tails.push((load.id.as_str(), tail));
    }
    let searches = searches::searches(results, &mut set_aside);
    let peaks = searches.iter().filter_map(searches::held).collect();
    add(Measure::Peak, None, peaks);
    let replies = searches.iter().filter_map(searches::replied).collect();
    add(Measure::Replies, None, replies);
    Judgement {
        findings,
        set_aside,
        contamination,
        tails,
    }
}

/// The trials of a stack under a load that its figures are made from.
struct Admitted<'a> {
    stack: &'a str,
    trials: Vec<&'a Trial>,
    ranks: bool,
}

fn admit<'a>(
    results: &'a Results,
    load: &Load,
    set_aside: &mut Vec<SetAside>,
) -> Vec<Admitted<'a>> {
    let mut admitted = Vec::new();
    for stack in &results.stacks {
        let of_stack = |trial: &&Trial| trial.stack == stack.id && trial.load == load.id;
        let all: Vec<&Trial> = results.trials.iter().filter(of_stack).collect();
        let mut good = Vec::new();
        for trial in &all {
            match admission::refusal(trial, Some(load)) {
                None => good.push(*trial),
                Some((cause, reason)) => set_aside.push(SetAside {
                    stack: stack.id.clone(),
                    load: Some(load.id.clone()),
                    round: trial.round,
                    cause,
                    reason,
                }),
            }
        }
        let ranks = good.len() * 2 > all.len();
        let measured = all.iter().copied().filter(|trial| trial.failure.is_none());
        admitted.push(Admitted {
            stack: &stack.id,
            trials: if ranks { good } else { measured.collect() },
            ranks,
        });
    }
    admitted
}

fn figure<'a>(admitted: &Admitted<'a>, measure: Measure) -> Option<Figure<'a>> {
    let Admitted {
        stack,
        ref trials,
        ranks,
    } = *admitted;
    let values = trials
        .iter()
        .filter_map(|trial| Some((trial.round, measure.of(trial)?)));
    let values: Vec<(usize, f64)> = values.collect();
    let source = match measure.percent() {
        Some(percent) => {
            let latencies = trials
                .iter()
                .map(|trial| (trial.round, &trial.outcome.latency));
            Source::Latencies(latencies.collect(), percent)
        }
        None => Source::Values(values.clone()),
    };
    Figure::new(stack, values, source, 0.0, ranks)
}

impl<'a> Figure<'a> {
    fn new(
        stack: &'a str,
        values: Vec<(usize, f64)>,
        source: Source<'a>,
        grain: f64,
        ranks: bool,
    ) -> Option<Self> {
        let sample = source.sample(|_| true)?;
        Some(Self {
            stack,
            // The true rank is known once all figures are.
            rank: ranks.then_some(1),
            estimate: sample.estimate(),
            values,
            source,
            sample,
            grain,
        })
    }
}

impl Source<'_> {
    fn rounds(&self) -> Vec<usize> {
        match self {
            Self::Values(values) => values.iter().map(|(round, _)| *round).collect(),
            Self::Latencies(latencies, _) => latencies.iter().map(|(round, _)| *round).collect(),
        }
    }

    fn sample(&self, wanted: impl Fn(usize) -> bool) -> Option<Sample> {
        match self {
            Self::Values(values) => {
                let kept = values.iter().copied().filter(|(round, _)| wanted(*round));
                Sample::of_values(&kept.collect::<Vec<_>>())
            }
            Self::Latencies(latencies, percent) => {
                let kept = latencies
                    .iter()
                    .copied()
                    .filter(|(round, _)| wanted(*round));
                starts::percentile_of(&kept.collect::<Vec<_>>(), *percent)
            }
        }
    }
}

impl<'a> Finding<'a> {
    fn new(
        measure: Measure,
        load: Option<&'a Load>,
        figures: Vec<Figure<'a>>,
        contaminated: bool,
    ) -> Option<Self> {
        if figures.is_empty() {
            return None;
        }
        let mut finding = Self {
            measure,
            load,
            figures,
            contaminated,
        };
        let ranks: Vec<Option<usize>> = (0..finding.figures.len())
            .map(|index| finding.rank(index))
            .collect();
        for (figure, rank) in finding.figures.iter_mut().zip(ranks) {
            figure.rank = rank;
        }
        Some(finding)
    }

    fn rank(&self, index: usize) -> Option<usize> {
        let own = &self.figures[index];
        own.rank?;
        let better = self.figures.iter().filter(|other| {
            other.rank.is_some() && self.compare(other, own).verdict == Verdict::Better
        });
        Some(better.count() + 1)
    }

    /// A stack's figure; `None` where it has none.
    pub fn of(&self, stack: &str) -> Option<&Figure<'a>> {
        self.figures.iter().find(|figure| figure.stack == stack)
    }

    /// Compares `stack` with `other`; `None` where one of the two has no figure. Those that do not rank are
    /// [`Verdict::Unknown`], with the ratio.
    pub fn versus(&self, stack: &str, other: &str) -> Option<Versus> {
        Some(self.compare(self.of(stack)?, self.of(other)?))
    }

    /// Those that rank, the best first; of those with the same rank the one with the better value first.
    pub fn ranking(&self) -> Vec<&Figure<'a>> {
        let mut ranking: Vec<&Figure<'a>> = self
            .figures
            .iter()
            .filter(|figure| figure.rank.is_some())
            .collect();
        let sign = if self.measure.more_is_better() {
            -1.0
        } else {
            1.0
        };
        ranking.sort_by(|left, right| {
            let by_value = (sign * left.estimate.value).total_cmp(&(sign * right.estimate.value));
            left.rank.cmp(&right.rank).then(by_value)
        });
        ranking
    }

    fn compare(&self, first: &Figure<'_>, second: &Figure<'_>) -> Versus {
        let own = first.source.rounds();
        let others = second.source.rounds();
        let common = |round: usize| own.contains(&round) && others.contains(&round);
        let rounds = own.iter().filter(|round| others.contains(round)).count();
        let ratio = if first.sample.rounds() == second.sample.rounds() {
            first.sample.ratio_to(&second.sample)
        } else {
            let samples = first
                .source
                .sample(common)
                .zip(second.source.sample(common));
            samples.and_then(|(first, second)| first.ratio_to(&second))
        };
        let both_rank = first.rank.is_some() && second.rank.is_some();
        let verdict = match ratio {
            Some(ratio) if both_rank && rounds >= ROUNDS && !self.contaminated => {
                let grain = first.grain.max(second.grain);
                verdict(ratio, NOISE.max(grain), self.measure.more_is_better())
            }
            _ => Verdict::Unknown,
        };
        Versus {
            ratio,
            rounds,
            verdict,
        }
    }
}

impl<'a> Judgement<'a> {
    /// The finding on a measure under a load.
    pub fn finding(&self, measure: Measure, load: Option<&str>) -> Option<&Finding<'a>> {
        self.findings.iter().find(|finding| {
            finding.measure == measure && finding.load.map(|load| load.id.as_str()) == load
        })
    }

    /// The measures that stand for the slow requests of a load: p99, or what replaces it where stacks have too few requests.
    pub fn tail(&self, load: &str) -> &[Measure] {
        let tail = self.tails.iter().find(|(id, _)| *id == load);
        tail.map_or(&[], |(_, measures)| measures)
    }

    /// The finding that the first sentence of a report is about: the rate of the first closed loop, else the largest rate
    /// held, else the slow requests of the first open loop.
    pub fn headline(&self) -> Option<&Finding<'a>> {
        let closed = |load: &Load| !load.open;
        let mut findings = self.findings.iter();
        let rate = findings
            .find(|finding| finding.measure == Measure::Rate && finding.load.is_some_and(closed));
        let of_tail = || {
            self.findings.iter().find(|finding| {
                let tail = finding.load.and_then(|load| self.tail(&load.id).first());
                tail == Some(&finding.measure)
            })
        };
        rate.or_else(|| self.finding(Measure::Peak, None))
            .or_else(of_tail)
            .or_else(|| self.findings.first())
    }
}

#[cfg(test)]
mod tests;
