//! The commands `status`, `restart`, `reload`, `upgrade` and `stop`: send a command to a running server and print its
//! answer. Changes nothing by itself.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use command_line::ServerArguments;
use config::CONFIG_FILES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{SocketAddrUnix, SocketFlags};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::application::folder;
use crate::cli::{print, status_page};
use crate::control::directory::stream;
use crate::control::messages::{Answer, ControlCommand};
use crate::control::name::ServerName;
use crate::control::search::{
    SILENCE_TIMEOUT, connect_by_name, connect_to_process, no_sign_of_life, reachable,
};
use crate::system::working_folder::absolute;

/// Prints the status of a server.
///
/// # Errors
/// There is no server, or it does not answer.
pub(crate) fn status(server: &ServerArguments, json: bool) -> Result<()> {
    let connection = connect(server)?;
    let report = match send(&connection, &ControlCommand::Status)? {
        Answer::Status(report) => report,
        other => return Err(unexpected(&other)),
    };
    let text = match json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => status_page::render(&report),
    };
    print(&text)
}

/// Has a server load its application's code again, read its settings again, or be replaced by another program; waits until
/// that is done, and prints what was done.
///
/// # Errors
/// There is no server, it does not answer, or the change has failed.
pub(crate) fn change(server: &ServerArguments, command: &ControlCommand) -> Result<()> {
    match request_change(server, command)? {
        Answer::Done(text) => print(&text),
        Answer::Failed(reason) => bail!(reason),
        other => Err(unexpected(&other)),
    }
}

/// Replaces a server by another program, by default the file that it was started from.
///
/// # Errors
/// As [`change`].
pub(crate) fn upgrade(server: &ServerArguments, binary: Option<&Path>) -> Result<()> {
    // The server's working folder is another one.
    let binary = binary.map(std::path::absolute).transpose()?;
    change(server, &ControlCommand::Upgrade { binary })
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
    match send(&connection, &ControlCommand::Stop { now })? {
        Answer::Stopping { .. } => wait_exited(&process, &connection),
        other => Err(unexpected(&other)),
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
fn connect(server: &ServerArguments) -> Result<UnixStream> {
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

/// Requests a change, from the server that has taken over where that happens before the change begins.
fn request_change(server: &ServerArguments, command: &ControlCommand) -> Result<Answer> {
    let mut connection = connect(server)?;
    loop {
        match send(&connection, command)? {
            Answer::Moved { pid } => {
                print_waiting(&format!(
                    "another server (pid {pid}) has taken over; sending the command to it"
                ));
                connection = connect_to_process(pid)?;
            }
            answer => return Ok(answer),
        }
    }
}

/// Prints why there is no answer yet.
fn print_waiting(reason: &str) {
    // A stderr that is closed is no reason not to wait.
    let _ = writeln!(io::stderr(), "waiting: {reason}");
}

/// Sends a command and waits for its answer.
fn send(mut connection: &UnixStream, command: &ControlCommand) -> Result<Answer> {
    let mut line = serde_json::to_vec(command)?;
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
            bail!(
                "the server closed the connection: it has exited, or it does not answer your user"
            );
        }
        let answer = serde_json::from_str(&reply);
        match answer.context("cannot read the server's answer; it may be another version")? {
            Answer::Working => {}
            Answer::Waits { reason } => print_waiting(&reason),
            Answer::Error(error) => bail!("the server refused the command: {error}"),
            answer => return Ok(answer),
        }
    }
}

fn no_answer(error: &io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => anyhow!(no_sign_of_life("the server does not answer")),
        _ => anyhow!("the server does not answer: {error}"),
    }
}

fn unexpected(answer: &Answer) -> anyhow::Error {
    anyhow!("the server answered another command; it may be another version: {answer:?}")
}
