//! The dashboard of a running server: what it has seen of itself, and who may look at it. The page is the crate
//! `dashboard`'s. It changes nothing.

mod applications;
mod exceptions;
pub(crate) mod history;
pub(crate) mod keeping;
pub(crate) mod listening;
mod model;
pub(crate) mod opening;
pub(crate) mod pages;
mod routes;
mod session;
pub(crate) mod sign_in;
mod slow;
mod storage;
