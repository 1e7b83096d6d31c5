//! The commands: what the command line says, and one file for each kind of command. They decide about no request and no
//! process.

pub(crate) mod arguments;
pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod lab;
pub(crate) mod serve;
mod status_page;
