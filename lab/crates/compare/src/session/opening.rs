//! The preparation of a comparison: stacks, requests, machine; and whether a comparison can be resumed. It starts nothing.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail, ensure};

use super::RunOptions;
use crate::lab::{self, Lab, Participant, USUAL};
use crate::machine::{Machine, timestamp};
use crate::results::{FORMAT, Missing, Results};
use crate::store;
use crate::trial_context::TrialContext;
use loadgen::plan::Request;
use stacks::{Catalogue, Presence};

/// Makes paths whole, so that the plan means the same wherever it is read.
pub(super) fn make_whole(lab: &mut Lab) {
    let app = Path::new(&lab.app);
    let named = app
        .file_name()
        .zip(app.parent().filter(|parent| *parent != Path::new("")));
    let whole = fs::canonicalize(app).ok().or_else(|| {
        // The last part may be a page.
        let (page, folder) = named?;
        Some(fs::canonicalize(folder).ok()?.join(page))
    });
    if let Some(whole) = whole {
        lab.app = whole.to_string_lossy().into_owned();
    }
    for file in &mut lab.stack_files {
        if let Ok(whole) = fs::canonicalize(&file) {
            *file = whole;
        }
    }
}

/// Open files of a process apart from the idle connections.
const OTHER_OPEN_FILES: u64 = 200;

/// Whether idle connections fit into `limit` open files, of the lab's process and of each that it starts.
pub(super) fn check_open_files(lab: &Lab, limit: u64) -> Result<()> {
    for load in &lab.loads {
        let idle = load.idle.unwrap_or(0);
        let needed = idle as u64 + OTHER_OPEN_FILES;
        ensure!(
            idle == 0 || needed <= limit,
            "{idle} idle connections need {needed} open files, and the hard limit is {limit}: raise it (ulimit -Hn), or \
             take fewer connections"
        );
    }
    Ok(())
}

/// The installed stacks and the missing ones. Where the plan names no stack, the usual ones are chosen and written into it.
pub(super) fn participants(lab: &mut Lab) -> Result<(Catalogue, Vec<Participant>, Vec<Missing>)> {
    let mut catalogue = Catalogue::load(&lab.stack_files)?;
    let chosen = lab.stacks.is_empty();
    if chosen {
        lab.stacks = USUAL.map(str::to_owned).to_vec();
    }
    let (mut present, mut missing) = (Vec::new(), Vec::new());
    for id in &lab.stacks {
        let mut participant = lab.participant(id);
        if let Some(url) = &participant.url {
            catalogue.add_external(id, url)?;
            participant.kind.clone_from(id);
        }
        match catalogue.get(&participant.kind)?.presence() {
            Presence::Installed { .. } => present.push(participant),
            Presence::Missing { .. } if chosen => {}
            Presence::Missing { reason, install } => missing.push(Missing {
                id: id.clone(),
                reason,
                install,
                stand_in: None,
            }),
        }
    }
    for one in &missing {
        let install = one
            .install
            .as_ref()
            .map_or_else(String::new, |command| format!("; `{command}` installs it"));
        eprintln!("{} is not installed: {}{install}", one.id, one.reason);
    }
    if present.is_empty() {
        bail!("none of the stacks is installed; `highball stacks` lists what is");
    }
    if chosen {
        lab.stacks = present
            .iter()
            .map(|participant| participant.id.clone())
            .collect();
    }
    Ok((catalogue, present, missing))
}

/// What is sent: what the plan says, or the application's page.
pub(super) fn requests(lab: &Lab, page: &str) -> Vec<Request> {
    if lab.requests.is_empty() {
        return vec![Request {
            method: "GET".to_owned(),
            path: page.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            weight: 1.0,
            expected: None,
        }];
    }
    lab.requests.iter().map(plan_request).collect()
}

pub(super) fn plan_request(request: &lab::Request) -> Request {
    Request {
        method: request.method.clone(),
        path: request.path.clone(),
        headers: request.headers.clone().into_iter().collect(),
        body: request.body_bytes.map_or_else(
            || request.body.clone().into_bytes(),
            |length| vec![b'x'; length],
        ),
        weight: request.weight,
        expected: None,
    }
}

