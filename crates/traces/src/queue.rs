//! The requests whose spans wait to be sent. Putting one in never waits for the receiver: what finds no room is dropped and
//! counted.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::counts::Counts;
use crate::span::RequestSpans;

/// The most requests that wait; the spans of further ones are dropped.
pub(crate) const MAX_WAITING_REQUESTS: usize = 2048;
/// The most memory of all that wait, in bytes: their attributes may be the longest that clients can send.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// The most requests of one export; as soon as so many wait, they are sent.
pub(crate) const MAX_EXPORT_REQUESTS: usize = 512;
/// How long a request waits for others to be sent with.
const GATHER_TIME: Duration = Duration::from_secs(5);

/// The requests that wait.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Waiting {
    requests: VecDeque<RequestSpans>,
    /// What these take.
    bytes: usize,
    /// Whether no more come: what waits is sent at once.
    closed: bool,
}

impl Queue {
    /// Has the spans of a request be sent, or drops them. Never waits for the receiver.
    pub fn push(&self, request: RequestSpans) {
        let bytes = request.bytes();
        let mut waiting = self.lock();
        let number = waiting.requests.len();
        let has_room = number < MAX_WAITING_REQUESTS && waiting.bytes + bytes <= MAX_WAITING_BYTES;
        if waiting.closed {
            self.counts.add_undelivered(request.count());
        } else if !has_room {
            self.counts.add_queue_full(request.count());
        } else {
            waiting.bytes += bytes;
            waiting.requests.push_back(request);
            drop(waiting);
            // The first one starts the time, and a full export need not wait for it.
            if number == 0 || number + 1 == MAX_EXPORT_REQUESTS {
                self.changed.notify_one();
            }
        }
    }

    /// What became of spans.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Waits for the next export; none once the queue is closed and empty.
    pub(crate) fn next(&self) -> Option<Vec<RequestSpans>> {
        let empty = |waiting: &mut Waiting| waiting.requests.is_empty() && !waiting.closed;
        let waiting = self.changed.wait_while(self.lock(), empty);
        let waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let few =
            |waiting: &mut Waiting| waiting.requests.len() < MAX_EXPORT_REQUESTS && !waiting.closed;
        let gathered = self.changed.wait_timeout_while(waiting, GATHER_TIME, few);
        let (mut waiting, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        let number = waiting.requests.len().min(MAX_EXPORT_REQUESTS);
        let export: Vec<_> = waiting.requests.drain(..number).collect();
        waiting.bytes -= export.iter().map(RequestSpans::bytes).sum::<usize>();
        (!export.is_empty()).then_some(export)
    }

    /// Waits for this long, or until the queue is closed. Returns whether it is.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut waiting = self.lock();
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            if waiting.closed || rest.is_zero() {
                return waiting.closed;
            }
            let woken = self.changed.wait_timeout(waiting, rest);
            (waiting, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes no more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::context::Context;
    use crate::resource::Resource;
    use crate::value::Value;

    fn request() -> RequestSpans {
        let resource = Resource::new(None, None, None, "h", &|_| None).unwrap();
        RequestSpans {
            context: Context::new(None, true, [1; 32]),
            tracestate: String::new(),
            resource: Arc::new(resource),
            name: String::new(),
            epoch_ns: 0,
            whole: (0, 1),
            queue: None,
            app: Some((0, 1)),
            attributes: Vec::new(),
            app_attributes: Vec::new(),
            failed: false,
        }
    }

    #[test]
    fn what_a_full_queue_cannot_take_is_dropped_and_counted() {
        let queue = Queue::default();
        for _ in 0..MAX_WAITING_REQUESTS + 10 {
            queue.push(request());
        }
        assert_eq!(queue.counts().all()[1], ("queue_full", 20));
        let mut sent = 0;
        // Full exports wait for nothing.
        for _ in 0..4 {
            sent += queue.next().unwrap().len();
        }
        assert_eq!(sent, MAX_WAITING_REQUESTS);
    }

    #[test]
    fn requests_with_the_longest_texts_fill_the_queue_earlier() {
        let queue = Queue::default();
        let large = || RequestSpans {
            attributes: vec![("url.path", Value::text(&[b'x'; 5000])); 4],
            ..request()
        };
        let number = MAX_WAITING_BYTES / large().bytes();
        assert!(number < MAX_WAITING_REQUESTS / 2, "{number}");
        for _ in 0..MAX_WAITING_REQUESTS {
            queue.push(large());
        }
        let dropped = (MAX_WAITING_REQUESTS - number) as u64;
        assert_eq!(queue.counts().all()[1], ("queue_full", 2 * dropped));
        // What is taken out makes room.
        while queue.lock().requests.len() >= MAX_EXPORT_REQUESTS {
            queue.next().unwrap();
        }
        queue.push(large());
        assert_eq!(queue.counts().all()[1], ("queue_full", 2 * dropped));
        let waiting = queue.lock();
        assert_eq!(waiting.bytes, waiting.requests.len() * large().bytes());
    }

    #[test]
    fn a_closed_queue_gives_what_waits_and_ends() {
        let queue = Queue::default();
        queue.push(request());
        queue.close();
        assert!(queue.pause(Duration::from_secs(3600)));
        assert_eq!(queue.next().unwrap().len(), 1);
        assert!(queue.next().is_none());
        queue.push(request());
        assert_eq!(queue.counts().all()[2], ("undelivered", 2));
        assert!(queue.next().is_none());
    }
}
