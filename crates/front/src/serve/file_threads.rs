//! A few threads for work that waits for a file system, so that the front's own thread never does. Each kind of work has
//! threads of its own: where one file system does not answer, only those hang that ask it.
//!
//! Nothing begins while all of them are busy, and no code waits for their end: a thread that hangs in the kernel ends with
//! the process.

use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// Threads for one kind of work. They start when they are needed.
#[derive(Debug)]
pub struct FileThreads {
    /// Only its blocking threads are used. Taken by the drop alone.
    runtime: Option<Runtime>,
    free: Arc<Semaphore>,
}

/// A thread that is free, for one piece of work.
#[derive(Debug)]
pub struct FreeThread {
    _permit: OwnedSemaphorePermit,
}

impl FileThreads {
    /// At most `count` threads, which are called `name`.
    ///
    /// # Errors
    /// The system does not give what a runtime takes.
    pub fn new(name: &str, count: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .thread_name(name)
            .max_blocking_threads(count)
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            free: Arc::new(Semaphore::new(count)),
        })
    }

    /// Returns a thread where one is free and no other caller waits for one.
    pub fn try_free(&self) -> Option<FreeThread> {
        let permit = Arc::clone(&self.free).try_acquire_owned();
        permit.ok().map(|_permit| FreeThread { _permit })
    }

    /// Waits for a thread; the first who waits gets the first one.
    pub fn free(&self) -> impl Future<Output = FreeThread> + use<> {
        let free = Arc::clone(&self.free);
        async move {
            let permit = free.acquire_owned().await;
            FreeThread {
                _permit: permit.expect("the semaphore is never closed"),
            }
        }
    }

    /// Begins `work`. It goes on when its result is no longer wanted.
    pub fn begin<T: Send + 'static>(
        &self,
        thread: FreeThread,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Work<T> {
        let task = self.handle().spawn_blocking(move || {
            let _thread = thread;
            work()
        });
        Work {
            task: Some(task),
            threads: self.handle().clone(),
        }
    }

    /// Waits for a thread, has it do `work`, and returns the result.
    ///
    /// # Errors
    /// The work panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let thread = self.free().await;
        self.begin(thread, work).await
    }

    /// Closes a file in one of the threads, unless others have it too: a file system may have work with the end of a file as
    /// well.
    pub fn close_later(&self, file: Arc<File>) {
        if let Some(file) = Arc::into_inner(file) {
            drop_in(self.handle(), file);
        }
    }

    fn handle(&self) -> &Handle {
        let runtime = self.runtime.as_ref();
        runtime.expect("only the drop takes it").handle()
    }
}

fn drop_in(threads: &Handle, what: impl Send + 'static) {
    threads.spawn_blocking(move || drop(what));
}

impl Drop for FileThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Work that has begun; comes with its result, or an error where it panicked.
#[derive(Debug)]
pub struct Work<T: Send + 'static> {
    /// None once the result was taken.
    task: Option<JoinHandle<T>>,
    threads: Handle,
}

impl<T: Send + 'static> Future for Work<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let task = self
            .task
            .as_mut()
            .expect("a future that ended is not polled");
        let result = ready!(Pin::new(task).poll(context));
        self.task = None;
        Poll::Ready(result.map_err(io::Error::other))
    }
}

impl<T: Send + 'static> Drop for Work<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            // Its result may be there by now, with an open file in it.
            drop_in(&self.threads, task);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn nothing_begins_while_all_threads_are_busy_and_the_end_waits_for_none() {
        let threads = FileThreads::new("test", 2).unwrap();
        let occupy = || {
            let (gate, hang) = mpsc::channel::<()>();
            let thread = threads.try_free().unwrap();
            (gate, threads.begin(thread, move || hang.recv().is_err()))
        };
        let (first, _second) = (occupy(), occupy());
        assert!(threads.try_free().is_none());
        let mut next = Box::pin(threads.run(|| 7));
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending());
        drop(first.0);
        assert_eq!(next.await.unwrap(), 7);
        assert!(first.1.await.unwrap());
        // The other one still hangs.
        drop(threads);
    }
}
