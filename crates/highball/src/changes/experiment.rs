//! An experiment begins and ends: a generation with another setting beside the one that serves, with half of its workers. Any
//! other change of the server ends it.

mod measuring;

use std::rc::Rc;
use std::time::Duration;

use exchange::Dispatcher;
use front::log::Level;
use supervisor::{Booted, ExperimentError, Load, Role, launch_beside, renew_workers};
use tokio::task::spawn_local;

use crate::application::Application;
use crate::changes::experiment::measuring::measure;
use crate::changes::{no_application, wait_for_previous};
use crate::control::messages::{ExperimentRequest, Progress};
use crate::control::queue::Change;
use crate::experiments::{ExperimentReport, ExperimentState};
use crate::hosted::Hosted;
use crate::server::Server;

/// Settings that template and workers may have for themselves. The front has one value of all others.
const SETTINGS_OF_A_HALF: [&str; 12] = [
    "allocator",
    "batch_scheduling",
    "compact",
    "heap",
    "jit",
    "merge_pages",
    "out_of_band_gc",
    "out_of_band_interval",
    "release_memory_after",
    "ruby",
    "runtime",
    "threads",
];

/// Ends the experiments of these applications, because of this change.
pub(super) fn end_because_of(change: &Change, concerned: &[&Rc<Hosted>]) {
    if matches!(change, Change::Experiment(_) | Change::EndExperiment(_)) {
        return;
    }
    let why = format!("{change} requested");
    for hosted in concerned {
        end(hosted, &why);
    }
}

/// Begins an experiment with the application that the request names, or with the only one.
pub(super) async fn start(server: &Server, request: &ExperimentRequest) -> Progress {
    let result = match find(server, request.application.as_deref()) {
        Ok(hosted) => {
            let beginning = Beginning { hosted, request };
            let started = beginning.start().await;
            started.map_err(|reason| hosted.named(&format!("no experiment: {reason}")))
        }
        Err(reason) => Err(reason),
    };
    match result {
        Ok(text) => Progress::done(text + "\n"),
        Err(text) => {
            server.log.event(Level::Warn, &text, &[]);
            Progress::failed(text)
        }
    }
}

/// Ends the experiment of the application with this name, or of the only one, and waits until all workers are back.
pub(super) async fn stop(server: &Server, name: Option<&str>) -> Progress {
    let hosted = match find(server, name) {
        Ok(hosted) => hosted,
        Err(text) => return Progress::failed(text),
    };
    if !end(hosted, "highball experiment --stop") {
        return Progress::failed(hosted.named("no experiment is running"));
    }
    wait_for_previous(server, hosted).await;
    Progress::done(hosted.named("the experiment was ended\n"))
}

fn find<'a>(server: &'a Server, name: Option<&str>) -> Result<&'a Rc<Hosted>, String> {
    match (&server.hosted[..], name) {
        (all, Some(name)) => {
            let found = all.iter().find(|one| one.name().as_deref() == Some(name));
            found.ok_or_else(|| no_application(server, name))
        }
        ([only], None) => Ok(only),
        _ => Err("this server has several applications: name one with --application".to_owned()),
    }
}

/// Ends the experiment of an application, if one runs; `why` stands in its report. Returns whether there was one.
fn end(hosted: &Hosted, why: &str) -> bool {
    let runs = supervisor::is_experimenting(&hosted.supervisor);
    if runs {
        hosted.experiments.reason.replace(Some(why.to_owned()));
        supervisor::end_experiment(&hosted.supervisor);
    }
    runs
}

/// An experiment that begins.
struct Beginning<'a> {
    hosted: &'a Rc<Hosted>,
    request: &'a ExperimentRequest,
}

