//! Another server of the same service, which runs at the same time during an upgrade: how much of it fits, and how the budget of
//! memory is kept meanwhile. It starts no server, and sees only the end of the other one.

use std::rc::Rc;

use tokio::task::spawn_local;

use crate::rules::budget::Held;
use crate::runtime::channel::Pidfd;
use crate::runtime::channel::open_pidfd;
use crate::runtime::load::Plan;
use crate::runtime::memory_usage::measure;
use crate::runtime::supervisor::Supervisor;

impl Supervisor {
    /// How many workers of another server like this one there is memory for at the same time; `None`: for all of them.
    ///
    /// # Errors
    /// Not for a single one: what this server holds and may hold.
    pub async fn room_for_other_server(&self) -> Result<Option<u16>, Held> {
        let shared = &self.shared;
        let serving = shared.inner.borrow().serving();
        if serving.is_empty() || !shared.budget.borrow().is_set() {
            return Ok(None);
        }
        let usage = measure(shared, &serving).await;
        let budget = shared.budget.borrow();
        let fits = budget.fits_with_other_server(&usage);
        match (fits, budget.held(&usage)) {
            (Some(0), Some(held)) => Err(held),
            (Some(fits), _) if usize::from(fits) < serving.len() => Ok(Some(fits)),
            _ => Ok(None),
        }
    }

    /// Call it before the first generation is launched while another server runs, the process `other`, which has left
    /// room for so many workers. The others are started when that server is gone.
    pub fn start_alongside(&self, plan: &Plan, room: Option<u16>, other: i32) {
        let wanted = plan.wanted(self.shared.scale.get());
        let missing = room.map_or(0, |room| wanted.saturating_sub(room.max(1)));
        let mut budget = self.shared.budget.borrow_mut();
        budget.start_alongside(plan.budget, missing);
        let other = open_pidfd(other).and_then(|pidfd| Pidfd::new(pidfd).ok());
        let shared = Rc::downgrade(&self.shared);
        spawn_local(async move {
            // One that cannot be watched counts as gone.
            if let Some(other) = other {
                other.ended().await;
            }
            if let Some(shared) = shared.upgrade() {
                shared.budget.borrow_mut().set_other_server(false);
            }
        });
    }

    /// Whether another server is there from now on: what it holds is not taken for a stranger's.
    pub fn set_other_server(&self, other: bool) {
        self.shared.budget.borrow_mut().set_other_server(other);
    }
}
