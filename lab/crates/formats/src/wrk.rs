//! The fields of wrk 4 (`src/wrk.c` and `src/units.c`), as with `--latency`.

use std::fmt::Write as _;

use super::number::{deviation, ratio};
use crate::measured::Measured;
use crate::words::{self, footnotes};
use loadgen::outcome::{Latency, Outcome};
use loadgen::plan::{End, Mode};

pub(super) fn render(measured: &Measured<'_>) -> String {
    let Measured { plan, outcome, .. } = measured;
    let url = plan
        .requests
        .first()
        .map_or_else(String::new, |request| words::url(plan, request));
    let seconds = match plan.mode {
        Mode::Closed {
            end: End::After(time),
            ..
        }
        | Mode::Open { duration: time, .. } => time.as_secs_f64(),
        Mode::Closed {
            end: End::Requests(_),
            ..
        } => outcome.elapsed_s,
    };
    let mut out = String::new();
    let _ = write!(
        out,
        "Running {} test @ {url}\n  {} threads and {} connections\n",
        long_time(seconds),
        plan.threads,
        words::concurrency(plan, outcome)
    );
    let _ = writeln!(
        out,
        "  Thread Stats{:>6}{:>11}{:>8}{:>12}",
        "Avg", "Stdev", "Max", "+/- Stdev"
    );
    let latency = &outcome.service;
    stats(&mut out, "Latency", &spread_of(latency), |milliseconds| {
        time(milliseconds * 1000.0)
    });
    stats(&mut out, "Req/Sec", &rate_of_a_thread(measured), metric);
    out.push_str("  Latency Distribution\n");
    for percent in [50.0, 75.0, 90.0, 99.0] {
        let value = padded(&time(latency.at(percent) * 1000.0), 10);
        let _ = writeln!(out, "{percent:>7.0}%{value}");
    }
    totals(&mut out, outcome);
    out.push('\n');
    footnotes(&mut out, &notes(measured));
    out
}

fn totals(out: &mut String, outcome: &Outcome) {
    let errors = &outcome.errors;
    let received = outcome.bytes.received as f64;
    let _ = writeln!(
        out,
        "  {} requests in {}, {}B read",
        outcome.completed,
        time(outcome.elapsed_s * 1e6),
        binary(received)
    );
    let (connect, read) = words::failed_to_connect_and_read(errors);
    if connect + read + errors.timeout > 0 {
        let _ = writeln!(
            out,
            "  Socket errors: connect {connect}, read {read}, write 0, timeout {}",
            errors.timeout
        );
    }
    let other = outcome.completed - words::statuses(outcome, 200, 399).min(outcome.completed);
    if other > 0 {
        let _ = writeln!(out, "  Non-2xx or 3xx responses: {other}");
    }
    let _ = write!(
        out,
        "Requests/sec: {:>9.2}\nTransfer/sec: {:>10}B\n",
        words::completed_per_second(outcome),
        binary(ratio(received, outcome.elapsed_s))
    );
}

/// Mean, deviation, maximum, and the share of samples within one deviation of the mean.
struct Spread {
    mean: f64,
    deviation: f64,
    max: f64,
    within: f64,
}

fn spread_of(latency: &Latency) -> Spread {
    let (mean, deviation) = (latency.mean_ms(), latency.deviation_ms());
    let near = |microseconds: u64| (microseconds as f64 / 1000.0 - mean).abs() <= deviation;
    let within: u64 = latency
        .values()
        .filter(|(value, _)| near(*value))
        .map(|(_, count)| count)
        .sum();
    Spread {
        mean,
        deviation,
        max: latency.max_ms(),
        within: ratio(within as f64, latency.count() as f64),
    }
}

fn rate_of_a_thread(Measured { plan, outcome, .. }: &Measured<'_>) -> Spread {
    // The last second is rarely a whole one.
    let whole = (outcome.elapsed_s.floor() as usize).min(outcome.seconds.len());
    let rates: Vec<f64> = match whole {
        0 => vec![words::completed_per_second(outcome) / plan.threads as f64],
        _ => outcome.seconds[..whole]
            .iter()
            .map(|second| second.completed as f64 / plan.threads as f64)
            .collect(),
    };
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let deviation = deviation(&rates, mean);
    let within = rates
        .iter()
        .filter(|rate| (**rate - mean).abs() <= deviation)
        .count();
    Spread {
        mean,
        deviation,
        max: rates.iter().copied().fold(0.0, f64::max),
        within: within as f64 / count,
    }
}

