//! An application that is served: its folder, its settings, and what its processes are started with. Looks at files; starts
//! nothing.

pub(crate) mod library;
mod program_paths;
pub(crate) mod published;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::{ApplicationTable, Jit, Listen, MemoryBudget, Rollout, RuntimeTuning, Settings};
use exchange::control::{ExceptionRules, Start};
use front::{ApplicationPlan, Reader};
use supervisor::{Bound, Limits, Load, Plan};

use crate::changes::handover::VARIABLE;
use crate::cli::launcher;
use crate::system::privileges::User;
use crate::system::terminal::Terminal;
use crate::system::{allocator, systemd};

/// The generation that a server starts with.
pub(crate) const FIRST_GENERATION: u32 = 1;
/// The least time that workers get for their hooks when they stop, however long requests took to finish.
pub(crate) const LEAST_GRACE: Duration = Duration::from_secs(1);

/// What template and workers get from this process and not from the application's folder. It does not change while the
/// server runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChildEnvironment {
    /// The soft limit of descriptors, where it differs from the front's own.
    pub(crate) descriptors: Option<u64>,
    /// The user of the processes, where it is not the front's.
    pub(crate) user: Option<User>,
    /// The users that other applications have of their own, where this one has one too.
    pub(crate) others: Vec<u32>,
    /// Variables that name the user.
    pub(crate) variables: Vec<(String, String)>,
    /// The terminal that debuggers in workers use, in `development` and `test`.
    pub(crate) terminal: Option<Arc<Terminal>>,
}

/// An application and its settings. In another thread it owns its settings; [`Application::share`] puts them behind an `Rc`.
#[derive(Clone, Debug)]
pub(crate) struct Application<S = Rc<Settings>> {
    /// What the file says of it beside settings, where a server has several.
    pub(crate) table: Option<ApplicationTable>,
    /// Its folder for people: canonical, as it was at the start, of a server's only application; as it was named otherwise.
    pub(crate) dir: PathBuf,
    /// Its folder as it was named: a link in it may lead elsewhere at the next restart.
    pub(crate) named: PathBuf,
    pub(crate) settings: S,
    pub(crate) child_environment: ChildEnvironment,
}

/// The files that a generation is loaded from.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    dir: String,
    config_ru: String,
    hooks: Option<String>,
    /// The folder of Highball's Ruby files.
    library: PathBuf,
    /// Variables for the allocator.
    allocator: Vec<(String, String)>,
}

impl Application<Settings> {
    /// The same, with shared settings.
    pub(crate) fn share(self) -> Application {
        Application {
            table: self.table,
            dir: self.dir,
            named: self.named,
            settings: Rc::new(self.settings),
            child_environment: self.child_environment,
        }
    }
}

impl<S> Application<S> {
    /// Its name, where a server has several applications.
    pub(crate) fn name(&self) -> Option<&str> {
        self.table.as_ref().map(|table| &*table.name)
    }
}

impl Application {
    /// Returns a function that finds the files of a generation, in the folder as it is now. It blocks; its errors: the folder
    /// or the rackup file is gone, a path is not in UTF-8, the Ruby library is missing, another application could change what
    /// is run, the allocator that the settings name is not installed.
    pub(crate) fn code(&self) -> impl FnOnce() -> Result<Code> + Send + use<> {
        let named = self.named.clone();
        let (hooks, run) = (self.settings.hooks.clone(), self.settings.rackup.clone());
        let ruby = self.settings.ruby.clone();
        let others = self.child_environment.others.clone();
        let has_user = self.child_environment.user.is_some();
        let (wanted, runtime) = (self.settings.allocator, self.settings.runtime);
        let own = self.own_variables().to_vec();
        move || {
            let dir = folder(&named)?;
            let hooks = dir.join(hooks);
            let library = library::find()?;
            if has_user {
                program_paths::check(&ruby, &library, &others)?;
            }
            Ok(Code {
                config_ru: text(&rackup(&run, &dir)?)?,
                hooks: hooks.is_file().then(|| text(&hooks)).transpose()?,
                library,
                allocator: allocator::variables(wanted, runtime, &own)?,
                dir: text(&dir)?,
            })
        }
    }

