//! `highball load`: drives a URL and says what came of it. It measures nothing itself.

use std::process::ExitCode;

use anyhow::{Result, bail};

/// What `highball load` is told.
#[derive(Debug, PartialEq, clap::Args)]
pub struct Arguments {
    /// Where requests go: http://host:port/path
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
}

/// Loads the URL and prints the outcome.
pub(super) fn run(arguments: Arguments) -> Result<ExitCode> {
    bail!(
        "load: {} can't be driven yet: the load generator is missing from this build",
        arguments.urls.join(", ")
    )
}
