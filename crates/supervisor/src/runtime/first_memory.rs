//! Measures each worker once, when it has just become ready: by how much it has grown since is what shows a leak. It
//! judges nothing.

use std::cell::RefCell;

use exchange::WorkerId;
use tokio::task::spawn_blocking;

use crate::runtime::memory_usage::memory_of;
use crate::runtime::serving::ServingWorker;
use crate::runtime::shared::Inner;

/// Measures the workers that serve and were not measured before.
pub(super) async fn measure_new_workers(inner: &RefCell<Inner>) {
    let new = inner.borrow_mut().unmeasured();
    if new.is_empty() {
        return;
    }
    // The kernel takes milliseconds for a large process.
    let measured = spawn_blocking(move || {
        let measured = new.into_iter().map(|one| {
            let memory = memory_of(one.pid);
            (one, memory.map(|memory| memory.private))
        });
        measured.collect::<Vec<_>>()
    });
    let Ok(measured) = measured.await else {
        return;
    };
    let mut inner = inner.borrow_mut();
    for (one, memory) in measured {
        inner.set_first_memory(&one, memory);
    }
}

impl Inner {
    fn unmeasured(&mut self) -> Vec<ServingWorker> {
        let mut serving = self.serving();
        serving.retain(|one| {
            let own = self.worker(id(one)).and_then(|own| own.as_ref());
            own.is_some_and(|own| own.first_memory.is_none())
        });
        serving
    }

    fn set_first_memory(&mut self, of: &ServingWorker, memory: Option<u64>) {
        if let Some(Some(own)) = self.worker(id(of))
            && own.pid == Some(of.pid)
        {
            own.first_memory = memory;
        }
    }
}

fn id(worker: &ServingWorker) -> WorkerId {
    WorkerId::new(worker.life.generation, worker.life.worker)
}