    /// How long workers that stop may take, whatever they run.
    pub(crate) fn drain_timeout(&self) -> Duration {
        self.settings.drain_timeout.max(LEAST_GRACE)
    }

    /// What the supervisor needs to run its processes.
    fn plan(&self, library: PathBuf, allocator: Vec<(String, String)>) -> Plan {
        let settings = &self.settings;
        Plan {
            ruby: settings.ruby.clone(),
            library,
            workers: settings.workers.least(),
            most_by_load: settings.workers.most(),
            most_workers: settings.most_workers(),
            boot_timeout: settings.boot_timeout,
            drain_timeout: self.drain_timeout(),
            limits: Limits {
                requests: settings.worker_max_requests,
                age: settings.worker_max_age,
                memory: settings.worker_max_memory,
            },
            budget: match settings.memory_budget {
                None => Bound::None,
                Some(MemoryBudget::Auto) => Bound::Auto,
                Some(MemoryBudget::Bytes(bytes)) => Bound::Bytes(bytes),
            },
            worker_by_worker: settings.rollout == Rollout::WorkerByWorker,
            check: settings.ready_check.clone(),
            refork: settings.refork.clone(),
            own_variables: systemd::VARIABLES
                .into_iter()
                .chain([VARIABLE, launcher::VARIABLE])
                .map(str::to_owned)
                .collect(),
            variables: self.variables(allocator),
            descriptors: self.child_environment.descriptors,
        }
    }

    /// Variables of its processes: those that name the user, those for Ruby itself, then its own.
    fn variables(&self, allocator: Vec<(String, String)>) -> Vec<(String, String)> {
        let mut all = self.child_environment.variables.clone();
        all.extend(allocator);
        all.push((
            JIT_VARIABLE.to_owned(),
            wanted_jit(&self.settings).to_owned(),
        ));
        all.extend_from_slice(self.own_variables());
        all
    }

    /// The variables that its table sets.
    fn own_variables(&self) -> &[(String, String)] {
        self.table.as_ref().map_or(&[], |table| &table.variables)
    }

    /// What the front of the application is made from.
    pub(crate) fn front_plan(&self, generation: u32) -> ApplicationPlan {
        let (hosts, prefix) = match &self.table {
            Some(table) => (table.hosts.clone(), table.prefix.clone()),
            None => (Vec::new(), String::new()),
        };
        ApplicationPlan {
            name: self.name().map(str::to_owned),
            hosts,
            prefix,
            settings: Rc::clone(&self.settings),
            generation,
            reader: Reader::of(self.child_environment.user.map(|user| user.uid)),
        }
    }

