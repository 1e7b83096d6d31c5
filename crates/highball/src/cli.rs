//! The commands, one file for each kind of them. They decide about no request and no process.

pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod help;
pub(crate) mod init;
pub(crate) mod lab;
pub(crate) mod serve;
mod status_page;
