//! The operators' API: how commands reach a running server, the API that both speak, and the queue of changes that are asked for.
//! It carries no request of a client and makes no change itself.

pub(crate) mod agent_check;
pub(crate) mod api;
mod change_answer;
pub(crate) mod custom_metrics;
pub(crate) mod directory;
pub(crate) mod exceptions;
mod experiment_routes;
pub(crate) mod health;
pub(crate) mod inspection_routes;
pub(crate) mod inspections;
pub(crate) mod log_level;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod name;
pub(crate) mod operators;
pub(crate) mod parts;
pub(crate) mod places;
pub(crate) mod process_memory;
pub(crate) mod purges;
pub(crate) mod queue;
pub(crate) mod recent;
pub(crate) mod recordings;
pub(crate) mod report;
pub(crate) mod reporter;
pub(crate) mod routes;
pub(crate) mod search;
pub(crate) mod socket;
pub(crate) mod worker_metrics;
