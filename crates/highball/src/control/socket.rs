//! The socket by which `status`, `restart`, `reload`, `upgrade` and `stop` reach a running server: files in a directory
//! that the server's user alone can enter. One line of JSON asks, one answers. It carries no request of a client.
//!
//! A server has a name for its folder, one for its file of settings, and one for its process. Each side also asks the
//! kernel for the other's user (`SO_PEERCRED`). How a command finds the directory is `search.rs`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::WriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinHandle, spawn_local};

use crate::control::directory::{ControlDirectory, FileId, SUFFIX};
use crate::control::messages::{Answer, Question};
use crate::control::queue::{Ask, Asker, Asks, Change};
use crate::control::report::{Report, Reporting, Telling};
use crate::system::signals::Stop;

/// The longest question in bytes.
const MAX_QUESTION_BYTES: u64 = 4096;
/// Questions that the kernel holds before they are accepted.
const BACKLOG: i32 = 128;
/// How long a client may take to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a client that waits is given a sign of life. Whoever has left meanwhile makes room.
const BEAT: Duration = Duration::from_secs(2);
/// How many clients are answered at once, under all names: a restart may take its time.
const MAX_CLIENTS: usize = 64;
/// How long no command is accepted where no descriptor is left.
const PAUSE: Duration = Duration::from_millis(100);

/// Where questions go that ask for something.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) stops: mpsc::Sender<Stop>,
    pub(crate) changes: Rc<Asks>,
}

/// One of a server's names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Name<'a> {
    /// By the application's folder, canonical.
    Dir(&'a Path),
    /// By the file of settings, canonical.
    Config(&'a Path),
    /// By the front's process.
    Pid(i32),
}

impl Name<'_> {
    /// The file's name in a directory, for a server with this process's namespace of process numbers.
    pub(crate) fn file_name(self) -> String {
        self.file_name_of(Path::new("/proc/self"))
    }

    /// The same for a server in the namespace of `process`, a folder of `/proc`. Of servers in different ones, such as
    /// those of two containers that share the directory, none has the name of another.
    pub(crate) fn file_name_of(self, process: &Path) -> String {
        let namespace = process_namespace(process);
        match self {
            Self::Dir(path) => format!("dir-{:016x}-{namespace}{SUFFIX}", hash(path)),
            Self::Config(path) => format!("config-{:016x}-{namespace}{SUFFIX}", hash(path)),
            Self::Pid(pid) => format!("pid-{pid}-{namespace}{SUFFIX}"),
        }
    }
}

/// The number of a process's namespace of process numbers (pid_namespaces(7)); 0 where the kernel does not tell.
fn process_namespace(process: &Path) -> u64 {
    let link = std::fs::read_link(process.join("ns/pid")).unwrap_or_default();
    let link = link.to_string_lossy();
    let number = link
        .strip_prefix("pid:[")
        .and_then(|rest| rest.strip_suffix(']'));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// FNV-1a: the same in every version of this program, unlike the standard library's hashes.
fn hash(path: &Path) -> u64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
    fnv.write(path.as_os_str().as_bytes());
    fnv.finish()
}

/// The user of this process.
pub(crate) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The names of a running server. Dropping it gives them up.
pub(crate) struct ControlSocket {
    /// `None` where there is no place for one: then no command reaches this server.
    directory: RefCell<Option<Rc<ControlDirectory>>>,
    report: Rc<Reporting>,
    asked: Asked,
    /// For clients that are answered.
    places: Arc<Semaphore>,
    held: RefCell<Vec<Held>>,
    taken: Cell<usize>,
}

/// A name that this server has.
struct Held {
    name: String,
    directory: Rc<ControlDirectory>,
    /// Its file, which this server removes if it is still the same.
    file: Option<FileId>,
    /// Whether it is the process's, and no other server's ever.
    own: bool,
    listener: Rc<UnixListener>,
    task: JoinHandle<()>,
}

impl ControlSocket {
    /// Takes the names in `directory` and answers from now on: `status` with `report`, the others into `asked`.
    ///
    /// # Errors
    /// The directory cannot be written to. A name that is taken is no error.
    pub(crate) async fn open<Told: Future<Output = Report> + 'static>(
        directory: Option<ControlDirectory>,
        names: &[Name<'_>],
        report: impl Fn() -> Told + 'static,
        asked: Asked,
    ) -> io::Result<Self> {
        let directory = directory.map(Rc::new);
        if let Some(directory) = &directory {
            directory.remove_stale(&directory.lock().await?)?;
        }
        let socket = Self {
            directory: RefCell::new(directory),
            report: Rc::new(move || -> Telling { Box::pin(report()) }),
            asked,
            places: Arc::new(Semaphore::new(MAX_CLIENTS)),
            held: RefCell::default(),
            taken: Cell::new(0),
        };
        socket.join(names, BTreeMap::new()).await?;
        Ok(socket)
    }

