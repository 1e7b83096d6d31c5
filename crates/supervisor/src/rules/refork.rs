//! Re-forking, as rules: after how many requests a worker forks a new template, and whether that was worth it. Pure: it knows no
//! process and reads nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::rules::memory::Size;

/// The least part of the memory, in percent, that a new template must save.
const LEAST_SAVING: u64 = 5;

/// The most characters of a reason that the status has.
const MAX_REASON_CHARS: usize = 500;

/// The worker that a template was forked from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Its number.
    pub worker: u16,
    /// Requests that it had finished.
    pub requests: u64,
}

/// What has come of re-forking in a generation.
#[derive(Debug, Default)]
pub(crate) struct Reforking {
    pub(crate) is_running: bool,
    /// How many templates were forked from workers.
    pub(crate) templates: usize,
    /// Why none follows by itself, for operators; `None` while one may.
    stopped: Option<String>,
}

impl Reforking {
    /// Why no other template follows by itself, if none does.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Has none follow by itself. A worker may have written the reason: its control characters are left out, and so is what
    /// is beyond [`MAX_REASON_CHARS`].
    pub(crate) fn stop(&mut self, reason: &str) {
        let shown = reason.chars().filter(|c| !c.is_control());
        self.stopped = Some(shown.take(MAX_REASON_CHARS).collect());
    }

    /// One was forked all the same, by command: others may follow again.
    pub(crate) fn resume(&mut self) {
        self.stopped = None;
    }
}

/// What template and workers held before a template was forked from a worker, and after as many requests since, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saving {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

impl Saving {
    /// Whether it is worth another template later.
    pub fn suffices(&self) -> bool {
        let most = u128::from(self.before) * u128::from(100 - LEAST_SAVING) / 100;
        u128::from(self.after) <= most
    }

    /// How much more is held than before, in percent: less than nothing where memory was saved.
    fn change(&self) -> f64 {
        let (before, after) = (self.before as f64, self.after as f64);
        (after - before) / before.max(1.0) * 100.0
    }

    /// Why no other template follows, where this one saved too little.
    pub(crate) fn shortfall(&self) -> Option<String> {
        (!self.suffices()).then(|| {
            format!(
                "the last template changed the memory of template and workers by {:+.1} %, and must save {LEAST_SAVING} %",
                self.change()
            )
        })
    }
}

impl fmt::Display for Saving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = self.change();
        write!(
            f,
            "since the template was forked from a worker, template and workers hold {}, {} before after as many requests \
             ({change:+.1} %)",
            Size(self.after),
            Size(self.before)
        )?;
        match self.suffices() {
            true => Ok(()),
            false => write!(
                f,
                "; that is less than {LEAST_SAVING} % saved: no other template is forked from a worker by itself \
                 (setting refork)"
            ),
        }
    }
}

/// After how many requests of a worker the next template is forked, where so many were forked in this generation already.
pub(crate) fn due_after(counts: &[u64], reforks: usize) -> Option<u64> {
    counts.get(reforks).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_saves_less_than_five_percent_is_the_last() {
        let suffices = |before, after| Saving { before, after }.suffices();
        assert!(suffices(1000, 950) && suffices(1000, 0));
        assert!(!suffices(1000, 951) && !suffices(1000, 2000));
        assert!(suffices(u64::MAX, u64::MAX / 2));
    }

    #[test]
    fn the_log_has_both_figures() {
        let text = |before: u64, after: u64| {
            let (before, after) = (before << 20, after << 20);
            Saving { before, after }.to_string()
        };
        assert!(
            text(400, 300)
                .ends_with("hold 300.0 MiB, 400.0 MiB before after as many requests (-25.0 %)")
        );
        assert!(text(400, 400).contains("(+0.0 %); that is less than 5 % saved"));
    }

    #[test]
    fn the_status_says_what_was_saved_where_that_is_too_little() {
        let shortfall = |before, after| Saving { before, after }.shortfall();
        assert_eq!(shortfall(1000, 950), None);
        let text = "the last template changed the memory of template and workers by -2.0 %, and must save 5 %";
        assert_eq!(shortfall(1000, 980).as_deref(), Some(text));
    }

    #[test]
    fn a_reason_to_stop_is_short_and_harmless_in_a_terminal() {
        let mut own = Reforking::default();
        assert_eq!(own.stopped(), None);
        own.stop("gem a\x1b[31m\nis unfit");
        assert_eq!(own.stopped(), Some("gem a[31mis unfit"));
        own.stop(&"\u{fc}".repeat(MAX_REASON_CHARS + 1));
        let kept = own.stopped().map(|text| text.chars().count());
        assert_eq!(kept, Some(MAX_REASON_CHARS));
        own.resume();
        assert_eq!(own.stopped(), None);
    }

    #[test]
    fn each_count_is_for_one_template() {
        assert_eq!(due_after(&[500, 1500], 0), Some(500));
        assert_eq!(due_after(&[500, 1500], 1), Some(1500));
        assert_eq!(due_after(&[500, 1500], 2), None);
        assert_eq!(due_after(&[], 0), None);
    }
}
