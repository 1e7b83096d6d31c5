//! Names that nobody listed: whether one that somebody connected to gets a certificate is asked of an address, within bounds
//! of rate and number. Orders nothing.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use http::StatusCode;

use crate::client::AskClient;
use crate::names::Names;

/// The most names that get certificates in this way.
const MAX_DEMANDED_NAMES: usize = 1000;
/// The most names whose refusal is remembered.
const MAX_REFUSED_NAMES: usize = 1000;
/// How long a refusal is remembered.
const REFUSAL_TIME: Duration = Duration::from_secs(600);
/// How many names may be asked for in a burst; one more each [`ASK_INTERVAL`].
const ASK_BURST: u32 = 10;
/// The time between two questions when the burst is used up.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// What became of a name that somebody connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It gets a certificate.
    Granted,
    /// It gets none; why, for the log, unless that was said before.
    Refused(Option<String>),
}

/// Asks for names.
pub(crate) struct OnDemand {
    url: String,
    client: AskClient,
    granted: usize,
    /// When each refusal may be forgotten.
    refused: BTreeMap<Names, SystemTime>,
    allowance: Allowance,
}

/// How many questions may be asked now.
#[derive(Debug)]
struct Allowance {
    left: u32,
    counted: SystemTime,
}

impl Allowance {
    /// Takes one; false if there is none.
    fn take(&mut self, now: SystemTime) -> bool {
        let since = now.duration_since(self.counted).unwrap_or_default();
        let more = u32::try_from(since.as_secs() / ASK_INTERVAL.as_secs()).unwrap_or(u32::MAX);
        if more > 0 {
            self.left = self.left.saturating_add(more).min(ASK_BURST);
            self.counted = now;
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        true
    }
}

impl OnDemand {
    /// `granted` names have certificates already.
    pub(crate) fn new(url: String, client: AskClient, granted: usize, now: SystemTime) -> Self {
        let allowance = Allowance {
            left: ASK_BURST,
            counted: now,
        };
        Self {
            url,
            client,
            granted,
            refused: BTreeMap::new(),
            allowance,
        }
    }

    /// Whether this name gets a certificate.
    pub(crate) async fn decide(&mut self, names: &Names, now: SystemTime) -> Verdict {
        self.refused.retain(|_, until| *until > now);
        if self.refused.contains_key(names) || self.refused.len() >= MAX_REFUSED_NAMES {
            return Verdict::Refused(None);
        }
        if self.granted >= MAX_DEMANDED_NAMES {
            let text = format!(
                "no certificate for {names}: {MAX_DEMANDED_NAMES} names have one on demand already"
            );
            return self.refuse(names, now, text);
        }
        if !self.allowance.take(now) {
            return Verdict::Refused(None);
        }
        let name = &names.as_slice()[0];
        match self.client.ask(&self.url, name).await {
            Ok(StatusCode::OK) => {
                self.granted += 1;
                Verdict::Granted
            }
            Ok(status) => {
                let text = format!(
                    "no certificate for {name}: acme_ask_url answered {}",
                    status.as_u16()
                );
                self.refuse(names, now, text)
            }
            Err(error) => {
                let text = format!("no certificate for {name}: acme_ask_url failed: {error}");
                self.refuse(names, now, text)
            }
        }
    }

    fn refuse(&mut self, names: &Names, now: SystemTime, text: String) -> Verdict {
        self.refused.insert(names.clone(), now + REFUSAL_TIME);
        Verdict::Refused(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn questions_are_a_burst_and_then_one_a_second() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let mut allowance = Allowance {
            left: ASK_BURST,
            counted: now,
        };
        assert_eq!((0..100).filter(|_| allowance.take(now)).count(), 10);
        assert!(allowance.take(now + ASK_INTERVAL));
        assert!(!allowance.take(now + ASK_INTERVAL));
        let later = now + Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| allowance.take(later)).count(), 10);
    }
}