impl Beginning<'_> {
    /// Begins an experiment, and has it measured. Returns what was done; the error says why not.
    async fn start(&self) -> Result<String, String> {
        let hosted = self.hosted;
        if supervisor::is_experimenting(&hosted.supervisor) {
            return Err("one is running; highball experiment --stop ends it".to_owned());
        }
        let _turn = hosted.turn.lock().await;
        let base = hosted.serving.get();
        let base = base.ok_or("the application does not serve")?;
        let application = hosted.application.borrow().clone();
        if !application.settings.measure_requests {
            return Err("requests are not measured (setting measure_requests)".to_owned());
        }
        let variant = variant(&application, self.request)?;
        let renewed = renew_workers(&hosted.supervisor).await;
        renewed.map_err(|error| error.to_string())?;
        let booted = self.launch(&variant).await;
        booted.map_err(|error| format!("{error:#}"))?;
        let report = self.report([base, hosted.latest.get()]);
        let text = self.begun(&report);
        hosted.log().event(Level::Info, &text, &[]);
        hosted.experiments.begin(&report);
        let time = Duration::from_secs(self.request.seconds.into());
        spawn_local(measure(Rc::clone(hosted), report.generations, time));
        Ok(text)
    }

    /// Starts the generation with the other setting.
    async fn launch(&self, variant: &Application) -> anyhow::Result<Booted> {
        let hosted = self.hosted;
        hosted.latest.set(hosted.latest.get() + 1);
        let generation = hosted.latest.get();
        hosted
            .front
            .open_generation(generation, &variant.settings)?;
        let close = || hosted.front.dispatcher().close(generation);
        let load = hosted.load(variant, generation).await;
        let mut load: Load = load.inspect_err(|_| close())?;
        // One that is forked from a worker would be no fair comparison.
        load.plan.refork.clear();
        let variables = self.request.variables.clone();
        load.plan.variables.extend(variables);
        let booted = launch_beside(&hosted.supervisor, load).await;
        if let Err(ExperimentError::Busy | ExperimentError::OtherFolder { .. }) = &booted {
            close();
        }
        Ok(booted?)
    }

    fn report(&self, generations: [u32; 2]) -> ExperimentReport {
        let processes = self.hosted.supervisor.processes();
        let workers = generations.map(|generation| {
            let own = processes.iter().filter(|one| {
                one.role == Role::Worker
                    && one.generation == Some(generation)
                    && one.state == "ready"
            });
            own.count()
        });
        ExperimentReport {
            state: ExperimentState::WarmingUp,
            setting: self.request.text(),
            generations,
            workers,
            seconds: self.request.seconds,
            notes: self.notes(generations),
            ..ExperimentReport::default()
        }
    }

    /// What makes the comparison other than it seems.
    fn notes(&self, [base, variant]: [u32; 2]) -> Vec<String> {
        let all = self.hosted.supervisor.generations();
        let option = |generation: u32, name: &str| {
            let own = all.iter().find(|one| one.number == generation)?;
            own.runtime.iter().find(|option| option.name == name)
        };
        let same = self.request.settings.keys().filter_map(|name| {
            let (first, second) = option(base, name).zip(option(variant, name))?;
            (first.value == second.value).then(|| {
                let (value, reason) = (&second.value, &second.reason);
                format!("{name} is {value} in both halves: {reason}")
            })
        });
        let mut processes = self.hosted.supervisor.processes().into_iter();
        let forked = processes
            .any(|one| one.generation == Some(base) && one.forked_from.is_some())
            .then(|| {
                "the first half's template was forked from a worker (refork), the other's was loaded: its workers begin \
                 with less in memory"
                    .to_owned()
            });
        same.chain(forked).collect()
    }

    fn begun(&self, report: &ExperimentReport) -> String {
        let [base, variant] = report.generations;
        let [first, second] = report.workers;
        let (setting, seconds) = (&report.setting, report.seconds);
        self.hosted.named(&format!(
            "experiment: {second} of {} workers run with {setting} (generation {variant}, beside generation {base}); measuring \
             for {seconds} s after the warm-up",
            first + second
        ))
    }
}

/// The application with the setting of the second half.
///
/// # Errors
/// A setting that is none of the workers' own, or a value that it cannot have.
fn variant(application: &Application, request: &ExperimentRequest) -> Result<Application, String> {
    let mut settings = (*application.settings).clone();
    for (name, value) in &request.settings {
        if !SETTINGS_OF_A_HALF.contains(&&**name) {
            let all = SETTINGS_OF_A_HALF.join(", ");
            let name = name.escape_debug();
            return Err(format!(
                "{name} is no setting that half of the workers can have for themselves; these are: {all}"
            ));
        }
        let changed = settings.with(name, value);
        settings = changed.map_err(|errors| errors.to_string())?;
    }
    Ok(Application {
        settings: Rc::new(settings),
        ..application.clone()
    })
}
