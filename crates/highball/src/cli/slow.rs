//! The command `slow`: lists slow requests, or shows where one spent its time. What it writes elsewhere are the files that it
//! was told to write.

use std::fmt::Write;

use anyhow::{Result, bail};
use command_line::ViewArguments;
use profiles::stacks_text;

use crate::cli::profile::write_files;
use crate::cli::{client, print};
use crate::control::inspections::NamedSlowRequest;

/// How long a sample of a slow request stands for, in seconds.
const SAMPLE_INTERVAL_S: f64 = 0.1;

/// Prints the slowest requests, or the one with this number.
///
/// # Errors
/// There is no server, no such request, or a file cannot be written.
pub(crate) fn run(view: &ViewArguments, number: Option<u32>) -> Result<()> {
    if number.is_none() && (view.svg.is_some() || view.speedscope.is_some()) {
        bail!("a picture shows one request: give its number in the list of `highball slow`");
    }
    let path = number.map_or_else(
        || "/v1/slow".to_owned(),
        |number| format!("/v1/slow/{number}"),
    );
    let all: Vec<NamedSlowRequest> = client::inspect(view, &path)?;
    if let (Some(_), Some(one)) = (number, all.first()) {
        let stacks = &one.request.stacks;
        write_files(
            view,
            stacks,
            &title(one),
            &about(one),
            Some(SAMPLE_INTERVAL_S),
        )?;
    }
    if view.json {
        return print(&(serde_json::to_string_pretty(&all)? + "\n"));
    }
    match (number, all.first()) {
        (Some(_), Some(one)) => print(&page(one)),
        (_, None) => print("No request of the last hour was slow (setting slow_request).\n"),
        _ => print(&list(&all)),
    }
}

fn title(one: &NamedSlowRequest) -> String {
    format!("{} {}", one.request.method, one.request.path)
}

/// What is known of a request, in one line.
fn about(one: &NamedSlowRequest) -> String {
    let request = &one.request;
    let mut text = format!(
        "{:.0} ms in the application, {:.0} ms in the queue, {} samples",
        request.app_ms, request.queue_ms, one.samples
    );
    // Writing to a string cannot fail.
    if let Some(db_ms) = request.db_ms {
        let _ = write!(text, ", {db_ms:.0} ms of it in the database");
    }
    if let Some(route) = &request.route {
        let _ = write!(text, ", route {route}");
    }
    if let Some(worker) = request.worker {
        let _ = write!(text, ", worker {worker}");
    }
    if let Some(id) = &request.request_id {
        let _ = write!(text, ", request {id}");
    }
    text
}

fn page(one: &NamedSlowRequest) -> String {
    let stacks = match one.samples {
        0 => "No sample was taken: the worker did not answer, or too many requests were slow.\n"
            .to_owned(),
        _ => stacks_text(&one.request.stacks),
    };
    format!("{}\n{}\n\n{stacks}", title(one), about(one))
}

fn list(all: &[NamedSlowRequest]) -> String {
    let mut text = String::from("  N   app ms  queue ms  status  samples  request\n");
    for (number, one) in (1..).zip(all) {
        let request = &one.request;
        let status = request
            .status
            .map_or_else(|| request.outcome.clone(), |status| status.to_string());
        let _ = write!(
            text,
            "{number:3} {:8.0}  {:8.0}  {status:>6}  {:7}  {}",
            request.app_ms,
            request.queue_ms,
            one.samples,
            title(one)
        );
        if let Some(application) = &one.application {
            let _ = write!(text, "  ({application})");
        }
        text.push('\n');
    }
    text.push_str("\n`highball slow N` shows where a request spent its time.\n");
    text
}
