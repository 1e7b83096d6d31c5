//! All receivers of notices together. It decides nothing about when people are told, and never waits.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use exceptions::Notice;

use crate::mail::Mail;
use crate::plan::Plan;
use crate::queue::{self, Complain, MAX_WAITING};
use crate::webhook::Webhook;

/// Tells all receivers. Dropping it ends their threads once they have told what waits.
pub struct Teller {
    queues: Vec<SyncSender<Arc<Notice>>>,
    complain: Arc<Complain>,
}

impl Teller {
    /// Starts the threads of this plan. `complain` is called, from any of them, with what goes wrong.
    ///
    /// # Errors
    /// A thread cannot be had.
    pub fn start(
        plan: Plan,
        complain: impl Fn(String) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let complain: Arc<Complain> = Arc::new(complain);
        let mut queues = Vec::new();
        if let Some(address) = plan.webhook {
            queues.push(queue::start(Webhook::new(address)?, Arc::clone(&complain))?);
        }
        if let Some(mail) = plan.mail {
            queues.push(queue::start(Mail::new(mail), Arc::clone(&complain))?);
        }
        Ok(Self { queues, complain })
    }

    /// Has this be told. Never waits.
    pub fn tell(&self, notice: Notice) {
        let notice = Arc::new(notice);
        for queue in &self.queues {
            if queue.try_send(Arc::clone(&notice)).is_err() {
                (self.complain)(format!(
                    "dropped a notice of exception group {}: {MAX_WAITING} others wait to be told",
                    notice.group
                ));
            }
        }
    }
}
