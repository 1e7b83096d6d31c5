//! Our own text, for people: rate and errors, then times, then the rate over time, then whether to trust the figures.

use std::fmt::Write as _;

use super::figures::PERCENTILES;
use super::number::{bytes, grouped, milliseconds, per_cent, rate, ratio};
use crate::measured::Measured;
use crate::words;
use loadgen::outcome::{Latency, OfRequest, Outcome};
use loadgen::plan::{Mode, Plan};

/// Width of the names on the left.
const NAMES: usize = 16;
/// Width of a column of times.
const COLUMN: usize = 8;
/// Largest number of bars of the rate over time.
const MOST_BARS: usize = 60;
/// From lowest to highest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn render(measured: &Measured<'_>) -> String {
    let Measured {
        plan,
        outcome,
        ended_early,
        headroom,
    } = *measured;
    let mut out = String::new();
    head(&mut out, plan);
    if ended_early {
        let _ = writeln!(out, "ended early, after {:.1} s", outcome.elapsed_s);
    }
    out.push('\n');
    rates(&mut out, plan, outcome);
    errors(&mut out, plan, outcome);
    out.push('\n');
    times(&mut out, plan, outcome);
    if outcome.requests.len() > 1 {
        out.push('\n');
        by_request(&mut out, outcome);
    }
    rate_over_time(&mut out, outcome);
    let _ = writeln!(out, "\n{}", words::generator_verdict(outcome));
    if let Some(contradiction) = words::contradiction(outcome) {
        let _ = writeln!(out, "{contradiction}");
    }
    if let Some(headroom) = headroom {
        let _ = writeln!(out, "{}", words::headroom(outcome, headroom));
    }
    out
}

fn head(out: &mut String, plan: &Plan) {
    match plan.requests.as_slice() {
        [one] => {
            let _ = writeln!(out, "{} {}", one.method, words::url(plan, one));
        }
        [first, ..] => {
            let mut server = first.clone();
            server.path = String::new();
            let server = words::url(plan, &server);
            let _ = writeln!(
                out,
                "{} pages of {}",
                plan.requests.len(),
                server.trim_end_matches(':')
            );
        }
        [] => {}
    }
    let _ = writeln!(out, "{}", words::in_words(plan));
}

fn line(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "{name:<NAMES$}{text}");
}

fn rates(out: &mut String, plan: &Plan, outcome: &Outcome) {
    line(
        out,
        "good responses",
        &format!(
            "{} a second: {} in {:.2} s",
            rate(outcome.good_per_second()),
            grouped(outcome.good),
            outcome.elapsed_s
        ),
    );
    if let Mode::Open { .. } = plan.mode {
        let demanded = ratio(outcome.demanded as f64, outcome.elapsed_s);
        line(
            out,
            "demanded",
            &format!(
                "{} a second: {}; {} of them answered well",
                rate(demanded),
                words::counted(outcome.demanded, "request"),
                per_cent(ratio(outcome.good as f64, outcome.demanded as f64))
            ),
        );
    }
    if outcome.late > 0 {
        line(
            out,
            "late",
            &format!(
                "{} after the end of the load: part of the latency, not of the rate",
                words::counted(outcome.late, "response")
            ),
        );
    }
    if outcome.statuses.keys().any(|status| *status != 200) {
        let statuses: Vec<String> = outcome
            .statuses
            .iter()
            .map(|(status, count)| format!("{status}: {}", grouped(*count)))
            .collect();
        line(out, "statuses", &statuses.join(", "));
    }
    line(
        out,
        "received",
        &format!(
            "{}, {} a second, {} a response",
            bytes(outcome.bytes.received as f64),
            bytes(ratio(outcome.bytes.received as f64, outcome.elapsed_s)),
            bytes(ratio(
                outcome.bytes.received as f64,
                outcome.completed as f64
            ))
        ),
    );
    line(
        out,
        "connections",
        &format!(
            "{} opened; at most {} in flight, {:.1} on average",
            grouped(outcome.connections),
            words::counted(outcome.peak_in_flight, "request"),
            ratio(outcome.in_flight_s, outcome.elapsed_s)
        ),
    );
}

fn errors(out: &mut String, plan: &Plan, outcome: &Outcome) {
    let total = outcome.errors.total();
    // Unexpected responses are among the errors already.
    let unexpected = if plan.expects() {
        outcome.errors.unexpected
    } else {
        0
    };
    let bad = outcome.completed.saturating_sub(outcome.good + unexpected);
    if total + bad == 0 {
        line(out, "errors", "none");
        return;
    }
    let share = ratio((total + bad) as f64, outcome.demanded as f64);
    line(
        out,
        "errors",
        &format!("{}, {} of all", grouped(total + bad), per_cent(share)),
    );
    let kinds = words::error_kinds(plan, &outcome.errors).map(|(_, words, count)| (words, count));
    for (words, count) in kinds.into_iter().chain([("a status from 400 on", bad)]) {
        if count > 0 {
            let _ = writeln!(out, "{:>NAMES$}  {words}", grouped(count));
        }
    }
}

