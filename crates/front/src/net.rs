//! Sockets: what listens, who gets a connection, and the bytes of each. It knows no request.

pub(crate) mod accept;
pub(crate) mod addresses;
pub mod client_io;
pub(crate) mod descriptors;
pub mod idle;
pub mod listener;
pub mod stream;
