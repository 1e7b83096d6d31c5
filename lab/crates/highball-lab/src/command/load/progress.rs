//! The progress of a load on stderr: one line that is rewritten on a terminal, a line every few seconds elsewhere.

use std::time::Duration;

use compare::live::Live;
use formats::{grouped, milliseconds};
use loadgen::plan::{End, Mode, Plan};

/// Time between two lines where stderr is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Where and when progress is shown.
pub(super) enum Progress {
    /// Nowhere.
    Quiet,
    /// In the last line of the terminal.
    Terminal(Live),
    /// Line by line; holds when the next is due.
    Lines { due: Duration },
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        if quiet {
            return Self::Quiet;
        }
        let live = Live::on_stderr();
        match live.is_shown() {
            true => Self::Terminal(live),
            false => Self::Lines { due: LINE_INTERVAL },
        }
    }

    /// Shows how far `plan` is, which is `what`. Failed writes to stderr are ignored.
    pub(super) fn show(&mut self, what: &str, plan: &Plan, so_far: &loadgen::Progress) {
        match self {
            Self::Quiet => {}
            Self::Terminal(live) => {
                let (done, total) = position(plan, so_far);
                live.set_position(done, total);
                live.show(what, so_far);
            }
            Self::Lines { due } => {
                if so_far.elapsed >= *due {
                    eprintln!("{}", line(what, so_far));
                    *due = so_far.elapsed + LINE_INTERVAL;
                }
            }
        }
    }

    /// The load is over; results follow.
    pub(super) fn end(&mut self) {
        match self {
            Self::Quiet => {}
            Self::Terminal(live) => live.clear(),
            Self::Lines { due } => *due = LINE_INTERVAL,
        }
    }
}

/// How much of a load is done: milliseconds, or requests where their number ends it.
fn position(plan: &Plan, so_far: &loadgen::Progress) -> (u64, u64) {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (done, total) = match plan.mode {
        Mode::Closed {
            end: End::Requests(count),
            ..
        } => (so_far.completed + so_far.errors, count),
        Mode::Closed {
            end: End::After(time),
            ..
        }
        | Mode::Open { duration: time, .. } => (milliseconds(so_far.elapsed), milliseconds(time)),
    };
    (done.min(total), total)
}

fn line(what: &str, so_far: &loadgen::Progress) -> String {
    format!(
        "{what} {:>5.1} s   {} responses, {} a second   p99 {} ms   {} errors",
        so_far.elapsed.as_secs_f64(),
        grouped(so_far.completed),
        grouped(so_far.rate.round() as u64),
        milliseconds(so_far.p99_ms),
        grouped(so_far.errors)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_progress_of_a_load() {
        let so_far = loadgen::Progress {
            elapsed: Duration::from_millis(3_250),
            completed: 22_464,
            good: 22_460,
            errors: 4,
            rate: 6_911.9,
            p99_ms: 4.951,
            ..loadgen::Progress::default()
        };
        assert_eq!(
            line("load", &so_far),
            "load   3.2 s   22,464 responses, 6,912 a second   p99 4.95 ms   4 errors"
        );
    }
}
