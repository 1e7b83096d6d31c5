//! The response of one request on its way from the dispatcher to the client: what the dispatcher says is kept here until
//! the connection takes it. It never touches a socket.

use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use exchange::WorkerId;
use http::Method;

use crate::failure::Failure;
use crate::http::buffer::ResponseBuffer;
use crate::http::response_head::ResponseHead;
use crate::http::response_store::ResponseStore;
use crate::messages::{Capacity, Dispatch, Reply, ResponseEnd, RunTimes, SubmissionId};
use crate::panics::spawn_contained;
use crate::serve::websockets::Place;
use crate::shared_bytes::{ALWAYS_HELD, SharedBytes};
use crate::spool::{BATCH_BYTES, Spool};

/// The response of one request.
pub struct IncomingResponse {
    store: Rc<ResponseStore>,
    /// The request, once it is submitted.
    id: Cell<Option<SubmissionId>>,
    buffer: RefCell<ResponseBuffer>,
    /// The worker that has the request or had it last, and when.
    run: Cell<(Option<WorkerId>, RunTimes)>,
    /// Whether a task waits for the disk to take more.
    waits_for_disk: Cell<bool>,
    /// The worker's socket, when the application took the connection over.
    socket: Cell<Option<OwnedFd>>,
    waker: Cell<Option<Waker>>,
}

/// A connection that its application takes over.
pub struct Hijack {
    /// What the application has answered with.
    pub response: Rc<IncomingResponse>,
    /// Its place among the WebSockets of the application, if it is one; free when this is dropped.
    pub place: Option<Place>,
}

/// Who has taken a connection over: the number of the application, and the worker, where it is known.
pub type HijackedBy = (u16, Option<WorkerId>);

/// Who has taken over the connection of the request that this would have answered.
pub fn hijacked_by(response: &IncomingResponse) -> HijackedBy {
    (application_of(response), response.run().0)
}

/// The number of the application that answers; 0 before the request is submitted.
fn application_of(response: &IncomingResponse) -> u16 {
    response.id().map_or(0, |id| id.application)
}

/// The memory that a response counts in.
fn memory_of(response: &IncomingResponse) -> &Arc<SharedBytes> {
    response.store.memory_of(application_of(response))
}

/// The next piece of a body.
#[derive(Debug)]
pub enum Piece {
    /// These bytes.
    Data(Bytes),
    /// No more comes.
    End(ResponseEnd),
    /// What had gone to a file cannot be read.
    Unreadable,
}

impl IncomingResponse {
    /// Returns an empty response.
    pub fn new(store: &Rc<ResponseStore>) -> Self {
        Self {
            store: Rc::clone(store),
            id: Cell::new(None),
            buffer: RefCell::default(),
            run: Cell::default(),
            waits_for_disk: Cell::new(false),
            socket: Cell::new(None),
            waker: Cell::new(None),
        }
    }

    /// Empties it for another request. The caller must be its only owner.
    pub fn reset(&mut self) {
        self.buffer.get_mut().reset();
        self.id.set(None);
        self.run.take();
        self.waits_for_disk.set(false);
        self.socket.take();
        self.waker.take();
    }

    /// Remembers the request that it answers.
    pub fn answers(&self, id: SubmissionId) {
        self.id.set(Some(id));
    }

    /// The request that it answers; none before it is submitted.
    pub fn id(&self) -> Option<SubmissionId> {
        self.id.get()
    }

    /// The worker that has the request or had it last, and when.
    pub fn run(&self) -> (Option<WorkerId>, RunTimes) {
        self.run.get()
    }

