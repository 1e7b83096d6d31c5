//! The command `experiment`: has a running server begin one, waits for its end, and prints the verdict. It measures and judges
//! nothing.

mod page;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use command_line::{ExperimentAction, ExperimentArguments, ViewArguments};
use serde::Deserialize;

use crate::cli::signals::{Signalled, watch_signals};
use crate::cli::{client, print};
use crate::control::messages::{EndExperiment, ExperimentRequest};
use crate::experiments::{ExperimentReport, ExperimentState};

/// How often the server is asked how far it is.
const ASK_INTERVAL: Duration = Duration::from_millis(500);

/// The answer of `GET /v1/experiment`.
#[derive(Deserialize)]
struct Experiments {
    applications: Vec<NamedExperiment>,
}

#[derive(Deserialize)]
struct NamedExperiment {
    experiment: Option<ExperimentReport>,
}

/// Begins an experiment and waits for its verdict, or ends or shows one.
///
/// # Errors
/// There is no server, or it refuses.
pub(crate) fn run(arguments: &ExperimentArguments) -> Result<()> {
    match &arguments.action {
        ExperimentAction::Show => {
            let report = read(arguments)?;
            let report = report.context("there was no experiment since the server started")?;
            show(arguments, &report)
        }
        ExperimentAction::Stop => {
            stop(arguments)?;
            wait(arguments, None)
        }
        ExperimentAction::Start {
            settings,
            variables,
            time,
        } => {
            let all =
                |pairs: &[(String, String)]| -> BTreeMap<_, _> { pairs.iter().cloned().collect() };
            let request = ExperimentRequest {
                application: arguments.application.clone(),
                settings: all(settings),
                variables: all(variables),
                seconds: time.as_secs() as u32,
            };
            // Before it begins: whoever presses Ctrl-C from now on does not want it.
            let (send, signalled) = sync_channel(1);
            watch_signals(send)?;
            let begun = client::changed(&arguments.server, "/v1/experiment", &request)?;
            say(begun.trim_end());
            wait(arguments, Some(&signalled))
        }
    }
}

/// Waits for the end of the experiment, which a signal brings about, and prints the verdict.
fn wait(arguments: &ExperimentArguments, signalled: Option<&Receiver<Signalled>>) -> Result<()> {
    let mut ended = false;
    loop {
        let Some(report) = read(arguments)? else {
            bail!(
                "another server has taken over (highball upgrade), which ended the experiment; the log says how far it was"
            );
        };
        if report.state == ExperimentState::Over {
            return show(arguments, &report);
        }
        match signalled.filter(|_| !ended) {
            Some(signalled) => match signalled.recv_timeout(ASK_INTERVAL) {
                Ok(Signalled) => {
                    ended = true;
                    say("ending the experiment");
                    // It may have ended by itself.
                    let _ = stop(arguments);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => ended = true,
            },
            None => std::thread::sleep(ASK_INTERVAL),
        }
    }
}

fn stop(arguments: &ExperimentArguments) -> Result<()> {
    let body = EndExperiment {
        application: arguments.application.clone(),
    };
    client::changed(&arguments.server, "/v1/experiment/stop", &body).map(drop)
}

/// The experiment that runs, or the last one.
fn read(arguments: &ExperimentArguments) -> Result<Option<ExperimentReport>> {
    let view = ViewArguments {
        server: arguments.server.clone(),
        application: arguments.application.clone(),
        ..ViewArguments::default()
    };
    let mut all: Experiments = client::inspect(&view, "/v1/experiment")?;
    match (all.applications.pop(), all.applications.is_empty()) {
        (Some(only), true) => Ok(only.experiment),
        _ => bail!("the server has several applications: name one with --application NAME"),
    }
}

fn show(arguments: &ExperimentArguments, report: &ExperimentReport) -> Result<()> {
    match arguments.json {
        true => print(&(serde_json::to_string_pretty(report)? + "\n")),
        false => print(&page::render(report)),
    }
}

/// Says how far it is. A stderr that is closed is no reason not to go on.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
