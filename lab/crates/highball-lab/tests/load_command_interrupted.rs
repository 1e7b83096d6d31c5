//! Ctrl-C ends a load early, and its results are printed. In a process of its own: a signal goes to all of one.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use clap::Parser as _;
use highball_lab::command::{Command, run};
use rustix::process::{Signal, getpid, kill_process};

use server::serve;

#[allow(dead_code, reason = "the other test asks the server for more")]
#[path = "load_command/server.rs"]
mod server;

#[derive(clap::Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[test]
fn ctrl_c_ends_a_load_early_and_prints_the_results() {
    let (address, log) = serve();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results");
    let url = format!("http://{address}/");
    let words = [
        "highball",
        "load",
        &url,
        "-d",
        "10m",
        "--quiet",
        "--output",
        file.to_str().unwrap(),
    ];
    let command = Line::try_parse_from(words).unwrap().command;
    let load = std::thread::spawn(move || run(command));
    // Requests come only after the handler is in place.
    while log.lock().unwrap().len() < 20 {
        std::thread::yield_now();
    }
    kill_process(getpid(), Signal::INT).unwrap();
    load.join().unwrap().unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("\nended early, after "), "{text}");
    assert!(text.contains("\ngood responses "), "{text}");
}
