//! Settings as data: one table ([`SETTINGS`]) of names, kinds, defaults, ranges and texts, from which the
//! typed [`Settings`], the keys of `highball.toml`, the flags, the `HIGHBALL_*` variables and
//! `docs/settings.md` all come.
//!
//! This crate reads the file, the flags and the environment it is given, checks all of them before it
//! answers, and counts the cores. It never prints, never opens a socket and never starts a process.

#![forbid(unsafe_code)]

mod cores;
mod error;
mod example_file;
mod field;
mod help;
mod kind;
mod listen;
mod load;
mod log_fields;
mod nearest;
mod page;
mod parameters;
mod paths;
mod proxies;
mod reload;
mod setting;
mod table;
mod table_macro;
mod units;

pub use error::{ConfigError, ConfigErrors, Origin, Place};
pub use example_file::{WrongEntry, example_file};
pub use field::{FileMode, LogFormat, MemoryBudget, Rollout};
pub use help::{help_of, list_of_settings};
pub use kind::Kind;
pub use listen::Listen;
pub use load::{CONFIG_FILES, Sources};
pub use log_fields::{LogField, LogFields};
pub use nearest::nearest;
pub use page::settings_page;
pub use parameters::ParameterNames;
pub use paths::PathRules;
pub use proxies::TrustedProxies;
pub use reload::Change;
pub use setting::{Reload, Setting};
pub use table::{SETTINGS, Settings};
