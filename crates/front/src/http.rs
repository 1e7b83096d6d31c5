//! HTTP between the sockets and the dispatcher: the check of raw bytes, messages, and responses. It never calls Ruby.

pub mod access_log;
pub mod body_memory;
pub mod buffer;
pub mod chunked;
pub mod client_side;
pub mod ended;
pub mod forwarded;
pub mod h1;
pub mod h2;
pub mod incoming;
pub mod load_metrics;
pub mod media_types;
pub mod nobody;
pub mod request;
pub mod request_id;
pub mod request_trace;
pub mod response;
pub mod response_body;
pub mod response_head;
pub mod response_store;
pub mod screen;
pub mod service;
mod slow_request;
mod spans;
pub mod trace;
pub mod transaction;
pub mod worker_body;
