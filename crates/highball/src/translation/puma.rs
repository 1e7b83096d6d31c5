//! The configuration of Puma (config/puma.rb): what each call means here. The names are those of Puma 5 to 7.

use std::path::Path;

use super::Rule::{By, Hook, NoCounterpart, NotNeeded, Path as PathOf, Same};
use super::{Entry, Meaning, Rules, Translation, environment, mode_of_umask, reasons};

pub(super) const RULES: &Rules = &[
    ("threads", By(threads)),
    ("max_threads", Same("threads")),
    (
        "min_threads",
        NotNeeded("a worker always has all its threads"),
    ),
    ("workers", By(workers)),
    ("port", By(port)),
    ("bind", By(bind)),
    ("environment", By(environment)),
    ("pidfile", PathOf("pid_file")),
    ("rackup", PathOf("rackup")),
    ("directory", NoCounterpart(reasons::FOLDER)),
    ("worker_boot_timeout", Same("boot_timeout")),
    ("worker_shutdown_timeout", Same("drain_timeout")),
    ("force_shutdown_after", By(shutdown)),
    ("persistent_timeout", Same("keep_alive_timeout")),
    ("first_data_timeout", Same("header_timeout")),
    ("http_content_length_limit", Same("max_body_bytes")),
    ("early_hints", By(early_hints)),
    (
        "log_requests",
        NotNeeded("requests are logged by default (access_log)"),
    ),
    (
        "quiet",
        By(|_| Some(Meaning::setting("access_log", "false"))),
    ),
    ("plugin", By(plugin)),
    ("preload_app!", NotNeeded(reasons::PRELOAD)),
    ("preload_app", NotNeeded(reasons::PRELOAD)),
    (
        "fork_worker",
        NotNeeded("workers are always forked from a process that has loaded the application"),
    ),
    (
        "nakayoshi_fork",
        NotNeeded("memory is collected and compacted before workers are forked (compact)"),
    ),
    (
        "worker_timeout",
        NotNeeded("workers that hang are found and replaced; request_timeout limits each request"),
    ),
    (
        "worker_check_interval",
        NotNeeded("the death of a worker is noticed at once"),
    ),
    (
        "queue_requests",
        NotNeeded("requests are always queued outside of the workers"),
    ),
    (
        "wait_for_less_busy_worker",
        NotNeeded("a request goes to a worker that has an idle thread"),
    ),
    (
        "worker_culling_strategy",
        NotNeeded("another number of workers comes with a new generation of them"),
    ),
    (
        "drain_on_shutdown",
        NoCounterpart("a stop accepts no more connections; a restart or upgrade refuses none"),
    ),
    (
        "shutdown_debug",
        NotNeeded("the log has the backtrace of each late request"),
    ),
    (
        "silence_single_worker_warning",
        NotNeeded("there is no such warning"),
    ),
    (
        "state_path",
        NotNeeded("`highball status` and `highball stop` find the server by its folder"),
    ),
    (
        "activate_control_app",
        NotNeeded("`highball status`, `restart`, `reload` and `stop` need no setting"),
    ),
    (
        "tag",
        NotNeeded("the folder is in the names of the processes"),
    ),
    ("stdout_redirect", NoCounterpart(reasons::LOG)),
    ("ssl_bind", NoCounterpart(reasons::TLS)),
    ("before_fork", Hook("before_fork")),
    ("on_worker_boot", Hook("after_fork")),
    ("before_worker_boot", Hook("after_fork")),
    ("on_worker_shutdown", Hook("before_worker_exit")),
    ("before_worker_shutdown", Hook("before_worker_exit")),
    ("out_of_band", Hook("out_of_band")),
    ("on_worker_fork", NoCounterpart(IN_TEMPLATE)),
    ("before_worker_fork", NoCounterpart(IN_TEMPLATE)),
    ("after_worker_boot", NoCounterpart(IN_TEMPLATE)),
    ("after_worker_fork", NoCounterpart(IN_TEMPLATE)),
    ("on_thread_start", NoCounterpart(NO_THREAD_HOOK)),
    ("before_thread_start", NoCounterpart(NO_THREAD_HOOK)),
    ("on_thread_exit", NoCounterpart(NO_THREAD_HOOK)),
    ("before_thread_exit", NoCounterpart(NO_THREAD_HOOK)),
    ("on_booted", NoCounterpart(NO_MAIN_PROCESS)),
    ("after_booted", NoCounterpart(NO_MAIN_PROCESS)),
    ("on_stopped", NoCounterpart(NO_MAIN_PROCESS)),
    ("after_stopped", NoCounterpart(NO_MAIN_PROCESS)),
    ("on_restart", NoCounterpart(NO_MAIN_PROCESS)),
    ("before_restart", NoCounterpart(NO_MAIN_PROCESS)),
    ("on_refork", NoCounterpart(NO_MAIN_PROCESS)),
    ("before_refork", NoCounterpart(NO_MAIN_PROCESS)),
    (
        "lowlevel_error_handler",
        NoCounterpart(
            "errors that the application does not handle are logged and answered with 500",
        ),
    ),
    (
        "raise_exception_on_sigterm",
        NoCounterpart("TERM is handled outside of Ruby, and running requests finish"),
    ),
    (
        "prune_bundler",
        NoCounterpart("each restart loads the bundle again, in a new process"),
    ),
    (
        "extra_runtime_dependencies",
        NoCounterpart("the application's bundle has all gems"),
    ),
    (
        "set_remote_address",
        NoCounterpart("trusted_proxies says whose X-Forwarded-For counts"),
    ),
    (
        "rack_url_scheme",
        NoCounterpart("X-Forwarded-Proto of a trusted proxy decides (trusted_proxies)"),
    ),
    (
        "supported_http_methods",
        NoCounterpart("the application gets every method"),
    ),
    (
        "idle_timeout",
        NoCounterpart("the server does not stop when it is idle"),
    ),
    (
        "app",
        NoCounterpart("the application is what the rackup file runs (rackup)"),
    ),
    ("load", NoCounterpart("there is one file of settings")),
    (
        "restart_command",
        NoCounterpart("`highball upgrade --binary` names another program"),
    ),
    (
        "custom_logger",
        NoCounterpart("the log is written outside of Ruby (log_format)"),
    ),
    (
        "log_formatter",
        NoCounterpart("log_format has the forms of the log"),
    ),
    ("debug", NoCounterpart(reasons::INTERNAL)),
    ("clear_binds!", NoCounterpart(reasons::INTERNAL)),
    ("max_fast_inline", NoCounterpart(reasons::INTERNAL)),
    ("max_keep_alive", NoCounterpart(reasons::INTERNAL)),
    ("max_io_threads", NoCounterpart(reasons::INTERNAL)),
    ("enable_keep_alives", By(keep_alive)),
    ("io_selector_backend", NoCounterpart(reasons::INTERNAL)),
    ("fiber_per_request", NoCounterpart(reasons::INTERNAL)),
    (
        "mutate_stdout_and_stderr_to_sync_on_write",
        NotNeeded("stdout and stderr are written at once"),
    ),
];

