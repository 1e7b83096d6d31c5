//! A plan, the kinds of errors and the generator's part, in words.

use super::number::{grouped, milliseconds, per_cent, ratio};
use crate::measured::Measured;
use loadgen::Headroom;
use loadgen::duration;
use loadgen::outcome::{Contradiction, Errors, Outcome};
use loadgen::plan::{Arrivals, ConnectionUse, End, Mode, Plan, Request, Target};

/// Up to this share of its largest rate the generator does not affect the figures.
const ENOUGH: f64 = 0.5;

/// When requests leave, over what connections, and for how long: `closed loop, 12 connections, keep-alive, 10s`.
pub fn in_words(plan: &Plan) -> String {
    let (mode, until) = match plan.mode {
        Mode::Closed { connections, end } => (
            format!("closed loop, {}", counted(connections as u64, "connection")),
            match end {
                End::Requests(count) => counted(count, "request"),
                End::After(time) => duration::text(time),
            },
        ),
        Mode::Open {
            rate,
            arrivals,
            duration,
            max_connections,
        } => (
            format!(
                "open loop, {rate} requests a second {}, at most {}",
                match arrivals {
                    Arrivals::Poisson => "at random times (Poisson)",
                    Arrivals::Constant => "at equal distances",
                },
                counted(max_connections as u64, "connection")
            ),
            duration::text(duration),
        ),
    };
    let connections = match plan.connections {
        ConnectionUse::KeepAlive => "keep-alive".to_owned(),
        ConnectionUse::PerRequest => "a connection for each request".to_owned(),
        ConnectionUse::Calls(calls) => format!("{} a connection", counted(calls.into(), "request")),
    };
    let protocol = plan.streams.map_or_else(String::new, |streams| {
        let requests = counted(streams as u64, "request");
        format!("HTTP/2 with {requests} at a time on each, ")
    });
    format!("{mode}, {protocol}{connections}, {until}")
}

/// Says whether the generator was the limit. If it was, the figures do not describe the server.
pub fn generator_verdict(outcome: &Outcome) -> String {
    let generator = &outcome.generator;
    let used = format!(
        "it used {:.2} of {} and waited for {} {} of the time",
        generator.cores,
        counted(generator.threads, "core"),
        if generator.threads == 1 { "it" } else { "them" },
        per_cent(generator.waited),
    );
    match &generator.limit {
        Some(reason) => format!(
            "The generator was the limit: {reason}. These figures describe it, not the server ({used})."
        ),
        None => {
            let lag = match generator.lag.percentile_ms(99.0) {
                Some(lag) => format!(
                    "; requests left at most {} ms late (p99)",
                    milliseconds(lag)
                ),
                None => String::new(),
            };
            format!("The generator was not the limit: {used}{lag}.")
        }
    }
}

/// Says which figures contradict each other; `None` where they agree.
pub(super) fn contradiction(outcome: &Outcome) -> Option<String> {
    let Contradiction { product, in_flight } = outcome.contradiction()?;
    Some(format!(
        "Throughput times mean latency makes {product:.2} requests in flight, and {in_flight:.2} were (Little's law): one of \
         these figures is wrong."
    ))
}

/// How close a load came to the generator's largest rate here.
pub(super) fn headroom(outcome: &Outcome, headroom: &Headroom) -> String {
    // In an open loop what was demanded had to leave, answered or not.
    let rate = ratio(
        outcome.demanded.max(outcome.completed) as f64,
        outcome.elapsed_s,
    );
    let share = ratio(rate, headroom.ceiling);
    let advice = if share > ENOUGH {
        ", and above half of it the generator is part of what is measured: use more threads or cores"
    } else {
        ""
    };
    format!(
        "Against a server that only answers, the generator reached {} responses a second; this load reached {} of that{advice}.",
        grouped(headroom.ceiling.round() as u64),
        per_cent(share)
    )
}

/// A count and its noun.
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count))
}

/// The URL of a request.
pub(super) fn url(plan: &Plan, request: &Request) -> String {
    match &plan.target {
        Target::Tcp(_) => format!("http://{}{}", plan.host, request.path),
        Target::Tls(..) => format!("https://{}{}", plan.host, request.path),
        Target::Unix(socket) => format!("unix:{}:{}", socket.display(), request.path),
    }
}

/// Host and port as other tools print them; for a UNIX socket its path and port 0.
pub(super) fn host_and_port(plan: &Plan) -> (String, u16) {
    match &plan.target {
        Target::Tcp(address) | Target::Tls(address, _) => {
            let port = format!(":{}", address.port());
            let host = plan.host.strip_suffix(&port).unwrap_or(&plan.host);
            (host.to_owned(), address.port())
        }
        Target::Unix(socket) => (socket.display().to_string(), 0),
    }
}

