//! The definition of the command line: commands, arguments and their help. From it come the parser, `--help`, completions for
//! shells and the man pages. It reads no command line.

use clap::{Arg, ArgGroup, Command, ValueHint, value_parser};

use crate::arguments::{dir, own_config, path, port, settings, switch, targets, text};
use crate::experiment::definition as experiment;

/// The commands of the lab, a program of its own, and what each does.
pub const LAB_COMMANDS: [(&str, &str); 5] = [
    ("load", "Drive a URL with requests and say what came of it"),
    (
        "compare",
        "Run an application under several stacks and say which is better, by how much, and how sure that is",
    ),
    (
        "diff",
        "Compare the results of two comparisons, such as before and after a change",
    ),
    (
        "study",
        "Run one of five studies of 2006 to 2014 on software of today, or list them",
    ),
    (
        "stacks",
        "What can be compared here: installed, in which version, or how to install it",
    ),
];

/// More requests a second are not planned for.
const MAX_PLANNED_RATE: f64 = 1e6;

/// Where each shell looks for them.
const COMPLETION_FILES: &str = "\
bash  highball completion bash > ~/.local/share/bash-completion/completions/highball
zsh   highball completion zsh > ~/.zfunc/_highball, with fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc
fish  highball completion fish > ~/.config/fish/completions/highball.fish";

/// The shells that there are completions for.
pub(crate) const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Returns the definition of the whole command line.
pub fn definition() -> Command {
    // Only for the list of commands: their arguments are read by the lab.
    let lab = LAB_COMMANDS.map(|(name, about)| Command::new(name).about(about));
    Command::new("highball")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .subcommands(commands_for_applications())
        .subcommands(commands_for_servers())
        .subcommands(commands_for_observers())
        .subcommands(commands_for_people())
        .subcommands(lab)
        .about("An application server for Ruby, and the lab that compares it on your own application")
        .after_help(
            "`highball DIR` is short for `highball serve DIR`; `highball serve --help` lists its flags.\n\
             `highball help settings`, `highball help signals` and `highball help NAME` (of a setting) say more.",
        )
}

/// Returns the flags of `serve`, for those who leave the command out.
pub(crate) fn flags_of_serve() -> impl Iterator<Item = Arg> {
    [own_config(), port()].into_iter().chain(settings())
}

fn commands_for_applications() -> [Command; 3] {
    let serve = Command::new("serve")
        .about("Serve an application; the default command")
        .arg(dir())
        .args(flags_of_serve());
    let check = Command::new("check")
        .about("Show the settings, load the application once, and report what is wrong")
        .arg(dir())
        .args(flags_of_serve());
    let from = path("from").value_hint(ValueHint::FilePath).help(
        "The configuration to translate: config/puma.rb, config/unicorn.rb or Passengerfile.json",
    );
    let init = Command::new("init")
        .about("Write highball.toml, with every setting as a comment or translated from another server")
        .arg(dir())
        .arg(from);
    [serve, check, init]
}

fn commands_for_servers() -> [Command; 15] {
    let status = Command::new("status")
        .about("Show a running server: processes, threads, queue and counters")
        .args(targets())
        .arg(switch("json", "Print JSON"))
        .arg(watch());
    let dashboard = Command::new("dashboard")
        .about("Open a page with live figures of a running server on an address of this machine, until Ctrl-C")
        .args(targets());
    let certificates = Command::new("certificates")
        .about("Show the certificates that the server orders by itself, and why an order failed")
        .args(targets())
        .arg(switch("json", "Print JSON"));
    let restart = Command::new("restart")
        .about("Load the application's code again and wait until it serves; if it fails, the old code keeps serving")
        .args(targets())
        .arg(text(
            "application",
            "NAME",
            "The application, where the server has several [default: all, one after the other]",
        ));
    let reload = Command::new("reload")
        .about("Read the settings again: applies what it can in place and replaces workers for the rest; a wrong file changes nothing")
        .args(targets());
    let binary = path("binary")
        .value_name("PATH")
        .value_hint(ValueHint::ExecutablePath)
        .help("The program to start [default: the file that the server was started from]");
    let upgrade = Command::new("upgrade")
        .about("Replace a running server by a new highball without refusing a connection; if it fails, the old one keeps serving")
        .args(targets())
        .arg(binary);
    let stop = Command::new("stop")
        .about("Stop gracefully and wait until the server has exited")
        .args(targets())
        .arg(switch("now", "Abort running requests"));
    [
        status,
        memory(),
        top(),
        dashboard,
        exceptions(),
        certificates,
        restart,
        scale(),
        log_level(),
        refork(),
        reload,
        upgrade,
        stop,
        maintenance(),
        purge(),
    ]
}