/// Results without any trial.
pub(super) fn describe(
    context: &TrialContext<'_>,
    options: &RunOptions<'_>,
    participants: &[Participant],
    missing: Vec<Missing>,
) -> Result<Results> {
    let lab = context.lab;
    let mut stacks = Vec::new();
    for participant in participants {
        let definition = context.catalogue.get(&participant.kind)?;
        let mut stack = definition.describe(&context.deployment(participant, &participant.id));
        stack.environment.clone_from(&participant.environment);
        if participant.kind != participant.id {
            stack.name = format!("{} ({})", stack.name, participant.id);
            stack.id.clone_from(&participant.id);
        }
        stacks.push(stack);
    }
    let versions = stacks.iter().flat_map(|stack| stack.versions.clone());
    let names: Vec<&str> = stacks.iter().map(|stack| stack.name.as_str()).collect();
    let title = match lab.title.as_str() {
        "" => default_title(&context.application.description.name, &names),
        title => title.to_owned(),
    };
    Ok(Results {
        format: FORMAT,
        title,
        command: options.command.clone(),
        started: timestamp(),
        finished: None,
        quick: lab.is_quick(),
        seed: lab.seed,
        rounds: lab.trials,
        machine: Machine::with(versions),
        placement: context.placement.clone(),
        application: context.application.description.clone(),
        loads: lab
            .loads
            .iter()
            .map(|load| load.describe(lab, context.requests))
            .collect(),
        stacks,
        missing,
        varying: Vec::new(),
        trials: Vec::new(),
        peaks: Vec::new(),
    })
}

/// The most stacks that a default title names.
const TITLED: usize = 4;

fn default_title(application: &str, stacks: &[&str]) -> String {
    if stacks.len() > TITLED {
        return format!("{application} under {} stacks", stacks.len());
    }
    format!("{application}: {}", stacks.join(", "))
}

/// Whether the plan in the folder is this one; where results go is no part of it.
pub(super) fn same_plan(there: &Lab, here: &Lab, folder: &Path) -> Result<()> {
    let without_output = |lab: &Lab| Lab {
        output: None,
        ..lab.clone()
    };
    let (there, here) = (without_output(there), without_output(here));
    if let Some((key, there, here)) = store::difference(&there, &here)? {
        bail!(
            "can't resume the comparison in {}: {key} is {there} there and {here} here; resume it without a file and \
             without other flags, or start a new one",
            folder.display()
        );
    }
    Ok(())
}

/// The earlier results, where machine, application and stacks have not changed since.
pub(super) fn same_conditions(before: Results, now: &Results, folder: &Path) -> Result<Results> {
    let conditions = |results: &Results| {
        let lasting = results.machine.lasting();
        (
            lasting,
            results.application.clone(),
            results.stacks.clone(),
            results.placement.clone(),
        )
    };
    if let Some((path, there, here)) = store::difference(&conditions(&before), &conditions(now))? {
        let place = ["the machine", "the application", "a stack", "the cores"];
        let (first, rest) = path.split_once('.').unwrap_or((&path, ""));
        let what = first
            .parse()
            .ok()
            .and_then(|index: usize| place.get(index))
            .copied()
            .unwrap_or(first);
        bail!(
            "can't resume the comparison in {}: {what} has changed ({rest} was {there} and is {here}); start a new comparison",
            folder.display()
        );
    }
    Ok(Results {
        finished: None,
        ..before
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_must_fit_into_the_open_files() {
        let busy = lab::Load::closed(12);
        let mut lab = Lab {
            loads: vec![busy.clone()],
            ..Lab::default()
        };
        assert!(check_open_files(&lab, 100).is_ok());
        lab.loads.push(lab::Load {
            idle: Some(10_000),
            ..busy
        });
        assert!(check_open_files(&lab, 10_200).is_ok());
        let error = check_open_files(&lab, 10_199).unwrap_err().to_string();
        assert!(
            error.contains(
                "10000 idle connections need 10200 open files, and the hard limit is 10199"
            ),
            "{error}"
        );
    }

    #[test]
    fn a_title_names_a_few_stacks_and_counts_many() {
        let title = |stacks: &[&str]| default_title("Shop", stacks);
        assert_eq!(title(&["Thin", "Puma"]), "Shop: Thin, Puma");
        assert_eq!(title(&["a", "b", "c", "d", "e"]), "Shop under 5 stacks");
    }
}
