//! The commands `status`, `restart`, `reload`, `log-level`, `upgrade`, `purge` and `stop`: find a running server, send it a request of its
//! API (`api.rs`) and print the answer. Changes nothing by itself.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use command_line::{ServerArguments, ViewArguments};
use config::CONFIG_FILES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{SocketAddrUnix, SocketFlags};
use rustix::process::{PidfdFlags, pidfd_open};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::application::folder;
use crate::cli::{api, print, status_page};
use crate::control::directory::stream;
use crate::control::inspection_routes::{ProfileProgress, ProfileRequest};
use crate::control::log_level::WantedLevel;
use crate::control::messages::{
    Progress, Purge, Refork, Restart, Scale, StopServer, Upgrade, WantedWorkers,
};
use crate::control::name::ServerName;
use crate::control::report::Report;
use crate::control::search::{
    SILENCE_TIMEOUT, connect_by_name, connect_to_all, connect_to_process, no_sign_of_life,
    reachable,
};
use crate::system::working_folder::absolute;

/// Prints the status of a server.
///
/// # Errors
/// There is no server, or it does not answer.
pub(crate) fn status(server: &ServerArguments, json: bool) -> Result<()> {
    let report = report(server)?;
    let text = match json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => status_page::render(&report),
    };
    print(&text)
}

/// Asks a server for its status.
///
/// # Errors
/// There is no server, or it does not answer.
pub(crate) fn report(server: &ServerArguments) -> Result<Box<Report>> {
    let connection = connect(server)?;
    let report = api::get(&connection, "/v1/status")?.json()?;
    report.context("the server closed the connection before its status came")
}

/// Asks each server that this user may reach for its status, and says on stderr which one does not answer.
///
/// # Errors
/// There is none.
pub(crate) fn all_reports() -> Result<Vec<Report>> {
    let ask = |connection: UnixStream| {
        let report = api::get(&connection, "/v1/status")?.json::<Report>()?;
        report.context("it closed the connection before its status came")
    };
    // All at once: each server that hangs is waited for.
    let asked: Vec<_> = connect_to_all()
        .into_iter()
        .map(|(pid, connection)| (pid, thread::spawn(move || connection.and_then(ask))))
        .collect();
    let mut reports = Vec::new();
    for (pid, report) in asked {
        let report = report.join();
        match report.unwrap_or_else(|_| Err(anyhow!("its answer could not be read"))) {
            Ok(report) => reports.push(report),
            // A stderr that is closed is no reason not to show the others.
            Err(error) => drop(writeln!(io::stderr(), "highball: process {pid}: {error:#}")),
        }
    }
    if reports.is_empty() {
        bail!("found no running server {}that answers", whose());
    }
    Ok(reports)
}

/// Asks a server where time goes: reads from this path, for the application and the worker that the arguments name.
///
/// # Errors
/// There is no server, it does not answer, or it cannot tell.
pub(crate) fn inspect<T: DeserializeOwned>(view: &ViewArguments, path: &str) -> Result<T> {
    let application = view.application.as_ref();
    let application = application.map(|name| format!("application={name}"));
    let worker = view.worker.map(|number| format!("worker={number}"));
    let query: Vec<String> = application.into_iter().chain(worker).collect();
    let path = match query.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", query.join("&")),
    };
    let connection = connect(&view.server)?;
    let answer = api::get(&connection, &path)?.json()?;
    answer.context("the server closed the connection before its answer came")
}

/// Has a server profile a worker, and waits for the profile.
///
/// # Errors
/// There is no server, it does not answer, or there is no profile.
pub(crate) fn profile<T: DeserializeOwned>(
    server: &ServerArguments,
    request: &ProfileRequest,
) -> Result<T> {
    let connection = connect(server)?;
    let mut lines = api::post(&connection, "/v1/profile", request)?;
    while let Some(progress) = lines.json()? {
        match progress {
            ProfileProgress::Working => {}
            ProfileProgress::Failed { message } => bail!(message),
            ProfileProgress::Done { profile } => return Ok(profile),
        }
    }
    bail!("the server closed the connection before its profile came")
}

