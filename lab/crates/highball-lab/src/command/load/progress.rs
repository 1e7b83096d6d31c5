//! How far a load is, on stderr: one line that is rewritten on a terminal, a line every few seconds elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use formats::{grouped, milliseconds};

/// Between two lines where stderr is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Where and when progress is told.
pub(super) enum Progress {
    /// Nowhere.
    Quiet,
    /// Over the line before.
    Terminal,
    /// Line by line; holds when the next is due.
    Lines { due: Duration },
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        match quiet {
            true => Self::Quiet,
            false if std::io::stderr().is_terminal() => Self::Terminal,
            false => Self::Lines { due: LINE_EVERY },
        }
    }

    /// Tells how far `what` is. Where stderr is gone there is nobody to tell.
    pub(super) fn tell(&mut self, what: &str, so_far: &loadgen::Progress) {
        let mut stderr = std::io::stderr().lock();
        match self {
            Self::Quiet => {}
            Self::Terminal => {
                // ECMA-48: erase to the end of the line, so that a shorter one leaves no rest.
                let _ = write!(stderr, "\r{}\x1b[K", line(what, so_far));
                let _ = stderr.flush();
            }
            Self::Lines { due } => {
                if so_far.elapsed >= *due {
                    let _ = writeln!(stderr, "{}", line(what, so_far));
                    *due = so_far.elapsed + LINE_EVERY;
                }
            }
        }
    }

    /// What was told is over; results follow.
    pub(super) fn end(&mut self) {
        match self {
            Self::Quiet => {}
            Self::Terminal => {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
            Self::Lines { due } => *due = LINE_EVERY,
        }
    }
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
