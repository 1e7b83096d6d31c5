//! What came of a load: counts, errors by kind, latencies, a series of seconds, and whether the generator itself
//! was the limit. Plain data that merges, serialises and prints; it measures nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use latency::Latency;

pub mod condition;
mod latency;

/// The result of one load. Times are seconds unless the name says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The length of a timed load; of others from the start to the last response.
    pub elapsed_s: f64,
    /// Requests that the plan called for until its end; in a closed loop those that were tried.
    pub demanded: u64,
    /// Requests that left.
    pub sent: u64,
    /// Whole responses, of any status, that came until the load's end.
    pub completed: u64,
    /// Whole responses that came after the end of a timed load, to requests that were due before it. They are part
    /// of the latencies, and of no rate: a straggler must neither lengthen a load nor be counted into it.
    #[serde(default)]
    pub late: u64,
    /// Of `completed`, those with a status from 200 to 399 that are what was expected.
    pub good: u64,
    /// Responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without a whole response or with a wrong one, by kind.
    pub errors: Errors,
    /// From the scheduled time (closed loop: from the moment at which the request could leave) to the last byte,
    /// with the connect where one was needed. Failed requests, and whole responses that are not good, count with the
    /// time-out, unanswered ones with their age.
    pub latency: Latency,
    /// From the first byte sent to the last byte received, of whole responses only.
    pub service: Latency,
    /// From the first byte sent to the first byte received.
    pub first_byte: Latency,
    /// How long connecting took, for each connection.
    pub connect: Latency,
    /// Connections that were established.
    pub connections: u64,
    /// Most requests in flight at once.
    pub peak_in_flight: u64,
    /// The number of requests in flight summed over the load's time, by the clock and not from their latencies: over
    /// `elapsed_s` it is the mean number in flight.
    pub in_flight_s: f64,
    /// Bytes over the wire.
    pub bytes: Bytes,
    /// Of a first response: for the fields that ab and wrk print.
    pub sample: Sample,
    /// One entry a second, for series and for the bootstrap's blocks.
    pub seconds: Vec<Second>,
    /// By kind of request, in the plan's order; one entry each.
    pub requests: Vec<OfRequest>,
    /// What the generator itself did.
    pub generator: Generator,
}

/// Requests that failed, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Errors {
    /// No server listens.
    pub connect_refused: u64,
    /// No connection within the time-out.
    pub connect_timeout: u64,
    /// No local port was left (EADDRNOTAVAIL): the run is void.
    pub no_address: u64,
    /// No file descriptor was left: the run is void.
    pub no_descriptor: u64,
    /// The connection was reset.
    pub reset: u64,
    /// The connection was closed before any byte of the response.
    pub closed: u64,
    /// The connection was closed within the response.
    pub short_body: u64,
    /// No whole response within the time-out.
    pub timeout: u64,
    /// What came was no HTTP.
    pub invalid: u64,
    /// A whole response whose length or status is not the expected one.
    pub unexpected: u64,
    /// Nothing came until the load's end.
    pub unanswered: u64,
}

/// Bytes over the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Sent.
    pub sent: u64,
    /// Received: status lines and header sections.
    pub heads: u64,
    /// Received: content without chunk framing.
    pub bodies: u64,
    /// Received in all.
    pub received: u64,
}

/// One good response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The `Server` field.
    pub server: String,
    /// Length of the content in bytes.
    pub length: u64,
}

/// One second of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Requests whose time had come.
    pub demanded: u64,
    /// Whole responses.
    pub completed: u64,
    /// Good ones.
    pub good: u64,
    /// Failed requests.
    pub errors: u64,
    /// Middle latency of those that ended in it, in milliseconds.
    pub p50_ms: f64,
    /// The slowest hundredth of them, in milliseconds.
    pub p99_ms: f64,
}

/// What one kind of request gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OfRequest {
    /// Method and path.
    pub name: String,
    /// Whole responses.
    pub completed: u64,
    /// Good ones.
    pub good: u64,
    /// As in [`Outcome::latency`].
    pub latency: Latency,
    /// As in [`Outcome::service`]; where there are several kinds alone, since of one it is the whole's.
    #[serde(default, skip_serializing_if = "Latency::is_empty")]
    pub service: Latency,
}

/// What the generator itself did: whether a figure describes the server at all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Threads.
    pub threads: u64,
    /// Cores that it used on average, of at most `threads`.
    pub cores: f64,
    /// Share of the time in which its threads were ready and waited for a core (`/proc/PID/schedstat`).
    pub waited: f64,
    /// How late requests left behind their schedule, open loop only.
    pub lag: Latency,
    /// How long requests waited because all connections that the plan allows were in use, of those that did; open
    /// loop only. It is part of their latency and no lag.
    #[serde(default)]
    pub pool_wait: Latency,
    /// Why the generator, and not the server, was the limit; `None` where it was not.
    pub limit: Option<String>,
}

impl Bytes {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        let Self {
            sent,
            heads,
            bodies,
            received,
        } = *other;
        self.sent += sent;
        self.heads += heads;
        self.bodies += bodies;
        self.received += received;
    }
}

impl Errors {
    /// Adds others, kind by kind.
    pub fn add(&mut self, other: &Self) {
        let Self {
            connect_refused,
            connect_timeout,
            no_address,
            no_descriptor,
            reset,
            closed,
            short_body,
            timeout,
            invalid,
            unexpected,
            unanswered,
        } = *other;
        self.connect_refused += connect_refused;
        self.connect_timeout += connect_timeout;
        self.no_address += no_address;
        self.no_descriptor += no_descriptor;
        self.reset += reset;
        self.closed += closed;
        self.short_body += short_body;
        self.timeout += timeout;
        self.invalid += invalid;
        self.unexpected += unexpected;
        self.unanswered += unanswered;
    }

