//! What several files of wire tests use beside `test-support`: clients of TLS and HTTP/2, an authority that signs
//! certificates, a browser, pictures of terminals, applications that Rails generates, servers with several applications, operators'
//! addresses, HAProxy, Prometheus, receivers, stacks of profiles.
//! Holds no test.

#![forbid(unsafe_code)]

pub mod authority;
pub mod background;
pub mod browser;
pub mod bundle;
pub mod dashboard;
pub mod haproxy;
pub mod http2;
pub mod operators;
pub mod otel_collector;
pub mod own_users;
pub mod prometheus;
pub mod rails;
pub mod receiver;
pub mod several;
pub mod stacks;
pub mod terminal_picture;
pub mod tls;
