//! The `highball` program: commands and exit codes (0, or 1 with one message on stderr). It puts the crates' steps in order,
//! and decides nothing about requests or processes itself.
//!
//! Begin with `cli/serve.rs`, the life of a server.

#![forbid(unsafe_code)]

mod acme;
mod application;
mod changes;
mod cli;
mod control;
mod dashboard;
mod exceptions;
mod experiments;
mod hosted;
mod housekeeping;
mod launchers;
mod server;
mod setup;
mod shutdown;
mod sockets;
mod startup;
mod statsd;
mod system;
mod thread_advice;
mod thread_limit;
mod totals;
mod traces;
mod translation;

use std::process::ExitCode;

use cli::{
    certificates, check, client, dashboard as dashboard_command, exceptions_page, experiment, help,
    init, lab, launcher, maintenance, memory, plan, profile, serve, slow, top, watch, workers,
};
use command_line::Command;
use tikv_jemallocator::Jemalloc;

/// Returns free memory to the kernel within seconds, on a thread of its own (`cli/serve.rs` starts it). The C library's
/// allocator keeps the peak, and would stop the front to return memory. `.cargo/config.toml` has the options.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    if launcher::is_wanted() {
        return exit_code(launcher::run(std::env::args_os()));
    }
    let command = match command_line::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(answer) => return say(&answer),
    };
    let result = match command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Status {
            server,
            json,
            watch: None,
        } => client::status(&server, json),
        Command::Exceptions {
            server,
            group,
            json,
        } => exceptions_page::run(&server, group.as_deref(), json),
        Command::Status {
            server,
            watch: Some(interval),
            ..
        } => watch::run(server, interval),
        Command::Top { server, interval } => top::run(server, interval),
        Command::Memory {
            all: true, json, ..
        } => memory::run_all(json),
        Command::Memory { server, json, .. } => memory::run(&server, json),
        Command::Certificates { server, json } => certificates::run(&server, json),
        Command::Restart {
            server,
            application,
        } => client::restart(&server, application),
        Command::Scale {
            server,
            workers,
            application,
        } => client::scale(&server, workers, application),
        Command::LogLevel { server, level } => client::log_level(&server, level),
        Command::Refork {
            server,
            application,
        } => client::refork(&server, application),
        Command::Dashboard(server) => dashboard_command::run(&server),
        Command::Purge { server, what } => client::purge(&server, what),
        Command::Reload(server) => client::reload(&server),
        Command::Slow { view, number } => slow::run(&view, number),
        Command::Profile {
            view,
            seconds,
            mode,
        } => profile::run(&view, seconds, mode),
        Command::Backtraces(view) => workers::backtraces(&view),
        Command::Gc(view) => workers::gc(&view),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Experiment(arguments) => experiment::run(&arguments),
        Command::Upgrade { server, binary } => client::upgrade(&server, binary.as_deref()),
        Command::Stop { server, now } => client::stop(&server, now),
        Command::Init { dir, from } => init::run(dir.as_deref(), from.as_deref()),
        Command::Maintenance(arguments) => maintenance::run(&arguments),
        Command::Version => help::version(),
        Command::Help(topic) => help::topic(&topic),
        Command::Completion(shell) => help::completion(shell),
        Command::Lab(arguments) => lab::become_lab(&arguments),
    };
    exit_code(result)
}

/// Writes what is said in place of a command: help, the version, or what is wrong with the arguments.
fn say(answer: &command_line::Error) -> ExitCode {
    if !answer.use_stderr() {
        // There is no other place to say that stdout cannot be written to.
        let _ = answer.print();
        return ExitCode::SUCCESS;
    }
    let text = answer.to_string();
    eprint!(
        "highball: {}",
        text.strip_prefix("error: ").unwrap_or(&text)
    );
    ExitCode::FAILURE
}

fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("highball: {error:#}");
            ExitCode::FAILURE
        }
    }
}
