//! The queue: requests that have no slot yet, first in, first out, in up to three kinds of lanes.
//!
//! A request of a priority path goes before all others, and then one whose worker died with it: of these one is run at a
//! time, so that one that kills workers takes no other with it twice. A request of a path with a share waits in a lane of
//! its own while that share of the threads is taken, and others pass it. The queue knows no exchange.

use std::collections::VecDeque;
use std::rc::Rc;

use super::lanes::Lane;
use super::pending::{PendingRequest, Place};

/// The requests that wait.
#[derive(Default)]
pub(super) struct Queue {
    ordinary: VecDeque<Rc<PendingRequest>>,
    priority: VecDeque<Rc<PendingRequest>>,
    /// By the number of the rule.
    shares: Vec<VecDeque<Rc<PendingRequest>>>,
    /// Of any lane: those whose worker died with them. Almost always empty.
    retries: VecDeque<Rc<PendingRequest>>,
}

/// Where in the queue the next request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The first of a lane.
    Of(Lane),
    /// The first of those whose worker died with them.
    Retry,
}

impl Queue {
    /// An empty one with so many lanes for shares.
    pub(super) fn new(shares: usize) -> Self {
        Self {
            shares: (0..shares).map(|_| VecDeque::new()).collect(),
            ..Self::default()
        }
    }

    /// How many requests wait in all lanes.
    pub(super) fn len(&self) -> usize {
        let shares = self.shares.iter().map(VecDeque::len).sum::<usize>();
        self.ordinary.len() + self.priority.len() + shares + self.retries.len()
    }

    /// The request of each lane that came first.
    pub(super) fn firsts(&self) -> impl Iterator<Item = &Rc<PendingRequest>> {
        let lanes = [&self.ordinary, &self.priority, &self.retries];
        let lanes = lanes.into_iter().chain(&self.shares);
        lanes.filter_map(VecDeque::front)
    }

    /// How many requests wait in all lanes, and how many of them are at the front of their lane and like that: in a lane
    /// those that came early come first.
    pub(super) fn count(&self, is_early: impl Fn(&PendingRequest) -> bool) -> (usize, usize) {
        let lanes = [&self.ordinary, &self.priority, &self.retries];
        let lanes = lanes.into_iter().chain(&self.shares);
        let early = lanes.map(|lane| lane.partition_point(|one| is_early(one)));
        (self.len(), early.sum())
    }

    /// How many requests wait in one lane.
    pub(super) fn waiting(&self, lane: Lane) -> usize {
        match lane {
            Lane::Ordinary => self.ordinary.len(),
            Lane::Priority => self.priority.len(),
            Lane::Share(rule) => self.shares[rule].len(),
        }
    }

    /// Puts a request at the end of those that it waits with.
    pub(super) fn push(&mut self, request: Rc<PendingRequest>) {
        self.lane_of(&request).push_back(request);
    }

    /// Puts a request back to the front of those that it waits with.
    pub(super) fn put_back(&mut self, request: Rc<PendingRequest>) {
        self.lane_of(&request).push_front(request);
    }

    /// Puts requests back to the front, so that the oldest comes first.
    pub(super) fn put_all_back(&mut self, mut requests: Vec<Rc<PendingRequest>>) {
        requests.sort_by_key(|request| request.request.arrived_ns());
        for request in requests.into_iter().rev() {
            request.place.set(Place::Queue);
            self.put_back(request);
        }
    }

    /// The request that is to run next: of those that may, the one that came first. `may` says whether another request of
    /// a share may run, `may_retry` whether one may whose worker died with it.
    pub(super) fn next(
        &self,
        may: impl Fn(usize) -> bool,
        may_retry: impl FnOnce() -> bool,
    ) -> Option<Next> {
        if !self.priority.is_empty() {
            return Some(Next::Of(Lane::Priority));
        }
        if let Some(first) = self.retries.front()
            && may_retry()
            && !matches!(first.lane.get(), Lane::Share(rule) if !may(rule))
        {
            return Some(Next::Retry);
        }
        let came = |request: &Rc<PendingRequest>| request.request.arrived_ns();
        let ordinary = self.ordinary.front();
        let mut next = ordinary.map(|first| (came(first), Lane::Ordinary));
        for (rule, lane) in self.shares.iter().enumerate() {
            if let Some(first) = lane.front().map(came)
                && next.is_none_or(|(earliest, _)| first < earliest)
                && may(rule)
            {
                next = Some((first, Lane::Share(rule)));
            }
        }
        next.map(|(_, lane)| Next::Of(lane))
    }

    /// Takes the request out that is there.
    pub(super) fn pop(&mut self, next: Next) -> Option<Rc<PendingRequest>> {
        match next {
            Next::Of(lane) => self.lane(lane).pop_front(),
            Next::Retry => self.retries.pop_front(),
        }
    }

    /// Takes a request out, wherever it waits.
    pub(super) fn remove(&mut self, request: &Rc<PendingRequest>) {
        let lane = self.lane_of(request);
        lane.retain(|other| !Rc::ptr_eq(other, request));
    }

    /// Keeps the requests for which `keep` holds.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Rc<PendingRequest>) -> bool) {
        let lanes = [&mut self.ordinary, &mut self.priority, &mut self.retries];
        for lane in lanes.into_iter().chain(&mut self.shares) {
            lane.retain(&mut keep);
        }
    }

    /// Takes all requests out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Rc<PendingRequest>> {
        let shares = self.shares.iter_mut().flat_map(|lane| lane.drain(..));
        let others = self.priority.drain(..).chain(self.ordinary.drain(..));
        self.retries.drain(..).chain(others).chain(shares)
    }

    /// Those that the request waits with.
    fn lane_of(&mut self, request: &PendingRequest) -> &mut VecDeque<Rc<PendingRequest>> {
        match request.is_poison_suspect() {
            true => &mut self.retries,
            false => self.lane(request.lane.get()),
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<Rc<PendingRequest>> {
        match lane {
            Lane::Ordinary => &mut self.ordinary,
            Lane::Priority => &mut self.priority,
            Lane::Share(rule) => &mut self.shares[rule],
        }
    }
}
