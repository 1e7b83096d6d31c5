//! A whole benchmark: rounds of trials in random order, each result written down at once. In a round every
//! workload comes once, and its stacks run next to each other, so that they share the machine's weather.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::results::{Results, Run, Trial};
use crate::stack::Stack;
use crate::trial::{self, Figures, Pace};
use crate::workload::{App, Kind, Workload};
use compare::machine::{Machine, raise_open_files, timestamp};
use loadgen::plan::Arrivals;
use loadgen::random::Random;
use stacks::{Catalogue, Definition, Deployment, Presence};

/// Redmine needs some ten seconds of CPU to boot; a shared machine makes that longer.
pub(super) const BOOT_TIMEOUT: Duration = Duration::from_secs(120);

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The repository's root.
    pub root: PathBuf,
    /// The program under test.
    pub highball: PathBuf,
    /// A prepared Redmine.
    pub redmine: Option<PathBuf>,
    /// The workloads, in any order.
    pub workloads: Vec<&'static Workload>,
    /// The stacks that take part where a workload has them.
    pub stacks: Vec<Stack>,
    /// How often each is measured.
    pub rounds: usize,
    /// Load of an unstretched workload.
    pub duration: Duration,
    /// Warm-up before it.
    pub warm_up: Duration,
    /// The open loop's arrivals.
    pub arrivals: Arrivals,
    /// What order and arrivals depend on.
    pub seed: u64,
    /// Whether the figures are indicative only.
    pub quick: bool,
    /// The command line, for the record.
    pub command: String,
    /// Where the raw data goes.
    pub folder: PathBuf,
}

/// Runs everything, telling its progress on stderr.
///
/// # Errors
/// When nothing can be measured or the raw data cannot be written. A trial that fails is recorded and the
/// rest goes on.
pub fn run(options: &Options) -> Result<Results> {
    let limit = raise_open_files()?;
    let peers = Peers::of(options)?;
    let (planned, skipped) = plan(options, &peers, limit);
    for reason in &skipped {
        eprintln!("skipped: {reason}");
    }
    if planned.is_empty() {
        bail!("nothing to measure");
    }
    let id = timestamp();
    let mut results = Results::load(&options.folder)?;
    let ids: Vec<&str> = options
        .workloads
        .iter()
        .map(|workload| workload.id)
        .collect();
    results.begin(describe(options, &peers, &id, &planned, skipped)?, &ids);

    let scratch = std::env::temp_dir().join(format!("highball-bench-{}", std::process::id()));
    let total = planned
        .iter()
        .map(|(_, stacks)| stacks.len())
        .sum::<usize>()
        * options.rounds;
    let begin = Instant::now();
    let mut random = Random::new(options.seed);
    let mut bodies = BTreeMap::new();
    let mut position = 0;
    for round in 1..=options.rounds {
        let mut order = planned.clone();
        random.shuffle(&mut order);
        let seed = random.bits();
        for (workload, mut stacks) in order {
            random.shuffle(&mut stacks);
            for stack in stacks {
                position += 1;
                let started = timestamp();
                eprint!(
                    "[{position}/{total}, {} s] round {round}, {}, {stack}: ",
                    begin.elapsed().as_secs(),
                    workload.id
                );
                let place = scratch.join(format!("{position}-{}-{stack}", workload.id));
                let outcome = one_trial(options, peers.get(stack)?, workload, &place, seed)
                    .and_then(|figures| check_body(&mut bodies, workload, stack, figures));
                eprintln!("{}", summary(&outcome));
                if outcome.is_ok() {
                    // Kept after a failure, for its logs.
                    let _ = fs::remove_dir_all(&place);
                }
                results.trials.push(record(
                    &id, workload, stack, round, position, started, outcome,
                ));
                results.save(&options.folder)?;
            }
        }
    }
    let _ = fs::remove_dir(&scratch);
    if let Some(run) = results.runs.last_mut() {
        run.finished = timestamp();
    }
    results.save(&options.folder)?;
    Ok(results)
}

/// The stacks that were asked for, as the lab has them.
struct Peers {
    catalogue: Catalogue,
    /// Those that cannot take part, and why.
    missing: Vec<(Stack, String)>,
}

impl Peers {
    fn of(options: &Options) -> Result<Self> {
        let catalogue = Catalogue::load_from(&options.root.join("lab"), &[])?;
        let mut missing = Vec::new();
        for stack in &options.stacks {
            let presence = catalogue.get(stack.id())?.presence_of(&options.highball);
            if let Presence::Missing { reason, install } = presence {
                let install = match (stack, install) {
                    (Stack::Highball, _) => {
                        "; `make build` builds it, --highball names it".to_owned()
                    }
                    (_, Some(command)) => format!("; `{command}` installs it"),
                    (_, None) => String::new(),
                };
                missing.push((*stack, format!("{stack}: {reason}{install}")));
            }
        }
        Ok(Self { catalogue, missing })
    }

