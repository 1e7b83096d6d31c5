//! Start-up: from checked settings to a server that serves. Brings up front, supervisors and control socket, loads the
//! applications, and takes over from a running server where this one replaces it. Serves nothing itself.

mod announcement;
mod booting;
mod names;
pub(crate) mod opening;

use std::rc::Rc;

use admin::Routes;
use anyhow::{Context, Result};
use config::NumberRange;
use exchange::scheduling::Policy;
use front::log::{AccessLog, Level};
use supervisor::{Scale, orphans};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;

use crate::acme;
use crate::changes::Changes;
use crate::changes::boot::Alongside;
use crate::changes::predecessor::{Gathered, Names, Predecessor, PredecessorExit};
use crate::changes::restart_file::RestartFile;
use crate::changes::upgrade::Upgrades;
use crate::control;
use crate::control::api::{self, CommandSinks};
use crate::control::directory::ControlDirectory;
use crate::control::exceptions;
use crate::control::health::Health;
use crate::control::inspections::{self, INSPECTIONS};
use crate::control::log_level;
use crate::control::name::ServerName;
use crate::control::operators::Endpoints;
use crate::control::purges::{self, PURGES};
use crate::control::queue::ChangeQueue;
use crate::control::report::ReportSource;
use crate::control::reporter::Reporter;
use crate::control::socket::ControlSocket;
use crate::dashboard::keeping::{self, Keeping};
use crate::dashboard::{self, pages::Dashboard};
use crate::housekeeping::Housekeeping;
use crate::server::Server;
use crate::setup::Setup;
use crate::startup::booting::Booting;
use crate::startup::names::claim_names;
use crate::startup::opening::{Opened, StartupContext};
use crate::system::pid_file::PidFile;
use crate::system::program::own_pid;
use crate::system::signals::{self, Stops};

/// A server that serves, and its parts that have not begun to work.
pub(crate) struct Started {
    pub(crate) server: Rc<Server>,
    pub(crate) stops: Stops,
    pub(crate) changes: Changes,
    /// Of each application.
    pub(crate) restart_files: Vec<RestartFile>,
    /// Ends when the service manager listens to this server.
    pub(crate) named: oneshot::Receiver<()>,
    /// To be dropped when the server ends.
    pub(crate) pid_file: Option<PidFile>,
}

/// Starts a server. Returns `None` when a stop was requested before an application was loaded.
///
/// # Errors
/// Why the application, or none of several, can be served.
pub(crate) async fn start(
    setup: Setup,
    log: Rc<AccessLog>,
    context: &mut StartupContext,
    opened: Opened,
) -> Result<Option<Started>> {
    // From here on no signal that people send to servers ends the process by itself.
    let terminal = setup.child_environment().terminal.clone();
    let mut stops = Stops::watch(terminal)?;
    let queue = Rc::new(ChangeQueue::of(&log));
    queue.block("this server is still starting".to_owned());
    signals::watch_changes(&queue)?;
    signals::watch_scaling(&queue)?;
    signals::watch_hangups(&stops, &queue)?;
    // Without it zombies are left, which is no reason not to serve.
    spawn_local(async { drop(orphans::reap().await) });
    announcement::warnings(&log, &opened.warnings);
    let (purges, purged) = mpsc::channel(PURGES);
    let (inspections, inspected) = mpsc::channel(INSPECTIONS);
    let sinks = CommandSinks {
        stops: stops.sender.clone(),
        changes: queue,
        purges,
        inspections,
    };
    let booting = Booting::prepare(setup, log, context, opened, sinks).await?;
    spawn_local(purges::carry_out(Rc::clone(&booting.front), purged));
    spawn_local(inspections::carry_out(booting.hosted.clone(), inspected));
    let up = tokio::select! {
        up = booting.boot() => up.map(Some),
        _ = stops.next() => Ok(None),
    };
    match up {
        Ok(Some(booted)) => serve(booting, context, stops, &booted.ruby).await.map(Some),
        Ok(None) => {
            let text = "stopped before the application was loaded";
            booting.log.event(Level::Info, text, &[]);
            booting.end().await;
            Ok(None)
        }
        Err(error) => {
            booting.end().await;
            Err(error)
        }
    }
}

/// The running server that this one replaces, and the control sockets that it has handed over.
struct Replaced {
    predecessor: Predecessor,
    names: Names,
}

