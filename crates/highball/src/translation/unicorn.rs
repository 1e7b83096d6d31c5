//! The configuration of Unicorn (config/unicorn.rb): what each call means here.

use std::path::Path;

use serde_json::Value;

use super::Rule::{By, Hook, NoCounterpart, NotNeeded, Path as PathOf, Same};
use super::{Entry, Meaning, Rules, Translation, mode_of_umask, reasons};

pub(super) const RULES: &Rules = &[
    ("worker_processes", Same("workers")),
    ("listen", By(listen)),
    ("timeout", Same("request_timeout")),
    ("pid", PathOf("pid_file")),
    ("user", By(user)),
    ("working_directory", NoCounterpart(reasons::FOLDER)),
    ("preload_app", NotNeeded(reasons::PRELOAD)),
    ("before_fork", Hook("before_fork")),
    ("after_fork", Hook("after_fork")),
    ("after_worker_ready", Hook("after_fork")),
    (
        "after_worker_exit",
        NoCounterpart("the main process has no Ruby; the log says how a worker ended"),
    ),
    (
        "before_exec",
        NoCounterpart(
            "the main process has no Ruby; each restart and upgrade reads the Gemfile again",
        ),
    ),
    ("early_hints", Same("early_hints")),
    (
        "check_client_connection",
        NotNeeded("a request whose client has left is never run"),
    ),
    (
        "rewindable_input",
        NotNeeded("a request is read completely before it is run"),
    ),
    (
        "client_body_buffer_size",
        NotNeeded("up to 64 KiB of a body stay in memory"),
    ),
    (
        "logger",
        NoCounterpart("the log is written outside of Ruby (log_format)"),
    ),
    ("stderr_path", NoCounterpart(reasons::LOG)),
    ("stdout_path", NoCounterpart(reasons::LOG)),
    (
        "default_middleware",
        NoCounterpart("the application runs as the rackup file says"),
    ),
    ("worker_exec", NoCounterpart("workers are forked")),
];

/// Translates the calls of a configuration.
pub(crate) fn translate(entries: &[Entry], dir: &Path) -> Translation {
    let mut translation = Translation::of(entries, RULES, dir);
    translation
        .settings
        .push(("threads".to_owned(), vec!["1".to_owned()]));
    translation.lines.push(
        "a worker of Unicorn runs one request at a time\n    threads = 1; more need an application that may be run by several threads"
            .to_owned(),
    );
    translation
}

fn listen(entry: &Entry) -> Option<Meaning> {
    let address = entry.argument(0)?;
    let is_path = address.starts_with('/') || address.starts_with('~');
    let path = address
        .strip_prefix("unix:")
        .or_else(|| is_path.then_some(&*address));
    let mut settings = match path {
        Some(path) => vec![("listen", vec![format!("unix:{path}")])],
        // `*:8080` is every interface.
        None => vec![("listen", vec![address.trim_start_matches("*:").to_owned()])],
    };
    if path.is_some() {
        // The umask of Unicorn's sockets is 0 by default.
        let umask = entry.option("umask").and_then(Value::as_u64).unwrap_or(0);
        settings.push((
            "unix_socket_mode",
            vec![mode_of_umask(&format!("{umask:o}"))?],
        ));
    }
    if let Some(backlog) = entry.option("backlog").and_then(Value::as_u64) {
        settings.push(("backlog", vec![backlog.to_string()]));
    }
    Some(Meaning::Settings(settings))
}

fn user(entry: &Entry) -> Option<Meaning> {
    let mut settings = vec![("user", vec![entry.argument(0)?])];
    settings.extend(entry.argument(1).map(|group| ("group", vec![group])));
    Some(Meaning::Settings(settings))
}
