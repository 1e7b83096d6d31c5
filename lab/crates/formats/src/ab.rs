//! The fields of ApacheBench 2.3 (`support/ab.c` of the Apache HTTP server, function `output_results`).

use std::fmt::Write as _;

use super::number::ratio;
use crate::measured::Measured;
use crate::words::{self, footnotes};
use loadgen::outcome::{Latency, Outcome};
use loadgen::plan::{ConnectionUse, Mode};

pub(super) fn render(measured: &Measured<'_>) -> String {
    let mut out = String::new();
    head(&mut out, measured);
    counts(&mut out, measured);
    rates(&mut out, measured);
    if measured.outcome.completed > 0 {
        connection_times(&mut out, measured.outcome);
    }
    // ab leaves the table out where there is but one response.
    if measured.outcome.completed > 1 {
        percentages(&mut out, &measured.outcome.latency);
    }
    out.push('\n');
    footnotes(&mut out, &notes(measured));
    out
}

fn head(out: &mut String, Measured { plan, outcome, .. }: &Measured<'_>) {
    let (host, port) = words::host_and_port(plan);
    let path = plan.requests.first().map_or("", |request| &request.path);
    let _ = write!(
        out,
        "Server Software:        {}\n\
         Server Hostname:        {host}\n\
         Server Port:            {port}\n\n\
         Document Path:          {path}\n\
         Document Length:        {} bytes\n\n",
        outcome.sample.server, outcome.sample.length
    );
}

fn counts(out: &mut String, Measured { plan, outcome, .. }: &Measured<'_>) {
    let errors = &outcome.errors;
    let (connect, receive) = words::failed_to_connect_and_read(errors);
    let failed = connect + receive + errors.unexpected + errors.timeout;
    let _ = write!(
        out,
        "Concurrency Level:      {}\n\
         Time taken for tests:   {:.3} seconds\n\
         Complete requests:      {}\n\
         Failed requests:        {failed}\n",
        words::concurrency(plan, outcome),
        outcome.elapsed_s,
        outcome.completed
    );
    if failed > 0 {
        let _ = writeln!(
            out,
            "   (Connect: {connect}, Receive: {receive}, Length: {}, Exceptions: {})",
            errors.unexpected, errors.timeout
        );
    }
    let other = outcome.completed - words::statuses(outcome, 200, 299).min(outcome.completed);
    if other > 0 {
        let _ = writeln!(out, "Non-2xx responses:      {other}");
    }
    if plan.connections != ConnectionUse::PerRequest {
        let _ = writeln!(out, "Keep-Alive requests:    {}", kept_alive(plan, outcome));
    }
    let _ = writeln!(
        out,
        "Total transferred:      {} bytes",
        outcome.bytes.received
    );
    if sends_bodies(plan) {
        let _ = writeln!(out, "Total body sent:        {}", outcome.bytes.sent);
    }
    let _ = writeln!(
        out,
        "HTML transferred:       {} bytes",
        outcome.bytes.bodies
    );
}

fn rates(out: &mut String, Measured { plan, outcome, .. }: &Measured<'_>) {
    let (elapsed, done) = (outcome.elapsed_s, outcome.completed as f64);
    if elapsed <= 0.0 || done == 0.0 {
        return;
    }
    let each = elapsed * 1000.0 / done;
    let _ = write!(
        out,
        "Requests per second:    {:.2} [#/sec] (mean)\n\
         Time per request:       {:.3} [ms] (mean)\n\
         Time per request:       {each:.3} [ms] (mean, across all concurrent requests)\n\
         Transfer rate:          {:.2} [Kbytes/sec] received\n",
        done / elapsed,
        words::concurrency(plan, outcome) as f64 * each,
        outcome.bytes.received as f64 / 1024.0 / elapsed
    );
    if sends_bodies(plan) {
        let bytes = outcome.bytes;
        let _ = write!(
            out,
            "                        {:.2} kb/s sent\n                        {:.2} kb/s total\n",
            bytes.sent as f64 / 1024.0 / elapsed,
            (bytes.sent + bytes.received) as f64 / 1024.0 / elapsed
        );
    }
}

/// Times of a kind over all requests, in milliseconds.
struct Times {
    min: f64,
    mean: f64,
    deviation: f64,
    median: f64,
    max: f64,
}