    fn get(&self, stack: Stack) -> Result<&Definition> {
        self.catalogue.get(stack.id())
    }

    fn are_here(&self, stack: Stack) -> bool {
        !self.missing.iter().any(|(missing, _)| *missing == stack)
    }
}

/// The workloads with the stacks that can take part, and what cannot.
fn plan(
    options: &Options,
    peers: &Peers,
    open_files: u64,
) -> (Vec<(&'static Workload, Vec<Stack>)>, Vec<String>) {
    let mut planned = Vec::new();
    let missing = peers.missing.iter().map(|(_, reason)| reason.clone());
    let mut skipped: Vec<String> = missing.collect();
    for &workload in &options.workloads {
        if workload.app == App::Redmine && options.redmine.is_none() {
            skipped.push(format!(
                "{}: no Redmine; `scripts/redmine target/bench/redmine` makes one, --redmine names another",
                workload.id
            ));
            continue;
        }
        if let Kind::Idle { connections } = workload.kind
            && open_files < connections as u64 + 200
        {
            skipped.push(format!(
                "{}: only {open_files} open files are allowed",
                workload.id
            ));
            continue;
        }
        let takes_part = |stack: &&Stack| options.stacks.contains(stack) && peers.are_here(**stack);
        let stacks: Vec<Stack> = workload.stacks.iter().filter(takes_part).copied().collect();
        if !stacks.is_empty() {
            planned.push((workload, stacks));
        }
    }
    (planned, skipped)
}

fn one_trial(
    options: &Options,
    stack: &Definition,
    workload: &Workload,
    place: &Path,
    seed: u64,
) -> Result<Figures> {
    let app = match workload.app {
        App::Lab(name) => options.root.join("lab/apps").join(name),
        App::Redmine => options.redmine.clone().context("no Redmine")?,
    };
    let deployment = deployment(workload, app, &options.highball, place);
    trial::run(workload, stack, &deployment, pace(options, seed))
}

/// The same for every stack: worker processes with one thread each, and no variable of its own.
fn deployment(workload: &Workload, app: PathBuf, highball: &Path, scratch: &Path) -> Deployment {
    Deployment {
        app,
        highball: highball.to_owned(),
        scratch: scratch.to_owned(),
        workers: workload.workers,
        threads: 1,
        environment: BTreeMap::new(),
        path: workload.path.to_owned(),
        boot_timeout: BOOT_TIMEOUT,
        cores: Vec::new(),
    }
}

fn pace(options: &Options, seed: u64) -> Pace {
    Pace {
        duration: options.duration,
        warm_up: options.warm_up,
        arrivals: options.arrivals,
        seed,
    }
}

/// A stack that sends another page than the others is not faster, it does something else.
fn check_body(
    bodies: &mut BTreeMap<&'static str, (Stack, Vec<u8>)>,
    workload: &'static Workload,
    stack: Stack,
    mut figures: Figures,
) -> Result<Figures> {
    let body = std::mem::take(&mut figures.body);
    if !workload.same_body {
        return Ok(figures);
    }
    let (first, expected) = bodies
        .entry(workload.id)
        .or_insert_with(|| (stack, body.clone()));
    if *expected != body {
        bail!(
            "its page ({} bytes) is not the one of {first} ({} bytes)",
            body.len(),
            expected.len()
        );
    }
    Ok(figures)
}

fn record(
    run: &str,
    workload: &Workload,
    stack: Stack,
    round: usize,
    position: usize,
    started: String,
    outcome: Result<Figures>,
) -> Trial {
    let (figures, failure) = match outcome {
        Ok(figures) => (figures, None),
        Err(error) => (Figures::default(), Some(format!("{error:#}"))),
    };
    Trial {
        run: run.to_owned(),
        workload: workload.id.to_owned(),
        stack,
        round,
        position,
        started,
        failure,
        measures: figures.measures,
        generator_output: figures.generator_output,
    }
}

fn describe(
    options: &Options,
    peers: &Peers,
    id: &str,
    planned: &[(&'static Workload, Vec<Stack>)],
    skipped: Vec<String>,
) -> Result<Run> {
    let commands = planned.iter().map(|(workload, stacks)| {
        let line = |stack: &Stack| Ok((*stack, shown_command(workload, peers.get(*stack)?)));
        let lines = stacks.iter().map(line).collect::<Result<Vec<_>>>()?;
        Ok((workload.id.to_owned(), lines))
    });
    let loads = planned.iter().map(|(workload, _)| {
        let load = trial::describe_load(workload, pace(options, options.seed));
        (workload.id.to_owned(), load)
    });
    Ok(Run {
        id: id.to_owned(),
        finished: String::new(),
        command: options.command.clone(),
        rounds: options.rounds,
        duration_s: options.duration.as_secs(),
        warm_up_s: options.warm_up.as_secs(),
        seed: options.seed,
        quick: options.quick,
        machine: Machine::capture(&options.highball),
        commands: commands.collect::<Result<_>>()?,
        loads: loads.collect(),
        skipped,
    })
}

/// The command of a trial with names in the places of paths and ports.
fn shown_command(workload: &Workload, stack: &Definition) -> String {
    let nowhere = Path::new("");
    let shown = stack.describe(&deployment(workload, PathBuf::new(), nowhere, nowhere));
    let files = shown
        .files
        .iter()
        .map(|(path, content)| format!("   # {path}: {}", content.trim().replace('\n', "; ")));
    shown.commands.join("; ") + &files.collect::<String>()
}

fn summary(outcome: &Result<Figures>) -> String {
    use crate::workload::measure::{
        BUSY_RATIO, CPU, ERRORS, FRONT_RSS, NEWCOMER, OTHER_CORES, P99, PSS, RATE,
    };
    let figures = match outcome {
        Ok(figures) => figures,
        Err(error) => return format!("failed: {error:#}"),
    };
    let shown = [
        RATE,
        P99,
        CPU,
        PSS,
        FRONT_RSS,
        NEWCOMER,
        BUSY_RATIO,
        ERRORS,
        OTHER_CORES,
    ]
    .map(|name| {
        let value = figures.measures.get(name)?;
        Some(format!("{name} {value:.2}"))
    });
    shown.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    fn options() -> Options {
        Options {
            root: test_support::workspace(),
            highball: PathBuf::from("/nonexistent/highball"),
            redmine: None,
            workloads: workload::select(None),
            stacks: vec![Stack::Highball],
            rounds: 1,
            duration: Duration::from_secs(1),
            warm_up: Duration::from_secs(1),
            arrivals: Arrivals::Poisson,
            seed: 1,
            quick: true,
            command: String::new(),
            folder: PathBuf::from("/nonexistent"),
        }
    }

    #[test]
    fn what_cannot_take_part_is_skipped_with_its_reason() {
        let options = options();
        let peers = Peers::of(&options).unwrap();
        let (planned, skipped) = plan(&options, &peers, 5_000);
        assert!(planned.is_empty());
        let all = skipped.join("\n");
        for reason in [
            "Highball: highball is not there; `make build` builds it",
            "redmine-12: no Redmine",
            "idle: only 5000 open files",
        ] {
            assert!(all.contains(reason), "{all}");
        }
    }

    #[test]
    fn shown_commands_hold_no_path_of_the_machine() {
        let catalogue = Catalogue::load_from(&test_support::workspace().join("lab"), &[]).unwrap();
        for workload in workload::select(None) {
            for stack in workload.stacks {
                let command = shown_command(workload, catalogue.get(stack.id()).unwrap());
                let workers = format!(" {}", workload.workers);
                assert!(command.contains(&workers), "{command}");
                assert!(
                    !command.contains("/tmp")
                        && !command.contains("/home")
                        && !command.contains(" /"),
                    "{command}"
                );
            }
        }
    }

    #[test]
    fn another_page_than_the_first_fails_the_trial() {
        let mut bodies = BTreeMap::new();
        let figures = |body: &[u8]| Figures {
            body: body.to_vec(),
            ..Figures::default()
        };
        let hello = workload::find("hello-12").unwrap();
        check_body(&mut bodies, hello, Stack::Puma, figures(b"abc")).unwrap();
        check_body(&mut bodies, hello, Stack::Unicorn, figures(b"abc")).unwrap();
        let error = check_body(&mut bodies, hello, Stack::Passenger, figures(b"ab")).unwrap_err();
        assert!(error.to_string().contains("not the one of Puma"), "{error}");
        let redmine = workload::find("redmine-12").unwrap();
        check_body(&mut bodies, redmine, Stack::Puma, figures(b"1")).unwrap();
        check_body(&mut bodies, redmine, Stack::Unicorn, figures(b"2")).unwrap();
    }
}
