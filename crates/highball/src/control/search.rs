//! How a command finds the server that it is for. It looks in all directories that a server of its user may have taken,
//! and then at the server processes that it may look into: each keeps its directory open. Asks nothing.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};

use crate::cli::client::{SILENCE, silence};
use crate::control::directory::{ControlDirectory, Variables, is_named, known_places, stream};
use crate::control::socket::{Name, own_uid};

/// What the kernel calls the process of a server.
const PROCESS_NAME: &str = "highball";

/// Whose servers are looked for: of one user, or `None` for those of all users.
pub(crate) type Owner = Option<u32>;

/// Whose servers a command of this user finds: its own, and root's finds all.
pub(crate) fn commanded() -> Owner {
    Some(own_uid()).filter(|uid| *uid != 0)
}

/// Connects to a server by a name. `folder` is the application's, where it is known; `None` where no such server has the
/// name.
///
/// # Errors
/// A server has the name but answers nobody, or is another user's.
pub(crate) fn reach(
    name: Name<'_>,
    folder: Option<&Path>,
    owner: Owner,
) -> Result<Option<UnixStream>> {
    let mut found: Vec<Found> = Vec::new();
    let file = name.file_name();
    for path in known_places(&Variables::of_this_process(), own_uid(), folder) {
        // One that is not there or not to be trusted is not the one that is looked for.
        if let Ok(directory) = ControlDirectory::look(&path, owner) {
            found.extend(connect(&directory, &file)?);
        }
        if found.iter().any(Found::is_own) {
            return chosen(found, name);
        }
    }
    let mut failed = None;
    for process in servers() {
        match through_process(&process, name, owner) {
            Ok(one) => found.extend(one),
            // Another user's, perhaps, and no reason not to find the one that is meant.
            Err(error) => failed = Some(error),
        }
        if found.iter().any(Found::is_own) {
            break;
        }
    }
    match failed {
        Some(error) if found.is_empty() => Err(error),
        _ => chosen(found, name),
    }
}

/// A server that answers, and whose it is.
struct Found {
    connection: UnixStream,
    uid: u32,
}

impl Found {
    fn is_own(&self) -> bool {
        self.uid == own_uid()
    }
}

/// The one server that a command is for. Any user may pretend to serve any folder: where several do, root has to say
/// whose it means.
fn chosen(mut found: Vec<Found>, name: Name<'_>) -> Result<Option<UnixStream>> {
    if let Some(own) = found.iter().position(Found::is_own) {
        return Ok(Some(found.swap_remove(own).connection));
    }
    let mut users: Vec<u32> = found.iter().map(|one| one.uid).collect();
    users.sort_unstable();
    users.dedup();
    if let (Name::Dir(path) | Name::Config(path), [_, _, ..]) = (name, &*users) {
        bail!(
            "servers of several users run for {} (their numbers: {users:?}): name the process with --pid",
            path.display()
        );
    }
    Ok(found.into_iter().next().map(|one| one.connection))
}

/// Connects to the server that is this process; `None` where it is none.
///
/// # Errors
/// It answers nobody, or this user may not look for it.
pub(crate) fn reach_process(pid: i32) -> Result<Option<UnixStream>> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let owner = commanded();
    let own = Name::Pid(own_number(&process).unwrap_or(pid));
    let connection = match through_process(&process, own, owner)? {
        Some(found) => Some(found.connection),
        None => reach(Name::Pid(pid), None, owner)?,
    };
    let Some(connection) = connection else {
        return Ok(None);
    };
    let found = socket_peercred(&connection)?.pid.as_raw_nonzero().get();
    if found != pid {
        bail!("process {found} answers in place of process {pid}");
    }
    Ok(Some(connection))
}

/// Connects to a name in the directory that a process keeps open; `None` where it has none, or where this user may not
/// look into it.
fn through_process(process: &Path, name: Name<'_>, owner: Owner) -> Result<Option<Found>> {
    let Ok(open) = std::fs::read_dir(process.join("fd")) else {
        return places_of(process, name, owner);
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
        // It has one alone.
        if let Ok(directory) = ControlDirectory::through(&link, owner) {
            return connect(&directory, &file);
        }
    }
    Ok(None)
}

/// The number that a process has in its own namespace, the innermost one (proc_pid_status(5)).
fn own_number(process: &Path) -> Option<i32> {
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let numbers = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// Connects to a name in the places of the user of a process that cannot be looked into.
fn places_of(process: &Path, name: Name<'_>, owner: Owner) -> Result<Option<Found>> {
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
fn servers() -> impl Iterator<Item = PathBuf> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.map(|entry| entry.path());
    processes.filter(|process| {
        let numbered = process.file_name().and_then(OsStr::to_str);
        let numbered = numbered.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        numbered
            && std::fs::read_to_string(process.join("comm"))
                .is_ok_and(|name| name.trim_end() == PROCESS_NAME)
    })
}

/// Whether paths mean the same to a process as to this one.
fn has_same_root(process: &Path) -> bool {
    let root = |path: &Path| {
        let facts = std::fs::metadata(path).ok()?;
        Some((facts.dev(), facts.ino()))
    };
    root(&process.join("root/.")).is_some_and(|other| Some(other) == root(Path::new("/")))
}

/// A connection with a clock for each wait, that for a place in the other's backlog included; `None` where nobody
/// listens.
fn connect(directory: &ControlDirectory, file: &str) -> Result<Option<Found>> {
    let socket = stream(SocketFlags::empty()).context("cannot make a socket")?;
    for wait in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, wait, Some(SILENCE))?;
    }
    match directory.connect(file, socket.as_fd()) {
        Ok(()) => {}
        Err(Errno::CONNREFUSED | Errno::NOENT | Errno::ACCESS | Errno::PERM) => return Ok(None),
        Err(Errno::AGAIN) => bail!(silence("the server answers nobody")),
        Err(error) => return Err(io::Error::from(error)).context("cannot reach the server"),
    }
    let peer = socket_peercred(&socket)?.uid.as_raw();
    if peer != directory.owner() {
        bail!(
            "{} belongs to user {}, but a process of user {peer} answers there",
            directory.path().display(),
            directory.owner()
        );
    }
    Ok(Some(Found {
        connection: socket.into(),
        uid: peer,
    }))
}