/// Connections at once: those of a closed loop, else the most requests in flight.
pub(super) fn concurrency(plan: &Plan, outcome: &Outcome) -> u64 {
    match plan.mode {
        Mode::Closed { connections, .. } => connections as u64,
        Mode::Open { .. } => outcome.peak_in_flight,
    }
}

/// The most frequent kind of error, in words; `None` where there was none.
pub fn main_error(plan: &Plan, outcome: &Outcome) -> Option<&'static str> {
    let kinds = error_kinds(plan, &outcome.errors);
    let most = kinds.iter().max_by_key(|(_, _, count)| *count);
    most.filter(|(_, _, count)| *count > 0)
        .map(|(_, words, _)| *words)
}

/// Every kind of error: its name in data, its meaning, and its count.
pub(super) fn error_kinds(plan: &Plan, errors: &Errors) -> [(&'static str, &'static str, u64); 11] {
    // Without an expectation only the login can be refused.
    let unexpected_words = match (plan.expects(), &plan.login) {
        (false, _) => "the login was refused",
        (true, None) => "not the expected status or length",
        (true, Some(_)) => "not the expected status or length, or a login that was refused",
    };
    let Errors {
        connect_refused,
        connect_timeout,
        no_address,
        no_descriptor,
        reset,
        closed,
        short_body,
        timeout,
        invalid,
        unexpected,
        unanswered,
    } = *errors;
    [
        ("connect_refused", "connection refused", connect_refused),
        (
            "connect_timeout",
            "no connection within the time-out",
            connect_timeout,
        ),
        ("no_address", "no local port was left", no_address),
        (
            "no_descriptor",
            "no file descriptor was left",
            no_descriptor,
        ),
        ("reset", "the connection was reset", reset),
        (
            "closed",
            "the connection was closed before any byte of the response",
            closed,
        ),
        (
            "short_body",
            "the connection was closed within the response",
            short_body,
        ),
        ("timeout", "no whole response within the time-out", timeout),
        ("invalid", "the answer was no HTTP", invalid),
        ("unexpected", unexpected_words, unexpected),
        ("unanswered", "still unanswered at the end", unanswered),
    ]
}

/// Responses with a status from `low` to `high`.
pub(super) fn statuses(outcome: &Outcome, low: u16, high: u16) -> u64 {
    outcome
        .statuses
        .range(low..=high)
        .map(|(_, count)| count)
        .sum()
}

/// Whole responses a second, of any status.
pub(super) fn completed_per_second(outcome: &Outcome) -> f64 {
    ratio(outcome.completed as f64, outcome.elapsed_s)
}

/// Footnote where the other tool counts responses of a bad status or length as throughput.
pub(super) fn good_note(outcome: &Outcome) -> Option<String> {
    (outcome.good < outcome.completed).then(|| {
        format!(
            "The rate counts every whole response. Good ones (status 200 to 399, as expected): {} of {}, {:.2} a second.",
            grouped(outcome.good),
            grouped(outcome.completed),
            outcome.good_per_second()
        )
    })
}

/// Footnote: the percentiles from the scheduled time.
pub(super) fn latency_note(outcome: &Outcome) -> String {
    let percentile = |name: &str, percent: f64| match outcome.latency.percentile_ms(percent) {
        Some(value) => format!("{name} {} ms", milliseconds(value)),
        None => format!("{name} not shown, too few samples"),
    };
    format!(
        "Latency from the moment a request could or should leave, with failed and unanswered ones: {}, {}, {}, longest {} ms.",
        percentile("p50", 50.0),
        percentile("p99", 99.0),
        percentile("p99.9", 99.9),
        milliseconds(outcome.latency.max_ms())
    )
}

/// Footnotes of every tool's format: whether the load ended early, and how far the generator was the limit.
pub(super) fn last_notes(measured: &Measured<'_>) -> Vec<String> {
    let outcome = measured.outcome;
    let early = (measured.ended_early).then(|| "The load was ended early.".to_owned());
    let headroom = measured
        .headroom
        .map(|headroom| self::headroom(outcome, headroom));
    let notes = [early, Some(generator_verdict(outcome)), headroom];
    notes.into_iter().flatten().collect()
}

/// Connections that failed to open, and responses that failed to arrive, as ab and wrk count them.
pub(super) fn failed_to_connect_and_read(errors: &Errors) -> (u64, u64) {
    let connect =
        errors.connect_refused + errors.connect_timeout + errors.no_address + errors.no_descriptor;
    let read = errors.reset + errors.closed + errors.short_body + errors.invalid;
    (connect, read)
}

/// Appends footnotes below another tool's fields: lines that begin with `#`, which readers of those fields skip.
pub(crate) fn footnotes(out: &mut String, notes: &[String]) {
    for note in notes {
        out.push_str("# ");
        out.push_str(note);
        out.push('\n');
    }
}
