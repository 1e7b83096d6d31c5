//! What the application has counted outside of requests (`Highball.metrics`): passed on as it came. It reads none of it.

use std::cell::OnceCell;

/// Takes a message of this generation: of the worker with this number, or of the template.
type Take = Box<dyn Fn(u32, Option<u16>, &str)>;

/// Who takes what was counted.
#[derive(Default)]
pub(crate) struct Counts(OnceCell<Take>);

impl Counts {
    /// Names who takes it. Only the first call counts.
    pub(super) fn pass_to(&self, take: impl Fn(u32, Option<u16>, &str) + 'static) {
        let _ = self.0.set(Box::new(take));
    }

    /// Passes a message on.
    pub(super) fn pass_on(&self, generation: u32, worker: Option<u16>, batch: &str) {
        if let Some(take) = self.0.get() {
            take(generation, worker, batch);
        }
    }
}
