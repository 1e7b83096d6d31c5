//! Texts that are costly to make, for clients without a token: one is made at a time, some in a row and then one a second, and
//! who asks more often gets the last one again. It knows no text.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Mutex;

/// So often in a row.
const MAX_ALLOWANCE: f64 = 10.0;
/// How long until it may be made once more.
const ALLOWANCE_INTERVAL: Duration = Duration::from_secs(1);

/// The texts that were made last, by what they are.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    texts: RefCell<BTreeMap<&'static str, Bytes>>,
    allowance: Allowance,
    /// Held while one is made.
    turn: Mutex<()>,
}

impl Recent {
    /// Returns the text of this name as `make` makes it now, or as it was made a moment ago.
    pub(crate) async fn get<F>(&self, name: &'static str, make: impl FnOnce() -> F) -> Bytes
    where
        F: Future<Output = String>,
    {
        let _turn = self.turn.lock().await;
        let last = self.texts.borrow().get(name).cloned();
        let may_make = self.allowance.take(Instant::now());
        if let Some(text) = last.filter(|_| !may_make) {
            return text;
        }
        let text = Bytes::from(make().await);
        self.texts.borrow_mut().insert(name, text.clone());
        text
    }
}

/// What is left of the allowance, and since when.
#[derive(Debug)]
struct Allowance(Cell<(f64, Option<Instant>)>);

impl Default for Allowance {
    fn default() -> Self {
        Self(Cell::new((MAX_ALLOWANCE, None)))
    }
}

impl Allowance {
    /// Takes one where one is left at this moment.
    fn take(&self, now: Instant) -> bool {
        let (left, since) = self.0.get();
        let elapsed = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let more = elapsed.as_secs_f64() / ALLOWANCE_INTERVAL.as_secs_f64();
        let left = (left + more).min(MAX_ALLOWANCE);
        let is_left = left >= 1.0;
        let left = if is_left { left - 1.0 } else { left };
        self.0.set((left, Some(now)));
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_asks_too_often_gets_the_last_text_again() {
        let (recent, made) = (Recent::default(), Cell::new(0));
        let make = async || {
            made.set(made.get() + 1);
            made.get().to_string()
        };
        for _ in 0..100 {
            recent.get("text", make).await;
        }
        let last = made.get();
        assert!((10..20).contains(&last), "{last}");
        assert_eq!(recent.get("text", make).await, last.to_string());
        // One that was never made is made.
        assert_eq!(recent.get("other", make).await, (last + 1).to_string());
    }

    #[test]
    fn after_some_times_in_a_row_it_is_once_a_second() {
        let (allowance, start) = (Allowance::default(), Instant::now());
        let at = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        let taken = (0..40).filter(|_| allowance.take(at(0))).count();
        assert_eq!(taken, 10);
        let taken = (1..=300).filter(|tick| allowance.take(at(tick * 10)));
        assert!((2..=3).contains(&taken.count()));
        let taken = (0..40).filter(|_| allowance.take(at(3_600_000))).count();
        assert_eq!(taken, 10);
    }
}