const IN_TEMPLATE: &str =
    "no hook runs in the loading process for one worker; before_fork runs there before each fork";
const NO_THREAD_HOOK: &str = "there is no hook for threads";
const NO_MAIN_PROCESS: &str =
    "the main process has no Ruby; a service manager can run something after the start";

/// Translates the calls of a configuration.
pub(crate) fn translate(entries: &[Entry], dir: &Path) -> Translation {
    let mut translation = Translation::of(entries, RULES, dir);
    if !translation.has("workers") {
        translation.lines.push(
            "workers is not called\n    Puma then serves from one process, Highball from a worker for each core; set workers = 1 if the \
             application needs one process"
                .to_owned(),
        );
    }
    translation
}

fn threads(entry: &Entry) -> Option<Meaning> {
    let most = entry.argument(1).or_else(|| entry.argument(0))?;
    Some(Meaning::setting("threads", most))
}

fn workers(entry: &Entry) -> Option<Meaning> {
    // Without workers, Puma is a single process.
    let number = entry.argument(0).filter(|number| number != "0");
    Some(Meaning::setting(
        "workers",
        number.as_deref().unwrap_or("1"),
    ))
}

fn port(entry: &Entry) -> Option<Meaning> {
    let port = entry.argument(0)?;
    let address = match entry.argument(1) {
        Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
        Some(host) => format!("{host}:{port}"),
        None => port,
    };
    Some(Meaning::setting("listen", address))
}

