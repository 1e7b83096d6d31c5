//! The command `plan`: reads what a server has recorded, has the crate `plan` simulate it, and prints the answer. It changes
//! nothing.

mod page;

use std::io::{self, Write};
use std::thread::sleep;
use std::time::Duration;

use ::plan::{Answer, Question, Recording, answer};
use anyhow::{Result, anyhow, bail};
use command_line::{PlanArguments, ViewArguments};
use serde::{Deserialize, Serialize};

use crate::cli::{client, print};

/// How long requests are counted to know the present rate.
const COUNT_TIME: Duration = Duration::from_secs(5);

/// The answer of `GET /v1/recording`.
#[derive(Deserialize)]
struct Recordings {
    applications: Vec<NamedRecording>,
}

#[derive(Deserialize)]
struct NamedRecording {
    application: String,
    #[serde(flatten)]
    recording: Recording,
}

/// The answer as JSON.
#[derive(Serialize)]
struct NamedAnswer<'a> {
    application: &'a str,
    /// The target, in seconds.
    target_p99_s: Option<f64>,
    #[serde(flatten)]
    answer: &'a Answer,
}

/// Prints how many workers and threads an application needs.
///
/// # Errors
/// There is no server, or it has recorded nothing.
pub(crate) fn run(arguments: &PlanArguments) -> Result<()> {
    let mut named = read(arguments)?;
    let rate = match arguments.rate {
        Some(rate) => rate,
        None => {
            let (later, rate) = present_rate(arguments, &named.recording)?;
            named = later;
            rate
        }
    };
    let recording = &named.recording;
    let question = Question {
        rate,
        p99_s: arguments.p99.map(|time| time.as_secs_f64()),
        workers: arguments.workers,
        threads: arguments.threads,
        cores: arguments.cores.unwrap_or(recording.cores),
    };
    let answer = answer(recording, &question).map_err(|_| {
        anyhow!("no request was measured since the server started (setting measure_requests)")
    })?;
    if arguments.json {
        let named = NamedAnswer {
            application: &named.application,
            target_p99_s: question.p99_s,
            answer: &answer,
        };
        return print(&(serde_json::to_string_pretty(&named)? + "\n"));
    }
    print(&page::render(
        &named.application,
        &question,
        recording,
        &answer,
    ))
}

/// What the server has recorded of the application.
fn read(arguments: &PlanArguments) -> Result<NamedRecording> {
    let view = ViewArguments {
        server: arguments.server.clone(),
        application: arguments.application.clone(),
        ..ViewArguments::default()
    };
    let mut all: Recordings = client::inspect(&view, "/v1/recording")?;
    match (all.applications.pop(), all.applications.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => bail!("the server has several applications: name one with --application NAME"),
    }
}

/// What the server has recorded a little later, and how many requests a second came in between.
fn present_rate(arguments: &PlanArguments, before: &Recording) -> Result<(NamedRecording, f64)> {
    let seconds = COUNT_TIME.as_secs();
    // A stderr that is closed is no reason not to count.
    let _ = writeln!(
        io::stderr(),
        "counting requests for {seconds} seconds (--rate N says how many)"
    );
    sleep(COUNT_TIME);
    let later = read(arguments)?;
    let passed_s = later.recording.seconds - before.seconds;
    let more = later.recording.requests().saturating_sub(before.requests());
    if more == 0 || passed_s <= 0.0 {
        bail!(
            "no request ended within {seconds} seconds: say how many a second there shall be with --rate N"
        );
    }
    Ok((later, more as f64 / passed_s))
}
