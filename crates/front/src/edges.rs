//! The edges that have threads of their own, as the dispatcher's thread sees them: it hands connections over to them and has
//! them do things. It serves nothing itself. Without such threads all of this is empty, and costs one look at that.

mod thread;

use std::convert::Infallible;
use std::io;
use std::ops::AddAssign;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, oneshot};

use crate::edge::Edge;
use crate::messages::Dispatch;
use crate::net::newcomer::{Newcomer, Place};
use crate::net::reception::Reception;
use crate::serve::application::Application;
use crate::serve::public_folder::served::Published as PublicFiles;

/// What an edge's thread is to do next.
type Command = Box<dyn FnOnce(&EdgeParts) + Send>;

/// What such a thread has.
pub(crate) struct EdgeParts {
    pub(crate) edge: Rc<Edge>,
    pub(crate) reception: Rc<Reception>,
}

impl EdgeParts {
    /// The application with this number.
    pub(crate) fn application(&self, number: u16) -> &Rc<Application> {
        &self.edge.applications()[usize::from(number)]
    }
}

/// Numbers of one edge that other threads read.
#[derive(Default)]
struct Published {
    /// Connections, from the moment in which they are handed over.
    connections: Arc<AtomicUsize>,
    /// Those of them that idle without buffers, as of the last tick.
    resting: AtomicUsize,
}

/// An edge with a thread of its own. The thread ends when this is dropped.
pub(crate) struct EdgeThread {
    commands: UnboundedSender<Command>,
    published: Arc<Published>,
    /// Notified when one of its connections has ended.
    ended: Arc<Notify>,
}

/// All edges with threads of their own.
#[derive(Default)]
pub struct Edges {
    threads: Vec<EdgeThread>,
}

/// When a connection fell idle, as [`crate::net::connections::Connections::first_idle`] says it.
type FirstIdle = (bool, u64);

fn first_idle(parts: &EdgeParts) -> Option<FirstIdle> {
    parts.edge.connections.first_idle(None)
}

impl Edges {
    /// Starts `count` threads with an edge each, beside the edge of this thread. Blocks until they run.
    ///
    /// # Errors
    /// The system gives no thread, or not what its runtime takes.
    pub(crate) fn start(
        count: usize,
        edge: &Edge,
        intake: &Rc<dyn Dispatch>,
    ) -> io::Result<Rc<Self>> {
        let threads = (1..=count).map(|number| thread::start(number, edge, intake));
        Ok(Rc::new(Self {
            threads: threads.collect::<io::Result<_>>()?,
        }))
    }

    /// The one with the fewest connections, if that has fewer than `own`. Never one whose thread has ended by a panic.
    pub(crate) fn with_fewest(&self, own: usize) -> Option<&EdgeThread> {
        let alive = self.threads.iter().filter(|one| !one.commands.is_closed());
        let fewest = alive.min_by_key(|one| one.connections())?;
        (fewest.connections() < own).then_some(fewest)
    }

