//! What is remembered of a set of names beside its certificate, on disk too: the order on its way, failed attempts, renewal
//! information. Decides nothing and reads no clock.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::backoff::next_attempt;
use crate::certificate::Certificate;
use crate::clock::{from_seconds, to_seconds};
use crate::failure::Failure;
use crate::installer::ChallengeKind;
use crate::renewal::Suggestion;

/// The last attempt, if it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureStatus {
    /// When it failed.
    pub at: u64,
    /// What was tried, and the certificate authority's own words. One line, escaped.
    pub text: String,
    /// The type of problem that the authority named, such as `rateLimited`.
    pub problem: Option<String>,
    /// How many attempts in a row have failed.
    pub failures: u32,
    /// When the next attempt begins.
    pub retry_at: u64,
}

/// The file `state.json` of a set of names. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    /// The address of an order that has not ended: it is continued and not made again.
    pub(crate) order: Option<String>,
    /// When the certificate that is stored was ordered.
    pub(crate) ordered: Option<u64>,
    /// The kind of challenge to try next, where the last one failed.
    pub(crate) challenge: Option<ChallengeKind>,
    /// Whether the authority refused to take an order as a replacement (RFC 9773 section 5).
    pub(crate) refused_replacement: bool,
    pub(crate) suggestion: Option<Suggestion>,
    failed_at: u64,
    failure: Option<String>,
    problem: Option<String>,
    failures: u32,
    next_attempt: u64,
}

impl State {
    /// Counts a failed attempt.
    pub(crate) fn fail(&mut self, failure: &Failure, now: SystemTime) {
        self.failures = self.failures.saturating_add(1);
        self.failed_at = to_seconds(now);
        self.failure = Some(failure.text.clone());
        self.problem.clone_from(&failure.problem);
        // Whole seconds, rounded up: nobody is asked before the time.
        self.next_attempt = to_seconds(next_attempt(now, self.failures, failure)) + 1;
    }

    /// Forgets what belongs to orders: a certificate was ordered at `now`.
    pub(crate) fn succeed(&mut self, now: SystemTime) {
        *self = Self {
            ordered: Some(to_seconds(now)),
            challenge: self.challenge,
            ..Self::default()
        };
    }

    /// When the next attempt may begin.
    pub(crate) fn next_attempt(&self) -> SystemTime {
        from_seconds(self.next_attempt)
    }

    pub(crate) fn failure(&self) -> Option<FailureStatus> {
        Some(FailureStatus {
            at: self.failed_at,
            text: self.failure.clone()?,
            problem: self.problem.clone(),
            failures: self.failures,
            retry_at: self.next_attempt,
        })
    }

    /// What renewal information said of this certificate.
    pub(crate) fn suggestion_for(&self, certificate: &Certificate) -> Option<&Suggestion> {
        let suggestion = self.suggestion.as_ref();
        suggestion.filter(|suggestion| suggestion.serial == certificate.serial)
    }
}
