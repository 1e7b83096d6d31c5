//! `status`, `restart`, `reload`, `upgrade` and `stop`: finds a running server, asks it, shows the answer. Changes
//! nothing by itself.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use config::CONFIG_FILES;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};

use crate::application::{absolute, folder};
use crate::arguments::Server;
use crate::control_socket::{Answer, Name, Question, own_uid};
use crate::page;

/// Shows a server.
///
/// # Errors
/// There is none, or it does not answer.
pub(crate) fn status(server: &Server, json: bool) -> Result<()> {
    let connection = connect(server)?;
    let Answer::Status(report) = ask(&connection, Question::Status)? else {
        bail!("the server gave another answer than its status; is it another version?");
    };
    let text = match json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => page::render(&report),
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
    let connection = connect(server)?;
    match ask(&connection, Question::Restart)? {
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
    let connection = connect(server)?;
    match ask(&connection, Question::Reload)? {
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
    let connection = connect(server)?;
    // The server stands in another folder.
    let binary = binary.map(std::path::absolute).transpose()?;
    match ask(&connection, Question::Upgrade { binary })? {
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
    match ask(&connection, Question::Stop { now })? {
        Answer::Stopping { .. } => {}
        other => bail!("the server gave another answer than that it stops: {other:?}"),
    }
    loop {
        let mut fds = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the server's end"),
        }
    }
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
        if let Some(connection) = reach(Name::Config(&path), own_uid())? {
            return Ok(connection);
        }
        // The server may have started before there was such a file in its folder.
        for dir in folders_of(&path) {
            if let Some(connection) = reach(Name::Dir(dir), own_uid())? {
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
    match reach(Name::Dir(&absolute(named)), own_uid())? {
        Some(connection) => Ok(connection),
        None => reach(Name::Dir(&dir), own_uid())?.with_context(absent),
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
    let owner = std::fs::metadata(format!("/proc/{pid}"))
        .map_err(|_| anyhow!("there is no process {pid}"))?
        .uid();
    reach(Name::Pid(pid), owner)?
        .with_context(|| format!("process {pid} is no highball server, or one that is not up yet"))
}

/// The process that listens on a socket: the kernel knows it.
fn listening_pid(socket: &Path) -> Result<i32> {
    let connection = UnixStream::connect(socket)
        .with_context(|| format!("nobody listens on {}", socket.display()))?;
    Ok(socket_peercred(&connection)?.pid.as_raw_nonzero().get())
}

/// Connects to a name of a server of user `uid`; `None` where nobody has it.
fn reach(name: Name<'_>, uid: u32) -> Result<Option<UnixStream>> {
    let address = name.address(uid)?;
    let connection = match UnixStream::connect_addr(&address) {
        Ok(connection) => connection,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
        Err(error) => return Err(error).context("cannot reach the server"),
    };
    let peer = socket_peercred(&connection)?.uid.as_raw();
    if peer != uid {
        let name = address.as_abstract_name().unwrap_or_default();
        bail!(
            "the name {} belongs to user {peer}, not to {uid}: that is no server of yours",
            String::from_utf8_lossy(name)
        );
    }
    Ok(Some(connection))
}

fn ask(mut connection: &UnixStream, question: Question) -> Result<Answer> {
    let mut line = serde_json::to_vec(&question)?;
    line.push(b'\n');
    let mut reply = String::new();
    connection
        .write_all(&line)
        .and_then(|()| BufReader::new(connection).read_line(&mut reply))
        .context("the server does not answer")?;
    if reply.is_empty() {
        bail!("the server has ended, or does not answer this user");
    }
    match serde_json::from_str(&reply).context("the server gave an answer of another version")? {
        Answer::Error(error) => bail!("the server refused: {error}"),
        answer => Ok(answer),
    }
}
