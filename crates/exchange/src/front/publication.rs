//! A slot's latest publication: who holds it, and how far its response is. It changes nothing.

use super::inspect::{Findings, Word};
use super::slot::Slot;
use crate::coordination::{PHASE_CLAIMED, PHASE_DONE, PHASE_READY};
use crate::region::Region;
use crate::sync::Ordering;

/// Where a published request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// In the ready ring: no thread has claimed it.
    Unclaimed,
    /// A worker's thread runs it.
    Running {
        /// The worker.
        worker: u16,
        /// Its thread.
        thread: u16,
    },
    /// A worker's thread has finished it.
    Done {
        /// The worker.
        worker: u16,
        /// Its thread.
        thread: u16,
    },
}

/// A slot's latest publication.
#[derive(Clone, Copy)]
pub struct Publication<'a> {
    pub(super) region: &'a Region,
    pub(super) findings: &'a Findings,
    pub(super) number: u16,
    /// What the front knows of the slot.
    pub(super) own: Slot,
}

impl Publication<'_> {
    /// Its number, counted up at each publish of the slot.
    pub fn sequence(self) -> u32 {
        self.own.sequence
    }

    /// Who holds the request. A state that no sound worker could have written counts as unclaimed, and makes the region
    /// corrupt.
    pub fn holder(self) -> Holder {
        let state = self.region.slot_states().get(self.number);
        let geometry = self.region.geometry();
        let worker = state.thread / geometry.threads;
        let thread = state.thread % geometry.threads;
        if !self.own.published {
            return Holder::Unclaimed;
        }
        if state.sequence == self.own.sequence && worker < geometry.max_workers() {
            match state.phase {
                PHASE_CLAIMED => return Holder::Running { worker, thread },
                PHASE_DONE => return Holder::Done { worker, thread },
                PHASE_READY => return Holder::Unclaimed,
                _ => {}
            }
        }
        let word = state.word();
        self.findings.report(Word::State, Some(self.number), word);
        Holder::Unclaimed
    }

    /// When the request was claimed and when it was finished: nanoseconds of `CLOCK_MONOTONIC`, 0 for not yet.
    pub fn times(self) -> (u64, u64) {
        let words = self.region.words(self.number);
        (
            words.claimed_at.load(Ordering::Relaxed),
            words.finished_at.load(Ordering::Relaxed),
        )
    }

    /// Whether it has frames that were not taken.
    pub fn has_frames(self) -> bool {
        self.own.published && self.own.reader(self.region, self.number).filled() > 0
    }

    /// Whether it was finished, or has frames that were not taken.
    pub fn has_news(self) -> bool {
        matches!(self.holder(), Holder::Done { .. }) || self.has_frames()
    }
}
