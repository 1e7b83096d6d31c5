//! How a command finds and reaches the server that it is for. It looks in all directories that a server of its user may
//! use, then at the server processes that it may look into: each keeps its directory open. Sends nothing.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};

use crate::control::directory::{ControlDirectory, stream};
use crate::control::name::ServerName;
use crate::control::places::{Variables, is_named, known_places};
use crate::system::privileges::User;

/// How long a server may give no sign of life, also while a command connects. One that works gives signs far more often.
pub(crate) const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);
/// What the kernel calls the process of a server.
const PROCESS_NAME: &str = "highball";

/// Whose servers are looked for: those of one user, or `None` for those of all users.
pub(crate) type Owner = Option<u32>;

/// The servers that a command of this user may reach: its own; root's commands reach all.
pub(crate) fn reachable() -> Owner {
    Some(own_uid()).filter(|uid| *uid != 0)
}

fn own_uid() -> u32 {
    User::of_this_process().uid
}

/// Connects to a server by a name; `None` where no server has it. `folder` is the application's, where it is known.
///
/// # Errors
/// A server has the name but does not answer, or is another user's.
pub(crate) fn connect_by_name(
    name: ServerName<'_>,
    folder: Option<&Path>,
    owner: Owner,
) -> Result<Option<UnixStream>> {
    let mut found: Vec<FoundServer> = Vec::new();
    let file = name.file_name();
    for path in known_places(&Variables::of_this_process(), own_uid(), folder) {
        // A directory that is not there or not trustworthy is not the server's.
        if let Ok(directory) = ControlDirectory::look(&path, owner) {
            found.extend(connect(&directory, &file)?);
        }
        if found.iter().any(FoundServer::is_own) {
            return choose(found, name);
        }
    }
    let mut failed = None;
    for process in server_processes() {
        match connect_through_process(&process, name, owner) {
            Ok(one) => found.extend(one),
            // Perhaps another user's: the right one may still come.
            Err(error) => failed = Some(error),
        }
        if found.iter().any(FoundServer::is_own) {
            break;
        }
    }
    match failed {
        Some(error) if found.is_empty() => Err(error),
        _ => choose(found, name),
    }
}

/// A server that answers, and its user.
struct FoundServer {
    connection: UnixStream,
    uid: u32,
}

impl FoundServer {
    fn is_own(&self) -> bool {
        self.uid == own_uid()
    }
}

/// Chooses the server that a command is for. Any user may claim any folder as its server's: where several users do, root
/// has to say which server it means.
fn choose(mut found: Vec<FoundServer>, name: ServerName<'_>) -> Result<Option<UnixStream>> {
    if let Some(own) = found.iter().position(FoundServer::is_own) {
        return Ok(Some(found.swap_remove(own).connection));
    }
    let mut users: Vec<u32> = found.iter().map(|one| one.uid).collect();
    users.sort_unstable();
    users.dedup();
    if let (ServerName::Dir(path) | ServerName::Config(path), [_, _, ..]) = (name, &*users) {
        bail!(
            "servers of several users (uids {users:?}) run for {}: name the process with --pid",
            path.display()
        );
    }
    Ok(found.into_iter().next().map(|one| one.connection))
}

/// Connects to the server that is this process.
///
/// # Errors
/// There is no such process, it is no server, it belongs to another user, or it does not answer.
pub(crate) fn connect_to_process(pid: i32) -> Result<UnixStream> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let Ok(facts) = std::fs::metadata(&process) else {
        bail!("there is no process {pid}");
    };
    let (owner, uid) = (reachable(), own_uid());
    let name = ServerName::Pid(pid_in_own_namespace(&process).unwrap_or(pid));
    let connection = match connect_through_process(&process, name, owner)? {
        Some(found) => Some(found.connection),
        None => connect_by_name(ServerName::Pid(pid), None, owner)?,
    };
    let Some(connection) = connection else {
        if owner.is_some_and(|owner| owner != facts.uid()) {
            bail!(
                "process {pid} belongs to uid {}; you are uid {uid}: run the command as that user or as root",
                facts.uid()
            );
        }
        bail!(
            "process {pid} has no control socket: it is not a highball server, it is still starting, or it found no place \
             for one (then its log says so)"
        );
    };
    let found = socket_peercred(&connection)?.pid.as_raw_nonzero().get();
    if found != pid {
        bail!("process {found} answers in place of process {pid}");
    }
    Ok(connection)
}

