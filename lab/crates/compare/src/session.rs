//! A whole comparison from its plan to its results: stacks, rehearsal, rounds of trials and searches. Results are written after
//! each. [`super::trial`] and [`super::search`] carry out single ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use super::lab::{FindPeak, Lab, Load, Participant};
use super::live::Live;
use super::lock::Lock;
use super::order::{self, Group, Task};
use super::progress::{self, Progress};
use super::results::{Results, Trial};
use super::store::Store;
use super::trial_context::TrialContext;
use super::{placement, trial};
use crate::machine::{raise_open_files, timestamp};
use stacks::application::Application;

mod opening;
mod rehearsal;
mod searching;

/// How a comparison is carried out: everything that is not part of its plan.
#[derive(Debug, Clone)]
pub struct RunOptions<'a> {
    /// The program `highball`.
    pub highball: PathBuf,
    /// The command line, for the record.
    pub command: String,
    /// Where results go.
    pub folder: PathBuf,
    /// Where copies of applications are kept, and trials have their temporary files.
    pub work: PathBuf,
    /// Whether the comparison in the folder is resumed.
    pub resume: bool,
    /// Whether what is in the folder is replaced, once stacks and application are known to be there.
    pub replace: bool,
    /// Set from elsewhere, it ends the comparison: what was measured is kept, what was started is stopped.
    pub stop: &'a AtomicBool,
}

/// Connections of the default load.
const CONNECTIONS: usize = 12;

/// Runs a comparison to its end, or until `stop` is set; then `finished` is `None`.
///
/// # Errors
/// Nothing can be measured, results can't be written, or a comparison can't be resumed because something has changed. A stack
/// or a trial that fails is no error: it is recorded, and the comparison continues.
pub fn run(lab: &Lab, options: &RunOptions<'_>) -> Result<Results> {
    lab.check()?;
    let cores = placement::usable();
    placement::check(lab, &cores)?;
    opening::check_open_files(lab, raise_open_files()?)?;
    let mut lab = lab.clone();
    opening::make_whole(&mut lab);
    // Before anything is read or removed there. Comparisons without --output share a work folder.
    let _folder = Lock::take(&options.folder)?;
    let _work = Lock::take(&options.work)?;
    let begun = options
        .resume
        .then(|| Store::open(&options.folder))
        .transpose()?;
    if let Some((_, there, _)) = &begun {
        opening::same_plan(there, &lab, &options.folder)?;
    }
    let (catalogue, participants, missing) = opening::participants(&mut lab)?;
    if lab.loads.is_empty() && lab.find_peak.is_none() {
        lab.loads.push(Load::closed(CONNECTIONS));
    }
    let application = Application::open(&lab.app)?;
    let (store, before) = match begun {
        None => (
            Store::create(&options.folder, &lab, options.replace)?,
            Results::default(),
        ),
        Some((store, _, before)) => (store, before),
    };
    let application = application.prepare(&options.work, options.stop);
    if options.stop.load(Ordering::Relaxed) {
        return Ok(Results {
            finished: None,
            ..before
        });
    }
    let application = application?;
    let requests = opening::requests(&lab, &application.path);
    let scratch = options.work.join("trials");
    // Files of a killed lab.
    let _ = fs::remove_dir_all(&scratch);
    let mut context = TrialContext {
        lab: &lab,
        catalogue: &catalogue,
        application: &application,
        requests: &requests,
        login: lab.login.as_ref().map(opening::plan_request),
        agreed: None,
        likeness: Vec::new(),
        placement: placement::place(&lab, &cores),
        cores: cores.len(),
        highball: &options.highball,
        scratch,
        stop: options.stop,
        live: Live::on_stderr(),
    };
    let now = opening::describe(&context, options, &participants, missing)?;
    // Format 0: the folder holds a plan and no results.
    let results = match before.format {
        0 => now,
        _ => opening::same_conditions(before, &now, &options.folder)?,
    };
    store.save(&results)?;
    let mut session = Session {
        progress: Progress::new(0, 0),
        context: &mut context,
        participants,
        store,
        results,
    };
    let ran = session.run();
    session.context.live.clear();
    ran?;
    let _ = fs::remove_dir_all(&session.context.scratch);
    Ok(session.results)
}

