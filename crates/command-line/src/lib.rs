//! The command line as values: commands, and one flag for each setting of the table. It does not check the settings, and
//! carries out no command.

#![forbid(unsafe_code)]

mod definition;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::error::ErrorKind;
use config::{SETTINGS, Setting};

pub use clap_complete::Shell;
pub use definition::{LAB_COMMANDS, definition};

/// A command.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// Serve an application.
    Serve(ApplicationArguments),
    /// Show the settings, and whether the application loads.
    Check(ApplicationArguments),
    /// Show a running server.
    Status {
        /// Which one.
        server: ServerArguments,
        /// As JSON, for programs.
        json: bool,
    },
    /// Have a running server load the application's code again.
    Restart(ServerArguments),
    /// Have a running server read its settings again.
    Reload(ServerArguments),
    /// Replace a running server by another program.
    Upgrade {
        /// Which one.
        server: ServerArguments,
        /// The program; by default the file that the server was started from.
        binary: Option<PathBuf>,
    },
    /// Stop a running server.
    Stop {
        /// Which one.
        server: ServerArguments,
        /// Abort running requests.
        now: bool,
    },
    /// Write a file of settings.
    Init {
        /// The application's folder; by default the current one.
        dir: Option<PathBuf>,
        /// The configuration of another server, to be translated.
        from: Option<PathBuf>,
    },
    /// Print the version.
    Version,
    /// Print the help for a topic that is no command.
    Help(String),
    /// Print the completions for a shell.
    Completion(Shell),
    /// A command of the lab, with everything that was given to it.
    Lab(Vec<OsString>),
}

/// An application and settings for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplicationArguments {
    /// The application's folder; by default the current one.
    pub dir: Option<PathBuf>,
    /// The file of settings; by default the one in the folder.
    pub config: Option<PathBuf>,
    /// Settings that were given as flags: names without leading dashes, and values.
    pub flags: Vec<(String, String)>,
}

/// A running server, by one of these; by default the server of the current folder.
#[derive(Debug, Default, PartialEq)]
pub struct ServerArguments {
    /// The application's folder.
    pub dir: Option<PathBuf>,
    /// The file of settings that it was started with.
    pub config: Option<PathBuf>,
    /// Its process.
    pub pid: Option<i32>,
    /// A UNIX socket that it listens on.
    pub socket: Option<PathBuf>,
}

/// They ask for the help itself, and are no topics.
const HELP_FLAGS: [&str; 2] = ["-h", "--help"];

/// Flags of the program itself.
const GENERAL: [&str; 4] = ["-h", "--help", "-V", "--version"];
/// A word that is no folder and differs from a command by so many edits is a mistyped command.
const MAX_EDITS: usize = 2;

/// Reads the command line, the program's own name first.
///
/// # Errors
/// What is wrong with it; or the text that `--help` and `--version` ask for.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> clap::error::Result<Command> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let word = |index: usize| arguments.get(index).and_then(|word| word.to_str());
    let first = word(1).unwrap_or_default();
    let topic = (first == "help").then(|| word(2)).flatten();
    let is_of_lab = |name: &str| LAB_COMMANDS.iter().any(|(known, _)| *known == name);
    if is_of_lab(topic.unwrap_or(first)) {
        return Ok(Command::Lab(arguments.split_off(1)));
    }
    let is_command = |name: &str| name == "help" || definition().find_subcommand(name).is_some();
    if let Some(topic) = topic.filter(|topic| !HELP_FLAGS.contains(topic) && !is_command(topic)) {
        return Ok(Command::Help(topic.to_owned()));
    }
    if !is_command(first) && !GENERAL.contains(&first) {
        refuse_mistyped(first)?;
        arguments.insert(1.min(arguments.len()), "serve".into());
    }
    let (name, mut matches) = definition()
        .try_get_matches_from(arguments)?
        .remove_subcommand()
        .expect("clap insists on a command");
    Ok(command(&name, &mut matches))
}

/// Refuses a word that is nearly a command and no folder.
fn refuse_mistyped(word: &str) -> clap::error::Result<()> {
    if word.is_empty() || word.starts_with('-') || Path::new(word).exists() {
        return Ok(());
    }
    let mut definition = definition();
    let names: Vec<&str> = definition
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    match config::nearest(word, names.iter().copied()) {
        Some((index, ..=MAX_EDITS)) => {
            let text = format!(
                "there is neither a command nor a folder {word:?}; did you mean `highball {}`?\n",
                names[index]
            );
            Err(definition.error(ErrorKind::InvalidSubcommand, text))
        }
        _ => Ok(()),
    }
}

fn command(name: &str, matches: &mut ArgMatches) -> Command {
    match name {
        "check" => Command::Check(application(matches)),
        "init" => Command::Init {
            dir: matches.remove_one("dir"),
            from: matches.remove_one("from"),
        },
        "status" => Command::Status {
            json: matches.get_flag("json"),
            server: server(matches),
        },
        "restart" => Command::Restart(server(matches)),
        "reload" => Command::Reload(server(matches)),
        "upgrade" => Command::Upgrade {
            binary: matches.remove_one("binary"),
            server: server(matches),
        },
        "stop" => Command::Stop {
            now: matches.get_flag("now"),
            server: server(matches),
        },
        "version" => Command::Version,
        "completion" => Command::Completion(shell(matches)),
        _ => Command::Serve(application(matches)),
    }
}

fn shell(matches: &mut ArgMatches) -> Shell {
    match matches.remove_one::<String>("shell").as_deref() {
        Some("zsh") => Shell::Zsh,
        Some("fish") => Shell::Fish,
        _ => Shell::Bash,
    }
}

/// Returns the completions for a shell, a script in its language.
pub fn completion(shell: Shell) -> String {
    // `serve` may be left out.
    let mut definition = definition().args(definition::flags_of_serve());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut definition, "highball", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn application(matches: &mut ArgMatches) -> ApplicationArguments {
    let port = matches.get_one::<u16>("port");
    let port = port.map(|port| ("listen".to_owned(), port.to_string()));
    let flags = SETTINGS.iter().flat_map(|setting| {
        let values = matches.get_many::<String>(setting.name).into_iter();
        values
            .flatten()
            .map(|value| (setting.flag(), value_of(setting, value)))
    });
    ApplicationArguments {
        flags: port.into_iter().chain(flags).collect(),
        dir: matches.remove_one("dir"),
        config: matches.remove_one("config"),
    }
}

/// The value of a flag. Puma's number of threads is a range, of which only the end has a meaning here.
fn value_of(setting: &Setting, value: &str) -> String {
    let end = match value.split_once(':') {
        Some((least, most)) if setting.name == "threads" => {
            match (least.parse::<u16>(), most.parse::<u16>()) {
                (Ok(least), Ok(end)) if least <= end => most,
                _ => value,
            }
        }
        _ => value,
    };
    end.to_owned()
}

fn server(matches: &mut ArgMatches) -> ServerArguments {
    ServerArguments {
        dir: matches.remove_one("dir"),
        config: matches.remove_one("config"),
        pid: matches.remove_one("pid"),
        socket: matches.remove_one("socket"),
    }
}

#[cfg(test)]
mod tests;
