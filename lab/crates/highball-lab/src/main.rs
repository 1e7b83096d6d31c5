//! The program `highball-lab`, which `highball` becomes for its commands load, compare, study and stacks. Exit codes:
//! the command's own, or 1 with one message on stderr.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use highball_lab::command::{self, Command};

/// What `highball` hands to the lab.
#[derive(Debug, Parser)]
#[command(
    name = "highball-lab",
    // Users call it by this name.
    bin_name = "highball",
    version,
    about = "The lab of Highball: compares application servers on your own application"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) if !answer.use_stderr() => {
            // Help or version. A failed write to stdout can't be reported.
            let _ = answer.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let text = error.to_string();
            eprint!(
                "highball: {}",
                text.strip_prefix("error: ").unwrap_or(&text)
            );
            return ExitCode::FAILURE;
        }
    };
    command::run(arguments.command).unwrap_or_else(|error| {
        eprintln!("highball: {error:#}");
        ExitCode::FAILURE
    })
}
