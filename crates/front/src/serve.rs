//! What is answered without Ruby: errors, files that the application names, and the server's own questions.

pub(crate) mod check;
pub mod errors;
pub mod file_threads;
pub mod files;