/// The plan of the comparison in `folder`.
///
/// # Errors
/// There is none.
pub fn plan_of(folder: &Path) -> Result<Lab> {
    Store::open(folder).map(|(_, lab, _)| lab)
}

struct Session<'a, 'b> {
    context: &'a mut TrialContext<'b>,
    /// The stacks that take part; those that fail the rehearsal are removed.
    participants: Vec<Participant>,
    store: Store,
    results: Results,
    progress: Progress,
}

impl Session<'_, '_> {
    fn run(&mut self) -> Result<()> {
        self.rehearse()?;
        if self.stopped() {
            return Ok(());
        }
        let lab = self.context.lab;
        let groups = order::order(
            lab.seed,
            lab.trials,
            lab.searches(),
            lab.loads.len(),
            self.participants.len(),
        );
        if !self.participants.is_empty() {
            self.measure_ceilings()?;
        }
        self.progress = Progress::planned(&groups, &self.participants, &self.results);
        for group in &groups {
            match group.task {
                Task::Trial(load) => self.trials(group, &lab.loads[load])?,
                Task::Search => self.searches(
                    group,
                    lab.find_peak.as_ref().unwrap_or(&FindPeak::default()),
                )?,
            }
            if self.stopped() {
                return Ok(());
            }
        }
        self.results.finished = Some(timestamp());
        self.store.save(&self.results)
    }

    /// Measures the most that the generator can do under each load.
    fn measure_ceilings(&mut self) -> Result<()> {
        for (load, result) in self.context.lab.loads.iter().zip(&mut self.results.loads) {
            if result.ceiling.is_none() {
                result.ceiling = self.context.ceiling(load)?;
            }
        }
        self.store.save(&self.results)
    }

    fn trials(&mut self, group: &Group, load: &Load) -> Result<()> {
        for participant in self.turns(group) {
            let id = load.id();
            let done = |trial: &Trial| {
                trial.stack == participant.id && trial.load == id && trial.round == group.round
            };
            if self.results.trials.iter().any(done) {
                continue;
            }
            let mut blank = self.blank(&participant, &id, group.round);
            let name = folder_name(&blank);
            self.progress
                .begin(&self.context.live, &format!("{} {id}", participant.id));
            let found = trial::run(self.context, &participant, load, group.seed, &name);
            if self.stopped() {
                return Ok(());
            }
            match found {
                Ok(found) => blank = found.named_as(blank),
                Err(error) => blank.failure = Some(format!("{error:#}")),
            }
            let line = format!(
                "round {}, {}, {}: {}",
                group.round,
                load.title(),
                participant.id,
                progress::summary(&blank)
            );
            self.record(blank)?;
            self.progress.did_trial();
            self.progress.say(&self.context.live, &line);
        }
        Ok(())
    }

    /// The first trial of `stack` that is still to come: its load and round.
    fn next_trial(&self, stack: &str) -> Option<(String, usize)> {
        let lab = self.context.lab;
        let mut all =
            (1..=lab.trials).flat_map(|round| lab.loads.iter().map(move |load| (load.id(), round)));
        all.find(|(load, round)| {
            let is = |trial: &Trial| {
                trial.stack == stack && trial.load == *load && trial.round == *round
            };
            !self.results.trials.iter().any(is)
        })
    }

    /// A trial without results.
    fn blank(&self, participant: &Participant, load: &str, round: usize) -> Trial {
        let steps = self
            .results
            .peaks
            .iter()
            .map(|peak| peak.steps.len() + usize::from(peak.overload.is_some()));
        Trial {
            stack: participant.id.clone(),
            load: load.to_owned(),
            round,
            position: self.results.trials.len() + steps.sum::<usize>() + 1,
            started: timestamp(),
            ..Trial::default()
        }
    }

    fn record(&mut self, trial: Trial) -> Result<()> {
        self.store
            .keep(trial.position, &trial.stack, &trial.load, &trial)?;
        self.results.trials.push(trial);
        self.store.save(&self.results)
    }

    fn turns(&self, group: &Group) -> Vec<Participant> {
        group
            .stacks
            .iter()
            .map(|place| self.participants[*place].clone())
            .collect()
    }

    fn stopped(&self) -> bool {
        self.context.stop.load(Ordering::Relaxed)
    }
}

fn folder_name(trial: &Trial) -> String {
    format!("{:03}-{}-{}", trial.position, trial.stack, trial.load)
}
