//! Measures each worker once, when it has just become ready: by how much it has grown since is what shows a leak. It
//! judges nothing.

use exchange::WorkerId;

use crate::runtime::process_memory;
use crate::runtime::serving::ServingWorker;
use crate::runtime::shared::{Inner, Shared};

/// Measures the workers that serve and were not measured before.
pub(super) async fn measure_new_workers(shared: &Shared) {
    let new = shared.inner.borrow_mut().unmeasured();
    if new.is_empty() {
        return;
    }
    let pids = new.iter().map(|one| one.pid).collect();
    let figures = process_memory::read(pids, shared.launcher.get()).await;
    let mut inner = shared.inner.borrow_mut();
    for one in new {
        let memory = figures.of(one.pid).map(|memory| memory.private);
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
