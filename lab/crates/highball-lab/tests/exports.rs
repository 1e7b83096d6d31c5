//! `highball load --export` from the command line to the files, against a small server. What stands in the files is
//! tested with the formats.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::fs;
use std::process::ExitCode;

use clap::Parser as _;
use highball_lab::command::{Command, run};
use serde_json::Value;

use server::serve;

#[allow(dead_code, reason = "the other tests of the load command use the rest")]
#[path = "load_command/server.rs"]
mod server;

#[derive(clap::Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

fn load(words: &[&str]) -> anyhow::Result<ExitCode> {
    let words = ["highball", "load", "--quiet"].iter().chain(words);
    run(Line::try_parse_from(words)?.command)
}

#[test]
fn one_load_is_exported_to_each_tool_that_was_named() {
    let (address, _) = serve();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let export = |kind: &str| format!("--export={kind}={}", path(kind).display());
    load(&[
        &format!("http://{address}/page?a=b"),
        "-n",
        "40",
        "-c",
        "2",
        &export("hdr"),
        &export("k6"),
        &export("jmeter"),
        &format!("--output={}", path("text").display()),
    ])
    .unwrap();
    let read = |name: &str| fs::read_to_string(path(name)).unwrap();
    assert!(read("text").contains("good responses"));
    let hdr = read("hdr");
    let intervals = hdr.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(intervals.count(), 1, "{hdr}");
    let summary: Value = serde_json::from_str(&read("k6")).unwrap();
    assert_eq!(summary["metrics"]["http_reqs"]["count"], 40);
    assert_eq!(summary["metrics"]["http_req_failed"]["passes"], 0);
    let jmeter = read("jmeter");
    let requests = jmeter.lines().skip(1);
    let good = |line: &&str| line.contains(",GET /page?a=b,200,OK,") && line.contains(",true,");
    assert_eq!(requests.filter(good).count(), 40, "{jmeter}");
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_before_the_load() {
    let (address, log) = serve();
    let url = format!("http://{address}/");
    let error = load(&[&url, "-n", "5", "--export=k6=/nonexistent/summary.json"]).unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("can't write to /nonexistent/summary.json"),
        "{text}"
    );
    assert!(log.lock().unwrap().is_empty());
}
