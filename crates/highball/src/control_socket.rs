//! The socket by which `status`, `restart` and `stop` reach a running server: abstract UNIX sockets (unix(7)),
//! which leave nothing behind. One line of JSON asks, one answers. It carries no request of a client.
//!
//! A server has a name for its folder, one for its file of settings, and one for its process. Anybody may
//! take an abstract name, so each side asks the kernel for the other's user (`SO_PEERCRED`).

use std::hash::Hasher;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_local};

use crate::report::Report;
use crate::restarts::Ask;

/// The longest question in bytes.
const MAX_QUESTION_BYTES: u64 = 4096;
/// How long a client may take to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many clients are answered at once, under all names: a restart may take its time.
const MAX_CLIENTS: usize = 64;
/// How long no command is accepted where no descriptor is left.
const PAUSE: Duration = Duration::from_millis(100);

/// What a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub(crate) enum Question {
    /// What is it doing?
    Status,
    /// Would it load the application's code anew? Answered when that is done.
    Restart,
    /// Would it stop?
    Stop {
        /// Without letting requests end.
        #[serde(default)]
        now: bool,
    },
}

/// What it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// What it is doing.
    Status(Box<Report>),
    /// The new generation serves.
    Restarted {
        /// Its number.
        generation: u32,
        /// The one that served before, and finishes what it holds.
        before: u32,
        /// How long the application took to load.
        load_seconds: f64,
        /// How long it took until it served.
        seconds: f64,
    },
    /// The new generation was given up.
    NotRestarted {
        /// Its number.
        generation: u32,
        /// The one that serves on.
        serving: u32,
        /// Why, with a backtrace where there is one.
        reason: String,
    },
    /// It stops; the connection ends with its process.
    Stopping {
        /// Its process.
        pid: i32,
    },
    /// The question made no sense.
    Error(String),
}

/// Where questions go that ask for something.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Whether to stop at once.
    pub(crate) stops: mpsc::UnboundedSender<bool>,
    pub(crate) restarts: mpsc::UnboundedSender<Ask>,
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
    /// The address of a server of user `uid`.
    ///
    /// # Errors
    /// None that could happen: the name is short and plain.
    pub(crate) fn address(self, uid: u32) -> io::Result<SocketAddr> {
        let name = match self {
            Self::Dir(path) => format!("highball/{uid}/dir/{:016x}", hash(path)),
            Self::Config(path) => format!("highball/{uid}/config/{:016x}", hash(path)),
            Self::Pid(pid) => format!("highball/{uid}/pid/{pid}"),
        };
        SocketAddr::from_abstract_name(name)
    }
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
#[derive(Debug)]
pub(crate) struct ControlSocket {
    tasks: Vec<JoinHandle<()>>,
    /// Names that another server has already, such as the folder's.
    pub(crate) taken: usize,
}

impl ControlSocket {
    /// Takes the names and answers from now on: `status` with `report`, the others into `asked`.
    ///
    /// # Errors
    /// The kernel refuses abstract sockets. A name that is taken is no error.
    pub(crate) fn open(
        names: &[Name<'_>],
        report: impl Fn() -> Report + 'static,
        asked: Asked,
    ) -> io::Result<Self> {
        let report: Rc<dyn Fn() -> Report> = Rc::new(report);
        let places = Arc::new(Semaphore::new(MAX_CLIENTS));
        let mut socket = Self {
            tasks: Vec::new(),
            taken: 0,
        };
        for name in names {
            let listener = match StdListener::bind_addr(&name.address(own_uid())?) {
                Ok(listener) => listener,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    socket.taken += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            listener.set_nonblocking(true)?;
            let listener = UnixListener::from_std(listener)?;
            let task = serve(
                listener,
                Arc::clone(&places),
                Rc::clone(&report),
                asked.clone(),
            );
            socket.tasks.push(spawn_local(task));
        }
        Ok(socket)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn serve(
    listener: UnixListener,
    places: Arc<Semaphore>,
    report: Rc<dyn Fn() -> Report>,
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

async fn answer(
    mut stream: UnixStream,
    report: &dyn Fn() -> Report,
    asked: &Asked,
) -> io::Result<()> {
    let uid = stream.peer_cred()?.uid();
    if uid != own_uid() && uid != 0 {
        return Ok(());
    }
    let mut line = String::new();
    let (input, mut output) = stream.split();
    let mut input = BufReader::new(input.take(MAX_QUESTION_BYTES));
    tokio::time::timeout(PATIENCE, input.read_line(&mut line)).await??;
    let answer = match serde_json::from_str(&line) {
        Ok(Question::Status) => Answer::Status(Box::new(report())),
        Ok(Question::Stop { now }) => {
            // Nobody listens any more when the server has ended meanwhile, which is what was asked for.
            let _ = asked.stops.send(now);
            Answer::Stopping {
                pid: rustix::process::getpid().as_raw_nonzero().get(),
            }
        }
        Ok(Question::Restart) => {
            let (answer, answered) = oneshot::channel();
            let _ = asked.restarts.send(Ask::Command(answer));
            let stops = |_| Answer::Error("the server stops".to_owned());
            answered.await.unwrap_or_else(stops)
        }
        Err(error) => Answer::Error(error.to_string()),
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    tokio::time::timeout(PATIENCE, output.write_all(&text)).await?
}

#[cfg(test)]
mod tests;
