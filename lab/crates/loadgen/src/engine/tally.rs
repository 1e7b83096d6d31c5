//! What one thread counts. Its size depends on neither the length of the load nor the number of requests: times go
//! into histograms, and each quarter of a second the latencies leave for the caller as a [`Slice`].

use std::sync::mpsc::Sender;
use std::time::Duration;

use super::Single;
use super::arrivals::nanoseconds;
use crate::framing::Response;
use crate::outcome::{Bytes, Errors, Latency, OfRequest, Sample};
use crate::plan::Plan;

/// How often a slice leaves, in nanoseconds; a second is a whole number of slices.
pub(super) const SLICE: u64 = 250_000_000;
/// Slices in a second.
pub(super) const SLICES_A_SECOND: u64 = 4;
const STATUSES: usize = 1000;

/// What a thread saw in a quarter of a second.
#[derive(Debug)]
pub(super) struct Slice {
    /// The thread.
    pub(super) thread: usize,
    /// Which quarter from the start; `None` after the end of a timed load.
    pub(super) number: Option<u64>,
    /// Requests taken up.
    pub(super) taken: u64,
    /// As in [`crate::outcome::Second`].
    pub(super) completed: u64,
    /// As in [`crate::outcome::Second`].
    pub(super) good: u64,
    /// As in [`crate::outcome::Second`].
    pub(super) errors: u64,
    /// Of all that ended in it.
    pub(super) latency: Latency,
}

impl Slice {
    fn new(thread: usize, number: Option<u64>) -> Self {
        Self {
            thread,
            number,
            taken: 0,
            completed: 0,
            good: 0,
            errors: 0,
            latency: Latency::default(),
        }
    }
}

/// Times of one request in nanoseconds from the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Scheduled, or ready to leave.
    pub(super) due: u64,
    /// First byte sent.
    pub(super) sent: u64,
    /// First byte received.
    pub(super) first: u64,
    /// Last byte received, or given up.
    pub(super) ended: u64,
}

/// How a request failed; one for each field of [`Errors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    ConnectRefused,
    ConnectTimeout,
    NoAddress,
    NoDescriptor,
    Reset,
    Closed,
    ShortBody,
    Timeout,
    Invalid,
    Unexpected,
    Unanswered,
}

/// The counts of one thread.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) slice: Slice,
    /// `None` after the last slice: the caller waits until every thread has let go.
    out: Option<Sender<Slice>>,
    flush_at: u64,
    /// Nanoseconds at which a timed load ends.
    end: u64,
    timeout: u64,
    pub(super) taken: u64,
    pub(super) sent: u64,
    pub(super) completed: u64,
    pub(super) good: u64,
    pub(super) late: u64,
    statuses: Box<[u64]>,
    pub(super) errors: Errors,
    pub(super) service: Latency,
    pub(super) first_byte: Latency,
    pub(super) connect: Latency,
    pub(super) lag: Latency,
    pub(super) pool_wait: Latency,
    /// Nanoseconds, once for each request that was in flight in them.
    pub(super) in_flight: i128,
    /// Requests in flight, and until when they were added to `in_flight`.
    busy: usize,
    counted: u64,
    pub(super) peak: u64,
    pub(super) bytes: Bytes,
    pub(super) sample: Option<Sample>,
    /// One for each kind, but none where there is only one kind: it is the whole.
    pub(super) requests: Vec<OfRequest>,
    /// When the last request ended.
    pub(super) last: u64,
    /// Each request, where somebody asks for that.
    pub(super) singles: Option<Vec<Single>>,
}

impl Tally {
    pub(super) fn new(
        plan: &Plan,
        thread: usize,
        end: u64,
        out: Sender<Slice>,
        each: bool,
    ) -> Self {
        let kinds = if plan.requests.len() > 1 {
            plan.requests.len()
        } else {
            0
        };
        Self {
            slice: Slice::new(thread, Some(0)),
            out: Some(out),
            flush_at: SLICE.min(end),
            end,
            timeout: nanoseconds(plan.timeout),
            taken: 0,
            sent: 0,
            completed: 0,
            good: 0,
            late: 0,
            statuses: vec![0; STATUSES].into_boxed_slice(),
            errors: Errors::default(),
            service: Latency::default(),
            first_byte: Latency::default(),
            connect: Latency::default(),
            lag: Latency::default(),
            pool_wait: Latency::default(),
            in_flight: 0,
            busy: 0,
            counted: 0,
            peak: 0,
            bytes: Bytes::default(),
            sample: None,
            requests: vec![OfRequest::default(); kinds],
            last: 0,
            singles: each.then(Vec::new),
        }
    }

    /// When the next slice is due.
    pub(super) fn flush_at(&self) -> u64 {
        self.flush_at
    }

