//! The `highball` program: commands and exit codes (0, or 1 with one message on stderr). It puts the crates' steps in order,
//! and decides nothing about requests or processes itself.
//!
//! Begin with `cli/serve.rs`, the life of a server.

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
mod translation;

use std::process::ExitCode;

use cli::{check, client, help, init, lab, serve};
use command_line::Command;
use control::messages::ControlCommand;
use tikv_jemallocator::Jemalloc;

/// Returns free memory to the kernel within seconds, on a thread of its own (`cli/serve.rs` starts it). The C library's
/// allocator keeps the peak, and would stop the front to return memory. `.cargo/config.toml` has the options.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let command = match command_line::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(answer) if !answer.use_stderr() => {
            // Help or version. There is no other place to say that stdout cannot be written to.
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
        Command::Serve(arguments) => serve::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Status { server, json } => client::status(&server, json),
        Command::Restart(server) => client::change(&server, &ControlCommand::Restart),
        Command::Reload(server) => client::change(&server, &ControlCommand::Reload),
        Command::Upgrade { server, binary } => client::upgrade(&server, binary.as_deref()),
        Command::Stop { server, now } => client::stop(&server, now),
        Command::Init { dir, from } => init::run(dir.as_deref(), from.as_deref()),
        Command::Version => help::version(),
        Command::Help(topic) => help::topic(&topic),
        Command::Completion(shell) => help::completion(shell),
        Command::Lab(arguments) => lab::become_lab(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("highball: {error:#}");
            ExitCode::FAILURE
        }
    }
}