    /// What has come and was not taken.
    pub(crate) fn buffer(&self) -> RefMut<'_, ResponseBuffer> {
        self.buffer.borrow_mut()
    }

    /// Whether its end has come, and it is whole.
    pub fn is_complete(&self) -> bool {
        self.buffer.borrow().end == Some(ResponseEnd::Complete)
    }

    /// The socket of the application that took the connection over; once.
    pub fn take_socket(&self) -> Option<OwnedFd> {
        self.socket.take()
    }

    /// Waits for the head, or for what came instead. `hint` is called for every early hint before it.
    ///
    /// # Errors
    /// The failure that took the response's place. `Ok(None)`: the application took the connection over.
    pub async fn head(
        &self,
        method: &Method,
        mut hint: impl FnMut(&[u8]),
    ) -> Result<Option<ResponseHead>, Failure> {
        poll_fn(|cx| {
            let mut buffer = self.buffer.borrow_mut();
            while let Some(bytes) = buffer.hints.pop_front() {
                hint(&bytes);
            }
            if let Some(head) = buffer.take_head(method) {
                return Poll::Ready(Ok(Some(head)));
            }
            match buffer.end {
                Some(ResponseEnd::Failed(failure)) => Poll::Ready(Err(failure)),
                Some(ResponseEnd::Hijacked) => Poll::Ready(Ok(None)),
                Some(ResponseEnd::Complete | ResponseEnd::Aborted { .. }) => {
                    Poll::Ready(Err(Failure::BadResponse("it ended without a status")))
                }
                None => {
                    self.waker.set(Some(cx.waker().clone()));
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Waits for the next piece of the body, and lets more come where there is room again.
    pub fn poll_piece(&self, dispatcher: &dyn Dispatch, cx: &mut Context<'_>) -> Poll<Piece> {
        let mut buffer = self.buffer.borrow_mut();
        loop {
            if let Some(chunk) = buffer.chunks.pop() {
                return Poll::Ready(Piece::Data(chunk));
            }
            match buffer.read_spool(memory_of(self), cx) {
                Some(Poll::Ready(Ok(Some(bytes)))) => return Poll::Ready(Piece::Data(bytes)),
                Some(Poll::Ready(Err(_))) => return Poll::Ready(Piece::Unreadable),
                Some(Poll::Pending) => return Poll::Pending,
                Some(Poll::Ready(Ok(None))) | None => {}
            }
            if let Some(end) = buffer.end {
                return Poll::Ready(Piece::End(end));
            }
            self.waker.set(Some(cx.waker().clone()));
            drop(buffer);
            // There may be news that had no room before.
            if let Some(id) = self.id.get() {
                dispatcher.consumed(id);
            }
            buffer = self.buffer.borrow_mut();
            if !buffer.has_news() {
                return Poll::Pending;
            }
        }
    }

    /// Waits for the disk, and lets more come then.
    fn wait_for_disk(self: Rc<Self>) {
        if self.waits_for_disk.replace(true) {
            return;
        }
        spawn_contained(async move {
            let ready = poll_fn(|cx| match &mut self.buffer.borrow_mut().spool {
                Some(spool) => spool.poll_ready(cx),
                None => Poll::Ready(Ok(())),
            });
            drop(ready.await);
            self.waits_for_disk.set(false);
            if let Some(id) = self.id.get() {
                self.store.consumed(id);
            }
            self.wake();
        });
    }

    /// Writes what is in memory to the file where memory is short. No more comes.
    fn settle(self: Rc<Self>) {
        if self.buffer.borrow().spool.is_none() || !memory_of(&self).is_short() {
            return;
        }
        spawn_contained(poll_fn(move |cx| {
            let mut buffer = self.buffer.borrow_mut();
            let settled = match &mut buffer.spool {
                // Its reader hears of a failure.
                Some(spool) => spool.poll_settled(cx).map(drop),
                None => Poll::Ready(()),
            };
            buffer.weigh_spool(memory_of(&self));
            settled
        }));
    }
}

impl Reply for IncomingResponse {
    fn claimed(&self, by: WorkerId, times: RunTimes) {
        self.run.set((Some(by), times));
    }

    fn hints(&self, bytes: Vec<u8>) {
        self.buffer.borrow_mut().hint([bytes]);
    }

    fn head(&self, head: ResponseHead) {
        self.buffer.borrow_mut().put_head(head);
    }

    /// Where the file has reached its limit, or the disk is full, there is room once all of it is read; where the disk is
    /// behind, a task waits for it.
    fn capacity(self: Rc<Self>) -> Capacity {
        let mut buffer = self.buffer.borrow_mut();
        if buffer.unbuffered && buffer.chunks.held() >= ALWAYS_HELD {
            return Capacity::Full;
        }
        let Some(spool) = &mut buffer.spool else {
            return Capacity::Available;
        };
        if spool.extent() >= self.store.file_limit.get() || spool.is_stuck() {
            return Capacity::Full;
        }
        match spool.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => Capacity::Available,
            Poll::Ready(Err(_)) => {
                // The rest cannot be stored: the client sees the cut.
                let cut = ResponseEnd::Aborted { late: false };
                buffer.end.get_or_insert(cut);
                Capacity::Failed
            }
            Poll::Pending => {
                drop(buffer);
                self.wait_for_disk();
                Capacity::Full
            }
        }
    }

    fn data(&self, bytes: Vec<u8>) {
        let buffer = &mut *self.buffer.borrow_mut();
        if bytes.is_empty() || buffer.end.is_some() {
            return;
        }
        let memory = memory_of(self);
        let mut limit = self.store.memory_limit.get();
        if memory.is_short() {
            limit = limit.min(ALWAYS_HELD);
        }
        if buffer.spool.is_none() && buffer.chunks.held() + bytes.len() <= limit {
            return buffer.chunks.push(memory, bytes);
        }
        let new = || {
            let space = self.store.space_of(application_of(self));
            let directory = Arc::clone(&self.store.spools.directory);
            Spool::patient(directory, BATCH_BYTES).within(space)
        };
        buffer.spool.get_or_insert_with(new).push(&bytes);
        buffer.weigh_spool(memory);
    }

    fn file(&self, path: PathBuf) {
        self.buffer.borrow_mut().file = Some(path);
    }

    fn measured(&self, payload: Vec<u8>) {
        self.buffer.borrow_mut().measures = payload;
    }

    fn end(self: Rc<Self>, end: ResponseEnd) {
        self.buffer.borrow_mut().end.get_or_insert(end);
        if end == ResponseEnd::Complete {
            self.settle();
        }
    }

    fn fail(&self, failure: Failure, error: Option<String>) {
        let mut buffer = self.buffer.borrow_mut();
        buffer.fail(failure);
        if error.is_some() {
            buffer.error = error;
        }
    }

    fn hijacked(&self, socket: OwnedFd) {
        let mut buffer = self.buffer.borrow_mut();
        buffer.end.get_or_insert(ResponseEnd::Hijacked);
        self.socket.set(Some(socket));
    }

    fn withdraw(&self) {
        let mut buffer = self.buffer.borrow_mut();
        if buffer.head_taken {
            // It was on its way when the connection took it.
            buffer
                .end
                .get_or_insert(ResponseEnd::Aborted { late: false });
        } else {
            buffer.reset();
        }
    }

    fn wake(&self) -> bool {
        self.waker.take().map(Waker::wake).is_some()
    }

    fn forget_waiter(&self) {
        self.waker.take();
    }
}

impl ResponseBuffer {
    /// Whether a reader that found nothing finds something now.
    fn has_news(&self) -> bool {
        let unread = self.spool.as_ref().is_some_and(|spool| spool.unread() > 0);
        !self.chunks.is_empty() || unread || self.end.is_some()
    }
}
