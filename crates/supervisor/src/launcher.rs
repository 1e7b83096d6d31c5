//! Launchers: processes that start and signal the processes of applications that have a user of their own. The server
//! starts one for each such user while it is root, and speaks to it through a socket pair. A launcher has the rights of
//! its user alone and never gets others, so it is no way to root. It decides nothing.

pub(crate) mod handle;
pub(crate) mod messages;
pub(crate) mod program;
pub mod service;
#[cfg(test)]
mod tests;
