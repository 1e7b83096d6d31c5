//! What is decided and answered without Ruby: the gate, errors, files of the public folder and those that the application
//! names, and the server's own questions.

pub mod application;
pub mod cached;
pub(crate) mod challenge;
pub(crate) mod check;
pub mod compression;
pub mod error_pages;
pub mod errors;
pub mod file_body;
pub mod file_threads;
pub mod files;
pub mod gate;
pub(crate) mod halves;
pub mod kept_body;
pub(crate) mod mount;
pub mod page_cache;
pub mod plan;
pub mod preconditions;
pub(crate) mod probes;
pub mod public_files;
pub mod public_folder;
pub mod ranges;
pub mod reader;
pub(crate) mod redirect;
pub mod routes;
pub mod server_fields;
pub mod waiting;
pub(crate) mod watch;
pub mod watched_files;
pub mod websockets;
