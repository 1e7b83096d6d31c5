//! `serve`: from settings to a running server, and from a signal to its end. Each step is another crate's;
//! here is only their order.

use std::cell::Cell;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use config::{LogFormat, Settings};
use front::access_log::{AccessLog, Format, Level};
use front::{Front, Listener};
use rustix::process::{Resource, getrlimit, setrlimit};
use supervisor::{Dispatcher, Supervisor, orphans};
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::application::{Application, FIRST_GENERATION, LEAST_GRACE};
use crate::arguments::Choice;
use crate::bridge::Bridge;
use crate::control_socket::{Asked, ControlSocket, Name};
use crate::report::Report;
use crate::restarts::{self, Restarts};
use crate::signals::{self, Stop, Stops};

/// How long files of slow clients may take to be let go of.
const LEAVE: Duration = Duration::from_secs(1);

/// Serves an application until it is told to stop.
///
/// # Errors
/// Why it cannot be served.
pub(crate) fn run(choice: Choice) -> Result<()> {
    let application = Application::load(choice)?;
    raise_file_limit();
    let log = open_log(application.settings.log_format)?;
    let runtime = front::runtime::build().context("cannot start the runtime")?;
    let result = runtime.block_on(serve(application, log));
    runtime.shutdown_timeout(LEAVE);
    result
}

async fn serve(application: Application, log: Rc<AccessLog>) -> Result<()> {
    // From here on no signal that is sent to servers ends the process by itself.
    let mut stops = Stops::watch()?;
    let (restart, asks) = mpsc::unbounded_channel();
    signals::watch_others(restart.clone(), Rc::clone(&log))?;
    // Without it, zombies are left: no reason not to serve.
    spawn_local(async { drop(orphans::reap().await) });
    let settings = Rc::new(application.settings.clone());
    let (listeners, files) = bind(&settings)?;
    let names: Vec<String> = listeners.iter().map(Listener::name).collect();
    let front = Front::new(Rc::clone(&settings), Rc::clone(&log), FIRST_GENERATION)
        .context("cannot make the exchange")?;
    let (memory, doorbell) = front.exchange_files().context("cannot make the exchange")?;
    let sockets = files.0.clone();
    let load = application.generation(FIRST_GENERATION, [memory, doorbell], &sockets)?;
    let bridge: Rc<dyn Dispatcher> = Rc::new(Bridge {
        front: Rc::clone(&front),
        log: Rc::clone(&log),
        check: settings.ready_check.clone(),
    });
    let supervisor = Rc::new(Supervisor::new(application.plan()?, bridge));
    let state = Rc::new(Cell::new("booting"));
    let lines = names.iter().map(|name| format!("listening on {name}"));
    lines.for_each(|line| say(&log, &settings, &line));
    let reporter = Reporter {
        still: still(&application, names),
        front: Rc::clone(&front),
        supervisor: Rc::clone(&supervisor),
        state: Rc::clone(&state),
        threads: settings.threads,
    };
    let asked = Asked {
        stops: stops.asked.clone(),
        restarts: restart.clone(),
    };
    let _control = open_control(&application, reporter, asked, &log)?;
    let restart_file = application.named.join(&settings.restart_file);
    // As it is before the code is loaded: what is touched from here on may be newer than that code.
    let touched = restarts::touched(&restart_file);

    let started = tokio::select! {
        started = supervisor.launch(load) => Some(started),
        _ = stops.next() => None,
    };
    let Some(Ok(_)) = started else {
        supervisor.stop(Duration::ZERO).await;
        return started.map_or(Ok(()), |started| Ok(started.map(drop)?));
    };
    files.leave_to_acceptors();
    for listener in listeners {
        front
            .accept(listener)
            .context("cannot accept connections")?;
    }
    state.set("serving");
    let (workers, threads) = (settings.workers, settings.threads);
    let ready = format!(
        "ready: {} x {}, generation {FIRST_GENERATION}, pid {}",
        counted(workers, "worker"),
        counted(threads, "thread"),
        own_pid()
    );
    say(&log, &settings, &ready);
    let restarts = Restarts {
        application,
        front: Rc::clone(&front),
        supervisor: Rc::clone(&supervisor),
        log: Rc::clone(&log),
        sockets,
        asks,
    };
    let restarts = spawn_local(restarts.run());
    spawn_local(restarts::watch(restart_file, touched, restart));

    let first = stops.next().await;
    state.set("stopping");
    restarts.abort();
    supervisor.call_off();
    let text = match first {
        Stop::Now => "stopping at once".to_owned(),
        _ => format!(
            "draining: what was begun may end within {:?}",
            settings.drain_timeout
        ),
    };
    log.event(Level::Info, &text, &[]);
    end(
        &front,
        &supervisor,
        settings.drain_timeout,
        first,
        &mut stops,
    )
    .await;
    Ok(())
}

