//! Ends the server when a thread panics that has said so in `panics`, loudly: a line in the log, an exit code, and before both
//! what Rust writes to stderr. It closes nothing: such a server leaves what one leaves that is killed.

use std::panic::PanicHookInfo;

use crate::log::detached::DetachedLog;
use crate::log::{AccessLog, Level, Value};
use crate::panics::{self, Ends};

/// The exit code of a server that a panic has ended: that of any Rust program.
const EXIT_CODE: i32 = 101;

/// Has panics end this process, with a line in the log and exit code 101: from now on those of this thread, and those of
/// other threads that serve. For the program that is the server.
pub fn end_server(log: &AccessLog) {
    panics::guard_thread();
    let log = log.detached();
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        match panics::ends() {
            Ends::Job => {}
            Ends::Client => log_panic(&log, panic, "a panic has ended the work for one client"),
            Ends::Server => {
                log_panic(&log, panic, "a panic ends the server");
                log.finish();
                std::process::exit(EXIT_CODE);
            }
        }
    }));
}

fn log_panic(log: &DetachedLog, panic: &PanicHookInfo<'_>, text: &str) {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let place = panic.location().map(ToString::to_string);
    let fields = [
        ("thread", Value::Text(&thread)),
        ("place", Value::Text(&place.unwrap_or_default())),
        ("reason", Value::Text(&panic.payload_as_str().unwrap_or(""))),
    ];
    log.event(Level::Error, text, &fields);
}

#[cfg(test)]
mod tests;
