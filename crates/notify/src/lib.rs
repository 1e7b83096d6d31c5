//! Tells people of exceptions: by a webhook, and by mail. Each receiver has a thread and a bounded queue of its own, so a slow
//! or dead one holds nothing else up. It decides nothing about when people are told.

#![forbid(unsafe_code)]

mod mail;
mod plan;
mod queue;
mod teller;
mod webhook;

pub use plan::{Plan, PlanError};
pub use teller::Teller;