impl Replaced {
    /// That server, if there is one. The log goes on with the level that an operator chose there.
    fn of(context: &mut StartupContext, log: &AccessLog) -> Result<Option<Self>> {
        let Some(handover) = context.handover.take() else {
            return Ok(None);
        };
        // This thread has the policy of the process that started it. A sandbox may forbid to change that.
        let _ = Policy::Default.apply();
        let (control, predecessor) = handover.into_parts()?;
        predecessor.greeting.log_level.pass_on(log);
        let names = control.names;
        Ok(Some(Self { predecessor, names }))
    }

    /// The latest generation of its application of this name, or of the only one.
    fn generation(&self, name: Option<&str>) -> u32 {
        let greeting = &self.predecessor.greeting;
        let found = name.and_then(|name| greeting.applications.get(name));
        found.map_or(greeting.generation, |one| one.generation)
    }

    /// Whether clients would miss the application of this name, or the only one.
    fn serves(&self, name: Option<&str>) -> bool {
        let applications = &self.predecessor.greeting.applications;
        match name.and_then(|name| applications.get(name)) {
            Some(application) => application.serves,
            // A new one is there only for the person who upgrades, who waits for it.
            None => true,
        }
    }

    /// Whether the application of this name is stopped for want of requests.
    fn is_stopped(&self, name: Option<&str>) -> bool {
        let applications = &self.predecessor.greeting.applications;
        let found = name.and_then(|name| applications.get(name));
        found.is_some_and(|one| one.stopped)
    }

    /// How many workers there shall be of the application of this name: an operator's number, if its setting is still this one,
    /// and that by load.
    fn scale(&self, name: Option<&str>, setting: NumberRange) -> Scale {
        let greeting = &self.predecessor.greeting;
        let found = name.and_then(|name| greeting.applications.get(name));
        let scaled = found.map_or(&greeting.scaled, |one| &one.scaled).as_ref();
        let scaled = scaled.filter(|scaled| scaled.setting == setting.to_string());
        let load = found.map_or(greeting.workers_by_load, |one| one.workers_by_load);
        Scale {
            operator: scaled.map(|scaled| scaled.workers),
            load: load.filter(|_| setting.is_range()),
        }
    }

    /// What it means for the processes of that application.
    fn alongside(&self, name: Option<&str>) -> Alongside {
        let greeting = &self.predecessor.greeting;
        let found = name.and_then(|name| greeting.applications.get(name));
        Alongside {
            pid: greeting.pid,
            workers: found.map_or(greeting.workers, |one| one.workers),
        }
    }
}

/// The table of routes of a server, and what its dashboard shows.
fn routes(
    reporter: Rc<Reporter>,
    health: &Rc<Health>,
    sinks: CommandSinks,
) -> (Rc<Routes>, Rc<Dashboard>) {
    let hosted = reporter.hosted.clone();
    let dashboard = Rc::new(Dashboard {
        reporter: Rc::clone(&reporter),
        history: Rc::default(),
    });
    let (metered, log) = (Rc::clone(&reporter), Rc::clone(&reporter.log));
    let report: Rc<ReportSource> = Rc::new(move || {
        let reporter = Rc::clone(&reporter);
        Box::pin(async move { reporter.report().await })
    });
    let routes = api::routes(report, Rc::clone(health), sinks);
    let routes = control::metrics::add(routes, &metered);
    let routes = exceptions::add_routes(routes, &hosted);
    let routes = log_level::add_route(routes, &log);
    let routes = dashboard::pages::add(routes, &dashboard);
    let routes = Rc::new(dashboard::opening::add(routes, &dashboard));
    (routes, dashboard)
}

/// Begins to measure what the dashboard shows, and to keep it in the file of the settings.
fn measure(dashboard: &Dashboard, setup: &Setup, log: &Rc<AccessLog>, replaces: bool) {
    let (history, reporter) = (&dashboard.history, &dashboard.reporter);
    let (read, reported) = (Rc::clone(history), Rc::clone(reporter));
    spawn_local(dashboard::history::keep(read, reported, replaces));
    let Some(path) = keeping::file(setup) else {
        return;
    };
    let server = (&reporter.state, log);
    let size = (setup.applications.len(), replaces);
    match Keeping::start(path, history, server, size) {
        Ok(keeping) => drop(spawn_local(keeping)),
        Err(error) => {
            let text =
                format!("the history of the dashboard is not kept: no thread for it: {error}");
            log.event(Level::Warn, &text, &[]);
        }
    }
}

