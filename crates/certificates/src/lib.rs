//! Certificates that come by themselves (ACME, RFC 8555): given names and a certificate authority, keeps a certificate for
//! each set of names, orders it, stores it and renews it. It runs on a thread of its own.
//!
//! It accepts no connection and answers no request: what must be served (a certificate, the answer to a challenge) goes to
//! an [`Installer`], which the server implements. It never removes a certificate that is still served.

#![forbid(unsafe_code)]

mod account;
mod backoff;
mod certificate;
mod challenge;
mod client;
mod clock;
mod dns_command;
mod failure;
mod installer;
mod keeper;
mod manager;
mod names;
mod on_demand;
mod order;
mod plan;
mod renewal;
mod state;
mod status;
mod storage;
mod text;

pub use clock::{Clock, SystemClock, Wait};
pub use failure::PlanError;
pub use installer::{ChallengeKind, Installer, Severity};
pub use manager::{Demands, Manager};
pub use names::Names;
pub use plan::{ExternalAccount, Plan, ask_url, directory_url};
pub use renewal::RenewalReason;
pub use state::FailureStatus;
pub use status::{CertificateStatus, read_storage};
