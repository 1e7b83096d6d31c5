//! Connections of HTTP/2 (RFC 9113), over the crate h2.

mod body;
mod clocks;
pub mod connection;
mod frames;
mod respond;
mod stream;
pub mod streams;
mod tunnel;
mod wire;
