//! The generations that are there at once, the oldest first. Why one comes or goes is decided in the fleet.

use std::time::Instant;

use super::event::{Action, Rules};
use crate::rules::pool::{self, Pool};

/// What a generation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is starting.
    Booting,
    /// Requests go to it.
    Serving,
    /// It finishes what it holds.
    Draining,
}

/// A generation.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) number: u32,
    pub(crate) stage: Stage,
    /// Those that it was launched with, the times aside, which may change: the next one may have others.
    pub(super) rules: Rules,
    pub(crate) pool: Pool,
}

impl Generation {
    pub(super) fn handle(&mut self, event: pool::Event, now: Instant, actions: &mut Vec<Action>) {
        let generation = self.number;
        let own = self.pool.handle(event, now).into_iter();
        actions.extend(own.map(|action| Action::Pool { generation, action }));
    }

    pub(super) fn resize(&mut self, limit: u16, now: Instant, actions: &mut Vec<Action>) {
        self.resize_without(None, limit, now, actions);
    }

    /// The same, where this worker is to leave first.
    pub(super) fn resize_without(
        &mut self,
        leaves: Option<u16>,
        limit: u16,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let until = now + self.rules.drain_timeout;
        let resize = pool::Event::Resize {
            limit,
            leaves,
            until,
        };
        self.handle(resize, now, actions);
    }
}

/// All generations of a server, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct GenerationList {
    pub(super) all: Vec<Generation>,
}

impl GenerationList {
    /// Each of them.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Generation> {
        self.all.iter()
    }

    /// A generation by its number.
    pub(crate) fn get(&self, number: u32) -> Option<&Generation> {
        self.all.iter().find(|one| one.number == number)
    }

    /// The latest generation's number, or 0.
    pub(crate) fn latest(&self) -> u32 {
        self.all.last().map_or(0, |latest| latest.number)
    }

    /// Whether no worker is left.
    pub(crate) fn have_no_workers(&self) -> bool {
        self.all.iter().all(|one| one.pool.workers().are_gone())
    }

    /// Whether a worker is there that serves.
    pub(crate) fn serve(&self) -> bool {
        let mut all = self.all.iter();
        all.any(|generation| {
            generation.stage != Stage::Booting && generation.pool.workers().ready() > 0
        })
    }

    /// Workers that leave and have until a moment to do so, with that moment; by their generations.
    pub(crate) fn exit_deadlines(&self) -> impl Iterator<Item = (u32, u16, Instant)> {
        let all = self.all.iter();
        all.flat_map(|one| {
            let deadlines = one.pool.workers().exit_deadlines();
            deadlines.map(move |(worker, until)| (one.number, worker, until))
        })
    }

    /// Brings an event to each generation for which there is one.
    pub(super) fn each(
        &mut self,
        event: impl Fn(&Generation) -> Option<pool::Event>,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        for generation in &mut self.all {
            if let Some(event) = event(generation) {
                generation.handle(event, now, actions);
            }
        }
    }

    /// Forgets generations of which nothing is left.
    pub(super) fn forget(&mut self, actions: &mut Vec<Action>) {
        let gone = self.all.extract_if(.., |one| one.pool.finished());
        actions.extend(gone.map(|one| Action::Close {
            generation: one.number,
        }));
    }
}
