//! The configuration of Passenger in its standalone form (Passengerfile.json): what each key means here.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::Rule::{By, NoCounterpart, NotNeeded, Path as PathOf, Same};
use super::{Entry, Meaning, Rules, Translation, environment, reasons};

pub(super) const RULES: &Rules = &[
    ("environment", By(environment)),
    ("ruby", Same("ruby")),
    ("user", Same("user")),
    ("port", NotNeeded(WITH_ADDRESS)),
    ("address", NotNeeded(WITH_ADDRESS)),
    ("socket_file", By(socket)),
    ("max_pool_size", Same("workers")),
    ("min_instances", NotNeeded("all workers run all the time")),
    ("thread_count", Same("threads")),
    (
        "concurrency_model",
        NotNeeded("threads says how many requests a worker runs at a time"),
    ),
    ("max_requests", By(without_zero)),
    ("max_request_time", Same("request_timeout")),
    ("max_request_queue_size", Same("queue_limit")),
    ("memory_limit", By(memory)),
    ("start_timeout", Same("boot_timeout")),
    ("startup_file", PathOf("rackup")),
    ("pid_file", PathOf("pid_file")),
    ("spawn_method", NotNeeded(reasons::PRELOAD)),
    ("preload_bundler", NotNeeded(reasons::PRELOAD)),
    ("log_file", NoCounterpart(reasons::LOG)),
    (
        "log_level",
        NoCounterpart("log_level is info, warn or error here, and everything is logged by default"),
    ),
    ("daemonize", NoCounterpart(reasons::FOREGROUND)),
    ("ssl", NoCounterpart(reasons::TLS)),
    ("ssl_certificate", NoCounterpart(reasons::TLS)),
    ("ssl_certificate_key", NoCounterpart(reasons::TLS)),
    ("ssl_port", NoCounterpart(reasons::TLS)),
    (
        "envvars",
        NoCounterpart("set variables where the server is started, such as Environment= of systemd"),
    ),
    (
        "static_files_dir",
        NoCounterpart(
            "Highball serves no files by itself; Rails does with public_file_server.enabled",
        ),
    ),
    (
        "restart_dir",
        NotNeeded("restart_file is tmp/restart.txt by default"),
    ),
    ("friendly_error_pages", NoCounterpart(reasons::INTERNAL)),
    (
        "load_shell_envvars",
        NoCounterpart("the environment is that of the server"),
    ),
    ("app_type", NoCounterpart("Highball serves Ruby")),
    (
        "max_pool_idle_time",
        NotNeeded("all workers run all the time"),
    ),
    ("pool_idle_time", NotNeeded("all workers run all the time")),
    (
        "max_preloader_idle_time",
        NotNeeded("the loading process stays"),
    ),
    (
        "resist_deployment_errors",
        NotNeeded("after a restart that fails, the old code serves on"),
    ),
    ("rolling_restarts", By(rolling)),
    (
        "sticky_sessions",
        NoCounterpart("any worker serves any client"),
    ),
    (
        "disable_security_update_check",
        NotNeeded("Highball sends no data about itself"),
    ),
    (
        "disable_anonymous_telemetry",
        NotNeeded("Highball sends no data about itself"),
    ),
    ("engine", NoCounterpart(reasons::INTERNAL)),
    (
        "instance_registry_dir",
        NotNeeded("`highball status` finds the server by its folder"),
    ),
];

const WITH_ADDRESS: &str = "see listen";

/// Translates the text of a Passengerfile.json.
///
/// # Errors
/// It is not a JSON object.
pub(crate) fn translate(text: &str, dir: &Path) -> Result<Translation> {
    let keys: Map<String, Value> = serde_json::from_str(text).context("not a JSON object")?;
    let entries: Vec<Entry> = keys
        .iter()
        .map(|(name, value)| entry(name, value))
        .collect();
    let mut translation = Translation::of(&entries, RULES, dir);
    if let Some(address) = address(&keys) {
        translation.lines.push(format!(
            "port and address\n    listen = {}",
            address.escape_debug()
        ));
        translation.set("listen", vec![address]);
    }
    Ok(translation)
}

fn entry(name: &str, value: &Value) -> Entry {
    Entry {
        name: name.to_owned(),
        arguments: vec![value.clone()],
        line: None,
        block: false,
    }
}

/// The address of a server that has no socket file: all interfaces and port 3000 by default.
fn address(keys: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| {
        keys.get(name)
            .and_then(|value| entry(name, value).argument(0))
    };
    let (address, port) = (text("address"), text("port"));
    if address.is_none() && port.is_none() {
        return None;
    }
    let port = port.unwrap_or_else(|| "3000".to_owned());
    Some(match address {
        Some(address) if address.contains(':') && !address.starts_with('[') => {
            format!("[{address}]:{port}")
        }
        Some(address) => format!("{address}:{port}"),
        None => port,
    })
}

fn socket(entry: &Entry) -> Option<Meaning> {
    let path = entry.argument(0)?;
    Some(Meaning::Settings(vec![
        ("listen", vec![format!("unix:{path}")]),
        // Every user may connect to Passenger's.
        ("unix_socket_mode", vec!["0777".to_owned()]),
    ]))
}

fn without_zero(entry: &Entry) -> Option<Meaning> {
    match &*entry.argument(0)? {
        "0" => Some(Meaning::NotNeeded("there is no limit by default")),
        number => Some(Meaning::setting("worker_max_requests", number)),
    }
}

/// Passenger counts in MB, of 1024 KB each.
fn memory(entry: &Entry) -> Option<Meaning> {
    match &*entry.argument(0)? {
        "0" => Some(Meaning::NotNeeded("there is no limit by default")),
        megabytes => Some(Meaning::setting(
            "worker_max_memory",
            format!("{megabytes}MiB"),
        )),
    }
}

fn rolling(entry: &Entry) -> Option<Meaning> {
    match &*entry.argument(0)? {
        "true" => Some(Meaning::setting("rollout", "worker-by-worker")),
        _ => Some(Meaning::NotNeeded(
            "rollout is all-at-once by default, and no request is lost",
        )),
    }
}
