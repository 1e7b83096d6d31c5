//! From clap's matches to a command. It reads nothing else.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;
use clap_complete::Shell;
use config::{SETTINGS, Setting};

use crate::commands::{
    ApplicationArguments, Command, MaintenanceArguments, MaintenanceState, ProfileMode, Purge,
};
use crate::experiment;
use crate::server_arguments::{ExperimentArguments, PlanArguments, ServerArguments, ViewArguments};

fn purge(matches: &mut ArgMatches) -> Purge {
    let mut text = |name: &str| matches.remove_one::<String>(name);
    let url = text("url").map(Purge::Url);
    let prefix = text("prefix").map(Purge::Prefix);
    let tag = text("tag").map(Purge::Tag);
    url.or(prefix).or(tag).unwrap_or(Purge::All)
}

/// Returns the command of this name.
pub(crate) fn command(name: &str, matches: &mut ArgMatches) -> Command {
    match name {
        "check" => Command::Check(application(matches)),
        "init" => Command::Init {
            dir: matches.remove_one("dir"),
            from: matches.remove_one("from"),
        },
        "status" => Command::Status {
            json: matches.get_flag("json"),
            watch: seconds(matches, "watch"),
            server: server(matches),
        },
        "exceptions" => Command::Exceptions {
            group: matches.remove_one("group"),
            json: matches.get_flag("json"),
            server: server(matches),
        },
        "memory" => Command::Memory {
            all: matches.get_flag("all"),
            json: matches.get_flag("json"),
            server: server(matches),
        },
        "dashboard" => Command::Dashboard(server(matches)),
        "top" => Command::Top {
            interval: seconds(matches, "interval").expect("it has a default"),
            server: server(matches),
        },
        "certificates" => Command::Certificates {
            json: matches.get_flag("json"),
            server: server(matches),
        },
        "restart" => Command::Restart {
            server: server(matches),
            application: matches.get_one("application").cloned(),
        },
        "scale" => Command::Scale {
            workers: matches
                .remove_one::<String>("workers")
                .and_then(|workers| workers.parse().ok()),
            application: matches.remove_one("application"),
            server: server(matches),
        },
        "log-level" => Command::LogLevel {
            level: matches.remove_one("level").unwrap_or_default(),
            server: server(matches),
        },
        "refork" => Command::Refork {
            application: matches.remove_one("application"),
            server: server(matches),
        },
        "reload" => Command::Reload(server(matches)),
        "upgrade" => Command::Upgrade {
            binary: matches.remove_one("binary"),
            server: server(matches),
        },
        "stop" => Command::Stop {
            now: matches.get_flag("now"),
            server: server(matches),
        },
        "slow" => slow(matches),
        "profile" => Command::Profile {
            seconds: matches.remove_one("seconds").unwrap_or_default(),
            mode: profile_mode(matches),
            view: view(matches),
        },
        "backtraces" => Command::Backtraces(view(matches)),
        "gc" => Command::Gc(view(matches)),
        "plan" => Command::Plan(plan(matches)),
        "experiment" => Command::Experiment(experiment(matches)),
        "maintenance" => Command::Maintenance(maintenance(matches)),
        "purge" => Command::Purge {
            what: purge(matches),
            server: server(matches),
        },
        "version" => Command::Version,
        "completion" => Command::Completion(shell(matches)),
        _ => Command::Serve(application(matches)),
    }
}

fn profile_mode(matches: &ArgMatches) -> ProfileMode {
    match matches.get_one::<String>("mode").map(String::as_str) {
        Some("wall") => ProfileMode::Wall,
        _ => ProfileMode::Cpu,
    }
}

/// The number may be left out, and then the folder comes first.
fn slow(matches: &mut ArgMatches) -> Command {
    let first = matches.remove_one::<String>("number");
    let mut view = view(matches);
    let number = first.as_ref().and_then(|word| word.parse().ok());
    if number.is_none() && view.server.dir.is_none() {
        view.server.dir = first.map(PathBuf::from);
    }
    Command::Slow { view, number }
}

/// Arguments that the command does not have are none.
fn view(matches: &mut ArgMatches) -> ViewArguments {
    ViewArguments {
        application: matches.remove_one("application"),
        worker: matches.try_remove_one("worker").ok().flatten(),
        svg: matches.try_remove_one("svg").ok().flatten(),
        speedscope: matches.try_remove_one("speedscope").ok().flatten(),
        json: matches.get_flag("json"),
        server: server(matches),
    }
}

fn plan(matches: &mut ArgMatches) -> PlanArguments {
    PlanArguments {
        application: matches.remove_one("application"),
        rate: matches.remove_one("rate"),
        p99: matches.remove_one("p99"),
        workers: matches.remove_one("workers"),
        threads: matches.remove_one("threads"),
        cores: matches.remove_one("cores"),
        json: matches.get_flag("json"),
        server: server(matches),
    }
}

fn experiment(matches: &mut ArgMatches) -> ExperimentArguments {
    ExperimentArguments {
        action: experiment::action(matches),
        application: matches.remove_one("application"),
        json: matches.get_flag("json"),
        server: server(matches),
    }
}

fn seconds(matches: &ArgMatches, name: &str) -> Option<Duration> {
    let seconds = matches.get_one::<u16>(name);
    seconds.map(|&seconds| Duration::from_secs(seconds.into()))
}

fn maintenance(matches: &mut ArgMatches) -> MaintenanceArguments {
    MaintenanceArguments {
        state: match matches.remove_one::<String>("state").as_deref() {
            Some("on") => MaintenanceState::On,
            Some("off") => MaintenanceState::Off,
            _ => MaintenanceState::Status,
        },
        dir: matches.remove_one("dir"),
        config: matches.remove_one("config"),
        message: matches.remove_one("message"),
    }
}

fn shell(matches: &mut ArgMatches) -> Shell {
    match matches.remove_one::<String>("shell").as_deref() {
        Some("zsh") => Shell::Zsh,
        Some("fish") => Shell::Fish,
        _ => Shell::Bash,
    }
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
