//! The operators' HTTP server: a table of routes, who may use which of them, and connections within bounds. It serves the
//! control socket and the addresses of `admin_listen` and `metrics_listen`. It knows no front and no supervisor: what a
//! route does is in the handler that the program registers for it.

#![forbid(unsafe_code)]

pub mod access;
pub mod answer;
pub mod call;
mod clients;
pub mod connection;
pub mod listener;
mod paced;
pub mod routes;
pub mod tokens;

pub use access::{Access, Terms};
pub use answer::{Answer, Body, Lines, Problem, json, lines, text};
pub use call::Call;
pub use connection::serve_connection;
pub use listener::{ClientTask, serve_listener};
pub use routes::{Rights, Route, Routes};
pub use tokens::{Tokens, TokensError};
