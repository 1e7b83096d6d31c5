//! A server whose applications are being loaded: its parts, and when enough of them has come up. It accepts no connection.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use front::log::{AccessLog, Level, Value};
use front::{ApplicationFront, Front};
use metrics::REPLACED_WORKERS;
use supervisor::{Booted, Note, Supervisor, set_scale, start_by};
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinSet, spawn_local};

use super::{Replaced, announcement, control_socket, measure, routes};
use crate::acme;
use crate::application::{Application, FIRST_GENERATION};
use crate::changes::active_threads::begin_thread_limit;
use crate::changes::boot::{BootResult, none_came_up};
use crate::changes::predecessor::{Gathered, Names};
use crate::changes::restart_file::RestartFile;
use crate::changes::saved_state::State;
use crate::control::api::CommandSinks;
use crate::control::health::Health;
use crate::control::operators::{Endpoints, OperatorListeners};
use crate::control::purges;
use crate::control::queue::ChangeQueue;
use crate::control::report::Report;
use crate::control::reporter::{Reporter, SharedManager};
use crate::control::socket::ControlSocket;
use crate::dashboard::listening;
use crate::exceptions;
use crate::experiments::Experiments;
use crate::hosted::Hosted;
use crate::housekeeping::Housekeeping;
use crate::launchers::{IdleLaunchers, Launchers};
use crate::setup::Setup;
use crate::sockets::Sockets;
use crate::startup::names::claim_names;
use crate::startup::opening::{Opened, StartupContext};
use crate::statsd::Statsd;
use crate::system::pid_file::PidFile;
use crate::system::systemd::Manager;
use crate::system::terminal::Terminal;
use crate::thread_limit::ThreadLimit;
use crate::traces::{self, SharedExporter};

/// A server whose applications are being loaded.
pub(super) struct Booting {
    pub(super) setup: Setup,
    pub(super) log: Rc<AccessLog>,
    pub(super) front: Rc<Front>,
    pub(super) hosted: Vec<Rc<Hosted>>,
    /// The first starts of the applications.
    pub(super) boots: RefCell<JoinSet<()>>,
    pub(super) control: ControlSocket,
    pub(super) operators: OperatorListeners,
    /// What the operators' addresses answer by.
    pub(super) endpoints: Endpoints,
    pub(super) manager: Rc<Manager>,
    pub(super) launchers: Launchers,
    pub(super) queue: Rc<ChangeQueue>,
    pub(super) state: Rc<Cell<&'static str>>,
    pub(super) certificates: SharedManager,
    pub(super) statsd: Option<Rc<Statsd>>,
    pub(super) exporter: SharedExporter,
    pub(super) gathered: Rc<State>,
    pub(super) sockets: Sockets,
    /// Looked at before the code is loaded: what is touched later may be newer than that code.
    pub(super) restart_files: Vec<RestartFile>,
    pub(super) replaced: Option<Replaced>,
    pub(super) pid_file: Option<PidFile>,
}

impl Booting {
    /// Makes front, supervisors and control socket.
    pub(super) async fn prepare(
        setup: Setup,
        log: Rc<AccessLog>,
        context: &mut StartupContext,
        opened: Opened,
        sinks: CommandSinks,
    ) -> Result<Self> {
        let manager = Manager::from_env().context("cannot use NOTIFY_SOCKET")?;
        let replaced = Replaced::of(context, &log)?;
        let sockets = opened.sockets;
        let launchers = begin(opened.launchers, &log)?;
        let generations = first_generations(&setup, replaced.as_ref());
        let front = front_of(&setup, &log, &generations)?;
        let all = setup.applications.iter().zip(front.applications());
        let all = all.zip(generations).map(|((application, front), number)| {
            host(application, front, &launchers, sockets.files(), number)
        });
        let hosted = all.collect::<Result<Vec<_>>>()?;
        let restart_files = look_at_folders(&hosted).await?;
        begin_tls(&setup, &front, &sockets)?;
        exceptions::tell(&setup.settings, &hosted, &log)?;
        let exporter = traces::start(&setup.settings, &setup.dir, &hosted, &log)?;
        let (certificates, state) = (SharedManager::default(), Rc::new(Cell::new("booting")));
        announcement::loading(&log, &setup);
        let pid_file = match replaced {
            None => PidFile::write(&setup.settings, &setup.dir)?,
            // The file is the running server's until this one serves.
            Some(_) => None,
        };
        let gathered = State::of(&front, &hosted);
        let reporter = Rc::new(Reporter {
            fixed: Report::fixed(setup.dir.display().to_string(), sockets.names()),
            front: Rc::clone(&front),
            hosted: hosted.clone(),
            state: Rc::clone(&state),
            certificates: Rc::clone(&certificates),
            traces: traces::queue(&exporter),
            totals: Rc::clone(&gathered.totals),
            log: Rc::clone(&log),
        });
        let statsd = Statsd::begin(&setup.settings, &reporter, &log)?;
        let queue = Rc::clone(&sinks.changes);
        let health = health(&state, &hosted);
        let (routes, dashboard) = routes(reporter, &health, sinks);
        measure(&dashboard, &setup, &log, replaced.is_some());
        let control = control_socket(opened.directory, &routes).await?;
        let operators = OperatorListeners::new(opened.operators, &setup.settings, &setup.dir)?;
        announcement::warnings(&log, &operators.warnings());
        let endpoints = Endpoints {
            pages: Rc::new(listening::routes(&dashboard, operators.sign_in())),
            routes,
            agent: health.agent_source(),
        };
        if replaced.is_none() {
            operators.serve(&endpoints, &state);
            claim_names(&control, &setup, Names::new(), &log).await?;
        }
        Ok(Self {
            restart_files,
            manager: Rc::new(manager),
            launchers,
            setup,
            log,
            front,
            hosted,
            boots: RefCell::default(),
            control,
            operators,
            endpoints,
            queue,
            state,
            certificates,
            statsd,
            exporter,
            gathered,
            sockets,
            replaced,
            pid_file,
        })
    }

