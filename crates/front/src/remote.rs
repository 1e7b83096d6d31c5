//! Messages between an edge and the dispatcher where these run on different threads, behind the same traits as calls on one
//! thread. Channels of tokio carry them: what is sent while the other thread is busy costs it one wake-up.
//!
//! No channel has a limit of its own. Towards the dispatcher a request has a few messages at most, and an edge has as many
//! requests as connections; towards the edge a response has `WINDOW_BYTES` at most on the way.
//!
//! It decides nothing about requests.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use exchange::WorkerId;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::http::request::Request;
use crate::http::response_head::ResponseHead;
use crate::messages::{Admission, Dispatch, Reply, RequestId, ResponseEnd, Room, RunTimes};

/// Bytes of one response's body that are on their way to its edge at most, but for the last piece.
const WINDOW_BYTES: usize = 256 * 1024;
/// Messages that are taken from a channel at once.
const BATCH: usize = 64;

/// A request among those of its edge.
type Key = u64;

enum ToDispatcher {
    Submit(Key, Arc<Request>),
    Admits(Vec<u8>, oneshot::Sender<Result<(), Failure>>),
    HeadTaken(Key),
    Consumed(Key, usize),
    ClientLeft(Key, bool),
    NoMore(Key),
    Abandon(Key),
}

enum ToEdge {
    Claimed(WorkerId, RunTimes),
    Hints(Vec<u8>),
    Head(ResponseHead),
    Data(Vec<u8>),
    File(PathBuf),
    End(ResponseEnd),
    Fail(Failure, Option<String>),
    Hijacked(OwnedFd),
    Withdraw,
    /// The dispatcher has let go of the request: nothing more comes.
    Released,
}

/// Returns both ends of a connection between an edge and the dispatcher.
pub fn connect() -> (EdgeEnd, DispatcherEnd) {
    let (to_dispatcher, from_edge) = unbounded_channel();
    let (to_edge, from_dispatcher) = unbounded_channel();
    let edge = EdgeEnd {
        sender: to_dispatcher,
        receiver: from_dispatcher,
    };
    let dispatcher = DispatcherEnd {
        sender: to_edge,
        receiver: from_edge,
    };
    (edge, dispatcher)
}

// ===== at the edge =====

/// The end for the thread of an edge.
pub struct EdgeEnd {
    sender: UnboundedSender<ToDispatcher>,
    receiver: UnboundedReceiver<(Key, ToEdge)>,
}

impl EdgeEnd {
    /// Returns what the edge speaks to. Call it on the edge's thread, within its runtime.
    pub fn into_dispatch(self) -> Rc<dyn Dispatch> {
        let remote = Rc::new(RemoteDispatcher {
            sender: self.sender,
            requests: RefCell::default(),
            next: Cell::new(0),
        });
        tokio::task::spawn_local(receive(Rc::downgrade(&remote), self.receiver));
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
}

impl RemoteDispatcher {
    fn send(&self, message: ToDispatcher) {
        // A dispatcher that has ended hears nothing.
        let _ = self.sender.send(message);
    }

    /// Tells the dispatcher of bytes that the edge has put away, if it has room for more.
    fn acknowledge(&self, key: Key) {
        let mut requests = self.requests.borrow_mut();
        let Some(submitted) = requests.get_mut(&key) else {
            return;
        };
        if submitted.owed > 0 && Rc::clone(&submitted.reply).room() != Room::Full {
            let bytes = std::mem::take(&mut submitted.owed);
            self.send(ToDispatcher::Consumed(key, bytes));
        }
    }

