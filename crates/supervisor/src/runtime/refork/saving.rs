//! What a template that a worker has forked saves: the memory of template and workers before it, and after as many requests.

use std::rc::Rc;

use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::{REFORK_CHECK_INTERVAL, Refork, id};
use crate::note::TemplateNote;
use crate::rules::refork::Saving;
use crate::runtime::process_memory;
use crate::runtime::serving::ServingWorker;

impl Refork {
    /// Says what the new template has saved, once the workers have served as many requests as those before them had.
    pub(super) fn measure_later(&self, new: Rc<Notify>, served: u64, before: u64) {
        let own = Self {
            shared: Rc::clone(&self.shared),
            load: Rc::clone(&self.load),
            old: new,
            serving: Vec::new(),
            ..*self
        };
        spawn_local(async move {
            while own.is_in_place(&own.old) {
                sleep(REFORK_CHECK_INTERVAL).await;
                let serving = own.shared.inner.borrow().serving();
                if own.served(&serving) < served || !own.is_in_place(&own.old) {
                    continue;
                }
                let after = own.memory().await;
                let saving = Saving { before, after };
                if let Some(reason) = saving.shortfall() {
                    own.change(|processes| processes.refork.stop(&reason));
                }
                own.shared.note(own.generation, TemplateNote::Saved(saving));
                return;
            }
        });
    }

    /// Requests that these workers have finished.
    pub(super) fn served(&self, serving: &[ServingWorker]) -> u64 {
        let finished = serving.iter();
        let finished = finished.map(|one| self.shared.dispatcher.finished(id(one.life)));
        finished.sum()
    }

    /// What template and workers hold, in bytes: each page that they share counts once.
    pub(super) async fn memory(&self) -> u64 {
        let pids = self.pids();
        let figures = process_memory::read(pids.clone(), self.shared.launcher.get()).await;
        let shares = pids.into_iter().filter_map(|pid| figures.of(pid));
        shares.map(|memory| memory.share).sum()
    }

    fn pids(&self) -> Vec<i32> {
        let inner = self.shared.inner.borrow();
        let processes = inner.processes.get(&self.generation);
        let template = processes.and_then(|own| own.template.as_ref()?.pid);
        let workers = inner.serving().into_iter().map(|one| one.pid);
        workers.chain(template).collect()
    }
}
