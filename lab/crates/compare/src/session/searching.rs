//! The searches of a round: one for each stack, their steps in turns, each written down as it ends.

use anyhow::Result;

use super::{Session, folder_name};
use crate::criterion::Within;
use crate::lab::{FindPeak, Participant};
use crate::number::grouped;
use crate::order::Group;
use crate::progress;
use crate::results::{Overload, Peak};
use crate::search::{self, Next};

/// The failure of a search that has not ended.
const UNFINISHED: &str = "the search was stopped before its end";

impl Session<'_, '_> {
    /// One search for each stack, their steps in turns, so that a change of the machine affects all alike.
    pub(super) fn searches(&mut self, group: &Group, find: &FindPeak) -> Result<()> {
        // The quickest unloaded server sets the limit for all, so each is asked before any rate is judged.
        for participant in self.turns(group) {
            let place = self.peak(&participant, group.round);
            if self.next(find, &self.results.peaks[place]) == Next::Unloaded {
                self.search_step(group, find, &participant, group.seed)?;
            }
            if self.stopped() {
                return Ok(());
            }
        }
        for lap in 0.. {
            let mut moved = false;
            for participant in self.turns(group) {
                moved |=
                    self.search_step(group, find, &participant, group.seed.wrapping_add(lap))?;
                if self.stopped() {
                    return Ok(());
                }
            }
            if !moved {
                break;
            }
        }
        Ok(())
    }

    /// The next step of one search; `false` where there is none any more.
    fn search_step(
        &mut self,
        group: &Group,
        find: &FindPeak,
        participant: &Participant,
        seed: u64,
    ) -> Result<bool> {
        let place = self.peak(participant, group.round);
        let mut peak = self.results.peaks[place].clone();
        if peak.finished {
            return Ok(false);
        }
        let next = self.next(find, &peak);
        if next != Next::Done {
            let taken = self.take_step(group, find, participant, seed, next, &mut peak)?;
            if !taken {
                return Ok(true);
            }
        }
        // The limit is known once all unloaded servers were measured.
        let limit_known = next != Next::Unloaded;
        if limit_known && !peak.finished && self.next(find, &peak) == Next::Done {
            if let Some(within) = Within::of(find, &self.results.peaks) {
                peak.criterion = within.text();
            }
            (peak.last_good, peak.first_bad) = search::bracket(find, &peak);
            peak.failure = None;
            peak.finished = true;
            self.progress
                .did_search(peak.steps.len() + usize::from(peak.overload.is_some()));
        }
        self.results.peaks[place] = peak;
        self.store.save(&self.results)?;
        Ok(true)
    }

    /// Sends one load of a search and records its result; `false`, and nothing recorded, where the comparison was stopped.
    fn take_step(
        &mut self,
        group: &Group,
        find: &FindPeak,
        participant: &Participant,
        seed: u64,
        next: Next,
        peak: &mut Peak,
    ) -> Result<bool> {
        let steps = peak.steps.len() + 1;
        let kind = if next == Next::Unloaded {
            "unloaded"
        } else {
            "peak"
        };
        let mut blank = self.blank(participant, kind, group.round);
        let name = folder_name(&blank);
        let what = format!("{} {kind}", participant.id);
        self.progress.begin(&self.context.live, &what);
        let within = Within::of(find, &self.results.peaks);
        let found = match within.filter(|_| next != Next::Unloaded) {
            Some(within) => {
                search::step(self.context, participant, find, within, peak, seed, &name)
            }
            None => search::unloaded(self.context, participant, peak, seed, &name),
        };
        if self.stopped() {
            return Ok(false);
        }
        let line = match found {
            Ok(found) => {
                let line = match next {
                    Next::Unloaded => unloaded_line(peak),
                    _ => step_line(peak, steps),
                };
                blank = found.named_as(blank);
                line
            }
            Err(error) => {
                (peak.last_good, peak.first_bad) = search::bracket(find, peak);
                peak.failure = Some(format!("{error:#}"));
                peak.finished = true;
                blank.failure.clone_from(&peak.failure);
                progress::summary(&blank)
            }
        };
        self.store.keep(
            blank.position,
            &participant.id,
            &format!("{kind}-{}", group.round),
            &blank,
        )?;
        self.progress.did_trial();
        let line = format!(
            "round {}, largest rate, {}: {line}",
            group.round, participant.id
        );
        self.progress.say(&self.context.live, &line);
        Ok(true)
    }

    fn next(&self, find: &FindPeak, peak: &Peak) -> Next {
        search::next(find, peak, Within::of(find, &self.results.peaks))
    }

    /// The place of a search in the results, where it is made if it is not there.
    fn peak(&mut self, participant: &Participant, round: usize) -> usize {
        let peaks = &mut self.results.peaks;
        let found = peaks
            .iter()
            .position(|peak| peak.stack == participant.id && peak.round == round);
        found.unwrap_or_else(|| {
            let before = peaks
                .iter()
                .find(|peak| peak.stack == participant.id && peak.unloaded_ms.is_some());
            let (unloaded_ms, start) =
                before.map_or((None, 0.0), |peak| (peak.unloaded_ms, peak.start));
            peaks.push(Peak {
                stack: participant.id.clone(),
                round,
                unloaded_ms,
                start,
                failure: Some(UNFINISHED.to_owned()),
                ..Peak::default()
            });
            peaks.len() - 1
        })
    }
}

fn unloaded_line(peak: &Peak) -> String {
    let median = peak.unloaded_ms.unwrap_or_default();
    format!("unloaded, median {median:.1} ms")
}

fn step_line(peak: &Peak, steps: usize) -> String {
    match (peak.steps.get(steps - 1), &peak.overload) {
        (Some(step), _) => {
            let verdict = step
                .why
                .as_ref()
                .map_or_else(|| "held".to_owned(), |why| format!("not held: {why}"));
            format!("{} requests/s {verdict}", grouped(step.rate))
        }
        (
            None,
            Some(Overload {
                rate,
                died: Some(died),
                ..
            }),
        ) => {
            let rate = grouped(*rate);
            format!("{rate} requests/s, beyond the peak: {died}")
        }
        (None, Some(overload)) => {
            let recovered = overload.recovered_s.map_or_else(
                || "did not recover".to_owned(),
                |after| format!("recovered after {after:.1} s"),
            );
            format!(
                "{} requests/s, beyond the peak: {} answered a second, {recovered}",
                grouped(overload.rate),
                grouped(overload.outcome.good_per_second())
            )
        }
        (None, None) => String::new(),
    }
}
