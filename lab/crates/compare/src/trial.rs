//! One trial: a fresh server, a warm-up, a load, the figures, a stop.

use std::time::Duration;

use anyhow::Result;

use super::lab::{Load, Participant};
use super::meter;
use super::results::Trial;
use super::trial_context::TrialContext;
use loadgen::plan::{End, Mode};

mod idle;
mod restart;

/// Runs `load` against a fresh server of `participant`; `name` is the folder of its files.
///
/// # Errors
/// It gave no figures; with the end of the server's log.
pub(super) fn run(
    context: &TrialContext<'_>,
    participant: &Participant,
    load: &Load,
    seed: u64,
    name: &str,
) -> Result<Trial> {
    let mut server = context.start(participant, name)?;
    // The same load with another schedule.
    let mut warm_up = context.plan_of(&server, load, !seed);
    warm_up.mode = warm_up_mode(context, load, warm_up.mode);
    server.warm_up(context, &warm_up)?;
    let plan = context.plan_of(&server, load, seed);
    let measured = match load.idle {
        Some(count) => idle::measure(context, &mut server, &plan, count)?,
        None => server.measure(context, &plan)?,
    };
    if let Some(restart) = &load.restart {
        let capacity = measured.outcome.good_per_second();
        let under = restart::measure(context, &mut server, restart, capacity, seed)?;
        server.trial.restart = Some(under);
    }
    // Wrong responses under the load are counted anyway.
    if measured.outcome.errors.unexpected == 0 {
        server.check_answers(context)?;
    }
    let mut trial = server.stop();
    trial.limit = meter::limit(
        &measured,
        &context.placement,
        context.cores,
        context.size(participant).0,
    );
    trial.outcome = measured.outcome;
    Ok(trial)
}

/// The load for as long as a warm-up may take, or for as many requests as it names.
fn warm_up_mode(context: &TrialContext<'_>, load: &Load, mode: Mode) -> Mode {
    match (mode, load.warm_up_requests) {
        (_, None) => mode.lasting(context.lab.warm_up),
        (Mode::Closed { connections, .. }, Some(count)) => Mode::Closed {
            connections,
            end: End::Requests(count),
        },
        (Mode::Open { rate, .. }, Some(count)) => {
            mode.lasting(Duration::from_secs_f64(count as f64 / rate))
        }
    }
}
