//! The routes of the API that begin and end experiments: they check what is asked for, and pass it on to the queue of changes.

use std::collections::BTreeMap;
use std::rc::Rc;

use admin::{Answer, Call, Problem, Routes};
use http::StatusCode;

use crate::control::change_answer::change;
use crate::control::messages::{EndExperiment, ExperimentRequest};
use crate::control::queue::{Change, ChangeQueue};

/// The most settings, and the most variables, that an experiment may change.
const MAX_DIFFERENCES: usize = 64;
/// The least and the longest time, in seconds.
const SECONDS: std::ops::RangeInclusive<u32> = 5..=24 * 3600;

/// Adds them to the table of routes.
pub(crate) fn add(routes: Routes, queue: &Rc<ChangeQueue>) -> Routes {
    let [starts, stops] = [(); 2].map(|()| Rc::clone(queue));
    routes
        .post("/v1/experiment", move |call| {
            start(call, Rc::clone(&starts))
        })
        .post("/v1/experiment/stop", move |call| {
            stop(call, Rc::clone(&stops))
        })
}

async fn start(call: Call, queue: Rc<ChangeQueue>) -> Result<Answer, Problem> {
    if !call.is_local() {
        // A variable may name a library that is loaded.
        let text = "experiments are begun on the server's machine alone: highball experiment";
        return Err(Problem::new(StatusCode::FORBIDDEN, text));
    }
    let request: ExperimentRequest = call.json()?;
    if !SECONDS.contains(&request.seconds) {
        let text = "seconds must be 5 to 86400";
        return Err(Problem::bad_request(text));
    }
    if !request.settings.keys().all(|name| is_sound(name))
        || !all_sound(&request.variables)
        || request.settings.len() > MAX_DIFFERENCES
    {
        let text = "settings and variables are at most 64 names with values, without NUL and, in names, without =";
        return Err(Problem::bad_request(text));
    }
    Ok(change(Change::Experiment(Box::new(request)), &queue))
}

async fn stop(call: Call, queue: Rc<ChangeQueue>) -> Result<Answer, Problem> {
    let EndExperiment { application } = call.json()?;
    Ok(change(Change::EndExperiment(application), &queue))
}

/// Whether a program can be started with these variables.
fn all_sound(variables: &BTreeMap<String, String>) -> bool {
    let mut all = variables.iter();
    variables.len() <= MAX_DIFFERENCES
        && all.all(|(name, value)| is_sound(name) && !value.contains('\0'))
}

fn is_sound(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_must_have_names_that_a_program_can_have() {
        let of = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert!(all_sound(&of("RUBY_GC_HEAP_GROWTH_FACTOR", "1.2=")));
        assert!(all_sound(&BTreeMap::new()));
        assert!(!all_sound(&of("", "1")) && !all_sound(&of("A=B", "1")));
        assert!(!all_sound(&of("A\0", "1")) && !all_sound(&of("A", "\0")));
        let many = (0..=MAX_DIFFERENCES).map(|number| (number.to_string(), String::new()));
        assert!(!all_sound(&many.collect()));
    }
}