    /// Ends what was started of it.
    pub(super) async fn end(&self) {
        self.boots.borrow_mut().abort_all();
        for one in &self.hosted {
            one.supervisor.stop(Duration::ZERO).await;
        }
        if let Some(terminal) = &self.setup.child_environment().terminal {
            terminal.restore();
        }
    }

    /// Brings the first generations up, all at once, and waits until the server is worth to serve: one application has come up
    /// and, to replace a running server, all that serve there. Others come up later. Returns the last that was waited for.
    pub(super) async fn boot(&self) -> Result<Booted> {
        let gathered = Gathered {
            state: Rc::clone(&self.gathered),
            log: Rc::clone(&self.log),
        };
        if let Some(Replaced { predecessor, .. }) = &self.replaced {
            predecessor.take_frequent_paths(&gathered).await;
        }
        let (results, first) = mpsc::channel(self.hosted.len());
        for (number, hosted) in self.to_start() {
            let name = hosted.name();
            let replaced = self.replaced.as_ref();
            let alongside = replaced.map(|replaced| replaced.alongside(name.as_deref()));
            let setting = hosted.application.borrow().settings.workers;
            let scale = replaced.map(|replaced| replaced.scale(name.as_deref(), setting));
            set_scale(&hosted.supervisor, scale.unwrap_or_default());
            let start =
                Rc::clone(hosted).start(number, alongside, self.is_needed(hosted), results.clone());
            self.boots.borrow_mut().spawn_local(start);
        }
        drop(results);
        let Some(Replaced { predecessor, .. }) = &self.replaced else {
            return self.wait_for_enough(first).await;
        };
        let booted = tokio::select! {
            enough = self.wait_for_enough(first) => enough?,
            () = predecessor.wait_message() => bail!("the running server exited during its upgrade"),
        };
        predecessor.wait_turn(&gathered).await?;
        Ok(booted)
    }

    /// The applications that are loaded now, by number: all but those that are stopped in the server that is replaced, and one
    /// of those where no other is left, for a server that cannot run any application must not take over.
    fn to_start(&self) -> Vec<(usize, &Rc<Hosted>)> {
        let is_stopped = |one: &Hosted| {
            let replaced = self.replaced.as_ref();
            replaced.is_some_and(|replaced| replaced.is_stopped(one.name().as_deref()))
        };
        let all = self.hosted.iter().enumerate();
        let (stopped, mut others): (Vec<_>, Vec<_>) = all.partition(|(_, one)| is_stopped(one));
        let mut stopped = stopped.into_iter();
        if others.is_empty() {
            others.extend(stopped.next());
        }
        stopped.for_each(|(_, one)| one.leave_stopped());
        others
    }

    /// Whether the server must not serve without this application.
    fn is_needed(&self, hosted: &Hosted) -> bool {
        match (hosted.name(), &self.replaced) {
            (None, _) => true,
            (Some(_), None) => false,
            (name, Some(replaced)) => replaced.serves(name.as_deref()),
        }
    }

    /// Waits for results until enough of them are there, or each application has failed once and none has come up since.
    async fn wait_for_enough(&self, mut results: mpsc::Receiver<BootResult>) -> Result<Booted> {
        let mut missing = self.hosted.iter().filter(|one| self.is_needed(one)).count();
        let mut failures = Vec::new();
        let all = self.hosted.iter();
        let started = all.filter(|one| !one.is_stopped.get()).count();
        while failures.len() < started
            && let Some((number, result)) = results.recv().await
        {
            let hosted = &self.hosted[number];
            let needed = self.is_needed(hosted);
            missing -= usize::from(needed);
            match result {
                Ok(booted) if missing == 0 => return Ok(booted),
                Ok(_) => {}
                Err(error) if needed => {
                    return Err(match hosted.name() {
                        Some(name) => error.context(format!("application {name}")),
                        None => error,
                    });
                }
                Err(error) => failures.push((number, error)),
            }
        }
        match failures.into_iter().next() {
            Some(first) => Err(none_came_up(&self.hosted, first)),
            None => bail!("the applications were not loaded"),
        }
    }
}

