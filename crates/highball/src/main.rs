//! The `highball` binary: commands, exit codes (0, or 1 with one message on stderr), and the wiring of the
//! crates. It serves no request and decides about no process itself.

#![forbid(unsafe_code)]

mod application;
mod changes;
mod cli;
mod control;
mod housekeeping;
mod server;
mod shutdown;
mod sockets;
mod startup;
mod system;

use std::process::ExitCode;

use cli::arguments::Command;
use cli::{arguments, check, client, serve};
use tikv_jemallocator::Jemalloc;

/// What is free goes back to the kernel within seconds, by a thread of the allocator's own (`cli/serve.rs` starts it): the C
/// library's keeps the peak, and giving it back there stops the front. `.cargo/config.toml` has the options.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let command = match arguments::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(answer) if !answer.use_stderr() => {
            // Help or version. Where stdout cannot be written to there is nobody to tell.
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
    let result = match command {
        Command::Serve(choice) => serve::run(choice).map(|()| ExitCode::SUCCESS),
        Command::Check(choice) => check::run(choice).map(|()| ExitCode::SUCCESS),
        Command::Status { server, json } => {
            client::status(&server, json).map(|()| ExitCode::SUCCESS)
        }
        Command::Restart(server) => client::restart(&server).map(|()| ExitCode::SUCCESS),
        Command::Reload(server) => client::reload(&server).map(|()| ExitCode::SUCCESS),
        Command::Upgrade { server, binary } => {
            client::upgrade(&server, binary.as_deref()).map(|()| ExitCode::SUCCESS)
        }
        Command::Stop { server, now } => client::stop(&server, now).map(|()| ExitCode::SUCCESS),
        Command::Lab(arguments) => cli::lab::become_lab(&arguments).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("highball: {error:#}");
            ExitCode::FAILURE
        }
    }
}
