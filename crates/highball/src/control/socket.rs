//! The server's side of the control socket: answers the commands `status`, `restart`, `reload`, `upgrade` and `stop`. One
//! line of JSON is a command, one is its answer. It carries no request of a client.
//!
//! The sockets are files in a directory that only the server's user can enter, one for each name of the server. Both sides
//! also check the other's user (`SO_PEERCRED`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener as StdListener;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::WriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinHandle, spawn_local};

use crate::control::directory::{ControlDirectory, FileId};
use crate::control::messages::{Answer, ControlCommand};
use crate::control::name::ServerName;
use crate::control::queue::{Change, ChangeQueue, ChangeRequest, Requester};
use crate::control::report::Report;
use crate::system::privileges::User;
use crate::system::program::own_pid;
use crate::system::signals::Stop;

/// The longest command in bytes.
const MAX_COMMAND_BYTES: u64 = 4096;
/// Connections that the kernel holds before they are accepted.
const BACKLOG: i32 = 128;
/// How long a client may take to send its command, and to take its answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a waiting client gets a sign of life. One that has left is noticed by then.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// The most clients at once, under all names: a restart may take its time.
const MAX_CLIENTS: usize = 64;
/// How long accepting pauses when no descriptor is left.
const COMMAND_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where commands go that ask for something to be done.
#[derive(Clone, Debug)]
pub(crate) struct CommandSinks {
    pub(crate) stops: mpsc::Sender<Stop>,
    pub(crate) changes: Rc<ChangeQueue>,
}

/// Makes the status report.
type ReportSource = dyn Fn() -> Pin<Box<dyn Future<Output = Report>>>;

/// The control sockets of a running server, one for each of its names. Dropping it removes their files.
pub(crate) struct ControlSocket {
    /// `None` where there is no place for one: then no command reaches this server.
    directory: RefCell<Option<Rc<ControlDirectory>>>,
    report: Rc<ReportSource>,
    sinks: CommandSinks,
    /// A permit for each client.
    clients: Arc<Semaphore>,
    bound: RefCell<Vec<BoundName>>,
    names_taken: Cell<usize>,
}

/// A name that this server answers under.
struct BoundName {
    name: String,
    directory: Rc<ControlDirectory>,
    /// The socket's file, which this server removes if it is still the same.
    file: Option<FileId>,
    /// Whether it is the process's name, which no other server ever has.
    is_pid: bool,
    listener: Rc<UnixListener>,
    task: JoinHandle<()>,
}

impl ControlSocket {
    /// Binds the names in `directory` and answers from now on: `status` with `report`; other commands go to `sinks`.
    ///
    /// # Errors
    /// The directory cannot be written to. A name that another server has is no error.
    pub(crate) async fn open<R: Future<Output = Report> + 'static>(
        directory: Option<ControlDirectory>,
        names: &[ServerName<'_>],
        report: impl Fn() -> R + 'static,
        sinks: CommandSinks,
    ) -> io::Result<Self> {
        let directory = directory.map(Rc::new);
        if let Some(directory) = &directory {
            directory.remove_stale(&directory.lock().await?)?;
        }
        let socket = Self {
            directory: RefCell::new(directory),
            report: Rc::new(move || Box::pin(report())),
            sinks,
            clients: Arc::new(Semaphore::new(MAX_CLIENTS)),
            bound: RefCell::default(),
            names_taken: Cell::new(0),
        };
        socket.add_names(names, BTreeMap::new()).await?;
        Ok(socket)
    }

    /// Binds more names. Uses the sockets that were handed over for their names, and removes those of other names.
    ///
    /// # Errors
    /// As [`ControlSocket::open`].
    pub(crate) async fn add_names(
        &self,
        names: &[ServerName<'_>],
        mut handed_over: BTreeMap<String, OwnedFd>,
    ) -> io::Result<()> {
        let Some(directory) = self.directory() else {
            return Ok(());
        };
        let lock = directory.lock().await?;
        for name in names {
            let file_name = name.file_name();
            let listener = match handed_over.remove(&file_name) {
                Some(socket) => {
                    // A client learns from the kernel which process called listen(2): this one, from now on.
                    rustix::net::listen(&socket, BACKLOG)?;
                    StdListener::from(socket)
                }
                None => match directory.bind(&file_name, &lock)? {
                    Some(listener) => listener,
                    None => {
                        self.names_taken.set(self.names_taken.get() + 1);
                        continue;
                    }
                },
            };
            let is_pid = matches!(name, ServerName::Pid(_));
            let bound = self.answer_on(file_name, is_pid, listener, &directory)?;
            self.bound.borrow_mut().push(bound);
        }
        handed_over.keys().for_each(|name| directory.remove(name));
        Ok(())
    }

    /// Binds the same names in another directory, and closes those in the present one.
    ///
    /// # Errors
    /// The other directory cannot be written to; nothing has changed then.
    pub(crate) async fn move_to(&self, directory: ControlDirectory) -> io::Result<()> {
        let directory = Rc::new(directory);
        let lock = directory.lock().await?;
        let mut moved = Vec::new();
        for one in self.bound.borrow().iter() {
            if let Some(listener) = directory.bind(&one.name, &lock)? {
                moved.push(self.answer_on(one.name.clone(), one.is_pid, listener, &directory)?);
            }
        }
        drop(self.bound.replace(moved));
        self.directory.replace(Some(directory));
        Ok(())
    }

    /// Starts to answer on a socket.
    fn answer_on(
        &self,
        name: String,
        is_pid: bool,
        listener: StdListener,
        directory: &Rc<ControlDirectory>,
    ) -> io::Result<BoundName> {
        listener.set_nonblocking(true)?;
        let listener = Rc::new(UnixListener::from_std(listener)?);
        let task = accept_clients(
            Rc::clone(&listener),
            Arc::clone(&self.clients),
            Rc::clone(&self.report),
            self.sinks.clone(),
        );
        Ok(BoundName {
            file: directory.file(&name),
            name,
            directory: Rc::clone(directory),
            is_pid,
            listener,
            task: spawn_local(task),
        })
    }

    /// The directory of its sockets.
    pub(crate) fn directory(&self) -> Option<Rc<ControlDirectory>> {
        self.directory.borrow().clone()
    }

    /// Number of names that another server had already, such as the folder's.
    pub(crate) fn names_taken(&self) -> usize {
        self.names_taken.get()
    }

    /// Duplicates the sockets of all names but the process's, for the process that takes over.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn duplicate_shared(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        let bound = self.bound.borrow();
        let shared = bound.iter().filter(|one| !one.is_pid);
        let duplicates = shared.map(|one| {
            let socket = one.listener.as_fd().try_clone_to_owned()?;
            Ok((one.name.clone(), socket))
        });
        duplicates.collect()
    }

