//! The last line of a terminal: what runs, how far it is, live rate and latency. It is rewritten in place and never longer
//! than the terminal is wide. Where stderr is no terminal it shows nothing, and lines are printed as they are.

use std::io::IsTerminal as _;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use loadgen::Progress;

use crate::number::grouped;

/// Redraws a second; the generator reports four times a second.
const REDRAWS: u8 = 8;

/// A bar and a text, which is cut off at the terminal's width.
const TEMPLATE: &str = "{bar:12} {wide_msg}";

/// The line. Dropping it removes it.
#[derive(Debug)]
pub struct Live {
    /// `None` where there is no terminal.
    bar: Option<ProgressBar>,
    /// What the line is about.
    subject: Mutex<String>,
}

impl Live {
    /// A line on stderr, if that is a terminal.
    pub fn on_stderr() -> Self {
        match std::io::stderr().is_terminal() {
            true => Self {
                bar: Some(bar()),
                subject: Mutex::default(),
            },
            false => Self::hidden(),
        }
    }

    /// A line that shows nothing.
    pub fn hidden() -> Self {
        Self {
            bar: None,
            subject: Mutex::default(),
        }
    }

    /// Whether there is a terminal.
    pub fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// `done` of `total` are done.
    pub fn set_position(&self, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
        }
    }

    /// Says from now on what the line is about.
    pub fn set_subject(&self, subject: &str) {
        if let Some(bar) = &self.bar {
            subject.clone_into(&mut self.subject.lock().expect("no holder panics"));
            bar.set_message(subject.to_owned());
        }
    }

    /// Shows the progress of a load.
    pub fn show(&self, phase: &str, so_far: &Progress) {
        if let Some(bar) = &self.bar {
            let subject = self.subject.lock().expect("no holder panics");
            bar.set_message(format!("{subject}{phase} {}", figures(so_far)));
        }
    }

    /// Prints a line; the last one of the terminal stays below it.
    pub fn print(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    /// Removes the line until something is shown again.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            bar.reset();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(REDRAWS);
    let style = ProgressStyle::with_template(TEMPLATE).expect("the template is constant");
    ProgressBar::with_draw_target(Some(0), target).with_style(style.progress_chars("█▌░"))
}

/// The most important first, since a narrow terminal cuts off the end.
fn figures(so_far: &Progress) -> String {
    let errors = match so_far.errors {
        0 => String::new(),
        errors => format!(", {} failed", grouped(errors as f64)),
    };
    format!(
        "{:.0} s: {}/s, p99 {:.1} ms{errors}",
        so_far.elapsed.as_secs_f64(),
        grouped(so_far.rate),
        so_far.p99_ms
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn figures_are_short_and_name_failures_only_if_there_are_any() {
        let mut so_far = Progress {
            elapsed: Duration::from_millis(3_250),
            rate: 6_911.9,
            p99_ms: 4.951,
            ..Progress::default()
        };
        assert_eq!(figures(&so_far), "3 s: 6,912/s, p99 5.0 ms");
        so_far.errors = 1234;
        assert_eq!(figures(&so_far), "3 s: 6,912/s, p99 5.0 ms, 1,234 failed");
    }
}
