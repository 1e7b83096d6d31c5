//! The end of the dispatcher: an edge of another thread, behind a [`Reply`] for each of its requests. It decides nothing
//! about requests.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use exchange::WorkerId;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::{BATCH, Key, ToDispatcher, ToEdge, Traffic, Turn, WINDOW_BYTES};
use crate::failure::Failure;
use crate::http::response_head::ResponseHead;
use crate::messages::{Admission, Capacity, Dispatch, Reply, ResponseEnd, RunTimes, SubmissionId};

/// The end for the dispatcher's thread.
pub struct DispatcherEnd {
    pub(super) sender: UnboundedSender<Turn>,
    pub(super) receiver: UnboundedReceiver<ToDispatcher>,
    pub(super) traffic: Arc<Traffic>,
}

/// The requests of one edge that the dispatcher has.
type Known = Rc<RefCell<HashMap<Key, (SubmissionId, Weak<RemoteReply>)>>>;

impl DispatcherEnd {
    /// What has passed between this edge and the dispatcher.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Hands on what the edge says until it is gone; its requests are abandoned then.
    pub async fn serve(mut self, dispatcher: Rc<dyn Dispatch>) {
        let known = Known::default();
        let mut batch = Vec::with_capacity(BATCH);
        while self.receiver.recv_many(&mut batch, BATCH).await > 0 {
            let Traffic {
                to_dispatcher,
                dispatcher_turns,
                ..
            } = &*self.traffic;
            Traffic::count(to_dispatcher, dispatcher_turns, batch.len());
            for message in batch.drain(..) {
                self.take(&*dispatcher, &known, message);
            }
        }
        let left: Vec<_> = known.borrow().values().map(|(id, _)| *id).collect();
        left.into_iter().for_each(|id| dispatcher.abandon(id));
    }

    fn take(&self, dispatcher: &dyn Dispatch, known: &Known, message: ToDispatcher) {
        let id = |key: Key| known.borrow().get(&key).map(|(id, _)| *id);
        match message {
            ToDispatcher::Submit(key, request) => {
                let reply = Rc::new(RemoteReply {
                    key,
                    sender: self.sender.clone(),
                    turn: RefCell::default(),
                    on_the_way: Cell::new(0),
                    known: Rc::clone(known),
                });
                let id = dispatcher.submit(request, Rc::clone(&reply) as Rc<dyn Reply>);
                let entry = (id, Rc::downgrade(&reply));
                known.borrow_mut().insert(key, entry);
            }
            ToDispatcher::Admits(application, path, answer) => {
                if let Admission::Decided(decided) = dispatcher.admits(application, &path) {
                    // An edge whose client has left does not wait for it.
                    let _ = answer.send(decided);
                }
            }
            ToDispatcher::HeadTaken(key) => {
                if let Some(id) = id(key) {
                    dispatcher.head_taken(id);
                }
            }
            ToDispatcher::Consumed(key, bytes) => {
                let entry = known.borrow().get(&key).cloned();
                if let Some((id, reply)) = entry {
                    let reply = reply.upgrade();
                    if let Some(reply) = &reply {
                        let left = reply.on_the_way.get().saturating_sub(bytes);
                        reply.on_the_way.set(left);
                    }
                    dispatcher.consumed(id);
                    if let Some(reply) = reply {
                        // No task of this thread is woken by what comes of it.
                        reply.send();
                    }
                }
            }
            ToDispatcher::ClientLeft(key, certain) => {
                if let Some(id) = id(key) {
                    dispatcher.client_left(id, certain);
                }
            }
            ToDispatcher::NoMore(key) => {
                if let Some(id) = id(key) {
                    dispatcher.no_more(id);
                }
            }
            ToDispatcher::Abandon(key) => {
                if let Some(id) = id(key) {
                    dispatcher.abandon(id);
                }
            }
        }
    }
}

/// The edge of one request, as the dispatcher sees it.
struct RemoteReply {
    key: Key,
    sender: UnboundedSender<Turn>,
    /// What its edge is to get with the next wake-up: a head without its file, or without the failure that follows it, would
    /// be taken for another response.
    turn: RefCell<Vec<ToEdge>>,
    /// Bytes that were sent and that the edge has not consumed.
    on_the_way: Cell<usize>,
    known: Known,
}

impl RemoteReply {
    fn add(&self, message: ToEdge) {
        self.turn.borrow_mut().push(message);
    }

    /// Sends what there is since the last time.
    fn send(&self) {
        let turn = self.turn.take();
        if !turn.is_empty() {
            // An edge that is gone hears nothing.
            let _ = self.sender.send((self.key, turn));
        }
    }
}

impl Reply for RemoteReply {
    fn claimed(&self, by: WorkerId, times: RunTimes) {
        self.add(ToEdge::Claimed(by, times));
    }

    fn hints(&self, bytes: Vec<u8>) {
        self.on_the_way.set(self.on_the_way.get() + bytes.len());
        self.add(ToEdge::Hints(bytes));
    }

    fn head(&self, head: ResponseHead) {
        self.add(ToEdge::Head(head));
    }

    fn capacity(self: Rc<Self>) -> Capacity {
        match self.on_the_way.get() < WINDOW_BYTES {
            true => Capacity::Available,
            false => Capacity::Full,
        }
    }

    fn data(&self, bytes: Vec<u8>) {
        self.on_the_way.set(self.on_the_way.get() + bytes.len());
        self.add(ToEdge::Data(bytes));
    }

    fn file(&self, path: PathBuf) {
        self.add(ToEdge::File(path));
    }

    fn measured(&self, payload: Vec<u8>) {
        self.add(ToEdge::Measured(payload));
    }

    fn end(self: Rc<Self>, end: ResponseEnd) {
        self.add(ToEdge::End(end));
    }

    fn fail(&self, failure: Failure, error: Option<String>) {
        self.add(ToEdge::Fail(failure, error));
    }

    fn hijacked(&self, socket: OwnedFd) {
        self.add(ToEdge::Hijacked(socket));
    }

    /// Sent at once: no wake-up follows, and the next run may take its time.
    fn withdraw(&self) {
        self.add(ToEdge::Withdraw);
        self.send();
    }

    /// The task is another thread's; that it hears of the messages is the channel's affair.
    fn wake(&self) -> bool {
        self.send();
        false
    }

    fn forget_waiter(&self) {}
}

impl Drop for RemoteReply {
    fn drop(&mut self) {
        self.known.borrow_mut().remove(&self.key);
        self.add(ToEdge::Released);
        self.send();
    }
}
