//! What a panic ends: the server, unless it came up in the work for a single client, which ends alone.
//!
//! tokio catches the panic of a task, so a tick or an acceptor that panics would be gone without a trace while the server
//! seems to run. A server that exits is started again by its service manager. What one client can cause ends only what is
//! that client's. Threads that carry out single jobs (files, spools) are neither: who waits for a job hears that it failed.
//!
//! It ends nothing itself: `panic_hook` does, in the program.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What a panic ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Nothing but what has panicked.
    Job,
    /// The work for one client.
    Client,
    /// The server.
    Server,
}

thread_local! {
    /// What a panic of this thread would end now.
    static ENDS: Cell<Ends> = const { Cell::new(Ends::Job) };
}

/// Returns what a panic of this thread ends now.
pub(crate) fn ends() -> Ends {
    ENDS.get()
}

/// Has a panic of this thread end the server, where [`crate::panic_hook`] is installed.
pub(crate) fn guard_thread() {
    ENDS.set(Ends::Server);
}

/// A time in which panics of this thread end something else than before it.
pub(crate) struct Scope {
    before: Ends,
}

impl Scope {
    /// Begins one, on a thread whose panics end the server.
    fn begin(ends: Ends) -> Self {
        let before = ENDS.get();
        if before != Ends::Job {
            ENDS.set(ends);
        }
        Self { before }
    }
}

/// Begins something that is done with what all clients share: a panic would leave that broken, so it ends the server, also
/// where it was the work for one client.
pub(crate) fn with_what_is_shared() -> Scope {
    Scope::begin(Ends::Server)
}

impl Drop for Scope {
    fn drop(&mut self) {
        ENDS.set(self.before);
    }
}

/// Work for one client: its panics end nothing else.
struct Contained(Option<Pin<Box<dyn Future<Output = ()>>>>);

/// Makes the work for a client one whose panics end nothing else.
pub(crate) fn contain(work: impl Future<Output = ()> + 'static) -> impl Future<Output = ()> {
    let mut contained = Contained(Some(Box::pin(work)));
    poll_fn(move |cx| contained.poll(cx))
}

/// Spawns the work for a client on the runtime of this thread; its panics end nothing else.
pub fn spawn_contained(work: impl Future<Output = ()> + 'static) {
    tokio::task::spawn_local(contain(work));
}

impl Contained {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _scope = Scope::begin(Ends::Client);
        match &mut self.0 {
            Some(work) => work.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let _scope = Scope::begin(Ends::Client);
        self.0 = None;
    }
}
