//! `status`, `restart`, `reload`, `upgrade` and `stop`: finds a running server, asks it, shows the answer. Changes
//! nothing by itself.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use config::CONFIG_FILES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{SocketAddrUnix, SocketFlags};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::application::{absolute, folder};
use crate::cli::arguments::Server;
use crate::cli::status_page;
use crate::control::directory::stream;
use crate::control::messages::{Answer, Question};
use crate::control::search::{commanded, reach, reach_process};
use crate::control::socket::Name;

/// How long a server may give no sign of life, also to who connects. One that works gives one much more often.
pub(crate) const SILENCE: Duration = Duration::from_secs(20);

/// Shows a server.
///
/// # Errors
/// There is none, or it does not answer.
pub(crate) fn status(server: &Server, json: bool) -> Result<()> {
    let connection = connect(server)?;
    let Answer::Status(report) = ask(&connection, &Question::Status)? else {
        bail!("the server gave another answer than its status; is it another version?");
    };
    let text = match json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => status_page::render(&report),
    };
    match io::stdout().write_all(text.as_bytes()) {
        // `highball status | head` has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to stdout"),
    }
}

/// Has a server load its application's code anew, and waits until the new code serves.
///
/// # Errors
/// There is no server, it does not answer, or the new code is not fit to serve.
pub(crate) fn restart(server: &Server) -> Result<()> {
    match have_changed(server, &Question::Restart)? {
        Answer::Restarted {
            generation,
            before,
            load_seconds,
            seconds,
        } => say(&format!(
            "generation {generation} serves after {seconds:.2} s ({load_seconds:.2} s to load); generation \
                 {before} finishes what it holds\n"
        )),
        Answer::NotRestarted {
            generation,
            serving,
            reason,
        } => bail!("generation {generation} is given up, generation {serving} serves on: {reason}"),
        other => bail!("the server gave another answer than to a restart: {other:?}"),
    }
}

/// Has a server read its settings anew, and tells what has changed.
///
/// # Errors
/// There is no server, it does not answer, or it keeps the settings that it has.
pub(crate) fn reload(server: &Server) -> Result<()> {
    match have_changed(server, &Question::Reload)? {
        Answer::Reloaded {
            changes,
            generation,
            seconds,
        } => {
            let mut text = String::new();
            for change in &changes {
                text += &format!("{change}\n");
            }
            if changes.is_empty() {
                text += "no setting has changed\n";
            }
            if let Some(generation) = generation {
                text += &format!("generation {generation} serves with them after {seconds:.2} s\n");
            }
            say(&text)
        }
        Answer::NotReloaded { reason } => bail!("the settings stay as they are: {reason}"),
        other => bail!("the server gave another answer than to a reload: {other:?}"),
    }
}

/// Has another program take the place of a server, and waits until it serves.
///
/// # Errors
/// There is no server, it does not answer, or its successor does not come up.
pub(crate) fn upgrade(server: &Server, binary: Option<&Path>) -> Result<()> {
    // The server stands in another folder.
    let binary = binary.map(std::path::absolute).transpose()?;
    match have_changed(server, &Question::Upgrade { binary })? {
        Answer::Upgraded {
            pid,
            highball,
            before,
            highball_before,
            seconds,
        } => say(&format!(
            "highball {highball} (pid {pid}) serves after {seconds:.2} s; highball {highball_before} (pid {before}) \
             finishes what it holds\n"
        )),
        Answer::NotUpgraded {
            pid,
            highball,
            reason,
        } => bail!("highball {highball} (pid {pid}) serves on: {reason}"),
        other => bail!("the server gave another answer than to an upgrade: {other:?}"),
    }
}

fn say(text: &str) -> Result<()> {
    let written = io::stdout().write_all(text.as_bytes());
    written.context("cannot write to stdout")
}

/// Stops a server and waits for its end.
///
/// # Errors
/// There is none, or it does not answer.
pub(crate) fn stop(server: &Server, now: bool) -> Result<()> {
    let connection = connect(server)?;
    let pid = socket_peercred(&connection)?.pid;
    // Before it is asked, while the number is surely its own.
    let process = pidfd_open(pid, PidfdFlags::empty()).context("cannot watch the server")?;
    match ask(&connection, &Question::Stop { now })? {
        Answer::Stopping { .. } => {}
        other => bail!("the server gave another answer than that it stops: {other:?}"),
    }
    wait_gone(&process, &connection)
}