/// Lets requests end for as long as the settings allow, or until somebody has no more patience; then ends the
/// workers.
async fn end(
    front: &Front,
    supervisor: &Supervisor,
    limit: Duration,
    first: Stop,
    stops: &mut Stops,
) {
    let began = Instant::now();
    let graceful = async {
        front.drain(limit).await;
        let rest = limit.saturating_sub(began.elapsed());
        supervisor.stop(rest.max(LEAST_GRACE)).await;
    };
    let hurry = async {
        // A second signal means it, a second `highball stop` only waits as well.
        while first != Stop::Now && stops.next().await == Stop::Drain {}
    };
    tokio::select! {
        biased;
        () = hurry => {
            front.end().await;
            supervisor.stop(Duration::ZERO).await;
        }
        () = graceful => {}
    }
}

/// The files of UNIX sockets that nobody else removes yet.
struct SocketFiles(Vec<PathBuf>);

impl SocketFiles {
    /// From here on each listener removes its own.
    fn leave_to_acceptors(mut self) {
        self.0.clear();
    }
}

impl Drop for SocketFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // Gone already is as good.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind(settings: &Settings) -> Result<(Vec<Listener>, SocketFiles)> {
    let mut files = SocketFiles(Vec::new());
    let mut listeners = Vec::new();
    for listen in &settings.listen {
        let listener = Listener::bind(listen, settings.backlog)?;
        files.0.extend(listener.path().map(Into::into));
        listeners.push(listener);
    }
    Ok((listeners, files))
}

/// Gathers the status.
struct Reporter {
    still: Report,
    front: Rc<Front>,
    supervisor: Rc<Supervisor>,
    state: Rc<Cell<&'static str>>,
    threads: u16,
}

impl Reporter {
    fn report(&self) -> Report {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let report = Report {
            state: self.state.get().to_owned(),
            now: now.map_or(0, |elapsed| elapsed.as_secs()),
            generations: self.supervisor.generations(),
            ..self.still.clone()
        };
        let processes = self.supervisor.processes();
        report.with(self.front.snapshot(), processes, self.threads)
    }
}

/// What does not change while the server runs.
fn still(application: &Application, listeners: Vec<String>) -> Report {
    Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: own_pid(),
        dir: application.dir.display().to_string(),
        environment: application.settings.environment.clone(),
        listeners,
        ..Report::default()
    }
}

fn open_control(
    application: &Application,
    reporter: Reporter,
    asked: Asked,
    log: &AccessLog,
) -> Result<ControlSocket> {
    let mut names = vec![Name::Pid(own_pid()), Name::Dir(&application.dir)];
    if application.named != application.dir {
        names.push(Name::Dir(&application.named));
    }
    names.extend(application.config.as_deref().map(Name::Config));
    let control = ControlSocket::open(&names, move || reporter.report(), asked)
        .context("cannot open the control socket")?;
    if control.taken > 0 {
        let text = format!(
            "another server runs for this folder or file of settings: status and stop find that one, and this \
             one with --pid {}",
            own_pid()
        );
        log.event(Level::Warn, &text, &[]);
    }
    Ok(control)
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

fn open_log(format: LogFormat) -> Result<Rc<AccessLog>> {
    let format = match format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    let log = AccessLog::to_stdout(format).context("cannot write to stdout")?;
    Ok(Rc::new(log))
}

/// Each connection takes a descriptor, and the soft limit is a default for programs that use select(2).
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it stays as it is, accepting pauses earlier.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn counted(number: u16, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}
