//! The front: everything that happens between a client and the exchange.
//!
//! It runs on one thread, on the runtime of [`runtime::build`]. It never runs Ruby, never blocks, and never
//! starts or ends a process: the supervisor says which workers there are.
//!
//! # Layout
//!
//! - `net`: listeners, sockets, and the register of connections
//! - `http`: messages: the screen of raw bytes, connections over hyper, requests, responses
//! - `serve`: what is answered without Ruby
//! - `dispatch`: the queue, and requests in the exchange
//! - `messages`: all that an edge (the first three) and the dispatcher say to each other; `remote`: between threads
//! - `log`: the access log, events and errors
//! - `front`: puts them together; `shutdown` ends it

#![forbid(unsafe_code)]

pub mod clock;
pub mod dispatch;
pub mod edge;
pub mod failure;
mod front;
pub mod http;
pub mod log;
pub mod messages;
pub mod net;
pub mod remote;
pub mod runtime;
pub mod serve;
mod shared_bytes;
mod shutdown;
pub mod snapshot;
pub mod spool;

pub use failure::{Failure, Fault, Outcome};
pub use front::{Front, slot_bytes};
pub use http::h1::state::IdleConnection;
pub use net::listener::{AdoptError, BindError, Listener};
pub use net::unix_path::FileAccess;
pub use serve::file_threads::FileThreads;
pub use shutdown::Unfinished;
pub use snapshot::Snapshot;