fn scale() -> Command {
    let workers = Arg::new("workers")
        .value_name("WORKERS")
        .required(true)
        .value_parser(|text: &str| match text.parse::<u16>() {
            _ if text == "default" => Ok(text.to_owned()),
            Ok(1..) => Ok(text.to_owned()),
            _ => Err("a number from 1, or default for the setting workers"),
        })
        .help("How many workers there shall be, at most max_workers; default: as the setting workers says");
    Command::new("scale")
        .about("Use another number of workers, without a restart, until the setting workers changes or the server stops")
        .arg(workers)
        .args(targets())
        .arg(text(
            "application",
            "NAME",
            "The application, where the server has several",
        ))
}

fn log_level() -> Command {
    let level = Arg::new("level")
        .value_name("LEVEL")
        .required(true)
        .value_parser(["info", "warn", "error", "default"])
        .help("The least level that is written; default: as the setting log_level says");
    Command::new("log-level")
        .about("Write more or fewer of the server's own lines, at once, until the setting log_level changes or the server stops")
        .arg(level)
        .args(targets())
}

fn refork() -> Command {
    Command::new("refork")
        .about("Fork a new template from the worker with the most requests, and replace all workers by ones that share its memory")
        .args(targets())
        .arg(text(
            "application",
            "NAME",
            "The application, where the server has several [default: all, one after the other]",
        ))
}

fn exceptions() -> Command {
    Command::new("exceptions")
        .about("Show the exceptions of the application in groups, or one group with its samples")
        .args(targets())
        .arg(text(
            "group",
            "ID",
            "The group that is shown with its samples, by its id or the beginning of it",
        ))
        .arg(switch("json", "Print JSON"))
}

fn memory() -> Command {
    Command::new("memory")
        .about("Show what each process of a running server holds in memory, and what sharing saves")
        .after_help(
            "PSS divides each page among the processes that share it: the sum is what the server holds.\n\
             private is what the end of a process would give back, with what is swapped out.\n\
             shared is what other processes have as well; RSS is both, resident pages only.\n\
             grown is how much private memory a worker has gained since it became ready: a leak shows here.\n\
             The kernel takes milliseconds to tell the memory of a large process.",
        )
        .args(targets())
        .arg(
            switch("all", "Show every server of your user; root's command shows those of all users")
                .conflicts_with_all(["dir", "config", "pid", "socket"]),
        )
        .arg(switch("json", "Print JSON, in bytes"))
}

/// Commands that show where the server's time goes.
fn commands_for_observers() -> [Command; 6] {
    let number = Arg::new("number")
        .value_name("N")
        .help("Number of a request in that list: shows where it spent its time");
    let slow = Command::new("slow")
        .about("List the slowest requests of the last hour (setting slow_request), or show where one spent its time")
        .arg(number)
        .args(targets())
        .args([svg(), speedscope(), switch("json", "Print JSON")])
        .arg(of_application());
    let seconds = text("seconds", "SECONDS", "How long to sample")
        .value_parser(value_parser!(u32).range(1..=300))
        .default_value("10");
    let time = "Which time counts: cpu, that of computing; wall, also that of waiting";
    let mode = text("mode", "MODE", time)
        .value_parser(["cpu", "wall"])
        .default_value("cpu");
    let profile = Command::new("profile")
        .about("Sample one worker while it serves, and show which methods take its time")
        .args(targets())
        .args([seconds, mode, worker()])
        .args([svg(), speedscope(), switch("json", "Print JSON")])
        .arg(of_application());
    let backtraces = Command::new("backtraces")
        .about("Show where all threads of all workers are now")
        .args(targets())
        .args([worker(), switch("json", "Print JSON")])
        .arg(of_application());
    let gc = Command::new("gc")
        .about("Show the figures of each worker's garbage collector")
        .args(targets())
        .args([worker(), switch("json", "Print JSON")])
        .arg(of_application());
    [slow, profile, backtraces, gc, plan(), experiment()]
}

