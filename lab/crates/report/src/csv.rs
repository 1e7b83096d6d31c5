//! `results.csv`: one figure a line, for programs. Numbers are written in full, never rounded for people.

use std::io::Write;

use anyhow::{Context, Result};

use super::warnings::settled;
use compare::results::{Footprint, Peak, Results, Trial};
use compare::verdict::{Measure, most_replies};
use loadgen::outcome::{Errors, Outcome};

/// What each line holds. `round` is empty where a figure is none of a single trial.
const HEAD: [&str; 7] = [
    "trial", "stack", "load", "round", "measure", "unit", "value",
];

/// Writes every figure of the results.
///
/// # Errors
/// When `output` takes nothing more.
pub(super) fn write(results: &Results, output: impl Write) -> Result<()> {
    let mut lines = Lines(csv::Writer::from_writer(output));
    lines.0.write_record(HEAD).context("results.csv")?;
    for trial in &results.trials {
        of_trial(&mut lines, trial)?;
    }
    for (index, peak) in results.peaks.iter().enumerate() {
        // Searches are counted on from the trials, so that a number names one of the two.
        of_peak(&mut lines, results.trials.len() + index + 1, peak)?;
    }
    lines.0.flush().context("results.csv")
}

struct Lines<W: Write>(csv::Writer<W>);

/// What a figure belongs to.
#[derive(Clone, Copy)]
struct Place<'a> {
    trial: usize,
    stack: &'a str,
    load: &'a str,
    round: usize,
}

impl<W: Write> Lines<W> {
    fn put(&mut self, place: Place<'_>, measure: &str, unit: &str, value: f64) -> Result<()> {
        let Place {
            trial,
            stack,
            load,
            round,
        } = place;
        let (trial, round) = (trial.to_string(), round.to_string());
        let value = value.to_string();
        self.0
            .write_record([&trial, stack, load, &round, measure, unit, &value])
            .context("results.csv")
    }
}

fn of_trial<W: Write>(lines: &mut Lines<W>, trial: &Trial) -> Result<()> {
    let place = Place {
        trial: trial.position,
        stack: &trial.stack,
        load: &trial.load,
        round: trial.round,
    };
    let failed = if trial.failure.is_some() { 1.0 } else { 0.0 };
    lines.put(place, "failed", "trials", failed)?;
    if trial.failure.is_some() {
        return Ok(());
    }
    for measure in Measure::OF_LOAD {
        if let Some(value) = measure.of(trial) {
            lines.put(place, measure.id(), measure.unit(), value)?;
        }
    }
    of_outcome(lines, place, "", &trial.outcome)?;
    let generator = &trial.outcome.generator;
    let settled = if settled(trial) { 1.0 } else { 0.0 };
    for (measure, unit, value) in [
        ("boot", "s", trial.boot_s),
        ("warm_up", "s", trial.warm_up.seconds),
        ("settled", "trials", settled),
        ("cpu", "s", trial.cpu_s),
        ("other_cores", "cores", trial.other_cores),
        ("database_cores", "cores", trial.database_cores),
        ("processes", "processes", trial.processes as f64),
        ("left_behind", "processes", trial.left_behind as f64),
        ("generator_cores", "cores", generator.cores),
        ("generator_waited", "share", generator.waited),
        (
            "free_difference",
            "bytes",
            trial.memory.free_difference as f64,
        ),
    ] {
        lines.put(place, measure, unit, value)?;
    }
    let under_load = trial.memory.under_load.iter().map(|(_, sample)| sample);
    let largest = under_load.max_by_key(|sample| sample.pss);
    for (when, sample) in [
        ("idle", Some(&trial.memory.idle)),
        ("under_load", largest),
        ("after", Some(&trial.memory.after)),
    ] {
        if let Some(Footprint {
            pss,
            private_dirty,
            rss,
        }) = sample
        {
            for (kind, bytes) in [("pss", pss), ("private_dirty", private_dirty), ("rss", rss)] {
                lines.put(place, &format!("{kind}_{when}"), "bytes", *bytes as f64)?;
            }
        }
    }
    Ok(())
}

