//! What several files of wire tests use beside `test-support`: a browser, a terminal, applications that Rails generates.
//! Holds no test.

#![forbid(unsafe_code)]

pub mod background;
pub mod browser;
pub mod bundle;
pub mod rails;
pub mod terminal;