fn bind(entry: &Entry) -> Option<Meaning> {
    let url = entry.argument(0)?;
    let (address, options) = url.split_once('?').unwrap_or((&url, ""));
    if let Some(address) = address.strip_prefix("ssl://") {
        return Some(Meaning::Settings(bind_tls(address, options)));
    }
    let path = address.strip_prefix("unix://");
    let address = match path {
        Some(path) => format!("unix:{path}"),
        None => address.strip_prefix("tcp://").unwrap_or(address).to_owned(),
    };
    let mut settings = vec![("listen", vec![address])];
    for option in options.split('&') {
        match option.split_once('=') {
            Some(("umask", umask)) => {
                settings.push(("unix_socket_mode", vec![mode_of_umask(umask)?]))
            }
            Some(("mode", mode)) => {
                settings.push(("unix_socket_mode", vec![format!("{mode:0>4}")]));
            }
            Some(("backlog", backlog)) => settings.push(("backlog", vec![backlog.to_owned()])),
            _ => {}
        }
    }
    // A proxy of another user could not connect otherwise: every user may connect to Puma's socket.
    if path.is_some() && settings.len() == 1 {
        settings.push(("unix_socket_mode", vec!["0777".to_owned()]));
    }
    Some(Meaning::Settings(settings))
}

/// The settings for an address with TLS.
fn bind_tls(address: &str, options: &str) -> Vec<(&'static str, Vec<String>)> {
    let options: Vec<_> = options
        .split('&')
        .filter_map(|one| one.split_once('='))
        .collect();
    let option = |name: &str| {
        let found = options.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let mut settings = vec![("listen", vec![format!("tls://{address}")])];
    if let (Some(cert), Some(key)) = (option("cert"), option("key")) {
        settings.push(("tls_certificate_files", vec![format!("{cert}:{key}")]));
    }
    let verify = match option("verify_mode").as_deref() {
        Some("peer") => Some("optional"),
        Some("force_peer") => Some("required"),
        _ => None,
    };
    if let Some(verify) = verify {
        settings.push(("tls_client_verify", vec![verify.to_owned()]));
        settings.extend(option("ca").map(|ca| ("tls_client_ca_file", vec![ca])));
    }
    settings
}

fn shutdown(entry: &Entry) -> Option<Meaning> {
    match &*entry.argument(0)? {
        "forever" => Some(Meaning::NoCounterpart(
            "a stop waits for drain_timeout at most",
        )),
        "immediately" => Some(Meaning::setting("drain_timeout", "0")),
        seconds => Some(Meaning::setting("drain_timeout", seconds)),
    }
}

fn early_hints(entry: &Entry) -> Option<Meaning> {
    let on = entry.argument(0).unwrap_or_else(|| "true".to_owned());
    Some(Meaning::setting("early_hints", on))
}

fn keep_alive(entry: &Entry) -> Option<Meaning> {
    match &*entry.argument(0)? {
        "false" => Some(Meaning::setting("keep_alive_timeout", "0")),
        _ => Some(Meaning::NotNeeded(
            "connections are kept alive by default (keep_alive_timeout)",
        )),
    }
}

fn plugin(entry: &Entry) -> Option<Meaning> {
    Some(match &*entry.argument(0)? {
        "tmp_restart" => Meaning::NotNeeded("restart_file is tmp/restart.txt by default"),
        "solid_queue" => Meaning::NoCounterpart("run bin/jobs as a process of its own"),
        "systemd" => Meaning::NotNeeded("systemd's protocols are spoken without a setting"),
        "yabeda" | "yabeda_prometheus" => {
            Meaning::NoCounterpart("`highball status --json` has the figures")
        }
        _ => Meaning::NoCounterpart("a plugin runs inside Puma"),
    })
}
