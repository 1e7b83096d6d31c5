//! Requests of workers that the response cache forget something: who carries them out, and how many of a worker may wait. It
//! knows no cache.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;

use exchange::control::{Purge, Purged, ToWorker};
use tokio::task::spawn_local;

use crate::runtime::channel::Channel;

/// Requests of one worker that may wait; further ones are refused.
const MAX_WAITING_PURGES: usize = 64;

/// The end of a request; none where there is no cache.
pub type Purging = Pin<Box<dyn Future<Output = Option<u64>>>>;

/// Carries the requests out.
pub(crate) type Purger = Rc<dyn Fn(Purge) -> Purging>;

/// The requests of one life of a worker.
#[derive(Default)]
pub(crate) struct WorkerPurges {
    waiting: Rc<Cell<usize>>,
}

impl WorkerPurges {
    /// Has a request carried out, and the worker told.
    pub(crate) fn begin(
        &self,
        purger: &RefCell<Option<Purger>>,
        channel: &Rc<Channel>,
        id: u32,
        what: Purge,
    ) {
        let tell = move |channel: &Channel, result| {
            // Where its socket is full the worker reads nothing, and its threads wait no longer than they wanted.
            let _ = channel.try_send(&ToWorker::Purged { id, result }, &[]);
        };
        let purger = purger.borrow().clone();
        let Some(purger) = purger else {
            return tell(channel, Purged::NoCache);
        };
        if self.waiting.get() >= MAX_WAITING_PURGES {
            return tell(channel, Purged::Refused);
        }
        let (waiting, channel) = (Rc::clone(&self.waiting), Rc::clone(channel));
        waiting.set(waiting.get() + 1);
        spawn_local(async move {
            let urls = purger(what).await;
            waiting.set(waiting.get() - 1);
            tell(&channel, urls.map_or(Purged::NoCache, Purged::Urls));
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;
    use tokio::task::LocalSet;

    use super::*;

    #[tokio::test]
    async fn a_worker_that_purges_all_the_time_is_answered_or_refused() {
        let work = async {
            let (near, far) = Channel::pair().unwrap();
            let (near, far) = (Rc::new(near), Channel::new(far).unwrap());
            let gate = Rc::new(Semaphore::new(0));
            let purger = RefCell::new(None);
            let purges = WorkerPurges::default();
            let ask = |id| purges.begin(&purger, &near, id, Purge::Url("/".to_owned()));
            let answer = async || far.receive::<ToWorker>().await.unwrap().unwrap().message;
            ask(0);
            let none = Purged::NoCache;
            assert_eq!(
                answer().await,
                ToWorker::Purged {
                    id: 0,
                    result: none
                }
            );
            let pass = Rc::clone(&gate);
            purger.replace(Some(Rc::new(move |_| {
                let pass = Rc::clone(&pass);
                Box::pin(async move {
                    pass.acquire().await.unwrap().forget();
                    Some(7_u64)
                }) as Purging
            }) as Purger));
            let most = MAX_WAITING_PURGES as u32;
            (1..=most + 1).for_each(ask);
            let refused = ToWorker::Purged {
                id: most + 1,
                result: Purged::Refused,
            };
            assert_eq!(answer().await, refused);
            gate.add_permits(MAX_WAITING_PURGES);
            for id in 1..=most {
                let result = Purged::Urls(7);
                assert_eq!(answer().await, ToWorker::Purged { id, result });
            }
            // There is room again.
            gate.add_permits(1);
            ask(0);
            let result = Purged::Urls(7);
            assert_eq!(answer().await, ToWorker::Purged { id: 0, result });
        };
        LocalSet::new().run_until(work).await;
    }
}
