//! The exceptions of applications: what a worker reports of one, groups of those that are alike, and when people are told.
//! It opens no socket, and reads no clock: the time is given.

mod groups;
mod hours;
mod notice;
mod report;
mod text;

pub use groups::{Groups, MAX_GROUPS, SavedGroups};
pub use notice::{Notice, Reason};
pub use report::{Report, Seen};