    /// Stops accepting on these sockets and leaves their files to that process. Clients that are connected are still
    /// answered.
    pub(crate) fn release_shared(&self) {
        let mut bound = self.bound.borrow_mut();
        bound
            .extract_if(.., |one| !one.is_pid)
            .for_each(BoundName::release);
    }

    /// Closes all sockets and removes their files.
    pub(crate) fn close(&self) {
        drop(self.bound.take());
    }
}

impl BoundName {
    /// Stops answering, and keeps the file.
    fn release(mut self) {
        self.file = None;
    }
}

impl Drop for BoundName {
    fn drop(&mut self) {
        // Before the listener is closed: no other server takes the file for a stale one meanwhile.
        if self.file.is_some() && self.directory.file(&self.name) == self.file {
            self.directory.remove(&self.name);
        }
        self.task.abort();
    }
}

async fn accept_clients(
    listener: Rc<UnixListener>,
    clients: Arc<Semaphore>,
    report: Rc<ReportSource>,
    sinks: CommandSinks,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (report, sinks) = (Rc::clone(&report), sinks.clone());
                let Ok(permit) = Arc::clone(&clients).try_acquire_owned() else {
                    refuse(&stream);
                    continue;
                };
                spawn_local(async move {
                    // A client that leaves early is its own business.
                    drop(answer(stream, &*report, &sinks).await);
                    drop(permit);
                });
            }
            // Out of descriptors: clients of the server need them more.
            Err(_) => tokio::time::sleep(COMMAND_ACCEPT_PAUSE).await,
        }
    }
}

/// Tells a client that there are too many others.
fn refuse(stream: &UnixStream) {
    let answer = Answer::Error(format!(
        "{MAX_CLIENTS} other commands are waiting for their answers; try again later"
    ));
    if let Ok(mut text) = serde_json::to_vec(&answer) {
        text.push(b'\n');
        // A new socket has room for it.
        let _ = stream.try_write(&text);
    }
}

async fn answer(
    mut stream: UnixStream,
    report: &ReportSource,
    sinks: &CommandSinks,
) -> io::Result<()> {
    let uid = stream.peer_cred()?.uid();
    if uid != User::of_this_process().uid && uid != 0 {
        return Ok(());
    }
    let mut line = String::new();
    let (input, mut output) = stream.split();
    let mut input = BufReader::new(input.take(MAX_COMMAND_BYTES));
    tokio::time::timeout(CLIENT_TIMEOUT, input.read_line(&mut line)).await??;
    let change = match serde_json::from_str(&line) {
        Ok(ControlCommand::Status) => {
            return write(&mut output, &Answer::Status(Box::new(report().await))).await;
        }
        Ok(ControlCommand::Stop { now }) => {
            let stop = if now { Stop::Now } else { Stop::Drain };
            // It fails when the server has ended meanwhile, which is what the command wanted.
            let _ = sinks.stops.send(stop).await;
            let pid = own_pid();
            write(&mut output, &Answer::Stopping { pid }).await?;
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                write(&mut output, &Answer::Working).await?;
            }
        }
        Ok(ControlCommand::Restart) => Change::Restart,
        Ok(ControlCommand::Reload) => Change::Reload,
        Ok(ControlCommand::Upgrade { binary }) => Change::Upgrade(binary),
        Err(error) => return write(&mut output, &Answer::Error(error.to_string())).await,
    };
    let (client, mut shown) = watch::channel(Answer::Working);
    let requester = Requester::Command(client);
    sinks.changes.push(ChangeRequest { change, requester });
    loop {
        let answer = tokio::select! {
            more = shown.changed() => match more {
                Ok(()) => shown.borrow_and_update().clone(),
                Err(_) => Answer::Error("the server is stopping".to_owned()),
            },
            () = tokio::time::sleep(HEARTBEAT) => Answer::Working,
        };
        write(&mut output, &answer).await?;
        if !matches!(answer, Answer::Working | Answer::Waits { .. }) {
            return Ok(());
        }
    }
}

async fn write(output: &mut WriteHalf<'_>, answer: &Answer) -> io::Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    tokio::time::timeout(CLIENT_TIMEOUT, output.write_all(&text)).await?
}

#[cfg(test)]
mod tests;
