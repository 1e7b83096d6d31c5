//! Sockets: what listens, who gets a connection, and the bytes of each. It knows no request.

pub mod accept;
pub(crate) mod addresses;
pub mod client_io;
pub mod connections;
pub(crate) mod descriptors;
pub mod flow;
pub mod listener;
mod pace;
pub mod stream;
pub mod unix_path;