    /// Lets the slice go whose time is over.
    pub(super) fn advance(&mut self, now: u64) {
        if now < self.flush_at {
            return;
        }
        let (number, flush_at) = if now >= self.end {
            (None, now + SLICE)
        } else {
            let number = now / SLICE;
            (Some(number), ((number + 1) * SLICE).min(self.end))
        };
        self.flush_at = flush_at;
        self.flush(number);
    }

    fn flush(&mut self, number: Option<u64>) {
        let next = Slice::new(self.slice.thread, number);
        let slice = std::mem::replace(&mut self.slice, next);
        if let Some(out) = &self.out {
            // The receiver is gone only after a failure; the rest is not needed then.
            let _ = out.send(slice);
        }
    }

    /// Lets the last slice go.
    pub(super) fn finish(&mut self) {
        self.flush(None);
        self.out = None;
    }

    /// A request was taken up.
    pub(super) fn begin(&mut self, now: u64) {
        self.count(now);
        self.busy += 1;
        self.taken += 1;
        self.slice.taken += 1;
    }

    /// A request is in flight no more.
    pub(super) fn end(&mut self, now: u64) {
        self.count(now);
        self.busy -= 1;
    }

    /// Adds what was in flight until `now`, or until the load's end.
    pub(super) fn count(&mut self, now: u64) {
        let now = now.min(self.end);
        let time = now.saturating_sub(self.counted);
        self.in_flight += i128::from(time) * self.busy as i128;
        self.counted += time;
    }

    /// Whether nothing is in flight.
    pub(super) fn is_at_rest(&self) -> bool {
        self.busy == 0
    }

    /// A whole response came; `good` and whether it is what was expected were judged by the caller.
    pub(super) fn whole(
        &mut self,
        kind: usize,
        times: Times,
        response: &Response,
        good: bool,
        expected: bool,
    ) {
        self.advance(times.ended);
        let service = span(times.sent, times.ended);
        self.service.record(service);
        if let Some(request) = self.requests.get_mut(kind) {
            request.service.record(service);
        }
        self.first_byte.record(span(times.sent, times.first));
        self.bytes.heads += response.head;
        self.bytes.bodies += response.body;
        if times.ended < self.end {
            self.completed += 1;
            self.slice.completed += 1;
            self.good += u64::from(good);
            self.slice.good += u64::from(good);
            self.statuses[usize::from(response.status).min(STATUSES - 1)] += 1;
            if let Some(request) = self.requests.get_mut(kind) {
                request.completed += 1;
                request.good += u64::from(good);
            }
        } else {
            self.late += 1;
        }
        if !expected {
            self.errors.unexpected += 1;
            self.slice.errors += 1;
        }
        // A quick refusal is no quick answer, whether or not somebody named the status that was wanted.
        self.end_of(kind, times, !good, Some(response));
    }

    /// A request came to nothing.
    pub(super) fn failed(&mut self, kind: usize, times: Times, failure: Failure) {
        self.advance(times.ended);
        *self.count_of(failure) += 1;
        self.slice.errors += 1;
        // An unanswered request is as old as it is; any other failure is no quick answer.
        self.end_of(kind, times, failure != Failure::Unanswered, None);
    }

    fn end_of(&mut self, kind: usize, times: Times, failed: bool, response: Option<&Response>) {
        let age = times.ended.saturating_sub(times.due);
        if let Some(singles) = &mut self.singles {
            singles.push(Single {
                due: Duration::from_nanos(times.due),
                latency: Duration::from_nanos(age),
                good: response.is_some() && !failed,
                first_byte: response.map_or(Duration::ZERO, |_| span(times.due, times.first)),
                request: kind,
                status: response.map(|response| response.status),
                received: response.map_or(0, |response| response.head + response.body),
            });
        }
        let latency = Duration::from_nanos(if failed { age.max(self.timeout) } else { age });
        self.slice.latency.record(latency);
        if let Some(request) = self.requests.get_mut(kind) {
            request.latency.record(latency);
        }
        self.last = self.last.max(times.ended);
    }

    fn count_of(&mut self, failure: Failure) -> &mut u64 {
        let errors = &mut self.errors;
        match failure {
            Failure::ConnectRefused => &mut errors.connect_refused,
            Failure::ConnectTimeout => &mut errors.connect_timeout,
            Failure::NoAddress => &mut errors.no_address,
            Failure::NoDescriptor => &mut errors.no_descriptor,
            Failure::Reset => &mut errors.reset,
            Failure::Closed => &mut errors.closed,
            Failure::ShortBody => &mut errors.short_body,
            Failure::Timeout => &mut errors.timeout,
            Failure::Invalid => &mut errors.invalid,
            Failure::Unexpected => &mut errors.unexpected,
            Failure::Unanswered => &mut errors.unanswered,
        }
    }

    /// Responses by status, where there were any.
    pub(super) fn statuses(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        (0..)
            .zip(self.statuses.iter().copied())
            .filter(|(_, count)| *count > 0)
    }
}

/// From one time to a later one.
pub(super) fn span(from: u64, to: u64) -> Duration {
    Duration::from_nanos(to.saturating_sub(from))
}
