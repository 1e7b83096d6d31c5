//! When a certificate is renewed: at the time that renewal information suggests (ARI, RFC 9773), otherwise at two thirds of
//! its life. Pure: times go in, a time comes out.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::clock::{from_seconds, to_seconds};

/// How long after an order the next one for the same names may begin at the earliest, or a third of the certificate's life:
/// neither a wrong clock nor an authority that always says "now" makes it order in a circle.
const SHORTEST_TIME_BETWEEN_ORDERS: Duration = Duration::from_secs(3600);
/// The shortest time between two looks at renewal information, whatever Retry-After says (RFC 9773 section 4.3.3).
const SHORTEST_ARI_INTERVAL: Duration = Duration::from_secs(3600);
/// The longest one.
const LONGEST_ARI_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// The time to the next look after one that failed or named no time.
pub(crate) const ARI_INTERVAL: Duration = Duration::from_secs(6 * 3600);

/// Why a certificate is renewed at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RenewalReason {
    /// The certificate authority suggested the time (ARI, RFC 9773).
    #[serde(rename = "renewal-information")]
    RenewalInformation,
    /// Two thirds of its life have passed then.
    #[serde(rename = "two-thirds")]
    TwoThirds,
}

/// What renewal information said of one certificate. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Suggestion {
    /// The window in which the authority wants the certificate to be renewed.
    pub(crate) window: Option<(u64, u64)>,
    /// The time in that window that was chosen at random.
    #[serde(default)]
    pub(crate) chosen: Option<u64>,
    /// When to look again.
    pub(crate) next_look: u64,
    /// The serial number of the certificate that it is about.
    pub(crate) serial: String,
}

impl Suggestion {
    /// Takes a new answer. The time is chosen again only if the window has changed; `random` is from 0 to 1.
    pub(crate) fn update(
        &mut self,
        window: (SystemTime, SystemTime),
        retry_after: Duration,
        now: SystemTime,
        random: f64,
    ) {
        let window = (to_seconds(window.0), to_seconds(window.1));
        self.next_look =
            to_seconds(now + retry_after.clamp(SHORTEST_ARI_INTERVAL, LONGEST_ARI_INTERVAL));
        // A window that ends before it begins is invalid (RFC 9773 section 4.2).
        if window.1 <= window.0 {
            (self.window, self.chosen) = (None, None);
        } else if self.window != Some(window) {
            self.window = Some(window);
            let length = (window.1 - window.0) as f64;
            self.chosen = Some(window.0 + (length * random.clamp(0.0, 1.0)) as u64);
        }
    }
}

/// The life of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

impl Life {
    pub(crate) fn length(self) -> Duration {
        self.not_after
            .duration_since(self.not_before)
            .unwrap_or_default()
    }

    /// The time at which less than a quarter of its life is left.
    pub(crate) fn last_quarter(self) -> SystemTime {
        self.not_after - self.length() / 4
    }
}

/// When to renew, and why then. `ordered` is when this certificate was ordered, where that is known.
pub(crate) fn renew_at(
    life: Life,
    suggestion: Option<&Suggestion>,
    ordered: Option<SystemTime>,
) -> (SystemTime, RenewalReason) {
    let length = life.length();
    // A time so late that nothing could be tried again does not count.
    let latest = life.not_after - length / 10;
    let suggested = suggestion
        .and_then(|suggestion| suggestion.chosen)
        .map(from_seconds);
    let (time, reason) = match suggested {
        Some(time) => (time.min(latest), RenewalReason::RenewalInformation),
        None => (life.not_after - length / 3, RenewalReason::TwoThirds),
    };
    let earliest = ordered.map(|ordered| ordered + SHORTEST_TIME_BETWEEN_ORDERS.min(length / 3));
    (earliest.map_or(time, |earliest| time.max(earliest)), reason)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn day(number: u32) -> SystemTime {
        UNIX_EPOCH + 1000 * DAY + number * DAY
    }

    fn life(days: u32) -> Life {
        Life {
            not_before: day(0),
            not_after: day(days),
        }
    }

    fn suggestion(from: u32, to: u32, random: f64) -> Suggestion {
        let mut suggestion = Suggestion::default();
        suggestion.update((day(from), day(to)), 6 * HOUR, day(0), random);
        suggestion
    }

    #[test]
    fn without_a_suggestion_two_thirds_of_the_life_count() {
        for days in [90, 45, 6] {
            let (at, reason) = renew_at(life(days), None, Some(day(0)));
            assert_eq!((at, reason), (day(days * 2 / 3), RenewalReason::TwoThirds));
        }
    }

    #[test]
    fn a_suggested_time_is_chosen_at_random_and_kept() {
        let mut suggested = suggestion(40, 50, 0.5);
        assert_eq!(renew_at(life(90), Some(&suggested), None).0, day(45));
        suggested.update((day(40), day(50)), 6 * HOUR, day(1), 0.9);
        assert_eq!(renew_at(life(90), Some(&suggested), None).0, day(45));
        suggested.update((day(20), day(30)), 6 * HOUR, day(1), 0.9);
        assert_eq!(renew_at(life(90), Some(&suggested), None).0, day(29));
    }

    #[test]
    fn a_suggestion_that_is_too_late_or_invalid_does_not_count() {
        let late = suggestion(100, 110, 0.5);
        assert_eq!(renew_at(life(90), Some(&late), None).0, day(81));
        let invalid = suggestion(30, 30, 0.5);
        assert_eq!(renew_at(life(90), Some(&invalid), None).0, day(60));
    }

    #[test]
    fn a_new_certificate_is_not_replaced_at_once_whatever_anybody_says() {
        let now = suggestion(0, 1, 0.0);
        assert_eq!(
            renew_at(life(90), Some(&now), Some(day(2))).0,
            day(2) + HOUR
        );
        // The clock says that it has expired already.
        let (at, _) = renew_at(life(6), None, Some(day(100)));
        assert_eq!(at, day(100) + HOUR);
    }

    #[test]
    fn looks_at_renewal_information_are_an_hour_to_a_day_apart() {
        for (asked, kept) in [(Duration::ZERO, HOUR), (6 * HOUR, 6 * HOUR), (9 * DAY, DAY)] {
            let mut suggestion = Suggestion::default();
            suggestion.update((day(1), day(2)), asked, day(0), 0.0);
            assert_eq!(suggestion.next_look, to_seconds(day(0) + kept));
        }
    }
}
