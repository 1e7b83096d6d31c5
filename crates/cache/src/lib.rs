//! A shared HTTP cache (RFC 9111): what may be stored, what may be used again, and where it is kept. It sends and receives
//! nothing, and never looks at a clock: its caller says what time it is.

mod conditional;
mod control;
mod entry;
mod freshness;
mod key;
mod store;
mod vary;

pub use conditional::{Validators, is_not_modified};
pub use control::{RequestControl, ResponseControl};
pub use entry::{Entry, Exchange, NotStored, Usability};
pub use freshness::Freshness;
pub use key::Key;
pub use store::{Purge, Stats, Store};

/// How much a cache takes for an invitation to store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Only responses that name shared caches: `public`, `s-maxage` or `CDN-Cache-Control`. What requests say of caches is
    /// ignored, so that a client cannot make the application work.
    #[default]
    Explicit,
    /// All that RFC 9111 lets a shared cache store, and all that it lets a request ask for.
    Standard,
}
