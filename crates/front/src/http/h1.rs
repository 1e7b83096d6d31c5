//! Connections of HTTP/1.0 and HTTP/1.1, over hyper.

pub mod connection;
mod hijack;
pub mod message;
pub mod state;
