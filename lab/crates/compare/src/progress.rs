//! Progress in plain words, with the time that is left by what was done so far. [`super::live`] shows it.

use std::time::{Duration, Instant};

use super::lab::Participant;
use super::live::Live;
use super::number::grouped;
use super::order::{Group, Task};
use super::results::{Results, Trial};

/// A search takes about as long as so many trials.
const SEARCH: usize = 10;

/// How far a comparison is.
#[derive(Debug)]
pub(super) struct Progress {
    begin: Instant,
    /// Trials, and for searches as many as one takes about.
    total: usize,
    done: usize,
}

impl Progress {
    /// Nothing is done of so many trials and searches.
    pub(super) fn new(trials: usize, searches: usize) -> Self {
        Self {
            begin: Instant::now(),
            total: trials + searches * SEARCH,
            done: 0,
        }
    }

    /// The tasks in `groups` less those that have results.
    pub(super) fn planned(
        groups: &[Group],
        participants: &[Participant],
        results: &Results,
    ) -> Self {
        let stacks = participants.len();
        let of = |task: fn(&Task) -> bool| {
            groups.iter().filter(|group| task(&group.task)).count() * stacks
        };
        let takes_part = |stack: &str| participants.iter().any(|one| one.id == stack);
        let trials = results.trials.iter();
        let trials = trials.filter(|trial| takes_part(&trial.stack)).count();
        let peaks = || results.peaks.iter().filter(|peak| takes_part(&peak.stack));
        let searches = peaks().filter(|peak| peak.finished).count();
        let searched = of(|task| *task == Task::Search) > 0;
        let asked = peaks().filter(|peak| peak.round == 1 && peak.unloaded_ms.is_some());
        // Each stack is asked once without a load.
        let unloaded = usize::from(searched) * stacks.saturating_sub(asked.count());
        Self::new(
            of(|task| matches!(task, Task::Trial(_))).saturating_sub(trials) + unloaded,
            of(|task| *task == Task::Search).saturating_sub(searches),
        )
    }

    /// Prints a line.
    pub(super) fn say(&self, live: &Live, line: &str) {
        live.print(&format!("{}{line}", self.prefix()));
    }

    /// Shows on a terminal that `what` begins.
    pub(super) fn begin(&self, live: &Live, what: &str) {
        live.set_position(self.done as u64, self.total as u64);
        live.set_subject(&format!("{}{what}, ", self.prefix()));
    }

    /// One trial is done.
    pub(super) fn did_trial(&mut self) {
        self.done += 1;
        self.total = self.total.max(self.done);
    }

    /// A search is done, which took `steps`.
    pub(super) fn did_search(&mut self, steps: usize) {
        // Its steps were counted one by one; the total is corrected by the difference to the estimate.
        self.total = (self.total + steps).saturating_sub(SEARCH).max(self.done);
    }

    fn prefix(&self) -> String {
        match left(self.begin.elapsed(), self.done, self.total) {
            Some(left) => format!("[{}/{}, {left} left] ", self.done, self.total),
            None => format!("[{}/{}] ", self.done, self.total),
        }
    }
}

/// The time that is left, in words; `None` while it is unknown.
fn left(elapsed: Duration, done: usize, total: usize) -> Option<String> {
    let todo = total.saturating_sub(done);
    if done == 0 || todo == 0 {
        return None;
    }
    let seconds = elapsed.as_secs_f64() / done as f64 * todo as f64;
    Some(match seconds {
        _ if seconds < 55.0 => format!("about {:.0} s", (seconds / 5.0).ceil() * 5.0),
        _ if seconds < 5400.0 => format!("about {:.0} min", (seconds / 60.0).ceil()),
        _ => format!("about {:.1} h", seconds / 3600.0),
    })
}

/// The result of a trial in a line.
pub(super) fn summary(trial: &Trial) -> String {
    if let Some(failure) = &trial.failure {
        return format!("failed: {}", first_line(failure));
    }
    let outcome = &trial.outcome;
    let latency = match outcome.latency.percentile_ms(99.0) {
        Some(p99) => format!("p99 {p99:.1} ms"),
        None => format!("median {:.1} ms", outcome.latency.at(50.0)),
    };
    let mut parts = vec![
        format!("{} requests/s", grouped(outcome.good_per_second())),
        latency,
        format!("{:.0} MB", trial.memory.after.pss as f64 / 1e6),
    ];
    let errors = outcome.errors.total();
    parts.extend((errors > 0).then(|| format!("{errors} errors")));
    parts.extend(
        outcome
            .generator
            .limit
            .as_ref()
            .map(|reason| format!("the generator was the limit: {reason}")),
    );
    parts.extend((!trial.warm_up.settled).then(|| "did not settle in the warm-up".to_owned()));
    parts.extend(
        trial
            .crashed_start
            .as_ref()
            .map(|_| "crashed at its first start".to_owned()),
    );
    parts.extend(
        (trial.left_behind > 0).then(|| format!("{} processes were left", trial.left_behind)),
    );
    parts.join(", ")
}

/// The first line of a text.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_follows_what_was_done() {
        let check = |elapsed: u64, done, total, expect: Option<&str>| {
            assert_eq!(
                left(Duration::from_secs(elapsed), done, total).as_deref(),
                expect
            );
        };
        check(60, 0, 10, None);
        check(60, 10, 10, None);
        check(10, 5, 10, Some("about 10 s"));
        check(60, 5, 10, Some("about 1 min"));
        check(60, 5, 15, Some("about 2 min"));
        check(3600, 1, 3, Some("about 2.0 h"));
    }

    #[test]
    fn a_search_counts_its_own_steps() {
        let mut progress = Progress::new(2, 1);
        (0..7).for_each(|_| progress.did_trial());
        progress.did_search(7);
        assert_eq!((progress.done, progress.total), (7, 9));
    }

    #[test]
    fn a_failure_is_one_line() {
        let trial = Trial {
            failure: Some("it ended\n--- log".to_owned()),
            ..Trial::default()
        };
        assert_eq!(summary(&trial), "failed: it ended");
    }
}