    /// Takes more names. Of those that were handed over it takes the sockets; what nobody asks for is closed.
    ///
    /// # Errors
    /// As [`ControlSocket::open`].
    pub(crate) async fn join(
        &self,
        names: &[Name<'_>],
        mut handed: BTreeMap<String, OwnedFd>,
    ) -> io::Result<()> {
        let Some(directory) = self.directory() else {
            return Ok(());
        };
        let lock = directory.lock().await?;
        for name in names {
            let file_name = name.file_name();
            let listener = match handed.remove(&file_name) {
                Some(socket) => {
                    // Whoever asks is told by the kernel which process listens: this one, from now on.
                    rustix::net::listen(&socket, BACKLOG)?;
                    StdListener::from(socket)
                }
                None => match directory.bind(&file_name, &lock)? {
                    Some(listener) => listener,
                    None => {
                        self.taken.set(self.taken.get() + 1);
                        continue;
                    }
                },
            };
            let own = matches!(name, Name::Pid(_));
            let held = self.hold(file_name, own, listener, &directory)?;
            self.held.borrow_mut().push(held);
        }
        handed.keys().for_each(|name| directory.remove(name));
        Ok(())
    }

    /// Answers under the same names in another directory, and gives up those in the one before.
    ///
    /// # Errors
    /// The directory cannot be written to; all stays as it was.
    pub(crate) async fn move_to(&self, directory: ControlDirectory) -> io::Result<()> {
        let directory = Rc::new(directory);
        let lock = directory.lock().await?;
        let mut moved = Vec::new();
        for one in self.held.borrow().iter() {
            if let Some(listener) = directory.bind(&one.name, &lock)? {
                moved.push(self.hold(one.name.clone(), one.own, listener, &directory)?);
            }
        }
        drop(self.held.replace(moved));
        self.directory.replace(Some(directory));
        Ok(())
    }

    /// Answers on a socket from now on.
    fn hold(
        &self,
        name: String,
        own: bool,
        listener: StdListener,
        directory: &Rc<ControlDirectory>,
    ) -> io::Result<Held> {
        listener.set_nonblocking(true)?;
        let listener = Rc::new(UnixListener::from_std(listener)?);
        let task = serve(
            Rc::clone(&listener),
            Arc::clone(&self.places),
            Rc::clone(&self.report),
            self.asked.clone(),
        );
        Ok(Held {
            file: directory.file(&name),
            name,
            directory: Rc::clone(directory),
            own,
            listener,
            task: spawn_local(task),
        })
    }

    /// Where its files are.
    pub(crate) fn directory(&self) -> Option<Rc<ControlDirectory>> {
        self.directory.borrow().clone()
    }

    /// How many names another server has already, such as the folder's.
    pub(crate) fn taken(&self) -> usize {
        self.taken.get()
    }

    /// Duplicates of the sockets of all names but the process's, for another process that is to have them.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn shared(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        let held = self.held.borrow();
        let shared = held.iter().filter(|one| !one.own);
        let duplicates = shared.map(|one| {
            let socket = one.listener.as_fd().try_clone_to_owned()?;
            Ok((one.name.clone(), socket))
        });
        duplicates.collect()
    }

    /// Leaves them to that process, with their files. Who has asked already is still answered.
    pub(crate) fn leave_shared(&self) {
        let mut held = self.held.borrow_mut();
        held.extract_if(.., |one| !one.own)
            .for_each(Held::leave_file);
    }

    /// Gives all names up.
    pub(crate) fn close(&self) {
        drop(self.held.take());
    }
}

impl Held {
    /// Is no longer answered on, and its file stays.
    fn leave_file(mut self) {
        self.file = None;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // While it is still listened on nobody else takes it for a stale one.
        if self.file.is_some() && self.directory.file(&self.name) == self.file {
            self.directory.remove(&self.name);
        }
        self.task.abort();
    }
}

async fn serve(
    listener: Rc<UnixListener>,
    places: Arc<Semaphore>,
    report: Rc<Reporting>,
    asked: Asked,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (report, asked) = (Rc::clone(&report), asked.clone());
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    refuse(&stream);
                    continue;
                };
                spawn_local(async move {
                    // A client that leaves early is its own business.
                    drop(answer(stream, &*report, &asked).await);
                    drop(place);
                });
            }
            // Out of descriptors: clients of the server need them more.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Tells a client that too many others wait.
fn refuse(stream: &UnixStream) {
    let answer = Answer::Error(format!(
        "{MAX_CLIENTS} other commands wait for their answers"
    ));
    if let Ok(mut text) = serde_json::to_vec(&answer) {
        text.push(b'\n');
        // A new socket has room for it.
        let _ = stream.try_write(&text);
    }
}

async fn answer(mut stream: UnixStream, report: &Reporting, asked: &Asked) -> io::Result<()> {
    let uid = stream.peer_cred()?.uid();
    if uid != own_uid() && uid != 0 {
        return Ok(());
    }
    let mut line = String::new();
    let (input, mut output) = stream.split();
    let mut input = BufReader::new(input.take(MAX_QUESTION_BYTES));
    tokio::time::timeout(PATIENCE, input.read_line(&mut line)).await??;
    let change = match serde_json::from_str(&line) {
        Ok(Question::Status) => {
            return write(&mut output, &Answer::Status(Box::new(report().await))).await;
        }
        Ok(Question::Stop { now }) => {
            let stop = if now { Stop::Now } else { Stop::Drain };
            // Nobody listens any more when the server has ended meanwhile, which is what was asked for.
            let _ = asked.stops.send(stop).await;
            let pid = rustix::process::getpid().as_raw_nonzero().get();
            write(&mut output, &Answer::Stopping { pid }).await?;
            loop {
                tokio::time::sleep(BEAT).await;
                write(&mut output, &Answer::Working).await?;
            }
        }
        Ok(Question::Restart) => Change::Restart,
        Ok(Question::Reload) => Change::Reload,
        Ok(Question::Upgrade { binary }) => Change::Upgrade(binary),
        Err(error) => return write(&mut output, &Answer::Error(error.to_string())).await,
    };
    let (client, mut shown) = watch::channel(Answer::Working);
    let asker = Asker::Command(client);
    asked.changes.push(Ask { change, asker });
    loop {
        let answer = tokio::select! {
            more = shown.changed() => match more {
                Ok(()) => shown.borrow_and_update().clone(),
                Err(_) => Answer::Error("the server stops".to_owned()),
            },
            () = tokio::time::sleep(BEAT) => Answer::Working,
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
    tokio::time::timeout(PATIENCE, output.write_all(&text)).await?
}

#[cfg(test)]
mod tests;