fn plan() -> Command {
    let rate = text(
        "rate",
        "N",
        "Requests a second [default: as many as come now, counted for 5 seconds]",
    )
    .value_parser(|text: &str| match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= MAX_PLANNED_RATE => Ok(rate),
        _ => Err("a number above 0, at most 1000000"),
    });
    let p99 = text(
        "p99",
        "DURATION",
        "The target, such as 200ms: 99 of 100 requests have their response within this time",
    )
    .value_parser(|text: &str| match config::parse_time(text) {
        Some(time) if !time.is_zero() => Ok(time),
        _ => Err("a time such as 200ms or 2s"),
    });
    let few = |name, help| text(name, "N", help).value_parser(value_parser!(u16).range(1..=256));
    Command::new("plan")
        .about("Say how many workers and threads the application needs for a load, from what the running server has recorded")
        .args(targets())
        .args([
            rate,
            p99,
            few("workers", "So many workers [default: as few as meet the target]"),
            few("threads", "So many threads of each worker [default: several numbers are tried]"),
            few("cores", "Cores for the workers [default: those that the server may use]"),
            switch("json", "Print JSON"),
        ])
        .arg(text(
            "application",
            "NAME",
            "The application, where the server has several",
        ))
}

fn of_application() -> Arg {
    text(
        "application",
        "NAME",
        "The application, where the server has several [default: all]",
    )
}

fn worker() -> Arg {
    Arg::new("worker")
        .long("worker")
        .value_name("N")
        .value_parser(value_parser!(u16))
        .help("Number of a worker, as `highball status` shows it")
}

fn svg() -> Arg {
    path("svg")
        .value_hint(ValueHint::FilePath)
        .help("Write a flame graph")
}

fn speedscope() -> Arg {
    path("speedscope")
        .value_hint(ValueHint::FilePath)
        .help("Write a file for https://www.speedscope.app")
}

fn top() -> Command {
    Command::new("top")
        .about("Watch a running server in the terminal: requests, queue, threads, workers and memory")
        .after_help(
            "Keys: q or Ctrl-C quits, p or space pauses, t shows routes in place of workers, s sorts by the next column,\n\
             r reverses the order, a shows the next application, h shows the keys, up and down scroll.\n\
             Without a terminal use `highball status --watch` or `highball status --json`.",
        )
        .args(targets())
        .arg(seconds("interval").default_value("1").help("Seconds between two readings of the status"))
}

/// A flag whose value is a number of seconds.
fn seconds(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("SECONDS")
        .value_parser(value_parser!(u16).range(1..=3600))
}

fn watch() -> Arg {
    seconds("watch")
        .num_args(0..=1)
        .default_missing_value("2")
        .conflicts_with("json")
        .help("Show it again and again until q or Ctrl-C is pressed [default: every 2 seconds]")
}

fn maintenance() -> Command {
    let message = Arg::new("message")
        .long("message")
        .value_name("TEXT")
        .help("What clients are shown [default: the page 503.html of error_pages]");
    Command::new("maintenance")
        .about("Answer requests with 503 while you work on the application: writes and removes the file of the setting maintenance_file")
        .arg(
            Arg::new("state")
                .value_parser(["on", "off", "status"])
                .required(true),
        )
        .arg(dir())
        .arg(own_config())
        .arg(message)
}

fn purge() -> Command {
    Command::new("purge")
        .about("Forget stored responses of the response cache (setting cache_bytes)")
        .args(targets())
        .arg(text(
            "url",
            "URL",
            "One URL, or a path with its query for all hosts",
        ))
        .arg(text("prefix", "URL", "All URLs that begin so"))
        .arg(text(
            "tag",
            "TAG",
            "All responses with this word in Cache-Tag or Surrogate-Key",
        ))
        .arg(switch("all", "All"))
        .group(
            ArgGroup::new("what")
                .args(["url", "prefix", "tag", "all"])
                .required(true),
        )
}

fn commands_for_people() -> [Command; 2] {
    let shell = Arg::new("shell").value_parser(SHELLS).required(true);
    let completion = Command::new("completion")
        .about("Print the completions for a shell")
        .after_help(COMPLETION_FILES)
        .arg(shell);
    [
        Command::new("version").about("Print the version"),
        completion,
    ]
}