/// Reads the answer of a server to a path of its API.
///
/// # Errors
/// There is no server, it does not answer, or it refuses the command.
pub(crate) fn read(server: &ServerArguments, path: &str) -> Result<serde_json::Value> {
    let connection = connect(server)?;
    let answer = api::get(&connection, path)?.json()?;
    answer.context("the server closed the connection before its answer came")
}

/// Has a server load the code of one application or of all again.
///
/// # Errors
/// As [`change`].
pub(crate) fn restart(server: &ServerArguments, application: Option<String>) -> Result<()> {
    change(server, "/v1/restart", &Restart { application })
}

/// Has a server use another number of workers; none: as its settings say.
///
/// # Errors
/// As [`change`].
pub(crate) fn scale(
    server: &ServerArguments,
    workers: Option<u16>,
    application: Option<String>,
) -> Result<()> {
    let default = || WantedWorkers::Word("default".to_owned());
    let scale = Scale {
        workers: workers.map_or_else(default, WantedWorkers::Number),
        application,
    };
    change(server, "/v1/scale", &scale)
}

/// Has a server write its own lines of this level and above.
///
/// # Errors
/// As [`change`].
pub(crate) fn log_level(server: &ServerArguments, level: String) -> Result<()> {
    change(server, "/v1/log-level", &WantedLevel { level })
}

/// Has a server fork a new template from a worker, for one application or for all.
///
/// # Errors
/// As [`change`].
pub(crate) fn refork(server: &ServerArguments, application: Option<String>) -> Result<()> {
    change(server, "/v1/refork", &Refork { application })
}

/// Has a server read its settings again.
///
/// # Errors
/// As [`change`].
pub(crate) fn reload(server: &ServerArguments) -> Result<()> {
    change(server, "/v1/reload", &serde_json::Map::new())
}

/// Has a server forget stored responses.
///
/// # Errors
/// As [`change`].
pub(crate) fn purge(server: &ServerArguments, what: command_line::Purge) -> Result<()> {
    let what = match what {
        command_line::Purge::All => Purge::All(true),
        command_line::Purge::Url(url) => Purge::Url(url),
        command_line::Purge::Prefix(prefix) => Purge::Prefix(prefix),
        command_line::Purge::Tag(tag) => Purge::Tag(tag),
    };
    change(server, "/v1/purge", &what)
}

/// Replaces a server by another program, by default the file that it was started from.
///
/// # Errors
/// As [`change`].
pub(crate) fn upgrade(server: &ServerArguments, binary: Option<&Path>) -> Result<()> {
    // The server's working folder is another one.
    let binary = binary.map(std::path::absolute).transpose()?;
    change(server, "/v1/upgrade", &Upgrade { binary })
}

/// Requests a change, waits until it is done, and prints what was done. A server that has taken over before the change begins
/// gets the request in its turn.
///
/// # Errors
/// There is no server, it does not answer, or the change has failed.
fn change(server: &ServerArguments, path: &str, body: &impl Serialize) -> Result<()> {
    print(&changed(server, path, body)?)
}

/// The same, and returns what was done.
///
/// # Errors
/// As [`change`].
pub(super) fn changed(
    server: &ServerArguments,
    path: &str,
    body: &impl Serialize,
) -> Result<String> {
    let mut connection = connect(server)?;
    let mut answer = api::post(&connection, path, body)?;
    loop {
        match answer.json()? {
            Some(Progress::Working) => {}
            Some(Progress::Waiting { reason }) => print_waiting(&reason),
            Some(Progress::Moved { pid }) => {
                print_waiting(&format!(
                    "another server (pid {pid}) has taken over; sending the command to it"
                ));
                connection = connect_to_process(pid)?;
                answer = api::post(&connection, path, body)?;
            }
            Some(Progress::Done { message }) => return Ok(message),
            Some(Progress::Failed { message }) => bail!(message),
            Some(Progress::Refused { message }) => {
                bail!("the server refused the command: {message}")
            }
            Some(Progress::Stopping { .. }) => bail!("the server is stopping"),
            None => bail!(
                "the server closed the connection: it has exited, or it does not answer your user"
            ),
        }
    }
}