    /// What the supervisor needs to load a generation.
    ///
    /// # Errors
    /// A path is not in UTF-8.
    pub(crate) fn generation(
        &self,
        code: Code,
        generation: u32,
        exchange: [OwnedFd; 2],
        unix_sockets: &[PathBuf],
    ) -> Result<Load> {
        let settings = &self.settings;
        let own_user = self.child_environment.user.is_some();
        // Another user may not remove them.
        let unix_sockets = unix_sockets.iter().filter(|_| !own_user);
        let unix_sockets: Result<_> = unix_sockets.map(|path| text(path)).collect();
        let terminal = self.child_environment.terminal.as_ref();
        let start = Start {
            app: code.dir,
            config_ru: code.config_ru,
            environment: settings.environment.clone(),
            hooks: code.hooks,
            threads: settings.threads.most(),
            compact: settings.compact,
            roomy_heap: settings.heap == "roomy",
            merge_pages: settings.merge_pages,
            batch: settings.batch_scheduling,
            low_priority: false,
            warm_up: settings.warm_up.paths.clone(),
            frequent_paths: settings.warm_up.frequent.then(Vec::new),
            early_hints: settings.early_hints,
            rails_log_to_stdout: settings.rails_log_to_stdout,
            out_of_band: settings.out_of_band_interval,
            out_of_band_gc: settings.out_of_band_gc == "auto",
            release_memory_after: (settings.release_memory_after)
                .map(|after| after.as_secs().try_into().unwrap_or(u32::MAX)),
            generation,
            unix_sockets: unix_sockets?,
            terminal: terminal.map(|terminal| text(terminal.path())).transpose()?,
            error_page: shows_error_page(settings, terminal.is_some()),
            measure_requests: settings.measure_requests,
            exceptions: settings.exceptions.then(|| exception_rules(settings)),
            own_user,
        };
        Ok(Load {
            start,
            exchange,
            plan: self.plan(code.library, code.allocator),
        })
    }
}

/// Tells the template which compiler is wanted. No field of [`Start`]: before 3.3 Ruby must be started with it.
const JIT_VARIABLE: &str = "HIGHBALL_TEMPLATE_JIT";

/// The compiler that is wanted, as the template understands it.
fn wanted_jit(settings: &Settings) -> &'static str {
    match (settings.jit, settings.runtime) {
        (Jit::None, _) => "none",
        (Jit::Auto, RuntimeTuning::Plain) => "plain",
        (Jit::Auto, RuntimeTuning::Auto) => "auto",
        (Jit::Yjit, _) => "yjit",
    }
}

/// How workers report exceptions.
fn exception_rules(settings: &Settings) -> Box<ExceptionRules> {
    Box::new(ExceptionRules {
        ignore: settings.exception_ignore.clone(),
        filter: settings.log_filter_parameters.words().to_vec(),
        release: settings.release.clone(),
    })
}

/// Whether browsers may see errors of the application with its source: only in `development`. A server that was started
/// without an environment may be one for production whose operator forgot it, perhaps behind a proxy: then only where a
/// person started it in a terminal and no other machine reaches it.
fn shows_error_page(settings: &Settings, in_terminal: bool) -> bool {
    let is_local = |listen: &Listen| match listen {
        Listen::Tcp(address) | Listen::Tls(address) => address.ip().is_loopback(),
        Listen::Unix(_) => true,
    };
    let is_safe = in_terminal && settings.listen.iter().all(is_local);
    settings.environment == "development" && (is_safe || !settings.environment_is_default())
}

/// The capacity of an application that serves with so many workers, in words.
pub(crate) fn capacity(settings: &Settings, workers: u16, generation: u32) -> String {
    let workers = counted(workers.into(), "worker");
    let (threads, plural) = (
        settings.threads,
        if settings.threads.most() == 1 {
            ""
        } else {
            "s"
        },
    );
    format!("{workers} x {threads} thread{plural}, generation {generation}")
}

/// A number with its noun.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns the rackup file in this folder.
///
/// # Errors
/// It does not exist.
pub(crate) fn rackup(name: &Path, dir: &Path) -> Result<PathBuf> {
    let path = dir.join(name);
    if !path.is_file() {
        bail!(
            "there is no {} in {} (setting rackup)",
            name.display(),
            dir.display()
        );
    }
    Ok(path)
}

/// Returns the canonical path of a folder.
///
/// # Errors
/// It does not exist, is no folder, or cannot be entered.
pub(crate) fn folder(dir: &Path) -> Result<PathBuf> {
    let found = dir
        .canonicalize()
        .with_context(|| format!("cannot open the folder {}", dir.display()))?;
    if !found.is_dir() {
        bail!(
            "{} is not a folder; name the folder that holds config.ru",
            dir.display()
        );
    }
    Ok(found)
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("the path {} is not in UTF-8", path.display()))
}