    fn take(&self, key: Key, message: ToEdge) {
        if matches!(message, ToEdge::Released) {
            let released = self.requests.borrow_mut().remove(&key);
            if let Some(Submitted { reply, .. }) = released {
                // Without effect where the response has its end.
                reply.fail(Failure::Stopped, None);
                reply.wake();
            }
            return;
        }
        let reply = match self.requests.borrow_mut().get_mut(&key) {
            Some(submitted) => {
                if let ToEdge::Data(bytes) = &message {
                    submitted.owed += bytes.len();
                }
                Rc::clone(&submitted.reply)
            }
            None => return,
        };
        let is_data = matches!(message, ToEdge::Data(_));
        match message {
            ToEdge::Claimed(by, times) => reply.claimed(by, times),
            ToEdge::Hints(bytes) => reply.hints(bytes),
            ToEdge::Head(head) => reply.head(head),
            ToEdge::Data(bytes) => reply.data(bytes),
            ToEdge::File(path) => reply.file(path),
            ToEdge::End(end) => Rc::clone(&reply).end(end),
            ToEdge::Fail(failure, error) => reply.fail(failure, error),
            ToEdge::Hijacked(socket) => reply.hijacked(socket),
            ToEdge::Withdraw => reply.withdraw(),
            ToEdge::Released => {}
        }
        if is_data {
            self.acknowledge(key);
        }
        reply.wake();
    }
}

/// Takes what the dispatcher says, until either end is gone.
async fn receive(remote: Weak<RemoteDispatcher>, mut messages: UnboundedReceiver<(Key, ToEdge)>) {
    let mut batch = Vec::with_capacity(BATCH);
    while messages.recv_many(&mut batch, BATCH).await > 0 {
        let Some(remote) = remote.upgrade() else {
            return;
        };
        for (key, message) in batch.drain(..) {
            remote.take(key, message);
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
    fn submit(&self, request: Arc<Request>, reply: Rc<dyn Reply>) -> RequestId {
        let key = self.next.get() + 1;
        self.next.set(key);
        let message = ToDispatcher::Submit(key, request);
        match self.sender.send(message) {
            Ok(()) => {
                let submitted = Submitted { reply, owed: 0 };
                self.requests.borrow_mut().insert(key, submitted);
            }
            Err(_) => reply.fail(Failure::Stopping, None),
        }
        RequestId {
            index: 0,
            sequence: key,
        }
    }

    fn admits(&self, path: &[u8]) -> Admission {
        let (tell, told) = oneshot::channel();
        self.send(ToDispatcher::Admits(path.to_vec(), tell));
        Admission::Asked(told)
    }

    fn head_taken(&self, id: RequestId) {
        self.send(ToDispatcher::HeadTaken(id.sequence));
    }

    fn consumed(&self, id: RequestId) {
        self.acknowledge(id.sequence);
    }

    fn client_left(&self, id: RequestId, certain: bool) {
        self.send(ToDispatcher::ClientLeft(id.sequence, certain));
    }

    fn no_more(&self, id: RequestId) {
        self.send(ToDispatcher::NoMore(id.sequence));
    }

    fn abandon(&self, id: RequestId) {
        self.send(ToDispatcher::Abandon(id.sequence));
    }

    /// The dispatcher's own thread does.
    fn take_completed(&self) {}
}

// ===== at the dispatcher =====

/// The end for the dispatcher's thread.
pub struct DispatcherEnd {
    sender: UnboundedSender<(Key, ToEdge)>,
    receiver: UnboundedReceiver<ToDispatcher>,
}

/// The requests of one edge that the dispatcher has.
type Known = Rc<RefCell<HashMap<Key, (RequestId, Weak<RemoteReply>)>>>;

impl DispatcherEnd {
    /// Hands on what the edge says until it is gone; its requests are abandoned then.
    pub async fn serve(mut self, dispatcher: Rc<dyn Dispatch>) {
        let known = Known::default();
        let mut batch = Vec::with_capacity(BATCH);
        while self.receiver.recv_many(&mut batch, BATCH).await > 0 {
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
                    on_the_way: Cell::new(0),
                    known: Rc::clone(known),
                });
                let id = dispatcher.submit(request, Rc::clone(&reply) as Rc<dyn Reply>);
                let entry = (id, Rc::downgrade(&reply));
                known.borrow_mut().insert(key, entry);
            }
            ToDispatcher::Admits(path, tell) => {
                if let Admission::Decided(decided) = dispatcher.admits(&path) {
                    // An edge whose client has left does not wait for it.
                    let _ = tell.send(decided);
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
                    if let Some(reply) = reply.upgrade() {
                        let left = reply.on_the_way.get().saturating_sub(bytes);
                        reply.on_the_way.set(left);
                    }
                    dispatcher.consumed(id);
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
    sender: UnboundedSender<(Key, ToEdge)>,
    /// Bytes that were sent and that the edge has not consumed.
    on_the_way: Cell<usize>,
    known: Known,
}

impl RemoteReply {
    fn send(&self, message: ToEdge) {
        // An edge that is gone hears nothing.
        let _ = self.sender.send((self.key, message));
    }
}

impl Reply for RemoteReply {
    fn claimed(&self, by: WorkerId, times: RunTimes) {
        self.send(ToEdge::Claimed(by, times));
    }

    fn hints(&self, bytes: Vec<u8>) {
        self.send(ToEdge::Hints(bytes));
    }

    fn head(&self, head: ResponseHead) {
        self.send(ToEdge::Head(head));
    }

    fn room(self: Rc<Self>) -> Room {
        match self.on_the_way.get() < WINDOW_BYTES {
            true => Room::Free,
            false => Room::Full,
        }
    }

    fn data(&self, bytes: Vec<u8>) {
        self.on_the_way.set(self.on_the_way.get() + bytes.len());
        self.send(ToEdge::Data(bytes));
    }

    fn file(&self, path: PathBuf) {
        self.send(ToEdge::File(path));
    }

    fn end(self: Rc<Self>, end: ResponseEnd) {
        self.send(ToEdge::End(end));
    }

    fn fail(&self, failure: Failure, error: Option<String>) {
        self.send(ToEdge::Fail(failure, error));
    }

    fn hijacked(&self, socket: OwnedFd) {
        self.send(ToEdge::Hijacked(socket));
    }

    fn withdraw(&self) {
        self.send(ToEdge::Withdraw);
    }

    /// The task is another thread's; that it hears of the message is the channel's affair.
    fn wake(&self) -> bool {
        false
    }

    fn forget_waiter(&self) {}
}

impl Drop for RemoteReply {
    fn drop(&mut self) {
        self.known.borrow_mut().remove(&self.key);
        self.send(ToEdge::Released);
    }
}
