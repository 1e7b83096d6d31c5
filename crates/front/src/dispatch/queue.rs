//! The queue: requests that have no slot yet, first in, first out, in up to three kinds of lanes.
//!
//! A request of a priority path goes before all others, and then one whose worker died with it: of these one is run at a
//! time, so that the one which kills workers takes no other with it twice. One of a path with a share waits in a lane of
//! its own while that share of the threads is taken, and others pass it. It knows no exchange: who has a slot is counted
//! elsewhere.

use std::collections::VecDeque;
use std::rc::Rc;

use config::{PathRules, Settings};

use crate::http::request::Request;

/// Which part of the queue a request waits in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lane {
    /// Where most wait.
    #[default]
    Ordinary,
    /// It goes before all others.
    Priority,
    /// That of the rule of this number, whose requests may take a part of the threads only.
    Share(usize),
}

/// Which request goes into which lane, and how much of each there may be.
#[derive(Debug)]
pub struct Lanes {
    priority: PathRules<()>,
    shares: PathRules<u16>,
    /// By the number of its rule.
    bounds: Vec<Share>,
}

/// How much the requests of one rule may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    percent: u16,
    /// Places in the queue.
    pub(super) places: usize,
}

impl Share {
    /// Threads at once, where so many serve.
    pub(super) fn of_threads(self, all: usize) -> usize {
        part(all, self.percent)
    }
}

impl Lanes {
    /// The lanes of these settings.
    pub fn new(settings: &Settings) -> Self {
        let shares = settings.path_shares.clone();
        let bounds = shares.iter().map(|(_, &percent)| Share {
            percent,
            places: part(settings.queue_limit, percent),
        });
        Self {
            bounds: bounds.collect(),
            priority: settings.priority_paths.clone(),
            shares,
        }
    }

    /// The lane of a request for this path.
    pub(super) fn of(&self, path: &[u8]) -> Lane {
        if self.priority.find(path).is_some() {
            return Lane::Priority;
        }
        match self.shares.find_index(path) {
            Some(rule) => Lane::Share(rule),
            None => Lane::Ordinary,
        }
    }

    /// The bounds of a share.
    pub(super) fn share(&self, rule: usize) -> Share {
        self.bounds[rule]
    }

    /// How many shares there are.
    pub(super) fn shares(&self) -> usize {
        self.bounds.len()
    }
}

/// So many percent of `all`, rounded, at least one.
fn part(all: usize, percent: u16) -> usize {
    ((all * usize::from(percent) + 50) / 100).max(1)
}

/// The requests that wait.
#[derive(Default)]
pub(super) struct Queue {
    ordinary: VecDeque<Rc<Request>>,
    priority: VecDeque<Rc<Request>>,
    /// By the number of the rule.
    shares: Vec<VecDeque<Rc<Request>>>,
    /// Of any lane: those whose worker died with them. Almost always empty.
    again: VecDeque<Rc<Request>>,
}

/// Where in the queue the next request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The first of a lane.
    Of(Lane),
    /// The first of those whose worker died with them.
    Again,
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
        self.ordinary.len() + self.priority.len() + shares + self.again.len()
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
    pub(super) fn push(&mut self, request: Rc<Request>) {
        self.around(&request).push_back(request);
    }

    /// Puts a request back to the front of those that it waits with.
    pub(super) fn put_back(&mut self, request: Rc<Request>) {
        self.around(&request).push_front(request);
    }

    /// The request that is to run next: of those that may, the one that came first. `may` says whether another request of
    /// a share may run, `again` whether one may whose worker died with it.
    pub(super) fn next(
        &self,
        may: impl Fn(usize) -> bool,
        again: impl FnOnce() -> bool,
    ) -> Option<Next> {
        if !self.priority.is_empty() {
            return Some(Next::Of(Lane::Priority));
        }
        if let Some(first) = self.again.front()
            && again()
            && !matches!(first.lane.get(), Lane::Share(rule) if !may(rule))
        {
            return Some(Next::Again);
        }
        let came = |request: &Rc<Request>| request.arrival().map(|arrival| arrival.ns);
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
    pub(super) fn pop(&mut self, next: Next) -> Option<Rc<Request>> {
        match next {
            Next::Of(lane) => self.lane(lane).pop_front(),
            Next::Again => self.again.pop_front(),
        }
    }

    /// Takes a request out, wherever it waits.
    pub(super) fn remove(&mut self, request: &Rc<Request>) {
        let around = self.around(request);
        around.retain(|other| !Rc::ptr_eq(other, request));
    }

    /// Keeps the requests for which `keep` holds.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Rc<Request>) -> bool) {
        let lanes = [&mut self.ordinary, &mut self.priority, &mut self.again];
        for lane in lanes.into_iter().chain(&mut self.shares) {
            lane.retain(&mut keep);
        }
    }

    /// Takes all requests out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Rc<Request>> {
        let shares = self.shares.iter_mut().flat_map(|lane| lane.drain(..));
        let others = self.priority.drain(..).chain(self.ordinary.drain(..));
        self.again.drain(..).chain(others).chain(shares)
    }

    /// Those that the request waits with.
    fn around(&mut self, request: &Request) -> &mut VecDeque<Rc<Request>> {
        match request.is_suspect() {
            true => &mut self.again,
            false => self.lane(request.lane.get()),
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<Rc<Request>> {
        match lane {
            Lane::Ordinary => &mut self.ordinary,
            Lane::Priority => &mut self.priority,
            Lane::Share(rule) => &mut self.shares[rule],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_rounded_and_never_nothing() {
        let check =
            |all, percent, expect| assert_eq!(part(all, percent), expect, "{percent} of {all}");
        check(6, 50, 3);
        check(3, 50, 2);
        check(3, 1, 1);
        check(1, 50, 1);
        check(10, 33, 3);
        check(4, 100, 4);
    }
}