fn of_outcome<W: Write>(
    lines: &mut Lines<W>,
    place: Place<'_>,
    prefix: &str,
    outcome: &Outcome,
) -> Result<()> {
    for (measure, unit, value) in [
        ("elapsed", "s", outcome.elapsed_s),
        ("demanded", "requests", outcome.demanded as f64),
        ("sent", "requests", outcome.sent as f64),
        ("completed", "responses", outcome.completed as f64),
        ("good", "responses", outcome.good as f64),
        ("received", "bytes", outcome.bytes.received as f64),
        ("latency_mean", "ms", outcome.latency.mean_ms()),
        ("latency_max", "ms", outcome.latency.max_ms()),
    ] {
        lines.put(place, &format!("{prefix}{measure}"), unit, value)?;
    }
    for percent in [90.0, 95.0, 99.9] {
        if let Some(value) = outcome.latency.percentile_ms(percent) {
            lines.put(place, &format!("{prefix}latency_p{percent}"), "ms", value)?;
        }
    }
    let generator = &outcome.generator;
    for (name, times) in [
        ("service", &outcome.service),
        ("lag", &generator.lag),
        ("pool_wait", &generator.pool_wait),
    ] {
        for (point, percent) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
            if let Some(value) = times.percentile_ms(percent) {
                lines.put(place, &format!("{prefix}{name}_{point}"), "ms", value)?;
            }
        }
    }
    for (status, count) in &outcome.statuses {
        let measure = format!("{prefix}status_{status}");
        lines.put(place, &measure, "responses", *count as f64)?;
    }
    for (kind, count) in kinds(&outcome.errors) {
        let measure = format!("{prefix}error_{kind}");
        lines.put(place, &measure, "requests", count as f64)?;
    }
    Ok(())
}

fn kinds(errors: &Errors) -> [(&'static str, u64); 11] {
    [
        ("connect_refused", errors.connect_refused),
        ("connect_timeout", errors.connect_timeout),
        ("no_address", errors.no_address),
        ("no_descriptor", errors.no_descriptor),
        ("reset", errors.reset),
        ("closed", errors.closed),
        ("short_body", errors.short_body),
        ("timeout", errors.timeout),
        ("invalid", errors.invalid),
        ("unexpected", errors.unexpected),
        ("unanswered", errors.unanswered),
    ]
}

fn of_peak<W: Write>(lines: &mut Lines<W>, number: usize, peak: &Peak) -> Result<()> {
    let place = Place {
        trial: number,
        stack: &peak.stack,
        load: "peak",
        round: peak.round,
    };
    lines.put(place, Measure::Peak.id(), "requests/s", peak.last_good)?;
    lines.put(
        place,
        Measure::Replies.id(),
        "requests/s",
        most_replies(peak),
    )?;
    if let Some(bad) = peak.first_bad {
        lines.put(place, "peak_first_bad", "requests/s", bad)?;
    }
    for step in &peak.steps {
        let at = format!("{}", step.rate);
        lines.put(
            place,
            &format!("achieved_at_{at}"),
            "requests/s",
            step.achieved,
        )?;
        lines.put(place, &format!("errors_at_{at}"), "share", step.errors)?;
        if let Some(value) = step.p99_ms {
            lines.put(place, &format!("latency_p99_at_{at}"), "ms", value)?;
        }
    }
    if let Some(overload) = &peak.overload {
        lines.put(place, "overload_rate", "requests/s", overload.rate)?;
        if overload.died.is_some() {
            return lines.put(place, "overload_died", "servers", 1.0);
        }
        of_outcome(lines, place, "overload_", &overload.outcome)?;
        if let Some(seconds) = overload.recovered_s {
            lines.put(place, "overload_recovered", "s", seconds)?;
        }
    }
    Ok(())
}
