//! The supervisor: the only part that changes a process's life. It starts the template, has it load the
//! application and fork the workers, watches every process by its pidfd, replaces what dies, and stops all.
//!
//! It never runs Ruby, never touches a request and never writes to the exchange: what a death means for
//! requests is the [`exchange::Dispatcher`]'s business. Everything runs on the thread of one tokio `LocalRuntime`.

#![forbid(unsafe_code)]

mod launcher;
mod note;
mod rules;
mod runtime;

pub use launcher::handle::{Introduced, Launcher};
pub use launcher::service as launcher_service;
pub use note::{GenerationNote, Note, TemplateNote, WorkerNote};
pub use rules::autoscale::{Autoscale, Ends, LONG_WAIT, Look, Obstacle, Step, Waits};
pub use rules::budget::{Bound, Held};
pub use rules::cpu::CpuUse;
pub use rules::limits::{Limits, RetireReason};
pub use rules::memory::Size;
pub use rules::refork::{Origin, Saving};
pub use rules::scale::Scale;
pub use runtime::channel::Channel;
pub use runtime::exit_status::ExitStatus;
pub use runtime::experiment::{
    ExperimentError, end_experiment, experiment_over, is_experimenting, launch_beside,
    renew_workers, workers_are_back,
};
pub use runtime::idle::{is_attended, stop_serving};
pub use runtime::inspect::inspect;
pub use runtime::inspections::{InspectError, MAX_PROFILE};
pub use runtime::launch::start_by;
pub use runtime::load::{BootError, Booted, Load, Plan, StartError};
pub use runtime::orphans;
pub use runtime::purges::Purging;
pub use runtime::refork::{ReforkError, Reforked, refork};
pub use runtime::scale::{
    ScaleBusy, WorkerCount, is_calm, scale, scale_of, set_scale, worker_count,
};
pub use runtime::status::{Generation, MemoryDetails, Process, Role};
pub use runtime::supervisor::Supervisor;
pub use runtime::template_process::TemplateProcess;

/// Draws from 0 to below a number, for tests in simulated worlds: the same ones for the same seed.
#[cfg(test)]
fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    move |below| random.next_u64() % below
}
