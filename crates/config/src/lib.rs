//! Settings as data: one table ([`SETTINGS`]) of names, kinds, defaults, ranges and texts, from which the
//! typed [`Settings`], the keys of `highball.toml`, the flags, the `HIGHBALL_*` variables and
//! `docs/settings.md` all come.
//!
//! This crate reads the file, the flags and the environment it is given, checks all of them before it
//! answers, and counts the cores. It never prints, never opens a socket and never starts a process.

#![forbid(unsafe_code)]

mod address_list;
mod applications;
mod cores;
mod error;
mod example_file;
mod field;
mod help;
mod hosts;
mod hsts;
mod kind;
mod listen;
mod load;
mod log_fields;
mod media_types;
mod nearest;
mod number_range;
mod page;
mod parameters;
mod paths;
mod rate_limit;
mod reload;
mod setting;
mod table;
mod table_macro;
mod units;

pub use address_list::AddressList;
pub use applications::{ApplicationSettings, ApplicationTable, MAX_APPLICATIONS, ServerSettings};
pub use cores::usable as usable_cores;
pub use error::{ConfigError, ConfigErrors, Origin, Place};
pub use example_file::{WrongEntry, example_file};
pub use field::{
    Allocator, CachePolicy, ClientVerification, FileMode, Jit, LogFormat, LogLevel, MemoryBudget,
    PublicFiles, Rollout, RuntimeTuning, TlsVersion, WarmUp,
};
pub use help::{help_of, list_of_settings};
pub use hosts::{HostPattern, MAX_HOST_BYTES};
pub use hsts::Hsts;
pub use kind::Kind;
pub use listen::Listen;
pub use load::{CONFIG_FILES, Sources};
pub use log_fields::{LogField, LogFields};
pub use media_types::MediaTypes;
pub use nearest::nearest;
pub use number_range::NumberRange;
pub use page::settings_page;
pub use parameters::ParameterNames;
pub use paths::PathRules;
pub use rate_limit::{RateLimit, RateLimitKey};
pub use reload::Change;
pub use setting::{Reload, Scope, Setting};
pub use table::{SETTINGS, Settings};
pub use units::parse_time;
