//! Arguments that several commands have, and one flag for each setting. It defines no command.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ValueHint, value_parser};
use config::SETTINGS;

pub(crate) fn dir() -> Arg {
    Arg::new("dir")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::DirPath)
        .help("The application's folder [default: the current folder]")
}

/// A flag whose value is a path.
pub(crate) fn path(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
}

pub(crate) fn config() -> Arg {
    path("config").short('C').value_hint(ValueHint::FilePath)
}

pub(crate) fn own_config() -> Arg {
    config()
        .help("The file of settings [default: highball.toml or config/highball.toml, if it exists]")
}

/// The arguments that name a running server; only one of them may be given.
pub(crate) fn targets() -> impl Iterator<Item = Arg> {
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

pub(crate) fn text(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

pub(crate) fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

/// The port alone; `listen` is the setting.
pub(crate) fn port() -> Arg {
    Arg::new("port")
        .short('p')
        .long("port")
        .value_name("PORT")
        .value_parser(value_parser!(u16))
        .help("The port to listen on: short for --listen PORT")
        .help_heading("Listeners")
}

pub(crate) fn settings() -> impl Iterator<Item = Arg> {
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