impl Times {
    fn of(latency: &Latency) -> Self {
        Self {
            min: latency.min_ms(),
            mean: latency.mean_ms(),
            deviation: latency.deviation_ms(),
            median: latency.at(50.0),
            max: latency.max_ms(),
        }
    }

    /// Connecting took no time for requests over a connection that was open already.
    fn of_connects(outcome: &Outcome) -> Self {
        let mut connect = Self::of(&outcome.connect);
        let reused = outcome.completed.saturating_sub(outcome.connect.count());
        if reused == 0 {
            return connect;
        }
        let (opened, all) = (outcome.connect.count() as f64, outcome.completed as f64);
        let mean = connect.mean * opened / all;
        let squares = (connect.deviation.powi(2) + connect.mean.powi(2)) * opened / all;
        connect.min = 0.0;
        if reused as f64 >= all / 2.0 {
            connect.median = 0.0;
        }
        connect.deviation = (squares - mean.powi(2)).max(0.0).sqrt();
        connect.mean = mean;
        connect
    }
}

fn connection_times(out: &mut String, outcome: &Outcome) {
    out.push_str("\nConnection Times (ms)\n              min  mean[+/-sd] median   max\n");
    for (name, times) in [
        ("Connect:", Times::of_connects(outcome)),
        ("Processing:", Times::of(&outcome.service)),
        ("Waiting:", Times::of(&outcome.first_byte)),
        ("Total:", Times::of(&outcome.latency)),
    ] {
        let _ = writeln!(
            out,
            "{name:<12}{:>5} {:>4} {:>5.1} {:>6} {:>7}",
            whole(times.min),
            whole(times.mean),
            times.deviation,
            whole(times.median),
            whole(times.max)
        );
    }
}

fn percentages(out: &mut String, latency: &Latency) {
    out.push_str("\nPercentage of the requests served within a certain time (ms)\n");
    for percent in [50, 66, 75, 80, 90, 95, 98, 99] {
        let _ = writeln!(
            out,
            "  {percent}%  {:>5}",
            whole(latency.at(f64::from(percent)))
        );
    }
    let _ = writeln!(
        out,
        " 100%  {:>5} (longest request)",
        whole(latency.max_ms())
    );
}

/// Milliseconds as ab rounds them: half of one goes up.
fn whole(milliseconds: f64) -> u64 {
    (milliseconds + 0.5) as u64
}

fn sends_bodies(plan: &loadgen::plan::Plan) -> bool {
    plan.requests.iter().any(|request| !request.body.is_empty())
}

/// Responses after which the connection stayed open.
fn kept_alive(plan: &loadgen::plan::Plan, outcome: &Outcome) -> u64 {
    let reopened = outcome
        .connections
        .saturating_sub(words::concurrency(plan, outcome));
    outcome.completed.saturating_sub(reopened)
}

fn notes(measured: &Measured<'_>) -> Vec<String> {
    let Measured { plan, outcome, .. } = measured;
    let mut notes = vec![
        "Fields as ApacheBench prints them, measured by highball load with HTTP/1.1 (ab sends HTTP/1.0).".to_owned(),
        "Failed requests: ab counts every body whose length is not the first one's; here Length counts what \
         --expect-length and --expect-status refuse, and Exceptions are time-outs, at which ab gives up the whole run."
            .to_owned(),
    ];
    notes.extend(words::good_note(outcome));
    notes.push(format!(
        "Times are rounded to milliseconds, as ab does. {}",
        words::latency_note(outcome)
    ));
    if plan.connections != ConnectionUse::PerRequest {
        notes.push(
            "Keep-Alive requests: whole responses less the connections that had to be opened again."
                .to_owned(),
        );
    }
    if outcome.errors.unanswered > 0 {
        notes.push(format!(
            "{} still in flight at the end: ab does not report them, here they are in Total and in the percentages at their age.",
            words::counted(outcome.errors.unanswered, "request")
        ));
    }
    if let Mode::Open { .. } = plan.mode {
        notes.push(format!(
            "ab knows no open loop: the Concurrency Level is the most requests in flight; on average {:.1} were.",
            ratio(outcome.in_flight_s, outcome.elapsed_s)
        ));
    }
    if plan.requests.len() > 1 {
        notes.push(format!(
            "ab knows one page: path and length are those of the first of {}.",
            plan.requests.len()
        ));
    }
    notes.extend(words::last_notes(measured));
    notes
}
