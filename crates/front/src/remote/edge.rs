//! The end of an edge: the dispatcher of another thread, behind [`Dispatch`]. It decides nothing about requests.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use super::{BATCH, Key, ToDispatcher, ToEdge, Traffic, Turn};
use crate::failure::Failure;
use crate::http::request::Request;
use crate::messages::{Admission, Capacity, Dispatch, Reply, SubmissionId};

/// The end for the thread of an edge.
pub struct EdgeEnd {
    pub(super) sender: UnboundedSender<ToDispatcher>,
    pub(super) receiver: UnboundedReceiver<Turn>,
    pub(super) traffic: Arc<Traffic>,
}

impl EdgeEnd {
    /// Returns what the edge speaks to. Call it on the edge's thread, within its runtime.
    pub fn into_dispatch(self) -> Rc<dyn Dispatch> {
        let remote = Rc::new(RemoteDispatcher {
            sender: self.sender,
            requests: RefCell::default(),
            next: Cell::new(0),
        });
        tokio::task::spawn_local(receive(Rc::downgrade(&remote), self.receiver, self.traffic));
        remote
    }
}

/// The dispatcher, as an edge of another thread sees it.
struct RemoteDispatcher {
    sender: UnboundedSender<ToDispatcher>,
    requests: RefCell<HashMap<Key, Submitted>>,
    next: Cell<Key>,
}

/// A request that the dispatcher has.
struct Submitted {
    reply: Rc<dyn Reply>,
    /// Bytes that came and that the dispatcher does not know to be consumed.
    owed: usize,
    /// Whether the response has its end: then the dispatcher needs to hear no more of how it is used.
    ended: bool,
}

impl RemoteDispatcher {
    fn send(&self, message: ToDispatcher) {
        // A dispatcher that has ended hears nothing.
        let _ = self.sender.send(message);
    }

    /// Acknowledges bytes that the edge has put away, if it has room for more.
    fn acknowledge(&self, key: Key) {
        let mut requests = self.requests.borrow_mut();
        let Some(submitted) = requests.get_mut(&key) else {
            return;
        };
        if submitted.owed > 0
            && !submitted.ended
            && Rc::clone(&submitted.reply).capacity() != Capacity::Full
        {
            let bytes = std::mem::take(&mut submitted.owed);
            self.send(ToDispatcher::Consumed(key, bytes));
        }
    }

    /// Takes what came for one request, and wakes who waits for it.
    fn take(&self, (key, messages): Turn) {
        let reply = match self.requests.borrow().get(&key) {
            Some(submitted) => Rc::clone(&submitted.reply),
            None => return,
        };
        let (mut owed, mut ended) = (0, false);
        for message in messages {
            match message {
                ToEdge::Claimed(by, times) => reply.claimed(by, times),
                ToEdge::Hints(bytes) => {
                    owed += bytes.len();
                    reply.hints(bytes);
                }
                ToEdge::Head(head) => reply.head(head),
                ToEdge::Data(bytes) => {
                    owed += bytes.len();
                    reply.data(bytes);
                }
                ToEdge::File(path) => reply.file(path),
                ToEdge::Measured(payload) => reply.measured(payload),
                ToEdge::End(end) => {
                    ended = true;
                    Rc::clone(&reply).end(end);
                }
                ToEdge::Fail(failure, error) => reply.fail(failure, error),
                ToEdge::Hijacked(socket) => reply.hijacked(socket),
                ToEdge::Withdraw => reply.withdraw(),
                ToEdge::Released => {
                    self.requests.borrow_mut().remove(&key);
                    // Without effect where the response has its end.
                    reply.fail(Failure::Stopped, None);
                }
            }
        }
        if let Some(submitted) = self.requests.borrow_mut().get_mut(&key) {
            submitted.owed += owed;
            submitted.ended |= ended;
        }
        // Also where nothing came: what was withdrawn leaves its room.
        self.acknowledge(key);
        reply.wake();
    }
}

/// Takes what the dispatcher says, until either end is gone.
async fn receive(
    remote: Weak<RemoteDispatcher>,
    mut turns: UnboundedReceiver<Turn>,
    traffic: Arc<Traffic>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while turns.recv_many(&mut batch, BATCH).await > 0 {
        let Some(remote) = remote.upgrade() else {
            return;
        };
        Traffic::count(&traffic.to_edge, &traffic.edge_turns, batch.len());
        for turn in batch.drain(..) {
            remote.take(turn);
        }
    }
    // The dispatcher's thread is gone, and with it what it had not taken.
    if let Some(remote) = remote.upgrade() {
        for (_, submitted) in remote.requests.take() {
            submitted.reply.fail(Failure::Stopping, None);
            submitted.reply.wake();
        }
    }
}

impl Dispatch for RemoteDispatcher {
    fn submit(&self, request: Arc<Request>, reply: Rc<dyn Reply>) -> SubmissionId {
        let key = self.next.get() + 1;
        self.next.set(key);
        let application = request.application();
        let message = ToDispatcher::Submit(key, request);
        match self.sender.send(message) {
            Ok(()) => {
                let submitted = Submitted {
                    reply,
                    owed: 0,
                    ended: false,
                };
                self.requests.borrow_mut().insert(key, submitted);
            }
            Err(_) => reply.fail(Failure::Stopping, None),
        }
        SubmissionId {
            application,
            index: 0,
            sequence: key,
        }
    }

    fn admits(&self, application: u16, path: &[u8]) -> Admission {
        let (answer, answered) = oneshot::channel();
        self.send(ToDispatcher::Admits(application, path.to_vec(), answer));
        Admission::Asked(answered)
    }

    fn head_taken(&self, id: SubmissionId) {
        let requests = self.requests.borrow();
        let submitted = requests.get(&id.sequence);
        if submitted.is_some_and(|submitted| !submitted.ended) {
            self.send(ToDispatcher::HeadTaken(id.sequence));
        }
    }

    fn consumed(&self, id: SubmissionId) {
        self.acknowledge(id.sequence);
    }

    fn client_left(&self, id: SubmissionId, certain: bool) {
        self.send(ToDispatcher::ClientLeft(id.sequence, certain));
    }

    fn no_more(&self, id: SubmissionId) {
        self.send(ToDispatcher::NoMore(id.sequence));
    }

    fn abandon(&self, id: SubmissionId) {
        self.send(ToDispatcher::Abandon(id.sequence));
    }

    /// The dispatcher's own thread does.
    fn take_completed(&self) {}
}
