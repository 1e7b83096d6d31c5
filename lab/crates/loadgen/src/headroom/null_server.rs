//! A server that answers every request of a plan with the same bytes. It parses nothing: it knows the requests, and
//! one at a time is in flight on a connection.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::engine::rendered;
use crate::plan::{ConnectionUse, Expected, Plan};

const EVENTS: usize = 256;
/// How long a thread sleeps before it checks whether it must end.
const STOP_CHECK_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// The server; dropping it ends its threads.
#[derive(Debug)]
pub(super) struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl NullServer {
    /// Listens on a free port, with one thread for each core, or one.
    pub(super) fn start(plan: &Plan, cores: &[usize]) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a null server")?;
        listener
            .set_nonblocking(true)
            .context("set up a null server")?;
        let mut server = Self {
            address: listener.local_addr().context("find a null server")?,
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let answers = Arc::new(Answers::new(plan));
        let cores: Vec<Option<usize>> = if cores.is_empty() {
            vec![None]
        } else {
            cores.iter().copied().map(Some).collect()
        };
        for core in cores {
            let mut worker = Worker {
                listener: listener.try_clone().context("set up a null server")?,
                poll: epoll::create(epoll::CreateFlags::CLOEXEC).context("create a poll set")?,
                connections: HashMap::new(),
                answers: Arc::clone(&answers),
                buffer: vec![0; 64 * 1024],
            };
            worker.listen()?;
            let stop = Arc::clone(&server.stop);
            let thread = thread::Builder::new().name("null server".to_owned());
            let started = thread.spawn(move || worker.serve(core, &stop));
            server.threads.push(started.context("start a null server")?);
        }
        Ok(server)
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that broke down has answered nothing, which the load has shown already.
            let _ = thread.join();
        }
    }
}

/// What comes and what goes back.
#[derive(Debug)]
struct Answers {
    requests: Vec<Vec<u8>>,
    /// What comes back for each request: what is expected of it, or an empty page.
    responses: Vec<Vec<u8>>,
    closes: bool,
}

impl Answers {
    fn new(plan: &Plan) -> Self {
        let closes = plan.connections == ConnectionUse::PerRequest;
        let pairs = rendered(plan).into_iter().zip(&plan.requests);
        let (requests, responses) = pairs
            .map(|(rendered, request)| {
                let response = response(request.expected, rendered.is_head, closes);
                (rendered.bytes, response)
            })
            .unzip();
        Self {
            requests,
            responses,
            closes,
        }
    }

    /// Which request begins with these bytes.
    fn kind(&self, bytes: &[u8]) -> Option<usize> {
        self.requests.iter().position(|request| {
            let length = bytes.len().min(request.len());
            request[..length] == bytes[..length]
        })
    }
}

fn response(expected: Option<Expected>, to_head: bool, closes: bool) -> Vec<u8> {
    let status = expected.map_or(200, |expected| expected.status);
    let length = expected.and_then(|expected| expected.length).unwrap_or(0);
    let connection = if closes { "Connection: close\r\n" } else { "" };
    let mut bytes = format!(
        "HTTP/1.1 {status} OK\r\nServer: null\r\n{connection}Content-Length: {length}\r\n\r\n"
    )
    .into_bytes();
    if !to_head && status != 204 && status != 304 {
        bytes.resize(bytes.len() + length as usize, b'x');
    }
    bytes
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    kind: usize,
    /// Bytes of the request that are still to come.
    missing: usize,
}

#[derive(Debug)]
struct Worker {
    listener: TcpListener,
    poll: OwnedFd,
    connections: HashMap<u64, Connection>,
    answers: Arc<Answers>,
    buffer: Vec<u8>,
}

impl Worker {
    fn listen(&mut self) -> Result<()> {
        let data = epoll::EventData::new_u64(self.listener.as_raw_fd() as u64);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        epoll::add(&self.poll, &self.listener, data, flags).context("watch a null server's port")
    }

    fn serve(&mut self, core: Option<usize>, stop: &AtomicBool) {
        if let Some(core) = core.filter(|core| *core < CpuSet::MAX_CPU) {
            let mut cores = CpuSet::new();
            cores.set(core);
            // Where it may not be bound it still answers, only less evenly.
            let _ = sched_setaffinity(None, &cores);
        }
        let own = self.listener.as_raw_fd() as u64;
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        while !stop.load(Ordering::Relaxed) {
            let ready = match epoll::wait(&self.poll, &mut events, Some(&STOP_CHECK_INTERVAL)) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => continue,
                Err(_) => return,
            };
            for event in ready.iter() {
                match event.data.u64() {
                    id if id == own => self.accept(),
                    id if self.answer(id).is_none() => {
                        self.connections.remove(&id);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Connections block: one request is in flight on each, and the other side always reads.
    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let id = stream.as_raw_fd() as u64;
            let data = epoll::EventData::new_u64(id);
            let ready = stream.set_nodelay(true).is_ok()
                && epoll::add(&self.poll, &stream, data, epoll::EventFlags::IN).is_ok();
            if ready {
                let connection = Connection {
                    stream,
                    kind: 0,
                    missing: 0,
                };
                self.connections.insert(id, connection);
            }
        }
    }

    /// `None` where the connection is over.
    fn answer(&mut self, id: u64) -> Option<()> {
        let connection = self.connections.get_mut(&id)?;
        let count = connection.stream.read(&mut self.buffer).ok()?;
        if count == 0 {
            return None;
        }
        if connection.missing == 0 {
            connection.kind = self.answers.kind(&self.buffer[..count])?;
            connection.missing = self.answers.requests[connection.kind].len();
        }
        connection.missing = connection.missing.checked_sub(count)?;
        if connection.missing > 0 {
            return Some(());
        }
        let response = &self.answers.responses[connection.kind];
        connection.stream.write_all(response).ok()?;
        (!self.answers.closes).then_some(())
    }
}
