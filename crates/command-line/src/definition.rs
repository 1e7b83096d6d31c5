//! The definition of the command line: commands, arguments and their help. From it come the parser, `--help`, completions for
//! shells and the man pages. It reads no command line.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, ValueHint, value_parser};
use config::SETTINGS;

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

fn commands_for_servers() -> [Command; 5] {
    let status = Command::new("status")
        .about("Show a running server: processes, threads, queue and counters")
        .args(targets())
        .arg(switch("json", "Print JSON"));
    let restart = Command::new("restart")
        .about("Load the application's code again and wait until it serves; if it fails, the old code keeps serving")
        .args(targets());
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
    [status, restart, reload, upgrade, stop]
}

fn commands_for_people() -> [Command; 2] {
    let shell = Arg::new("shell").value_parser(SHELLS).required(true);
    let completion = Command::new("completion")
        .about("Print the completions for a shell")
        .after_help("For bash: highball completion bash > ~/.local/share/bash-completion/completions/highball")
        .arg(shell);
    [
        Command::new("version").about("Print the version"),
        completion,
    ]
}

fn dir() -> Arg {
    Arg::new("dir")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::DirPath)
        .help("The application's folder [default: the current folder]")
}

/// A flag whose value is a path.
fn path(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
}

fn config() -> Arg {
    path("config").short('C').value_hint(ValueHint::FilePath)
}

fn own_config() -> Arg {
    config()
        .help("The file of settings [default: highball.toml or config/highball.toml, if it exists]")
}

/// The arguments that name a running server; only one of them may be given.
fn targets() -> impl Iterator<Item = Arg> {
    let targets = [
        dir(),
        config().help("The file of settings that the server was started with"),
        Arg::new("pid")
            .long("pid")
            .value_name("PID")
            .value_parser(value_parser!(i32).range(1..))
            .help("The server's process"),
        path("socket")
            .value_name("PATH")
            .value_hint(ValueHint::FilePath)
            .help("A UNIX socket that the server listens on"),
    ];
    let names = ["dir", "config", "pid", "socket"];
    targets.into_iter().map(move |target| {
        let own = target.get_id().clone();
        target.conflicts_with_all(names.iter().filter(|name| own != **name))
    })
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

/// The port alone; `listen` is the setting.
fn port() -> Arg {
    Arg::new("port")
        .short('p')
        .long("port")
        .value_name("PORT")
        .value_parser(value_parser!(u16))
        .help("The port to listen on: short for --listen PORT")
        .help_heading("Listeners")
}

fn settings() -> impl Iterator<Item = Arg> {
    SETTINGS.iter().map(|setting| {
        let action = match setting.is_list() {
            true => ArgAction::Append,
            false => ArgAction::Set,
        };
        let long = setting.long();
        let arg = Arg::new(setting.name)
            .long(setting.flag())
            .value_name(setting.value_name())
            .action(action)
            .help(setting.help())
            .help_heading(setting.category);
        let arg = match setting.short_flag() {
            Some(short) => arg.short(short),
            None => arg,
        };
        match long.is_empty() {
            true => arg,
            false => arg.long_help(format!("{}\n\n{long}", setting.help())),
        }
    })
}
