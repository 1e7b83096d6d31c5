//! `results.csv`: one figure a line, for programs. Numbers are written in full and never rounded.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};

use super::warnings::settled;
use compare::results::{Footprint, Peak, Results, Trial};
use compare::verdict::{Measure, most_replies};
use loadgen::outcome::Outcome;

/// The columns.
const HEAD: [&str; 7] = [
    "trial", "stack", "load", "round", "measure", "unit", "value",
];

/// Writes every figure of the results.
///
/// # Errors
/// `output` can't be written.
pub(super) fn write(results: &Results, output: impl Write) -> Result<()> {
    let mut lines = Lines(csv::Writer::from_writer(output));
    lines.0.write_record(HEAD).context("results.csv")?;
    for trial in &results.trials {
        of_trial(&mut lines, trial)?;
    }
    for (index, peak) in results.peaks.iter().enumerate() {
        // Searches are numbered after the trials, so that a number is unique.
        of_peak(&mut lines, results.trials.len() + index + 1, peak)?;
    }
    lines.0.flush().context("results.csv")
}

struct Lines<W: Write>(csv::Writer<W>);

/// The trial or search of a figure.
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
    for (program, seconds) in &trial.cpu_by_program {
        lines.put(place, &format!("cpu_of_{program}"), "s", *seconds)?;
    }
    of_special_load(lines, place, trial)?;
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
    // The names are those of results.json.
    let kinds: BTreeMap<String, u64> =
        serde_json::from_value(serde_json::to_value(outcome.errors)?)?;
    for (kind, count) in kinds {
        let measure = format!("{prefix}error_{kind}");
        lines.put(place, &measure, "requests", count as f64)?;
    }
    Ok(())
}

/// What idle connections cost, and what a restart did to the latency.
fn of_special_load<W: Write>(lines: &mut Lines<W>, place: Place<'_>, trial: &Trial) -> Result<()> {
    if let Some(idle) = &trial.beside_idle {
        for (measure, unit, value) in [
            ("idle_connections", "connections", idle.connections as f64),
            ("idle_newcomer", "ms", idle.newcomer_ms),
            ("idle_front_rss", "bytes", idle.front.rss as f64),
            (
                "idle_front_rss_before",
                "bytes",
                idle.front_before.rss as f64,
            ),
            ("idle_rate_ratio", "ratio", idle.rate_ratio),
            ("idle_cpu_ratio", "ratio", idle.cpu_ratio),
        ] {
            lines.put(place, measure, unit, value)?;
        }
    }
    let Some(restart) = &trial.restart else {
        return Ok(());
    };
    lines.put(place, "restart_rate", "requests/s", restart.rate)?;
    lines.put(place, "restart_served", "s", restart.served_s)?;
    lines.put(place, "restart_gone", "s", restart.gone_s)?;
    for (when, stretch) in [
        ("before", &restart.before),
        ("during", &restart.during),
        ("after", &restart.after),
    ] {
        if let Some(value) = stretch.latency.percentile_ms(99.0) {
            lines.put(place, &format!("restart_p99_{when}"), "ms", value)?;
        }
        let measure = format!("restart_errors_{when}");
        lines.put(place, &measure, "requests", stretch.errors as f64)?;
    }
    Ok(())
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
        for (name, value) in [("p50", step.p50_ms), ("p99", step.p99_ms)] {
            if let Some(value) = value {
                lines.put(place, &format!("latency_{name}_at_{at}"), "ms", value)?;
            }
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