/// Connects to each server that a command of this user may reach, by the numbers of their processes. A server that does not
/// answer is there with the reason.
pub(crate) fn connect_to_all() -> Vec<(i32, Result<UnixStream>)> {
    let owner = reachable();
    let is_reachable = |process: &PathBuf| {
        let facts = std::fs::metadata(process);
        facts.is_ok_and(|facts| owner.is_none_or(|owner| owner == facts.uid()))
    };
    let connect = |process: PathBuf| {
        let pid: i32 = process.file_name()?.to_str()?.parse().ok()?;
        let name = ServerName::Pid(pid_in_own_namespace(&process).unwrap_or(pid));
        // Where nothing listens it is a command, or a server that starts.
        let found = connect_through_process(&process, name, owner).transpose()?;
        Some((pid, found.map(|found| found.connection)))
    };
    let mut found: Vec<_> = server_processes()
        .filter(is_reachable)
        .filter_map(connect)
        .collect();
    found.sort_by_key(|(pid, _)| *pid);
    found
}

/// Connects to a name in the directory that a process keeps open; `None` where it has none, or where this user may not
/// look into the process.
fn connect_through_process(
    process: &Path,
    name: ServerName<'_>,
    owner: Owner,
) -> Result<Option<FoundServer>> {
    let Ok(open) = std::fs::read_dir(process.join("fd")) else {
        return connect_in_places_of(process, name, owner);
    };
    if !has_same_root(process) {
        // In a container the same path is another folder.
        return Ok(None);
    }
    let file = name.file_name_of(process);
    for link in open.flatten().map(|entry| entry.path()) {
        let named = std::fs::read_link(&link).is_ok_and(|target| is_named(&target));
        if !named || !link.is_dir() {
            continue;
        }
        // A server has one only.
        if let Ok(directory) = ControlDirectory::through(&link, owner) {
            return connect(&directory, &file);
        }
    }
    Ok(None)
}

/// Returns the number that a process has in its own PID namespace, the innermost one (proc_pid_status(5)).
fn pid_in_own_namespace(process: &Path) -> Option<i32> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let numbers = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// Connects to a name in the directories of a process's user, for a process that this user may not look into.
fn connect_in_places_of(
    process: &Path,
    name: ServerName<'_>,
    owner: Owner,
) -> Result<Option<FoundServer>> {
    let Ok(facts) = std::fs::metadata(process) else {
        return Ok(None);
    };
    if owner.is_some_and(|owner| owner != facts.uid()) {
        return Ok(None);
    }
    for path in known_places(&Variables::default(), facts.uid(), None) {
        if let Ok(directory) = ControlDirectory::look(&path, Some(facts.uid()))
            && let Some(found) = connect(&directory, &name.file_name())?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The processes that may be servers.
fn server_processes() -> impl Iterator<Item = PathBuf> {
    let is_named = |pid: &i32| proc::stat(*pid).is_some_and(|stat| stat.name == PROCESS_NAME);
    let servers = proc::pids().filter(is_named);
    servers.map(|pid| PathBuf::from(format!("/proc/{pid}")))
}

/// Whether paths mean the same to a process as to this one.
fn has_same_root(process: &Path) -> bool {
    let root = |path: &Path| {
        let facts = std::fs::metadata(path).ok()?;
        Some((facts.dev(), facts.ino()))
    };
    root(&process.join("root/.")).is_some_and(|other| Some(other) == root(Path::new("/")))
}

/// Connects to a name in a directory; `None` where no process listens. Each wait on the connection has a timeout, also the one
/// for a place in the server's backlog.
fn connect(directory: &ControlDirectory, file: &str) -> Result<Option<FoundServer>> {
    let socket = stream(SocketFlags::empty()).context("cannot make a socket")?;
    for wait in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, wait, Some(SILENCE_TIMEOUT))?;
    }
    match directory.connect(file, socket.as_fd()) {
        Ok(()) => {}
        Err(Errno::CONNREFUSED | Errno::NOENT | Errno::ACCESS | Errno::PERM) => return Ok(None),
        Err(Errno::AGAIN) => bail!(no_sign_of_life("the server does not accept commands")),
        Err(error) => return Err(io::Error::from(error)).context("cannot reach the server"),
    }
    let peer = socket_peercred(&socket)?.uid.as_raw();
    if peer != directory.owner() {
        bail!(
            "{} belongs to uid {}, but a process of uid {peer} answers there",
            directory.path().display(),
            directory.owner()
        );
    }
    Ok(Some(FoundServer {
        connection: socket.into(),
        uid: peer,
    }))
}

/// The message about a server that gives no sign of life; `what` says what it did not do.
pub(crate) fn no_sign_of_life(what: &str) -> String {
    format!(
        "{what}, and gave no sign of life for {SILENCE_TIMEOUT:?}: its process may be stopped or blocked; if it continues, it \
         may still carry the command out"
    )
}