/// Looks at the files of all applications at once, each for a bounded time: the file system of one may hang.
async fn look_at_folders(hosted: &[Rc<Hosted>]) -> Result<Vec<RestartFile>> {
    let mut looks = Vec::new();
    for one in hosted {
        let one = Rc::clone(one);
        looks.push(spawn_local(async move {
            let folder = one.application.borrow().named.clone();
            let (watched, file) =
                tokio::join!(one.front.watch_files(folder), RestartFile::of(&one));
            watched.map(|()| file)
        }));
    }
    let mut files = Vec::new();
    for look in looks {
        files.push(look.await.context("cannot look at the folder")??);
    }
    Ok(files)
}

/// The generation that each application begins with: that after the one of the server that this one replaces.
fn first_generations(setup: &Setup, replaced: Option<&Replaced>) -> Vec<u32> {
    let of = |one: &Application| match replaced {
        Some(replaced) => replaced.generation(one.name()) + 1,
        None => FIRST_GENERATION,
    };
    setup.applications.iter().map(of).collect()
}

/// The front of all applications, which begin with these generations.
fn front_of(setup: &Setup, log: &Rc<AccessLog>, generations: &[u32]) -> Result<Rc<Front>> {
    let all = setup.applications.iter().zip(generations);
    let plans: Vec<_> = all.map(|(one, number)| one.front_plan(*number)).collect();
    let front = Front::of_applications(Rc::clone(&setup.settings), Rc::clone(log), &plans);
    front.context("cannot make the exchange")
}

/// Reads certificates and keys, where an address has TLS.
fn begin_tls(setup: &Setup, front: &Rc<Front>, sockets: &Sockets) -> Result<()> {
    if sockets.has_tls() {
        let begun = front.begin_tls(setup.named.clone());
        begun.context("cannot serve over TLS")?;
    }
    acme::check(setup)
}

/// What tells operators and probes whether the server is ready.
fn health(state: &Rc<Cell<&'static str>>, hosted: &[Rc<Hosted>]) -> Rc<Health> {
    Rc::new(Health {
        state: Rc::clone(state),
        hosted: hosted.to_vec(),
    })
}

/// Begins to serve with launchers; the log hears of the end of each.
fn begin(launchers: IdleLaunchers, log: &Rc<AccessLog>) -> Result<Launchers> {
    let log = Rc::clone(log);
    let begun = launchers.begin(move |text: &str| log.event(Level::Warn, text, &[]));
    begun.context("cannot reach the launchers")
}

/// An application of this front, with a supervisor and without a generation.
fn host(
    application: &Application,
    front: &Rc<ApplicationFront>,
    launchers: &Launchers,
    socket_files: Vec<PathBuf>,
    generation: u32,
) -> Result<Rc<Hosted>> {
    let environment = &application.child_environment;
    let supervisor = supervise(front, environment.terminal.clone());
    if let Some(launcher) = launchers.of(environment.user)? {
        start_by(&supervisor, Rc::clone(launcher));
    }
    let hosted = Rc::new(Hosted {
        supervisor,
        front: Rc::clone(front),
        housekeeping: Housekeeping::new().context("cannot start the runtime")?,
        application: RefCell::new(application.clone()),
        socket_files,
        serving: Cell::new(None),
        is_stopped: Cell::new(false),
        obstacle: Cell::default(),
        latest: Cell::new(generation),
        thread_limit: ThreadLimit::default(),
        experiments: Experiments::default(),
        turn: Mutex::new(()),
    });
    begin_thread_limit(&hosted);
    Ok(hosted)
}

/// A supervisor for this front, which logs what happens to processes.
fn supervise(front: &Rc<ApplicationFront>, terminal: Option<Arc<Terminal>>) -> Rc<Supervisor> {
    let (dispatcher, log) = (Rc::clone(front.dispatcher()), Rc::clone(front.log()));
    let debugged = terminal.clone();
    let has_debugger = move || debugged.as_ref().is_some_and(|one| one.has_debugger());
    let counting = Rc::clone(front);
    let on_note = move |generation: u32, note: &Note| {
        if let Some(cause) = note.replacement() {
            counting.count(&REPLACED_WORKERS, cause);
        }
        let level = match note.is_warning() {
            true => Level::Warn,
            false => Level::Info,
        };
        log.event(
            level,
            &note.to_string(),
            &[("generation", Value::Number(generation.into()))],
        );
        if let Some(terminal) = &terminal {
            terminal.restore();
        }
    };
    let supervisor = Rc::new(Supervisor::new(dispatcher, on_note, has_debugger));
    supervisor.on_purge(purges::of_workers(front));
    let counting = Rc::clone(front);
    supervisor.on_counts(move |generation, worker, batch| {
        counting.take_counts((generation, worker), batch);
    });
    // Weak, for the supervisor has the front already.
    let alarmed = Rc::downgrade(&supervisor);
    front.on_alarm(move |alarm| {
        if let Some(supervisor) = alarmed.upgrade() {
            supervisor.alarm(alarm);
        }
    });
    supervisor
}
