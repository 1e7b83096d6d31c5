//! The command line as values: commands, and one flag for each setting of the table. It does not check the settings.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command as Clap, value_parser};
use config::SETTINGS;

use crate::cli::lab;

/// A command.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    /// Serve an application.
    Serve(ApplicationArguments),
    /// Show the settings, and whether the application loads.
    Check(ApplicationArguments),
    /// Show a running server.
    Status {
        /// Which one.
        server: Server,
        /// As JSON, for programs.
        json: bool,
    },
    /// Have a running server load the application's code again.
    Restart(Server),
    /// Have a running server read its settings again.
    Reload(Server),
    /// Replace a running server by another program.
    Upgrade {
        /// Which one.
        server: Server,
        /// The program; by default the file that the server was started from.
        binary: Option<PathBuf>,
    },
    /// Stop a running server.
    Stop {
        /// Which one.
        server: Server,
        /// Abort running requests.
        now: bool,
    },
    /// A command of the lab, with everything that was given to it.
    Lab(Vec<OsString>),
}

/// An application and settings for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ApplicationArguments {
    /// The application's folder; by default the current one.
    pub(crate) dir: Option<PathBuf>,
    /// The file of settings; by default the one in the folder.
    pub(crate) config: Option<PathBuf>,
    /// Settings that were given as flags: names without leading dashes, and values.
    pub(crate) flags: Vec<(String, String)>,
}

/// A running server, by one of these; by default the server of the current folder.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Server {
    /// The application's folder.
    pub(crate) dir: Option<PathBuf>,
    /// The file of settings that it was started with.
    pub(crate) config: Option<PathBuf>,
    /// Its process.
    pub(crate) pid: Option<i32>,
    /// A UNIX socket that it listens on.
    pub(crate) socket: Option<PathBuf>,
}

/// The commands, without those of the lab; any other first word is the folder or a flag of `serve`.
const COMMANDS: [&str; 8] = [
    "serve", "check", "status", "restart", "reload", "upgrade", "stop", "help",
];
/// Flags of the program itself.
const GENERAL: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// Reads the command line, the program's own name first.
///
/// # Errors
/// What is wrong with it; or the text that `--help` and `--version` ask for.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> clap::error::Result<Command> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let word = |index: usize| arguments.get(index).and_then(|word| word.to_str());
    let command_at = if word(1) == Some("help") { 2 } else { 1 };
    if word(command_at).is_some_and(|name| lab::COMMANDS.iter().any(|(known, _)| *known == name)) {
        return Ok(Command::Lab(arguments.split_off(1)));
    }
    let named =
        word(1).is_some_and(|name| COMMANDS.iter().chain(&GENERAL).any(|known| name == *known));
    if !named {
        arguments.insert(1.min(arguments.len()), "serve".into());
    }
    let (name, mut matches) = clap()
        .try_get_matches_from(arguments)?
        .remove_subcommand()
        .expect("clap insists on a command");
    Ok(match name.as_str() {
        "check" => Command::Check(application(&mut matches)),
        "status" => Command::Status {
            json: matches.get_flag("json"),
            server: server(&mut matches),
        },
        "restart" => Command::Restart(server(&mut matches)),
        "reload" => Command::Reload(server(&mut matches)),
        "upgrade" => Command::Upgrade {
            binary: matches.remove_one("binary"),
            server: server(&mut matches),
        },
        "stop" => Command::Stop {
            now: matches.get_flag("now"),
            server: server(&mut matches),
        },
        _ => Command::Serve(application(&mut matches)),
    })
}

fn clap() -> Clap {
    let dir = Arg::new("dir")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .help("The application's folder [default: the current folder]");
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf));
    let own_config = config.clone().help(
        "The file of settings [default: highball.toml or config/highball.toml, if it exists]",
    );
    let serve = Clap::new("serve")
        .about("Serve an application; the default command")
        .arg(dir.clone())
        .arg(own_config.clone())
        .args(settings());
    let check = Clap::new("check")
        .about("Show the settings, load the application once, and report what is wrong")
        .arg(dir.clone())
        .arg(own_config)
        .args(settings());
    let targets = [
        dir,
        config.help("The file of settings that the server was started with"),
        Arg::new("pid")
            .long("pid")
            .value_name("PID")
            .value_parser(value_parser!(i32).range(1..))
            .help("The server's process"),
        Arg::new("socket")
            .long("socket")
            .value_name("PATH")
            .value_parser(value_parser!(PathBuf))
            .help("A UNIX socket that the server listens on"),
    ];
    let target_names = ["dir", "config", "pid", "socket"];
    let targets = targets.map(|target| {
        let own = target.get_id().clone();
        target.conflicts_with_all(target_names.iter().filter(|name| own != **name))
    });
    let status = Clap::new("status")
        .about("Show a running server: processes, threads, queue and counters")
        .args(targets.clone())
        .arg(switch("json", "Print JSON"));
    let restart = Clap::new("restart")
        .about("Load the application's code again and wait until it serves; if it fails, the old code keeps serving")
        .args(targets.clone());
    let reload = Clap::new("reload")
        .about("Read the settings again: applies what it can in place and replaces workers for the rest; a wrong file changes nothing")
        .args(targets.clone());
    let binary = Arg::new("binary")
        .long("binary")
        .value_name("PATH")
        .value_parser(value_parser!(PathBuf))
        .help("The program to start [default: the file that the server was started from]");
    let upgrade = Clap::new("upgrade")
        .about("Replace a running server by a new highball without refusing a connection; if it fails, the old one keeps serving")
        .args(targets.clone())
        .arg(binary);
    let stop = Clap::new("stop")
        .about("Stop gracefully and wait until the server has exited")
        .args(targets)
        .arg(switch("now", "Abort running requests"));
    // Only for the list of commands: their arguments are read by the lab.
    let lab = lab::COMMANDS.map(|(name, about)| Clap::new(name).about(about));
    Clap::new("highball")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .subcommands([serve, check, status, restart, reload, upgrade, stop])
        .subcommands(lab)
        .about("An application server for Ruby, and the lab that compares it on your own application")
        .after_help("`highball DIR` is short for `highball serve DIR`; see `highball serve --help` for its flags")
}

fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
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
        match long.is_empty() {
            true => arg,
            false => arg.long_help(format!("{}\n\n{long}", setting.help())),
        }
    })
}

fn application(matches: &mut ArgMatches) -> ApplicationArguments {
    let flags = SETTINGS.iter().flat_map(|setting| {
        let values = matches.get_many::<String>(setting.name).into_iter();
        values
            .flatten()
            .map(|value| (setting.flag(), value.clone()))
    });
    ApplicationArguments {
        flags: flags.collect(),
        dir: matches.remove_one("dir"),
        config: matches.remove_one("config"),
    }
}

fn server(matches: &mut ArgMatches) -> Server {
    Server {
        dir: matches.remove_one("dir"),
        config: matches.remove_one("config"),
        pid: matches.remove_one("pid"),
        socket: matches.remove_one("socket"),
    }
}

#[cfg(test)]
mod tests;