/// Opens the control socket, under this process's name only.
async fn control_socket(
    directory: Option<ControlDirectory>,
    routes: &Rc<Routes>,
) -> Result<ControlSocket> {
    let name = [ServerName::Pid(own_pid())];
    let control = ControlSocket::open(directory, &name, Rc::clone(routes)).await;
    control.context("cannot open the control socket")
}

/// Accepts connections, and takes over from the server that this one replaces.
async fn serve(
    booting: Booting,
    context: &mut StartupContext,
    stops: Stops,
    ruby: &str,
) -> Result<Started> {
    let setup = &booting.setup;
    let names = booting.sockets.names();
    let mut lines: Vec<String> = booting.sockets.lines().collect();
    lines.extend(booting.operators.lines());
    let (front, log) = (&booting.front, &booting.log);
    let manager = acme::start(setup, front, log, &booting.sockets)?;
    booting.certificates.replace(manager);
    let origins = booting.sockets.accept(front, setup.settings.backlog)?;
    booting.state.set("serving");
    announcement::serving(log, &lines, &booting.hosted, ruby);
    let mut pid_file = booting.pid_file;
    let (exit, exited) = PredecessorExit::new();
    let (name, named) = oneshot::channel();
    let mut following = None;
    match booting.replaced {
        Some(Replaced { predecessor, names }) => {
            claim_names(&booting.control, setup, names, log).await?;
            predecessor.say_serving().await?;
            context.serves();
            let (highball, pid) = (&predecessor.greeting.highball, predecessor.greeting.pid);
            let text = format!("took over from highball {highball} (pid {pid})");
            log.event(Level::Info, &text, &[]);
            pid_file = take_pid_file(setup, log);
            following = Some((predecessor, name, exited));
        }
        None => {
            announcement::how_to_stop(log, &names);
            drop((name, exited));
        }
    }
    let server = Rc::new(Server {
        log: booting.log,
        front: booting.front,
        hosted: booting.hosted,
        boots: booting.boots,
        control: booting.control,
        operators: booting.operators,
        manager: booting.manager,
        queue: booting.queue,
        gathered: booting.gathered,
        housekeeping: Housekeeping::new().context("cannot start the runtime")?,
        predecessor: exit,
        launchers: booting.launchers,
        state: booting.state,
        certificates: booting.certificates,
        statsd: booting.statsd,
        exporter: booting.exporter,
        terminal: booting.setup.child_environment().terminal.clone(),
    });
    if let Some((predecessor, name, exited)) = following {
        let (own, endpoints) = (Rc::clone(&server), booting.endpoints);
        spawn_local(follow(own, endpoints, predecessor, name, exited));
    }
    let upgrades = Upgrades {
        server: Rc::clone(&server),
        program: context.program.clone(),
        origins,
    };
    let changes = Changes {
        server: Rc::clone(&server),
        setup: booting.setup,
        upgrades,
    };
    Ok(Started {
        server,
        stops,
        changes,
        restart_files: booting.restart_files,
        named,
        pid_file,
    })
}

/// Takes over what still comes from the server that this one replaces.
async fn follow(
    server: Rc<Server>,
    endpoints: Endpoints,
    predecessor: Predecessor,
    named: oneshot::Sender<()>,
    exited: mpsc::Receiver<()>,
) {
    let gathered = Gathered {
        state: Rc::clone(&server.gathered),
        log: Rc::clone(&server.log),
    };
    let (front, queue) = (Rc::clone(&server.front), Rc::clone(&server.queue));
    let alone = || server.operators.serve(&endpoints, &server.state);
    let followed = predecessor.follow(front, queue, gathered, alone, named, exited);
    followed.await;
}

/// Writes the process number over that of the server that this one has replaced. A server that serves does not end for it.
fn take_pid_file(setup: &Setup, log: &AccessLog) -> Option<PidFile> {
    let written = PidFile::write(&setup.settings, &setup.dir);
    written.unwrap_or_else(|error| {
        log.event(Level::Warn, &format!("{error:#}"), &[]);
        None
    })
}
