//! Which part of the queue a request waits in, by its path, and how much each part may take. It holds no request.

use config::{PathRules, Settings};

/// Which part of the queue a request waits in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lane {
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
pub(super) struct Lanes {
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
    pub(super) fn new(settings: &Settings) -> Self {
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
    pub(super) fn lane(&self, path: &[u8]) -> Lane {
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
