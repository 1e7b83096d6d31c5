//! The command `experiment`: its arguments, and what they mean. It reads no command line.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};

use crate::arguments::{switch, targets, text};
use crate::server_arguments::ExperimentAction;

/// A name and its value.
type Pair = (String, String);

/// How long an experiment may measure.
const EXPERIMENT_TIMES: RangeInclusive<Duration> =
    Duration::from_secs(5)..=Duration::from_secs(24 * 3600);

/// What there is to know of experiments.
const EXPERIMENT_HELP: &str = "\
All workers are replaced by fresh ones, one after the other; half of them come with the other setting. Ctrl-C ends the
experiment with the verdict so far. At its end all workers have the server's setting again. A restart, a reload, a refork,
another number of workers and an upgrade end it too.";

/// Returns the definition of the command.
pub(crate) fn definition() -> Command {
    let set =
        "A setting of the second half, as in highball.toml: jit=none, allocator=system, threads=5";
    let env = "A variable of the second half's environment: RUBY_GC_HEAP_GROWTH_FACTOR=1.2";
    let time =
        "How long both halves are measured, such as 10m; a fifth of that comes before, as warm-up";
    let time = text("for", "DURATION", time)
        .default_value("10m")
        .value_parser(|text: &str| match config::parse_time(text) {
            Some(time) if EXPERIMENT_TIMES.contains(&time) => Ok(time),
            _ => Err("a time from 5s to 24h, such as 10m"),
        });
    let what = ArgGroup::new("what")
        .args(["set", "env", "same", "stop", "show"])
        .required(true)
        .multiple(true);
    Command::new("experiment")
        .about("Run half of the workers with another setting under the same traffic, and say which half is better")
        .after_help(EXPERIMENT_HELP)
        .args(targets())
        .args([
            pairs("set", "KEY=VALUE", set),
            pairs("env", "NAME=VALUE", env),
            switch("same", "Change nothing: shows whether two equal halves are told apart")
                .conflicts_with_all(["set", "env"]),
            time,
            switch("stop", "End the experiment that runs, with the verdict so far")
                .conflicts_with_all(["set", "env", "same", "show"]),
            switch("show", "Show the experiment that runs, or the verdict of the last one")
                .conflicts_with_all(["set", "env", "same"]),
            switch("json", "Print JSON"),
        ])
        .group(what)
        .arg(text(
            "application",
            "NAME",
            "The application, where the server has several",
        ))
}

fn pairs(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    text(name, value, help)
        .action(ArgAction::Append)
        .value_parser(pair)
}

/// The two parts of `NAME=VALUE`.
fn pair(text: &str) -> Result<Pair, &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.to_owned()))
        }
        _ => Err("a name and a value, such as jit=none"),
    }
}

/// What is to be done.
pub(crate) fn action(matches: &mut ArgMatches) -> ExperimentAction {
    if matches.get_flag("stop") {
        return ExperimentAction::Stop;
    }
    if matches.get_flag("show") {
        return ExperimentAction::Show;
    }
    let mut pairs = |name: &str| -> Vec<Pair> {
        let all = matches.remove_many::<Pair>(name).into_iter();
        all.flatten().collect()
    };
    ExperimentAction::Start {
        settings: pairs("set"),
        variables: pairs("env"),
        time: matches.remove_one("for").unwrap_or_default(),
    }
}
