//! `serve`: from settings to a running server, and from a signal to its end. Each step is another crate's;
//! here is only their order.

pub(crate) mod opening;

use std::cell::Cell;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::{LogFormat, Settings};
use exchange::Dispatcher as _;
use exchange::scheduling::Policy;
use front::Front;
use front::log::{AccessLog, Level};
use supervisor::{Load, Note, StartError, Supervisor, orphans};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::application::{Application, FIRST_GENERATION};
use crate::changes::handover::{self, Handover, Names, Predecessor, PredecessorExit};
use crate::changes::{self, Changes};
use crate::cli::arguments::Choice;
use crate::control::name::ServerName;
use crate::control::queue::ChangeQueue;
use crate::control::report::{Report, Reporter};
use crate::control::search::connect_by_name;
use crate::control::socket::{CommandSinks, ControlSocket};
use crate::housekeeping::Housekeeping;
use crate::shutdown::Shutdown;
use crate::startup::opening::Opened;
use crate::system::privileges::User;
use crate::system::program::{Program, own_pid};
use crate::system::signals::{self, Stop, Stops};
use crate::system::systemd::{self, Activated, Manager};

/// How long files of slow clients may take to be let go of.
const LAST_FILES: Duration = Duration::from_secs(1);

/// What this process was started with.
pub(crate) struct StartupContext {
    pub(crate) program: Program,
    /// Sockets of the service manager.
    pub(crate) activated: Vec<Activated>,
    /// From the server that is to be replaced.
    pub(crate) handover: Option<Handover>,
    /// Where that server hears why it is not, until it is.
    pub(crate) reply: Rc<Cell<Option<OwnedFd>>>,
}

/// Serves an application until it is told to stop.
///
/// # Errors
/// Why it cannot be served.
pub(crate) fn run(choice: Choice) -> Result<()> {
    let program = Program::of_this_process().context("cannot find the path of this program")?;
    let activated = systemd::sockets();
    let handover = handover::receive()?;
    let reply = handover.as_ref().map(Handover::reply).transpose()?;
    let reply = Rc::new(Cell::new(reply));
    let birth = StartupContext {
        program,
        activated,
        handover,
        reply: Rc::clone(&reply),
    };
    let served = start(choice, birth);
    if let (Err(error), Some(reply)) = (&served, reply.take()) {
        handover::refuse(&reply, error);
    }
    served
}

fn start(choice: Choice, mut birth: StartupContext) -> Result<()> {
    let mut application = Application::load(choice)?.share();
    let opened = Opened::by(&mut application, &mut birth)?;
    // A thread keeps the rights with which it was started: not before they were given up.
    let gives_back = tikv_jemalloc_ctl::background_thread::write(true);
    gives_back.context("cannot start the allocator's thread")?;
    let log = AccessLog::to_stdout(application.settings.log_format.into());
    let log = log.context("cannot write to stdout")?;
    let runtime = front::runtime::build().context("cannot start the runtime")?;
    let result = runtime.block_on(serve(application, Rc::new(log), birth, opened));
    runtime.shutdown_timeout(LAST_FILES);
    result
}