    /// All kinds together.
    pub fn total(&self) -> u64 {
        let Self {
            connect_refused,
            connect_timeout,
            no_address,
            no_descriptor,
            reset,
            closed,
            short_body,
            timeout,
            invalid,
            unexpected,
            unanswered,
        } = *self;
        connect_refused
            + connect_timeout
            + no_address
            + no_descriptor
            + reset
            + closed
            + short_body
            + timeout
            + invalid
            + unexpected
            + unanswered
    }
}

/// Throughput times mean latency, and the requests in flight that it should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contradiction {
    /// Responses a second times the mean seconds from when a request left until it was answered.
    pub product: f64,
    /// Requests in flight, on average.
    pub in_flight: f64,
}

/// How far apart the two sides of Little's law may be, apart from what the load's ends explain.
const LITTLE: f64 = 0.05;

impl Outcome {
    /// What contradicts Little's law: throughput times mean latency is the mean number in flight, so where it is not, one
    /// of the three is wrong. `None` where it holds, and where a request failed: it counts with the time-out and not with the
    /// time that it took, so that nothing can be said.
    pub fn contradiction(&self) -> Option<Contradiction> {
        let failed = self.errors.total() - self.errors.unanswered + (self.completed - self.good);
        let count = self.latency.count() as f64;
        if failed > 0 || self.latency.count() == 0 || self.elapsed_s <= 0.0 {
            return None;
        }
        let sum = |latency: &Latency| latency.mean_ms() * latency.count() as f64;
        // In flight is what has left: an open loop's latencies hold the wait before that as well.
        let before = sum(&self.generator.lag) + sum(&self.generator.pool_wait);
        let latency_s = ((sum(&self.latency) - before) / count / 1000.0).max(0.0);
        let product = self.completed as f64 / self.elapsed_s * latency_s;
        let in_flight = self.in_flight_s / self.elapsed_s;
        // What is under way at the load's end has a latency and is no response yet.
        let ends = latency_s / self.elapsed_s;
        let apart = (product - in_flight).abs();
        (apart > in_flight * (LITTLE + ends)).then_some(Contradiction { product, in_flight })
    }

    /// Good responses of each whole second; the last one is rarely whole, and would look like a fall.
    pub fn rates(&self) -> Vec<f64> {
        let whole = self.elapsed_s.floor() as usize;
        let seconds = self.seconds.iter().take(whole);
        seconds.map(|second| second.good as f64).collect()
    }

    /// Requests without a good response: failed ones, and whole responses with a status from 400 on or another one than
    /// expected. Those that the end of the load cut off are among them.
    pub fn failed(&self) -> u64 {
        let not_good = self.completed.saturating_sub(self.good);
        let lost = self.errors.total() - self.errors.unexpected;
        not_good.max(self.errors.unexpected) + lost
    }

    /// The same over demanded requests, in per cent; zero without any.
    pub fn failed_percent(&self) -> f64 {
        match self.demanded {
            0 => 0.0,
            demanded => self.failed() as f64 * 100.0 / demanded as f64,
        }
    }

    /// Good responses a second: the one figure that ranks.
    pub fn good_per_second(&self) -> f64 {
        if self.elapsed_s > 0.0 {
            self.good as f64 / self.elapsed_s
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Ten seconds of 100 responses a second that each took 30 ms.
    fn outcome() -> Outcome {
        let mut outcome = Outcome {
            elapsed_s: 10.0,
            completed: 1000,
            good: 1000,
            in_flight_s: 30.0,
            ..Outcome::default()
        };
        for _ in 0..1000 {
            outcome.latency.record(Duration::from_millis(30));
        }
        outcome
    }

    #[test]
    fn throughput_times_latency_is_what_is_in_flight() {
        assert_eq!(outcome().contradiction(), None);
        // A tool that leaves out slow answers shows a latency that contradicts its own connections.
        let mut hiding = outcome();
        hiding.in_flight_s = 120.0;
        let found = hiding.contradiction().unwrap();
        assert_eq!(found.in_flight, 12.0);
        assert!((found.product - 3.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn time_before_a_request_left_was_not_in_flight() {
        let mut outcome = outcome();
        outcome.in_flight_s = 20.0;
        assert!(outcome.contradiction().is_some());
        for _ in 0..1000 {
            outcome.generator.lag.record(Duration::from_millis(10));
        }
        assert_eq!(outcome.contradiction(), None);
    }

    #[test]
    fn what_failed_or_ends_with_the_load_contradicts_nothing() {
        let mut failing = outcome();
        failing.in_flight_s = 120.0;
        failing.errors.reset = 1;
        assert_eq!(failing.contradiction(), None);
        let mut refusing = outcome();
        refusing.in_flight_s = 120.0;
        refusing.good -= 1;
        assert_eq!(refusing.contradiction(), None);
        // Answers take a third of the load: as many are under way at its end.
        let mut slow = Outcome {
            elapsed_s: 3.0,
            completed: 20,
            good: 20,
            late: 10,
            in_flight_s: 30.0,
            ..Outcome::default()
        };
        (0..30).for_each(|_| slow.latency.record(Duration::from_secs(1)));
        assert_eq!(slow.contradiction(), None);
        assert_eq!(Outcome::default().contradiction(), None);
    }
}
