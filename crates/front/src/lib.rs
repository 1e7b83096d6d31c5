//! The front: everything that happens between a client and the exchange.
//!
//! It runs on one thread, on the runtime of [`runtime::build`], and with `front_threads` further edges run on threads of
//! their own. It never runs Ruby, never blocks, and never starts or ends a process: the supervisor says which workers there
//! are.
//!
//! # Layout
//!
//! - `net`: listeners, sockets, and the register of connections
//! - `http`: messages: the screen of raw bytes, connections over hyper, requests, responses
//! - `serve`: what is answered without Ruby
//! - `dispatch`: the queue, and requests in the exchange
//! - `messages`: all that an edge (the first three) and the dispatcher say to each other; `remote`: between threads
//! - `exceptions`: what the application raised, in groups
//! - `log`: the access log, events and errors
//! - `panics`: what a panic ends; `panic_hook`: ends it
//! - `front`: puts them together; `edges`: the edges of other threads; `shutdown` ends it

#![forbid(unsafe_code)]

mod application_front;
pub mod clock;
mod counters;
pub mod dispatch;
mod dispatchers;
pub mod edge;
pub mod edges;
pub mod exceptions;
mod experiment;
pub mod failure;
mod frequent_paths;
mod front;
pub mod http;
pub mod live_settings;
pub mod log;
pub mod messages;
pub mod metrics;
pub mod net;
pub mod panic_hook;
pub mod panics;
mod random;
pub mod remote;
pub mod runtime;
pub mod saturation;
pub mod serve;
mod shared_bytes;
mod shutdown;
mod slow_requests;
pub mod snapshot;
pub mod spool;

pub use ::cache::Purge;
pub use ::exceptions::{Notice, SavedGroups};
pub use application_front::{ApplicationFront, frequent_paths, settings_changed, slot_bytes};
pub use dispatch::{Activity, IdleWatch, Load, LoadWatch, WaitCount, set_active_threads};
pub use experiment::{ExperimentRecords, begin_experiment, end_experiment};
pub use failure::{Failure, Fault, Outcome};
pub use frequent_paths::{FrequentPath, FrequentPaths};
pub use front::Front;
pub use http::h1::state::IdleConnection;
pub use net::certificate_status::CertificateStatus;
pub use net::certificate_watch::{TlsStartError, check_tls};
pub use net::listener::{AdoptError, BindError, Listener};
pub use net::tls::TlsError;
pub use net::tls::certificates::Certificates;
pub use net::unix_path::FileAccess;
pub use saturation::Saturation;
pub use serve::cached::{CacheStatus, ResponseCache};
pub use serve::file_threads::FileThreads;
pub use serve::plan::ApplicationPlan;
pub use serve::public_folder::served::Published;
pub use serve::reader::Reader;
pub use shutdown::Unfinished;
pub use slow_requests::{SlowRequest, SlowRequests};
pub use snapshot::{ApplicationSnapshot, ServerCounts, Snapshot};