async fn serve(
    application: Application,
    log: Rc<AccessLog>,
    birth: StartupContext,
    opened: Opened,
) -> Result<()> {
    // From here on no signal that is sent to servers ends the process by itself.
    let mut stops = Stops::watch()?;
    let queue = {
        let log = Rc::clone(&log);
        Rc::new(ChangeQueue::new(move |text| {
            log.event(Level::Info, text, &[])
        }))
    };
    queue.block("this server is still starting".to_owned());
    signals::watch_changes(&queue)?;
    // Without it, zombies are left: no reason not to serve.
    spawn_local(async { drop(orphans::reap().await) });
    let manager = Rc::new(Manager::from_env().context("cannot use NOTIFY_SOCKET")?);
    for text in &opened.warnings {
        log.event(Level::Warn, text, &[]);
    }
    let (mut handed, mut generation, mut predecessor) = (Names::new(), FIRST_GENERATION, None);
    if let Some(handover) = birth.handover {
        // The policy of this thread is that of whoever started it. A sandbox may forbid to change it.
        let _ = Policy::Default.apply();
        let (control, before) = handover.into_parts()?;
        (handed, generation) = (control.names, before.greeting.generation + 1);
        predecessor = Some(before);
    }
    let settings = Rc::clone(&application.settings);
    let sockets = opened.sockets;
    let files = sockets.files();
    let front = Front::new(Rc::clone(&settings), Rc::clone(&log), generation)
        .context("cannot make the exchange")?;
    let exchange = front.dispatcher().files(None);
    let exchange = exchange.context("cannot make the exchange")?;
    let code = application.code()()?;
    let mut load = application.generation(code, generation, exchange, &files)?;
    load.start.behind = predecessor.is_some();
    let supervisor = {
        let (dispatcher, log) = (Rc::clone(front.dispatcher()), Rc::clone(&log));
        let on_note = move |generation: u32, note: &Note| {
            let level = match note.is_warning() {
                true => Level::Warn,
                false => Level::Info,
            };
            log.event(level, &note.to_string(), &[("generation", &generation)]);
        };
        Rc::new(Supervisor::new(dispatcher, on_note))
    };
    if let Some(before) = &predecessor {
        let greeting = &before.greeting;
        supervisor.start_alongside(&load.plan, greeting.workers, greeting.pid);
    }
    // Weak, for the supervisor has the front already.
    let alarmed = Rc::downgrade(&supervisor);
    front.on_alarm(move |alarm| {
        if let Some(supervisor) = alarmed.upgrade() {
            supervisor.alarm(alarm);
        }
    });
    let state = Rc::new(Cell::new("booting"));
    sockets.lines().for_each(|line| say(&log, &settings, &line));
    let reporter = Rc::new(Reporter {
        still: still(&application, sockets.names()),
        front: Rc::clone(&front),
        supervisor: Rc::clone(&supervisor),
        state: Rc::clone(&state),
    });
    let report = move || {
        let reporter = Rc::clone(&reporter);
        async move { reporter.report().await }
    };
    let asked = CommandSinks {
        stops: stops.sender.clone(),
        changes: Rc::clone(&queue),
    };
    let own_name = [ServerName::Pid(own_pid())];
    let control = ControlSocket::open(opened.directory, &own_name, report, asked).await;
    let control = Rc::new(control.context("cannot open the control socket")?);
    if predecessor.is_none() {
        take_names(&control, &application, Names::new(), &log).await?;
    }
    let restart_file = {
        let (named, front) = (application.named.clone(), Rc::clone(&front));
        move || named.join(&front.settings().restart_file)
    };
    // As it is before the code is loaded: what is touched from here on may be newer than that code.
    let touched = changes::touched(&restart_file());

    let up = tokio::select! {
        up = come_up(&front, &supervisor, load, predecessor.as_ref()) => up.map(|()| true),
        _ = stops.next() => Ok(false),
    };
    if !matches!(up, Ok(true)) {
        if up.is_ok() {
            let text = "stopped before the application was loaded";
            log.event(Level::Info, text, &[]);
        }
        supervisor.stop(Duration::ZERO).await;
        return up.map(drop);
    }
    let origins = sockets.accept(&front, settings.backlog)?;
    state.set("serving");
    let ready = format!("{}, pid {}", ready_line(&settings, generation), own_pid());
    say(&log, &settings, &ready);
    if let Some(before) = &predecessor {
        take_names(&control, &application, handed, &log).await?;
        before.serving().await?;
        drop(birth.reply.take());
        let greeting = &before.greeting;
        let text = format!(
            "took over from highball {} (pid {})",
            greeting.highball, greeting.pid
        );
        log.event(Level::Info, &text, &[]);
    }
    let (gone, there) = PredecessorExit::new();
    let (name, named) = oneshot::channel();
    match predecessor {
        Some(before) => drop(spawn_local(before.follow(
            Rc::clone(&front),
            Rc::clone(&queue),
            name,
            there,
        ))),
        None => drop((name, there)),
    }
    let housekeeping = Rc::new(Housekeeping::new().context("cannot start the runtime")?);
    let changes = Changes {
        application,
        program: birth.program,
        front: Rc::clone(&front),
        supervisor: Rc::clone(&supervisor),
        control: Rc::clone(&control),
        manager: Rc::clone(&manager),
        log: Rc::clone(&log),
        origins,
        files,
        queue: Rc::clone(&queue),
        housekeeping: Rc::clone(&housekeeping),
        predecessor: gone.clone(),
        serving: generation,
        latest: generation,
    };
    let told = spawn_local(tell(Rc::clone(&manager), changes.status(), named));
    let mut changes = spawn_local(changes.run());
    let watch = spawn_local(changes::watch(
        restart_file,
        touched,
        Rc::clone(&queue),
        housekeeping,
    ));

    let (first, heir) = tokio::select! {
        // A heir that there is must get the connections.
        biased;
        Ok(heir) = &mut changes => (Stop::Drain, Some(heir)),
        stop = stops.next() => (stop, None),
    };
    state.set("stopping");
    changes.abort();
    // An heir looks at the file itself.
    watch.abort();
    if heir.is_none() {
        // Who waits is told that the server stops.
        queue.close();
    }
    supervisor.cancel_launch();
    match heir {
        // The service manager hears another process now.
        Some(_) => told.abort(),
        None => manager.stopping().await,
    }
    let end = Shutdown {
        front: &front,
        supervisor: &supervisor,
        log: &log,
        queue: &queue,
        heir: heir.as_ref(),
        predecessor: &gone,
    };
    end.reach(first, &mut stops).await;
    control.close();
    if let Some(heir) = heir {
        heir.leave();
    }
    Ok(())
}

