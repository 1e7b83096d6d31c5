//! What waits to be told to a receiver, and the thread that tells it. It is not known there what a receiver is.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Queue, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use exceptions::Notice;

/// The most notices that wait for one receiver; further ones are dropped.
pub(crate) const MAX_WAITING: usize = 32;
/// How long the thread waits after each attempt that failed, in milliseconds; after the last one it gives up.
const RETRY_PAUSES_MS: [u64; 3] = [2_000, 10_000, 60_000];

/// Hears what goes wrong, in words, from any thread.
pub(crate) type Complain = dyn Fn(String) + Send + Sync;

/// Why a notice was not delivered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Undelivered {
    /// In words.
    pub(crate) reason: String,
    /// Whether another attempt may succeed.
    pub(crate) again: bool,
}

/// Where notices are delivered.
pub(crate) trait Receiver: Send + 'static {
    /// Who it is, in words, without secrets.
    fn name(&self) -> String;

    /// Delivers a notice. Waits for a bounded time.
    fn deliver(&mut self, notice: &Notice) -> Result<(), Undelivered>;
}

/// Starts the thread of a receiver: what is put into the queue is told by it. It ends once nobody can put more in.
///
/// # Errors
/// No thread can be had.
pub(crate) fn start(
    mut receiver: impl Receiver,
    complain: Arc<Complain>,
) -> io::Result<SyncSender<Arc<Notice>>> {
    let (sender, queue) = sync_channel(MAX_WAITING);
    let thread = thread::Builder::new().name("highball notify".to_owned());
    thread.spawn(move || run(&mut receiver, &queue, &*complain, thread::sleep))?;
    Ok(sender)
}

/// Tells what comes, one after the other, until nobody can send any more.
fn run(
    receiver: &mut impl Receiver,
    queue: &Queue<Arc<Notice>>,
    complain: &dyn Fn(String),
    pause: impl Fn(Duration),
) {
    while let Ok(notice) = queue.recv() {
        if let Err(reason) = tell(receiver, &notice, &pause) {
            complain(format!(
                "could not tell {} of exception group {}: {reason}",
                receiver.name(),
                notice.group
            ));
        }
    }
}

fn tell(
    receiver: &mut impl Receiver,
    notice: &Notice,
    pause: impl Fn(Duration),
) -> Result<(), String> {
    let mut pauses = RETRY_PAUSES_MS.into_iter();
    loop {
        let Err(undelivered) = receiver.deliver(notice) else {
            return Ok(());
        };
        match pauses.next().filter(|_| undelivered.again) {
            Some(ms) => pause(Duration::from_millis(ms)),
            None => return Err(undelivered.reason),
        }
    }
}

#[cfg(test)]
mod tests;
