//! What several files of wire tests use beside `test-support`: a browser. Holds no test.

#![forbid(unsafe_code)]

pub mod browser;
