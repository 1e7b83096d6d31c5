//! Start-up: from checked settings to a server that serves. Brings up front, supervisor and control socket, loads the
//! application, and takes over from a running server where this one replaces it. Serves nothing itself.

mod announcement;
pub(crate) mod opening;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use exchange::Dispatcher;
use exchange::scheduling::Policy;
use front::Front;
use front::log::{AccessLog, Level, Value};
use supervisor::{Booted, Load, Note, StartError, Supervisor, orphans};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::application::{Application, FIRST_GENERATION};
use crate::changes::Changes;
use crate::changes::predecessor::{Names, Predecessor, PredecessorExit};
use crate::changes::restart::Restarts;
use crate::changes::restart_file::RestartFile;
use crate::changes::upgrade::Upgrades;
use crate::control::directory::ControlDirectory;
use crate::control::name::ServerName;
use crate::control::queue::ChangeQueue;
use crate::control::report::{Report, Reporter};
use crate::control::search::connect_by_name;
use crate::control::socket::{CommandSinks, ControlSocket};
use crate::housekeeping::Housekeeping;
use crate::server::Server;
use crate::sockets::Sockets;
use crate::startup::opening::{Opened, StartupContext};
use crate::system::pid_file::PidFile;
use crate::system::privileges::User;
use crate::system::program::own_pid;
use crate::system::signals::{self, Stops};
use crate::system::systemd::Manager;
use crate::system::terminal::Terminal;

/// A server that serves, and its parts that have not begun to work.
pub(crate) struct Started {
    pub(crate) server: Rc<Server>,
    pub(crate) stops: Stops,
    pub(crate) changes: Changes,
    pub(crate) restart_file: RestartFile,
    /// Ends when the service manager listens to this server.
    pub(crate) named: oneshot::Receiver<()>,
    /// To be dropped when the server ends.
    pub(crate) pid_file: Option<PidFile>,
}

