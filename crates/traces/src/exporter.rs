//! The thread that sends spans: one export at a time, tried again within bounds, then dropped and counted. It decides nothing
//! about which requests are traced.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::encoding::encode;
use crate::plan::Plan;
use crate::queue::{MAX_WAITING_REQUESTS, Queue};
use crate::sender::{Sender, Undelivered};
use crate::span::RequestSpans;

/// How long the thread waits after each attempt that failed, in milliseconds, and up to a quarter more; after the last one it
/// drops the export.
const EXPORT_PAUSES_MS: [u64; 4] = [1_000, 2_000, 5_000, 10_000];
/// The longest pause that a receiver may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// How long the end of the server waits for what is left to be sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Sends what is put into its queue.
#[derive(Debug)]
pub struct Exporter {
    queue: Arc<Queue>,
    /// Ends with the thread.
    ended: oneshot::Receiver<()>,
}

/// What the thread needs of the world, so that tests need neither a receiver nor time.
struct Work<'a> {
    queue: &'a Queue,
    send: &'a mut dyn FnMut(Bytes) -> Result<Option<(u64, String)>, Undelivered>,
    /// Waits, and returns whether the queue is closed.
    pause: &'a dyn Fn(Duration) -> bool,
    complain: &'a dyn Fn(String),
    receiver: &'a str,
    /// Whether the last attempt failed, and the spans that were lost since the receiver worked.
    failing: bool,
    lost: u64,
}

impl Exporter {
    /// Starts the thread. `complain` is called from it with what goes wrong, once until it goes well again.
    ///
    /// # Errors
    /// A thread or descriptors cannot be had.
    pub fn start(plan: Plan, complain: impl Fn(String) + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let receiver = plan.receiver();
        let mut sender = Sender::new(plan)?;
        let (alive, ended) = oneshot::channel();
        let waiting = Arc::clone(&queue);
        let thread = thread::Builder::new().name("highball traces".to_owned());
        thread.spawn(move || {
            let mut work = Work {
                queue: &waiting,
                send: &mut |export| sender.send(export),
                pause: &|pause| waiting.pause(pause),
                complain: &complain,
                receiver: &receiver,
                failing: false,
                lost: 0,
            };
            work.run();
            drop(alive);
        })?;
        Ok(Self { queue, ended })
    }

    /// Where spans are put.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Takes no more, and waits until what is left has been sent, but for at most three seconds. Each export gets one attempt.
    pub async fn finish(self) {
        self.queue.close();
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, self.ended).await;
    }
}

impl Work<'_> {
    /// Sends what comes, until the queue is closed and empty.
    fn run(&mut self) {
        while let Some(requests) = self.queue.next() {
            let spans = requests.iter().map(RequestSpans::count).sum();
            self.deliver(&requests, spans);
        }
    }

    fn deliver(&mut self, requests: &[RequestSpans], spans: u64) {
        let export = encode(requests);
        let counts = self.queue.counts();
        let mut pauses = EXPORT_PAUSES_MS.into_iter();
        loop {
            let undelivered = match (self.send)(export.clone()) {
                Ok(rejected) => {
                    counts.add_sent(spans, rejected.as_ref().map_or(0, |(spans, _)| *spans));
                    return self.note_success(rejected);
                }
                Err(undelivered) => undelivered,
            };
            self.note_failure(&undelivered.reason);
            let pause = pauses.next().filter(|_| undelivered.again);
            let is_closed = pause.is_none_or(|ms| {
                let own = Duration::from_millis(ms + jitter(ms / 4));
                let asked = undelivered.pause.unwrap_or_default().min(MAX_RETRY_AFTER);
                (self.pause)(own.max(asked))
            });
            if is_closed {
                counts.add_undelivered(spans);
                self.lost += spans;
                return;
            }
        }
    }

    fn note_failure(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            (self.complain)(format!(
                "the receiver of traces at {} does not take them: {reason}; up to {MAX_WAITING_REQUESTS} requests wait, the \
                 spans of others are dropped",
                self.receiver
            ));
        }
    }

    fn note_success(&mut self, rejected: Option<(u64, String)>) {
        if let Some((spans, reason)) = rejected {
            return self.note_failure(&format!("it rejected {spans} spans: {reason}"));
        }
        if std::mem::take(&mut self.failing) {
            let lost = std::mem::take(&mut self.lost);
            (self.complain)(format!(
                "the receiver of traces at {} takes them again; {lost} spans could not be delivered",
                self.receiver
            ));
        }
    }
}

/// Some number up to this one, so that servers that a receiver refused together do not come back together.
fn jitter(most: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::from(now.subsec_nanos()) % (most + 1))
}

#[cfg(test)]
mod tests;