    /// Number of their connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections_by_thread().sum()
    }

    /// The same for each of them.
    pub(crate) fn connections_by_thread(&self) -> impl Iterator<Item = usize> {
        self.threads.iter().map(EdgeThread::connections)
    }

    /// Number of their connections that idle without buffers, as of the last tick.
    pub(crate) fn resting(&self) -> usize {
        let resting = |one: &EdgeThread| one.published.resting.load(Ordering::Relaxed);
        self.threads.iter().map(resting).sum()
    }

    /// Has each of them do this soon, after what it was told before.
    pub(crate) fn tell_all(&self, work: impl Fn(&EdgeParts) + Clone + Send + 'static) {
        for thread in &self.threads {
            thread.tell(work.clone());
        }
    }

    /// Has each of them do this, after what it was told before; what this returns waits for all answers.
    pub(crate) fn ask_all<T: Send + 'static>(
        &self,
        work: impl Fn(&EdgeParts) -> T + Clone + Send + 'static,
    ) -> impl Future<Output = Vec<T>> {
        let ask = |one: &EdgeThread| one.ask(work.clone());
        let asked: Vec<_> = self.threads.iter().map(ask).collect();
        async move {
            let mut answers = Vec::with_capacity(asked.len());
            for answer in asked {
                // A thread that has ended has none.
                answers.extend(answer.await);
            }
            answers
        }
    }

    /// The sum of what they answer.
    pub(crate) async fn sum<T: AddAssign + Default + Send + 'static>(
        &self,
        work: impl Fn(&EdgeParts) -> T + Clone + Send + 'static,
    ) -> T {
        let mut sum = T::default();
        for answer in self.ask_all(work).await {
            sum += answer;
        }
        sum
    }

    /// Has them answer for the application with this number from this folder from now on, or from none; comes back when all
    /// do.
    pub(crate) fn serve_public_files(
        &self,
        application: u16,
        folder: Option<&PublicFiles>,
    ) -> impl Future<Output = ()> + use<> {
        let (sender, mut served) = tokio::sync::mpsc::channel::<Infallible>(1);
        let folder = folder.cloned();
        self.tell_all(move |parts| {
            let application = Rc::clone(parts.application(application));
            let (folder, sender) = (folder.clone(), sender.clone());
            tokio::task::spawn_local(async move {
                application.public_folder.serve(folder).await;
                drop(sender);
            });
        });
        async move {
            // It ends when no thread has a sender any more.
            served.recv().await;
        }
    }

    /// Whether one of them has a connection that is idle for longer than this one.
    pub(crate) async fn have_earlier_idle(&self, own: Option<FirstIdle>) -> bool {
        let idle = self.ask_all(first_idle).await.into_iter().flatten();
        match (idle.min(), own) {
            (Some(first), Some(own)) => first < own,
            (first, _) => first.is_some(),
        }
    }

    /// Closes the first idle connection of all of them. False where there is none.
    pub(crate) async fn close_first_idle(&self) -> bool {
        let idle = self.ask_all(first_idle).await;
        let mut order: Vec<_> = idle.into_iter().zip(&self.threads).collect();
        // Those without one may still have one on which no HTTP is spoken yet.
        order.sort_by_key(|(first, _)| (first.is_none(), *first));
        for (_, thread) in order {
            let close = |parts: &EdgeParts| parts.edge.connections.close_first_idle(None);
            if thread.ask(close).await == Ok(true) {
                return true;
            }
        }
        false
    }

    /// They one by one.
    pub(crate) fn threads(&self) -> &[EdgeThread] {
        &self.threads
    }
}

impl EdgeThread {
    fn connections(&self) -> usize {
        self.published.connections.load(Ordering::SeqCst)
    }

    /// Has it serve a connection that this thread has accepted.
    pub(crate) fn hand_over(&self, mut newcomer: Newcomer) {
        let place = Place::take(&self.published.connections, &self.ended);
        newcomer.arrived.place = Some(place);
        // The system refuses where it has no memory: then the connection is closed.
        if let Ok(newcomer) = newcomer.detach() {
            self.tell(|parts| parts.reception.receive_from_thread(newcomer));
        }
    }

    fn tell(&self, work: impl FnOnce(&EdgeParts) + Send + 'static) {
        // A thread that has ended does nothing.
        let _ = self.commands.send(Box::new(work));
    }

    /// Has it do this; the answer comes unless the thread has ended.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&EdgeParts) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, answer) = oneshot::channel();
        self.tell(|parts| drop(sender.send(work(parts))));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connection_goes_to_a_thread_that_has_ended() {
        let thread = |connections: usize| {
            let (commands, received) = tokio::sync::mpsc::unbounded_channel();
            let one = EdgeThread {
                commands,
                published: Arc::default(),
                ended: Arc::default(),
            };
            let count = &one.published.connections;
            count.store(connections, Ordering::SeqCst);
            (one, received)
        };
        let ((ended, _), (alive, _received)) = (thread(0), thread(2));
        let edges = Edges {
            threads: vec![ended, alive],
        };
        let with_fewest = |own| edges.with_fewest(own).map(EdgeThread::connections);
        assert_eq!(with_fewest(3), Some(2));
        assert_eq!(with_fewest(2), None);
    }
}