/// Waits until a process has ended, for as long as signs of life come from it.
fn wait_gone(process: &OwnedFd, mut connection: &UnixStream) -> Result<()> {
    let patience = Timespec::try_from(SILENCE)?;
    let mut connected = true;
    loop {
        let mut fds = vec![PollFd::new(process, PollFlags::IN)];
        if connected {
            fds.push(PollFd::new(connection, PollFlags::IN));
        }
        match poll(&mut fds, Some(&patience)) {
            Ok(0) => bail!(silence("the server has not ended")),
            Ok(_) if !fds[0].revents().is_empty() => return Ok(()),
            // Whatever it says: it lives. The connection ends a little before the process.
            Ok(_) => connected = matches!(connection.read(&mut [0; 512]), Ok(count) if count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the server's end"),
        }
    }
}

/// What to say of a server that gives no sign of life.
pub(crate) fn silence(what: &str) -> String {
    format!(
        "{what}, and has given no sign of life for {SILENCE:?}: its process may stand still, and may yet do what it was \
         asked for"
    )
}

fn connect(server: &Server) -> Result<UnixStream> {
    if let Some(pid) = server.pid {
        return connect_pid(pid);
    }
    if let Some(socket) = &server.socket {
        return connect_pid(listening_pid(socket)?);
    }
    if let Some(config) = &server.config {
        let path = config
            .canonicalize()
            .with_context(|| format!("cannot open {}", config.display()))?;
        let absent = || {
            format!(
                "no server of yours runs with the settings of {}",
                path.display()
            )
        };
        let folder = folders_of(&path).next().or(path.parent());
        if let Some(connection) = reach(Name::Config(&path), folder, commanded())? {
            return Ok(connection);
        }
        // The server may have started before there was such a file in its folder.
        for dir in folders_of(&path) {
            if let Some(connection) = reach(Name::Dir(dir), Some(dir), commanded())? {
                return Ok(connection);
            }
        }
        bail!(absent());
    }
    let named = server.dir.as_deref().unwrap_or(Path::new("."));
    let dir = folder(named)?;
    let absent = || {
        format!(
            "no server of yours runs for {}; name its folder, or its process with --pid",
            dir.display()
        )
    };
    // First as it is named: what a link in it leads to may have changed since the server's start.
    match reach(Name::Dir(&absolute(named)), Some(&dir), commanded())? {
        Some(connection) => Ok(connection),
        None => reach(Name::Dir(&dir), Some(&dir), commanded())?.with_context(absent),
    }
}

/// The folders of applications for which this is a file of settings by its place.
fn folders_of(config: &Path) -> impl Iterator<Item = &Path> {
    let names = CONFIG_FILES.into_iter().map(Path::new);
    names
        .filter(|name| config.ends_with(name))
        .filter_map(|name| config.ancestors().nth(name.components().count()))
}

/// The process may be another user's, whose server answers root only.
fn connect_pid(pid: i32) -> Result<UnixStream> {
    if !Path::new("/proc").join(pid.to_string()).exists() {
        bail!("there is no process {pid}");
    }
    reach_process(pid)?.with_context(|| {
        format!(
            "process {pid} is no highball server of yours, one that is not up yet, or one without a control socket (its \
             log says so then)"
        )
    })
}

/// The process that listens on a socket: the kernel knows it.
fn listening_pid(socket: &Path) -> Result<i32> {
    let connection = SocketAddrUnix::new(socket).and_then(|address| open(&address));
    let connection =
        connection.with_context(|| format!("nobody listens on {}", socket.display()))?;
    Ok(socket_peercred(&connection)?.pid.as_raw_nonzero().get())
}

/// A connection with a clock for each wait, that for a place in the other's backlog included.
fn open(address: &SocketAddrUnix) -> rustix::io::Result<UnixStream> {
    let socket = stream(SocketFlags::empty())?;
    for wait in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, wait, Some(SILENCE))?;
    }
    rustix::net::connect(&socket, address)?;
    Ok(socket.into())
}

/// Asks for a change: of whoever has taken over, where the server is replaced before it comes to that.
fn have_changed(server: &Server, question: &Question) -> Result<Answer> {
    let mut connection = connect(server)?;
    loop {
        match ask(&connection, question)? {
            Answer::Moved { pid } => {
                wait_for(&format!(
                    "another server has taken over (pid {pid}), and is asked"
                ));
                connection = connect_pid(pid)?;
            }
            answer => return Ok(answer),
        }
    }
}

/// Tells why there is no answer yet.
fn wait_for(reason: &str) {
    // A stderr that is closed is no reason not to wait.
    let _ = writeln!(io::stderr(), "waits: {reason}");
}

fn ask(mut connection: &UnixStream, question: &Question) -> Result<Answer> {
    let mut line = serde_json::to_vec(question)?;
    line.push(b'\n');
    connection
        .write_all(&line)
        .map_err(|error| no_answer(&error))?;
    let mut replies = BufReader::new(connection);
    loop {
        let mut reply = String::new();
        let read = replies.read_line(&mut reply);
        read.map_err(|error| no_answer(&error))?;
        if reply.is_empty() {
            bail!("the server has ended, or does not answer this user");
        }
        let answer = serde_json::from_str(&reply);
        match answer.context("the server gave an answer of another version")? {
            Answer::Working => {}
            Answer::Waits { reason } => wait_for(&reason),
            Answer::Error(error) => bail!("the server refused: {error}"),
            answer => return Ok(answer),
        }
    }
}

fn no_answer(error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => anyhow!(silence("the server does not answer")),
        _ => anyhow!("the server does not answer: {error}"),
    }
}
