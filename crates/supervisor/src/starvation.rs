//! Whether a process that runs behind all others gets to run at all, from `/proc/PID/stat`. It only looks, and takes no
//! process that waits for something for one that starves.

use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// So many looks in a row at which a process was ready to run, and got next to no time meanwhile.
const LOOKS: usize = 10;
/// Next to none: this share of the time between two looks. What remains to be loaded would take twenty times as long.
const SHARE: f64 = 0.05;

/// Ends once the main thread of this process starves; never where the kernel does not tell.
pub(crate) async fn of(pid: i32) {
    let least = LOOK.as_secs_f64() * SHARE * clock_ticks_per_second() as f64;
    let mut looks = Looks::default();
    loop {
        tokio::time::sleep(LOOK).await;
        if looks.starves(look(pid), least) {
            return;
        }
    }
}

/// Whether the main thread of this process is short of time now, rather than waiting for something.
pub(crate) fn is_runnable(pid: i32) -> bool {
    look(pid).is_some_and(|look| look.runnable)
}

fn look(pid: i32) -> Option<Look> {
    parse(&fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat")).ok()?)
}

/// What the kernel tells of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    /// Whether it ran or waited for a core, and for nothing else.
    runnable: bool,
    /// What it has had, in clock ticks.
    ticks: u64,
}

/// The looks so far.
#[derive(Debug, Default)]
struct Looks {
    last: Option<Look>,
    hungry: usize,
}

impl Looks {
    fn starves(&mut self, look: Option<Look>, least: f64) -> bool {
        let hungry = match (self.last, look) {
            (Some(last), Some(look)) => {
                look.runnable && (look.ticks.saturating_sub(last.ticks) as f64) < least
            }
            _ => false,
        };
        self.last = look;
        self.hungry = if hungry { self.hungry + 1 } else { 0 };
        self.hungry >= LOOKS
    }
}

/// Fields 3, 14 and 15 of proc_pid_stat(5). The second one is in brackets and may hold anything.
fn parse(stat: &str) -> Option<Look> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let runnable = fields.next()? == "R";
    let mut times = fields.skip(10);
    let mut time = || times.next()?.parse::<u64>().ok();
    Some(Look {
        runnable,
        ticks: time()? + time()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(runnable: bool, ticks: u64) -> Option<Look> {
        Some(Look { runnable, ticks })
    }

    /// At which of these looks it was found to starve; five ticks are enough.
    fn found(all: impl IntoIterator<Item = Option<Look>>) -> Option<usize> {
        let mut looks = Looks::default();
        all.into_iter().position(|one| looks.starves(one, 5.0))
    }

    #[test]
    fn a_process_that_is_ready_and_gets_next_to_nothing_starves() {
        assert_eq!(
            found((0..30).map(|count| seen(true, count * 4))),
            Some(LOOKS)
        );
    }

    #[test]
    fn a_little_time_is_enough() {
        assert_eq!(found((0..30).map(|count| seen(true, count * 5))), None);
        // Once in a while as well.
        let now_and_then = |count: u64| seen(true, count / 8 * 50);
        assert_eq!(found((0..60).map(now_and_then)), None);
    }

    #[test]
    fn who_waits_for_something_else_does_not_starve() {
        assert_eq!(found((0..30).map(|_| seen(false, 7))), None);
        assert_eq!(found((0..30).map(|count| seen(count % 6 > 0, 7))), None);
        assert_eq!(found((0..30).map(|_| None)), None);
    }

    #[test]
    fn the_fields_are_those_of_the_kernel() {
        let stat = "7 (a ) b) R 1 7 7 0 -1 4194304 100 0 0 0 12 30 0 0 20 0 1 0 500 0 0";
        assert_eq!(parse(stat), seen(true, 42));
        assert_eq!(parse("7 (ruby) S 1 7"), None);
        let own = std::process::id().cast_signed();
        assert!(look(own).is_some());
        assert!(!is_runnable(i32::MAX));
    }
}
