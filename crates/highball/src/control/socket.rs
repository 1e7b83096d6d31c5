//! The server's side of the control socket: the operators' API (`api.rs`) over HTTP, for commands on this machine. It
//! carries no request of a client of the applications.
//!
//! The sockets are files in a directory that only the server's user can enter, one for each name of the server. Both sides
//! also check the other's user (`SO_PEERCRED`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener as StdListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::{Access, Routes, serve_connection};
use front::panics::spawn_contained;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_local};

use crate::control::directory::{ControlDirectory, FileId};
use crate::control::name::ServerName;
use crate::system::privileges::User;

/// Connections that the kernel holds before they are accepted.
const BACKLOG: i32 = 128;
/// The most clients at once, under all names: a restart may take its time.
const MAX_CLIENTS: usize = 64;
/// How long accepting pauses when no descriptor is left.
const COMMAND_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The control sockets of a running server, one for each of its names. Dropping it removes their files.
pub(crate) struct ControlSocket {
    /// `None` where there is no place for one: then no command reaches this server.
    directory: RefCell<Option<Rc<ControlDirectory>>>,
    routes: Rc<Routes>,
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
    /// Binds the names in `directory` and answers by these routes from now on.
    ///
    /// # Errors
    /// The directory cannot be written to. A name that another server has is no error.
    pub(crate) async fn open(
        directory: Option<ControlDirectory>,
        names: &[ServerName<'_>],
        routes: Rc<Routes>,
    ) -> io::Result<Self> {
        let directory = directory.map(Rc::new);
        if let Some(directory) = &directory {
            directory.remove_stale(&directory.lock().await?)?;
        }
        let socket = Self {
            directory: RefCell::new(directory),
            routes,
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
            Rc::clone(&self.routes),
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

async fn accept_clients(listener: Rc<UnixListener>, clients: Arc<Semaphore>, routes: Rc<Routes>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let routes = Rc::clone(&routes);
                let Ok(permit) = Arc::clone(&clients).try_acquire_owned() else {
                    refuse(&stream);
                    continue;
                };
                spawn_contained(async move {
                    if is_operator(&stream) {
                        serve_connection(stream, &routes, &|| Access::Local.into(), false).await;
                    }
                    drop(permit);
                });
            }
            // Out of descriptors: clients of the server need them more.
            Err(_) => tokio::time::sleep(COMMAND_ACCEPT_PAUSE).await,
        }
    }
}

/// Whether a client is this process's user or root.
fn is_operator(stream: &UnixStream) -> bool {
    let uid = stream.peer_cred().map(|peer| peer.uid());
    uid.is_ok_and(|uid| uid == User::of_this_process().uid || uid == 0)
}

/// Tells a client that there are too many others.
fn refuse(stream: &UnixStream) {
    let error =
        format!("{MAX_CLIENTS} other commands are waiting for their answers; try again later");
    let body = serde_json::json!({ "error": error }).to_string();
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    // A new socket has room for it.
    let _ = stream.try_write(text.as_bytes());
}

#[cfg(test)]
mod tests;