/// Stops a server and waits until it has exited.
///
/// # Errors
/// There is no server, or it does not answer.
pub(crate) fn stop(server: &ServerArguments, now: bool) -> Result<()> {
    let connection = connect(server)?;
    let pid = socket_peercred(&connection)?.pid;
    // Before the command is sent, while the number is certainly the server's.
    let process = pidfd_open(pid, PidfdFlags::empty()).context("cannot watch the server")?;
    match api::post(&connection, "/v1/stop", &StopServer { now })?.json()? {
        Some(Progress::Stopping { .. }) => wait_exited(&process, &connection),
        other => bail!("the server answered {other:?}; it may be another version"),
    }
}

/// Waits until a process has exited, for as long as signs of life come from it.
fn wait_exited(process: &OwnedFd, mut connection: &UnixStream) -> Result<()> {
    let timeout = Timespec::try_from(SILENCE_TIMEOUT)?;
    let mut connected = true;
    loop {
        let mut fds = vec![PollFd::new(process, PollFlags::IN)];
        if connected {
            fds.push(PollFd::new(connection, PollFlags::IN));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => bail!(no_sign_of_life("the server has not exited")),
            Ok(_) if !fds[0].revents().is_empty() => return Ok(()),
            // Whatever it sends is a sign of life. The connection ends a little before the process.
            Ok(_) => connected = matches!(connection.read(&mut [0; 512]), Ok(count) if count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the server's exit"),
        }
    }
}

/// Connects to the server that the arguments name.
pub(super) fn connect(server: &ServerArguments) -> Result<UnixStream> {
    if let Some(pid) = server.pid {
        return connect_to_process(pid);
    }
    if let Some(socket) = &server.socket {
        return connect_to_process(listening_pid(socket)?);
    }
    if let Some(config) = &server.config {
        return connect_by_config(config);
    }
    let named = server.dir.as_deref().unwrap_or(Path::new("."));
    let dir = folder(named)?;
    // First as it is named: what a link in it leads to may have changed since the server's start.
    let connection =
        match connect_by_name(ServerName::Dir(&absolute(named)), Some(&dir), reachable())? {
            Some(connection) => Some(connection),
            None => connect_by_name(ServerName::Dir(&dir), Some(&dir), reachable())?,
        };
    connection.with_context(|| {
        format!(
            "found no running server {}for {}; name its folder, or its process with --pid",
            whose(),
            dir.display()
        )
    })
}

fn connect_by_config(config: &Path) -> Result<UnixStream> {
    let path = config
        .canonicalize()
        .with_context(|| format!("cannot open {}", config.display()))?;
    let folder = folders_of(&path).next().or(path.parent());
    if let Some(connection) = connect_by_name(ServerName::Config(&path), folder, reachable())? {
        return Ok(connection);
    }
    // The server may have started before there was such a file in its folder.
    for dir in folders_of(&path) {
        if let Some(connection) = connect_by_name(ServerName::Dir(dir), Some(dir), reachable())? {
            return Ok(connection);
        }
    }
    bail!(
        "found no running server {}with the settings of {}; name its folder, or its process with --pid",
        whose(),
        path.display()
    )
}

/// For messages: the user whose servers were looked for, followed by a space.
fn whose() -> String {
    reachable().map_or_else(String::new, |uid| format!("of your user (uid {uid}) "))
}

/// The folders of applications for which this is a file of settings by its place.
fn folders_of(config: &Path) -> impl Iterator<Item = &Path> {
    let names = CONFIG_FILES.into_iter().map(Path::new);
    names
        .filter(|name| config.ends_with(name))
        .filter_map(|name| config.ancestors().nth(name.components().count()))
}

/// Returns the process that listens on a socket, as the kernel knows it.
fn listening_pid(socket: &Path) -> Result<i32> {
    let connection = SocketAddrUnix::new(socket).and_then(|address| {
        let connection = stream(SocketFlags::empty())?;
        // The wait for a place in the server's backlog is bounded as well.
        set_socket_timeout(&connection, Timeout::Send, Some(SILENCE_TIMEOUT))?;
        rustix::net::connect(&connection, &address)?;
        Ok(connection)
    });
    let connection =
        connection.with_context(|| format!("no process listens on {}", socket.display()))?;
    Ok(socket_peercred(&connection)?.pid.as_raw_nonzero().get())
}

/// Prints why there is no answer yet.
fn print_waiting(reason: &str) {
    // A stderr that is closed is no reason not to wait.
    let _ = writeln!(io::stderr(), "waiting: {reason}");
}
