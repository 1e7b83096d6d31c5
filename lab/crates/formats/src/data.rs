//! JSON and CSV, for programs.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::figures::figures;
use crate::measured::Measured;
use crate::words;
use loadgen::plan::{Request, Target};

/// The whole outcome (histograms as pairs of microseconds and count), the plan in words, and the figures by name.
pub(super) fn json(measured: &Measured<'_>) -> String {
    let Measured {
        plan,
        outcome,
        ended_early,
        headroom,
    } = measured;
    let figures: Map<String, Value> = figures(plan, outcome)
        .into_iter()
        .map(|figure| {
            (
                figure.name,
                json!({ "unit": figure.unit, "value": figure.value }),
            )
        })
        .collect();
    let request = |request: &Request| {
        json!({
            "method": request.method,
            "path": request.path,
            "weight": request.weight,
            "headers": request.headers,
            "body_bytes": request.body.len(),
            "expected_status": request.expected.map(|expected| expected.status),
            "expected_length": request.expected.and_then(|expected| expected.length),
        })
    };
    let target = match &plan.target {
        Target::Tcp(address) | Target::Tls(address, _) => address.to_string(),
        Target::Unix(socket) => format!("unix:{}", socket.display()),
    };
    let value = json!({
        "plan": {
            "words": words::in_words(plan),
            "target": target,
            "host": plan.host,
            "requests": plan.requests.iter().map(request).collect::<Vec<_>>(),
            "login": plan.login.as_ref().map(request),
            "tls": matches!(plan.target, Target::Tls(..)),
            "streams": plan.streams,
            "timeout_s": plan.timeout.as_secs_f64(),
            "threads": plan.threads,
            "cores": plan.cores,
            "seed": plan.seed,
        },
        "ended_early": ended_early,
        "verdict": words::generator_verdict(outcome),
        "headroom": headroom.map(|headroom| json!({
            "words": words::headroom(outcome, headroom),
            "rate": headroom.rate,
            "cores": headroom.cores,
            "ceiling": headroom.ceiling,
        })),
        "figures": figures,
        "outcome": outcome,
    });
    format!("{value:#}\n")
}

/// One figure a line; what too few samples leave open has no value.
pub(super) fn csv(measured: &Measured<'_>) -> String {
    let mut out = "name,unit,value\n".to_owned();
    for figure in figures(measured.plan, measured.outcome) {
        let value = figure
            .value
            .map_or_else(String::new, |value| value.to_string());
        // Names and units are ours and hold no comma and no quote.
        let _ = writeln!(out, "{},{},{value}", figure.name, figure.unit);
    }
    out
}
