//! Sockets: what listens, who gets a connection, and the bytes of each. It knows no request.

pub mod accept;
mod acceptor;
pub(crate) mod addresses;
pub(crate) mod certificate_status;
pub(crate) mod certificate_watch;
pub mod client_io;
pub mod connections;
pub(crate) mod descriptors;
pub mod flow;
pub mod listener;
pub(crate) mod newcomer;
pub(crate) mod opening;
pub(crate) mod pace;
mod proxy_protocol;
pub(crate) mod reception;
pub mod stream;
pub mod tls;
pub mod unix_path;
