//! The lab's commands of `highball`: their arguments and what they print. They decide nothing about how a thing
//! is measured; that is the modules' own.

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

use ::stacks::keeper;

mod assertions;
mod bench;
mod compare;
mod comparing;
mod diff;
mod export;
mod load;
mod stacks;
mod study;

/// One of the lab's commands with its arguments.
#[derive(Debug, PartialEq, clap::Subcommand)]
pub enum Command {
    /// Drive a URL with requests and say what came of it.
    Load(load::Arguments),
    /// Run an application under several stacks and say which is better, by how much, and how sure that is.
    Compare(Box<compare::Arguments>),
    /// Compare the results of two comparisons, such as before and after a change.
    Diff(diff::Arguments),
    /// Run one of five studies of 2006 to 2014 on software of today, or list them.
    Study(study::Arguments),
    /// What can be compared here: installed, in which version, or how to install it.
    Stacks(stacks::Arguments),
    /// Run the benchmark of the project itself, or write its page again.
    #[command(hide = true)]
    Bench(bench::Arguments),
    /// Starts a stack's processes and ends them with the lab, which alone runs this.
    #[command(name = keeper::COMMAND, hide = true)]
    KeepStack(keeper::Arguments),
}

/// Runs a command to its end. Results go to stdout or to the file asked for, progress to stderr.
///
/// # Errors
/// What stopped it, for people; nothing was printed of it yet.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Load(arguments) => load::run(arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Study(arguments) => study::run(&arguments),
        Command::Stacks(arguments) => stacks::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::KeepStack(arguments) => keeper::keep(&arguments).map(|()| ExitCode::SUCCESS),
    }
}

/// Prints a text; a closed pipe is no error.
fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("can't write to stdout"),
    }
}

/// A flag that Ctrl-C and SIGTERM set from now on, so that results are still printed. A second signal ends the
/// process at once, as without it.
///
/// # Errors
/// The kernel takes no handler.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order counts: the first signal must find the flag still unset.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("can't handle signals")?;
    }
    Ok(stop)
}
