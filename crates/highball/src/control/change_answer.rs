//! The answer to a request for a change: it stands in the queue, and its client is told how it goes on. It makes no change itself.

use admin::{Answer, Lines, lines};
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::control::messages::{HEARTBEAT, Progress};
use crate::control::queue::{Change, ChangeQueue, ChangeRequest, Requester};

/// Puts a change into the queue, and returns an answer that tells how it goes on.
pub(super) fn change(change: Change, queue: &ChangeQueue) -> Answer {
    let (client, shown) = watch::channel(Progress::Working);
    let requester = Requester::Command(client);
    let (lines, answer) = lines();
    queue.push(ChangeRequest { change, requester });
    spawn_local(async move {
        tokio::select! {
            () = follow(shown, &lines) => {}
            // The queue hears of it as soon as the other half of its channel is gone.
            () = lines.closed() => {}
        }
    });
    answer
}

/// Sends what a change comes to, and signs of life in between.
async fn follow(mut shown: watch::Receiver<Progress>, lines: &Lines) {
    loop {
        let progress = tokio::select! {
            more = shown.changed() => match more {
                Ok(()) => shown.borrow_and_update().clone(),
                Err(_) => Progress::refused("the server is stopping"),
            },
            () = tokio::time::sleep(HEARTBEAT) => Progress::Working,
        };
        if lines.send(&progress).await.is_err() || progress.is_last() {
            return;
        }
    }
}