/// Starts a server. Returns `None` when a stop was requested before the application was loaded.
///
/// # Errors
/// Why the application cannot be served.
pub(crate) async fn start(
    application: Application,
    log: Rc<AccessLog>,
    context: &mut StartupContext,
    opened: Opened,
) -> Result<Option<Started>> {
    // From here on no signal that people send to servers ends the process by itself.
    let terminal = application.child_environment.terminal.clone();
    let mut stops = Stops::watch(terminal)?;
    let queue = {
        let log = Rc::clone(&log);
        ChangeQueue::new(move |text| log.event(Level::Info, text, &[]))
    };
    let queue = Rc::new(queue);
    queue.block("this server is still starting".to_owned());
    signals::watch_changes(&queue)?;
    signals::watch_hangups(&stops, &queue, &log)?;
    // Without it zombies are left, which is no reason not to serve.
    spawn_local(async { drop(orphans::reap().await) });
    for text in &opened.warnings {
        log.event(Level::Warn, text, &[]);
    }
    let sinks = CommandSinks {
        stops: stops.sender.clone(),
        changes: queue,
    };
    let (booting, load) = Booting::prepare(application, log, context, opened, sinks).await?;
    let up = tokio::select! {
        up = booting.boot(load) => up.map(Some),
        _ = stops.next() => Ok(None),
    };
    match up {
        Ok(Some(booted)) => booting.serve(context, stops, &booted.ruby).await.map(Some),
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
    /// That server, if there is one, and the number of this server's first generation.
    fn of(context: &mut StartupContext) -> Result<(Option<Self>, u32)> {
        let Some(handover) = context.handover.take() else {
            return Ok((None, FIRST_GENERATION));
        };
        // This thread has the policy of the process that started it. A sandbox may forbid to change that.
        let _ = Policy::Default.apply();
        let (control, predecessor) = handover.into_parts()?;
        let (names, generation) = (control.names, predecessor.greeting.generation + 1);
        Ok((Some(Self { predecessor, names }), generation))
    }
}

/// A supervisor for this front, which logs what happens to processes.
fn supervise(
    front: &Rc<Front>,
    log: &Rc<AccessLog>,
    terminal: Option<Arc<Terminal>>,
) -> Rc<Supervisor> {
    let (dispatcher, log) = (Rc::clone(front.dispatcher()), Rc::clone(log));
    let on_note = move |generation: u32, note: &Note| {
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
    let supervisor = Rc::new(Supervisor::new(dispatcher, on_note));
    // Weak, for the supervisor has the front already.
    let alarmed = Rc::downgrade(&supervisor);
    front.on_alarm(move |alarm| {
        if let Some(supervisor) = alarmed.upgrade() {
            supervisor.alarm(alarm);
        }
    });
    supervisor
}

/// Opens the control socket, under this process's name only.
async fn control_socket(
    directory: Option<ControlDirectory>,
    reporter: Reporter,
    sinks: CommandSinks,
) -> Result<ControlSocket> {
    let reporter = Rc::new(reporter);
    let report = move || {
        let reporter = Rc::clone(&reporter);
        async move { reporter.report().await }
    };
    let name = [ServerName::Pid(own_pid())];
    let control = ControlSocket::open(directory, &name, report, sinks).await;
    control.context("cannot open the control socket")
}

/// A server whose application is being loaded.
struct Booting {
    application: Application,
    log: Rc<AccessLog>,
    front: Rc<Front>,
    supervisor: Rc<Supervisor>,
    control: ControlSocket,
    manager: Rc<Manager>,
    queue: Rc<ChangeQueue>,
    state: Rc<Cell<&'static str>>,
    sockets: Sockets,
    /// Looked at before the code is loaded: what is touched later may be newer than that code.
    restart_file: RestartFile,
    replaced: Option<Replaced>,
    pid_file: Option<PidFile>,
    /// Its first generation.
    generation: u32,
}

impl Booting {
    /// Ends what was started of it.
    async fn end(&self) {
        self.supervisor.stop(Duration::ZERO).await;
        if let Some(terminal) = &self.application.child_environment.terminal {
            terminal.restore();
        }
    }

    /// Makes front, supervisor and control socket, and what the first generation is loaded from.
    async fn prepare(
        application: Application,
        log: Rc<AccessLog>,
        context: &mut StartupContext,
        opened: Opened,
        sinks: CommandSinks,
    ) -> Result<(Self, Load)> {
        let manager = Manager::from_env().context("cannot use NOTIFY_SOCKET")?;
        let (replaced, generation) = Replaced::of(context)?;
        let (settings, sockets) = (Rc::clone(&application.settings), opened.sockets);
        let exchange = "cannot make the exchange";
        let front =
            Front::new(Rc::clone(&settings), Rc::clone(&log), generation).context(exchange)?;
        let files = front.dispatcher().files(None).context(exchange)?;
        let code = application.code()()?;
        let mut load = application.generation(code, generation, files, &sockets.files())?;
        load.start.low_priority = replaced.is_some();
        let supervisor = supervise(&front, &log, application.child_environment.terminal.clone());
        if let Some(Replaced { predecessor, .. }) = &replaced {
            let greeting = &predecessor.greeting;
            supervisor.start_alongside(&load.plan, greeting.workers, greeting.pid);
        }
        let state = Rc::new(Cell::new("booting"));
        announcement::loading(&log, &application);
        let pid_file = match replaced {
            None => PidFile::write(&settings, &application.dir)?,
            // The file is the running server's until this one serves.
            Some(_) => None,
        };
        let reporter = Reporter {
            fixed: Report::fixed(application.dir.display().to_string(), sockets.names()),
            front: Rc::clone(&front),
            supervisor: Rc::clone(&supervisor),
            state: Rc::clone(&state),
        };
        let queue = Rc::clone(&sinks.changes);
        let control = control_socket(opened.directory, reporter, sinks).await?;
        if replaced.is_none() {
            claim_names(&control, &application, Names::new(), &log).await?;
        }
        let booting = Self {
            restart_file: RestartFile::new(Rc::clone(&front), application.named.clone()),
            manager: Rc::new(manager),
            application,
            log,
            front,
            supervisor,
            control,
            queue,
            state,
            sockets,
            replaced,
            pid_file,
            generation,
        };
        Ok((booting, load))
    }

    /// Brings the first generation up. To replace a running server it must pass the check of restarts, and waits until that
    /// server lets it serve.
    async fn boot(&self, load: Load) -> Result<Booted> {
        let Some(Replaced { predecessor, .. }) = &self.replaced else {
            let booted = self.supervisor.launch(load).await?;
            self.front.filter_parameters(&booted.filter_parameters);
            return Ok(booted);
        };
        let ready = async {
            let booted = self.supervisor.launch(load).await?;
            self.front.filter_parameters(&booted.filter_parameters);
            if let Some(path) = &self.front.settings().ready_check {
                let dispatcher = self.front.dispatcher();
                let checked = dispatcher.check(self.generation, path.clone()).await;
                checked.map_err(StartError::Check)?;
            }
            anyhow::Ok(booted)
        };
        let booted = tokio::select! {
            ready = ready => ready?,
            () = predecessor.wait_message() => bail!("the running server exited during its upgrade"),
        };
        predecessor.wait_turn().await?;
        Ok(booted)
    }

    /// Accepts connections, and takes over from the server that this one replaces.
    async fn serve(
        self,
        context: &mut StartupContext,
        stops: Stops,
        ruby: &str,
    ) -> Result<Started> {
        let settings = Rc::clone(&self.application.settings);
        let (socket_files, names) = (self.sockets.files(), self.sockets.names());
        let lines: Vec<String> = self.sockets.lines().collect();
        let (front, log, generation) = (&self.front, &self.log, self.generation);
        let origins = self.sockets.accept(front, settings.backlog)?;
        self.state.set("serving");
        announcement::serving(log, &settings, &lines, generation, ruby);
        let mut pid_file = self.pid_file;
        let (exit, exited) = PredecessorExit::new();
        let (name, named) = oneshot::channel();
        match self.replaced {
            Some(Replaced { predecessor, names }) => {
                claim_names(&self.control, &self.application, names, log).await?;
                predecessor.say_serving().await?;
                context.serves();
                let (highball, pid) = (&predecessor.greeting.highball, predecessor.greeting.pid);
                let text = format!("took over from highball {highball} (pid {pid})");
                log.event(Level::Info, &text, &[]);
                pid_file = take_pid_file(&self.application, log);
                let (front, queue) = (Rc::clone(front), Rc::clone(&self.queue));
                spawn_local(predecessor.follow(front, queue, name, exited));
            }
            None => {
                announcement::how_to_stop(log, &settings, &names);
                drop((name, exited));
            }
        }
        let server = Rc::new(Server {
            log: self.log,
            front: self.front,
            supervisor: self.supervisor,
            control: self.control,
            manager: self.manager,
            queue: self.queue,
            housekeeping: Housekeeping::new().context("cannot start the runtime")?,
            predecessor: exit,
            state: self.state,
            terminal: self.application.child_environment.terminal.clone(),
        });
        let changes = Changes {
            restarts: Restarts {
                server: Rc::clone(&server),
                application: self.application,
                socket_files,
                serving: generation,
                latest: generation,
            },
            upgrades: Upgrades {
                server: Rc::clone(&server),
                program: context.program.clone(),
                origins,
            },
        };
        Ok(Started {
            server,
            stops,
            changes,
            restart_file: self.restart_file,
            named,
            pid_file,
        })
    }
}

/// Has the server answer commands under the names of its folder and of its file of settings.
async fn claim_names(
    control: &ControlSocket,
    application: &Application,
    handed_over: Names,
    log: &AccessLog,
) -> Result<()> {
    let mut names = vec![ServerName::Dir(&application.dir)];
    if application.named != application.dir {
        names.push(ServerName::Dir(&application.named));
    }
    names.extend(application.config.as_deref().map(ServerName::Config));
    let mut elsewhere = 0;
    if handed_over.is_empty() {
        let all = names.len();
        let (folder, uid) = (Some(&*application.dir), User::of_this_process().uid);
        // Another server of this user, with other variables, may have them in another directory.
        names.retain(|name| matches!(connect_by_name(*name, folder, Some(uid)), Ok(None)));
        elsewhere = all - names.len();
    }
    let added = control.add_names(&names, handed_over).await;
    added.context("cannot open the control socket")?;
    if control.names_taken() + elsewhere > 0 {
        let text = format!(
            "another server runs for this folder or file of settings: commands find that one by them, and this one with \
             --pid {}",
            own_pid()
        );
        log.event(Level::Warn, &text, &[]);
    }
    Ok(())
}

/// Writes the process number over that of the server that this one has replaced. A server that serves does not end for it.
fn take_pid_file(application: &Application, log: &AccessLog) -> Option<PidFile> {
    let written = PidFile::write(&application.settings, &application.dir);
    written.unwrap_or_else(|error| {
        log.event(Level::Warn, &format!("{error:#}"), &[]);
        None
    })
}
