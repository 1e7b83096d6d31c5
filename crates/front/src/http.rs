//! HTTP between the sockets and the dispatcher: the check of raw bytes, messages, and responses. It never calls Ruby.

pub mod access_log;
pub mod buffer;
pub mod chunked;
pub mod forwarded;
pub mod h1;
pub mod incoming;
pub mod request;
pub mod request_id;
pub mod response;
pub mod response_head;
pub mod screen;
pub mod service;