/// Brings the first generation up. Where another server is to be replaced, that generation must pass the check of
/// restarts, and waits for the server's word.
async fn come_up(
    front: &Rc<Front>,
    supervisor: &Supervisor,
    load: Load,
    predecessor: Option<&Predecessor>,
) -> Result<()> {
    let generation = load.start.generation;
    let Some(before) = predecessor else {
        supervisor.launch(load).await?;
        return Ok(());
    };
    let ready = async {
        supervisor.launch(load).await?;
        if let Some(path) = &front.settings().ready_check {
            let checked = front.dispatcher().check(generation, path.clone()).await;
            checked.map_err(StartError::Check)?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        ready = ready => ready?,
        () = before.speaks() => bail!("the server that was to be replaced has ended"),
    }
    before.agree().await
}

/// Tells the service manager that this server serves, and then for as long as it wants to hear it. Not before `named`,
/// for until then it listens to the server that was replaced.
async fn tell(manager: Rc<Manager>, status: String, named: oneshot::Receiver<()>) {
    // It is dropped and brings nothing.
    let _ = named.await;
    manager.ready(&status).await;
    manager.feed_watchdog().await;
}

/// What does not change while the server runs.
fn still(application: &Application, listeners: Vec<String>) -> Report {
    Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: own_pid(),
        dir: application.dir.display().to_string(),
        listeners,
        ..Report::default()
    }
}

/// Has the server answer under the names of its folder and of its file of settings.
async fn take_names(
    control: &ControlSocket,
    application: &Application,
    handed: Names,
    log: &AccessLog,
) -> Result<()> {
    let mut names = vec![ServerName::Dir(&application.dir)];
    if application.named != application.dir {
        names.push(ServerName::Dir(&application.named));
    }
    names.extend(application.config.as_deref().map(ServerName::Config));
    let mut elsewhere = 0;
    if handed.is_empty() {
        let all = names.len();
        // Another server of this user, with other variables, may have them in another directory.
        names.retain(|name| {
            let found = connect_by_name(
                *name,
                Some(&application.dir),
                Some(User::of_this_process().uid),
            );
            matches!(found, Ok(None))
        });
        elsewhere = all - names.len();
    }
    control
        .add_names(&names, handed)
        .await
        .context("cannot open the control socket")?;
    if control.names_taken() + elsewhere > 0 {
        let text = format!(
            "another server runs for this folder or file of settings: status and stop find that one, and this \
             one with --pid {}",
            own_pid()
        );
        log.event(Level::Warn, &text, &[]);
    }
    Ok(())
}

/// Says what a person at a terminal waits for: a plain line, or the log's form where that is JSON.
fn say(log: &AccessLog, settings: &Settings, text: &str) {
    match settings.log_format {
        LogFormat::Text => {
            // A stdout that is closed is no reason to stop serving.
            let _ = writeln!(std::io::stdout(), "{text}");
        }
        LogFormat::Json => log.event(Level::Info, text, &[]),
    }
}

/// What is there, in words.
pub(crate) fn ready_line(settings: &Settings, generation: u32) -> String {
    let workers = counted(settings.workers, "worker");
    let threads = counted(settings.threads, "thread");
    format!("ready: {workers} x {threads}, generation {generation}")
}

fn counted(number: u16, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
