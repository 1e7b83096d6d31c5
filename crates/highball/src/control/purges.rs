//! Purges of the response cache, asked for by commands over the control socket and by the application in its workers. They
//! look at no response.

use std::rc::Rc;
use std::sync::Arc;

use exchange::control;
use front::{ApplicationFront, Front, ResponseCache};
use supervisor::Purging;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::control::messages::{Progress, Purge};

/// Purges that wait to be made; further commands wait for these.
pub(crate) const PURGES: usize = 16;
/// How many times as long as a purge for a worker took the next one waits: looking through a large cache takes milliseconds,
/// in which the front does nothing else.
const PURGE_PAUSE_FACTOR: u32 = 4;

/// What the response cache is to forget, and who hears of how many targets it did; none where there is no cache.
#[derive(Debug)]
pub(crate) struct PurgeRequest {
    pub(crate) what: Purge,
    pub(crate) done: oneshot::Sender<Option<usize>>,
}

impl PurgeRequest {
    /// Sends it, and puts what became of it in words.
    pub(crate) async fn send(what: Purge, sink: &mpsc::Sender<Self>) -> Progress {
        let (done, forgotten) = oneshot::channel();
        // A server that stops has no cache any more.
        let _ = sink.send(Self { what, done }).await;
        match forgotten.await {
            Ok(Some(1)) => Progress::done("forgot the responses of 1 URL\n".to_owned()),
            Ok(Some(count)) => Progress::done(format!("forgot the responses of {count} URLs\n")),
            Ok(None) => Progress::failed("the response cache is off: set cache_bytes".to_owned()),
            Err(_) => Progress::refused("the server is stopping".to_owned()),
        }
    }
}

/// Has the response cache forget what requests name.
pub(crate) async fn carry_out(front: Rc<Front>, mut requests: mpsc::Receiver<PurgeRequest>) {
    while let Some(PurgeRequest { what, done }) = requests.recv().await {
        let what = match what {
            Purge::All(_) => front::Purge::All,
            Purge::Url(url) => front::Purge::Url(url.into_bytes()),
            Purge::Prefix(prefix) => front::Purge::Prefix(prefix.into_bytes()),
            Purge::Tag(tag) => front::Purge::Tag(tag.into_bytes()),
        };
        let applications = front.applications().iter();
        let purged: Vec<usize> = applications
            .filter_map(|one| purge(one.cache(), &what))
            .collect();
        // Who asked may have left.
        let _ = done.send((!purged.is_empty()).then(|| purged.iter().sum()));
    }
}

/// Returns what carries out the requests of workers: one after the other, with pauses, so that a worker that asks all the time
/// takes a fifth of the front's at most.
pub(crate) fn of_workers(
    front: &Rc<ApplicationFront>,
) -> impl Fn(control::Purge) -> Purging + 'static {
    // Weak, for the supervisor that has this has the front already.
    let (front, turn) = (Rc::downgrade(front), Arc::new(Semaphore::new(1)));
    move |what| {
        let (front, turn) = (front.clone(), Arc::clone(&turn));
        Box::pin(async move {
            let what = match what {
                control::Purge::Url(url) => front::Purge::Url(url.into_bytes()),
                control::Purge::Prefix(prefix) => front::Purge::Prefix(prefix.into_bytes()),
                control::Purge::Tag(tag) => front::Purge::Tag(tag.into_bytes()),
            };
            if !front.upgrade()?.cache().is_on() {
                return None;
            }
            let turn = turn.acquire_owned().await.ok()?;
            let began = Instant::now();
            let forgotten = purge(front.upgrade()?.cache(), &what);
            let pause = began.elapsed() * PURGE_PAUSE_FACTOR;
            spawn_local(async move {
                sleep(pause).await;
                drop(turn);
            });
            forgotten.map(|count| count as u64)
        })
    }
}

fn purge(cache: &ResponseCache, what: &front::Purge) -> Option<usize> {
    cache.is_on().then(|| cache.purge(what))
}