fn stats(out: &mut String, name: &str, spread: &Spread, unit: impl Fn(f64) -> String) {
    let _ = writeln!(
        out,
        "    {name:<10}{}{}{}{:>8.2}%",
        padded(&unit(spread.mean), 8),
        padded(&unit(spread.deviation), 10),
        padded(&unit(spread.max), 9),
        spread.within * 100.0
    );
}

/// Right-aligned so that the numbers stand in a column and the units behind it.
fn padded(text: &str, width: usize) -> String {
    let units = text
        .chars()
        .rev()
        .take(2)
        .filter(|c| c.is_ascii_alphabetic())
        .count();
    let blanks = 2 - units;
    format!("{text:>right$}{:blanks$}", "", right = width - blanks)
}

/// Divides by `scale` for each further unit, once the number is at least 0.85 of it; the last unit is never reached,
/// as in the original.
fn scaled(number: f64, scale: f64, base: &str, units: &[&str], digits: usize) -> String {
    let (mut number, mut name) = (number, base);
    for unit in &units[..units.len() - 1] {
        if number < scale * 0.85 {
            break;
        }
        number /= scale;
        name = unit;
    }
    format!("{number:.digits$}{name}")
}

/// Microseconds.
fn time(microseconds: f64) -> String {
    if microseconds >= 1e6 {
        scaled(microseconds / 1e6, 60.0, "s", &["m", "h"], 2)
    } else {
        scaled(microseconds, 1000.0, "us", &["ms", "s"], 2)
    }
}

/// Seconds, whole.
fn long_time(seconds: f64) -> String {
    scaled(seconds, 60.0, "s", &["m", "h"], 0)
}

fn metric(number: f64) -> String {
    scaled(number, 1000.0, "", &["k", "M", "G", "T", "P"], 2)
}

fn binary(bytes: f64) -> String {
    scaled(bytes, 1024.0, "", &["K", "M", "G", "T", "P"], 2)
}

fn notes(measured: &Measured<'_>) -> Vec<String> {
    let Measured { plan, outcome, .. } = measured;
    let mut notes = vec![
        "Fields as wrk prints them, measured by highball load.".to_owned(),
        format!(
            "Latency is service time, first byte sent to last byte received of whole responses, as with wrk (which also \
             leaves connecting and unanswered requests out, and fills gaps with samples of its own). {}",
            words::latency_note(outcome)
        ),
        "Req/Sec is of one thread, from whole seconds (wrk: from tenths).".to_owned(),
    ];
    notes.extend(words::good_note(outcome));
    if outcome.errors.unanswered > 0 {
        notes.push(format!(
            "{} still in flight at the end, which wrk does not report.",
            words::counted(outcome.errors.unanswered, "request")
        ));
    }
    if let Mode::Open { .. } = plan.mode {
        notes.push(
            "wrk knows no open loop: connections are the most requests in flight.".to_owned(),
        );
    }
    if plan.requests.len() > 1 {
        notes.push(format!("The URL is the first of {}.", plan.requests.len()));
    }
    notes.extend(words::last_notes(measured));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_where_those_of_wrk_do() {
        let check = |written: String, expect: &str| assert_eq!(written, expect);
        check(time(635.91), "635.91us");
        check(time(850.0), "0.85ms");
        check(time(999_999.0), "1000.00ms");
        check(time(2_010_000.0), "2.01s");
        check(long_time(10.0), "10s");
        check(long_time(60.0), "1m");
        check(metric(849.0), "849.00");
        check(metric(56_200.0), "56.20k");
        check(binary(30_324_818.0), "28.92M");
        check(binary(0.0), "0.00");
        check(padded("635.91us", 8), "635.91us");
        check(padded("14.25k", 8), " 14.25k ");
        check(padded("849.00", 8), "849.00  ");
    }
}