fn times(out: &mut String, plan: &Plan, outcome: &Outcome) {
    let _ = write!(out, "{:<NAMES$}", "milliseconds");
    let names = PERCENTILES.iter().map(|(name, _)| *name);
    for name in names.chain(["max", "mean"]) {
        let _ = write!(out, "{name:>COLUMN$}");
    }
    out.push('\n');
    let since = match plan.mode {
        Mode::Closed { .. } => "when it could leave to last byte",
        Mode::Open { .. } => "scheduled time to last byte",
    };
    let wait = &outcome.generator.pool_wait;
    for (name, latency, what) in [
        ("latency", &outcome.latency, since),
        ("service", &outcome.service, "first byte sent to last byte"),
        (
            "first byte",
            &outcome.first_byte,
            "first byte sent to first received",
        ),
        ("connect", &outcome.connect, "of each connection"),
        ("pool wait", wait, "for a connection, all being in use"),
    ] {
        row(out, name, latency, what);
    }
    explain_dashes(out, &outcome.latency);
}

fn row(out: &mut String, name: &str, latency: &Latency, what: &str) {
    if latency.count() == 0 {
        return;
    }
    let _ = write!(out, "{name:<NAMES$}");
    for (_, percent) in PERCENTILES {
        let _ = write!(out, "{:>COLUMN$}", percentile(latency, percent));
    }
    let (max, mean) = (latency.max_ms(), latency.mean_ms());
    let _ = writeln!(
        out,
        "{:>COLUMN$}{:>COLUMN$}   {what}",
        milliseconds(max),
        milliseconds(mean)
    );
}

/// A percentile, or a dash where there are too few samples for it.
fn percentile(latency: &Latency, percent: f64) -> String {
    let value = latency.percentile_ms(percent);
    value.map_or_else(|| "-".to_owned(), milliseconds)
}

/// Says why a percentile is not shown, and how many samples it needs.
fn explain_dashes(out: &mut String, latency: &Latency) {
    let mut missing = PERCENTILES.iter();
    let missing = missing.find(|(_, percent)| latency.percentile_ms(*percent).is_none());
    let Some((name, percent)) = missing.filter(|_| latency.count() > 0) else {
        return;
    };
    let needed = (10.0 / (1.0 - percent / 100.0)).round();
    let _ = writeln!(
        out,
        "{:NAMES$}A dash: fewer than ten samples are slower, so the value would be chance; {name} needs {} samples, \
         there are {}.",
        "",
        grouped(needed as u64),
        grouped(latency.count())
    );
}

fn by_request(out: &mut String, outcome: &Outcome) {
    let width = outcome
        .requests
        .iter()
        .map(|request| request.name.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(NAMES, 48);
    let _ = writeln!(
        out,
        "{:<width$}{:>12}{:>12}{:>9}{:>9}{:>9}",
        "page", "responses", "good/s", "p50 ms", "p99 ms", "max ms"
    );
    for OfRequest {
        name,
        completed,
        good,
        latency,
        ..
    } in &outcome.requests
    {
        let _ = writeln!(
            out,
            "{name:<width$}{:>12}{:>12}{:>9}{:>9}{:>9}",
            grouped(*completed),
            rate(ratio(*good as f64, outcome.elapsed_s)),
            percentile(latency, 50.0),
            percentile(latency, 99.0),
            percentile(latency, 100.0)
        );
    }
}

/// Good responses of each second as bars; several seconds share one where there are many.
fn rate_over_time(out: &mut String, outcome: &Outcome) {
    let seconds = outcome.rates();
    if seconds.len() < 3 {
        return;
    }
    let each = seconds.len().div_ceil(MOST_BARS);
    let rates: Vec<f64> = seconds
        .chunks(each)
        .map(|part| part.iter().sum::<f64>() / part.len() as f64)
        .collect();
    let max = rates.iter().copied().fold(0.0, f64::max);
    let min = rates.iter().copied().fold(max, f64::min);
    let bars: String = rates
        .iter()
        .map(|rate| BARS[(ratio(*rate, max) * (BARS.len() - 1) as f64).round() as usize])
        .collect();
    let every = match each {
        1 => "a bar a second".to_owned(),
        _ => format!("a bar for {each} s"),
    };
    out.push('\n');
    line(
        out,
        "rate over time",
        &format!(
            "{bars}   {every}: {} to {} good responses a second",
            rate(min),
            rate(max)
        ),
    );
}
