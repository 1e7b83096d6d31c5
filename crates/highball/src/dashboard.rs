//! The dashboard of a running server: what it has seen of itself, and who may look at it. The page is the crate
//! `dashboard`'s. It changes nothing.

mod applications;
mod exceptions;
pub(crate) mod history;
mod model;
pub(crate) mod opening;
pub(crate) mod pages;
mod routes;
mod session;
mod slow;
