//! The open-loop generator: requests leave at their scheduled times, whatever became of earlier ones, and
//! latency counts from the schedule. It never waits for a free connection: when none is idle it opens one,
//! and that costs the request its connect time.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{Timespec, epoll};
use socket2::{Domain, Protocol, Socket, Type};

use crate::probe::{ResponseReader, get_request};
use schedule::{Arrival, Plan};

pub mod schedule;

/// How long answers may come after the last request; what is missing then counts as unanswered.
const GRACE: Duration = Duration::from_secs(10);

/// The end of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A complete response with this status.
    Answered(u16),
    /// The connection failed or the answer was no HTTP.
    Failed,
    /// Nothing came until the end: its latency is its age, and belongs in the tail.
    Unanswered,
}

/// One request as it was measured.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Index of its class in the plan.
    pub class: usize,
    /// The scheduled time.
    pub due: Instant,
    /// From the scheduled time to the last byte.
    pub latency: Duration,
    /// From the time it was really sent to the last byte.
    pub service: Duration,
    /// How it ended.
    pub end: End,
}

impl Sample {
    /// A request that was not answered with 200 counts as one that took at least as long as answers may come after the
    /// schedule: a quick refusal is no quick answer.
    pub fn counted(&self, time: Duration) -> Duration {
        match self.end {
            End::Answered(200) => time,
            _ => time.max(GRACE),
        }
    }
}

/// What a run found.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Every request of the plan, in the order in which they ended.
    pub samples: Vec<Sample>,
    /// How late the generator was at worst: its own fault, part of every latency.
    pub max_lag: Duration,
    /// Connections opened in all.
    pub connections: usize,
    /// Most requests in flight at once.
    pub peak_in_flight: usize,
}

impl Outcome {
    /// Latencies in milliseconds of one class, from the schedule.
    pub fn latencies_ms(&self, class: usize) -> Vec<f64> {
        self.milliseconds(class, |sample| sample.latency)
    }

    /// The same from the time of sending.
    pub fn service_ms(&self, class: usize) -> Vec<f64> {
        self.milliseconds(class, |sample| sample.service)
    }

    fn milliseconds(&self, class: usize, time: fn(&Sample) -> Duration) -> Vec<f64> {
        let of_class = self.samples.iter().filter(|sample| sample.class == class);
        let counted = of_class.map(|sample| sample.counted(time(sample)));
        counted.map(|time| time.as_secs_f64() * 1000.0).collect()
    }

    /// Requests that did not end in status 200.
    pub fn errors(&self) -> usize {
        self.samples
            .iter()
            .filter(|sample| sample.end != End::Answered(200))
            .count()
    }
}

#[derive(Debug)]
struct InFlight {
    arrival: Arrival,
    sent: Instant,
    reader: ResponseReader,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    connected: bool,
    current: Option<InFlight>,
}

#[derive(Debug)]
struct Generator<'a> {
    address: SocketAddr,
    requests: Vec<Vec<u8>>,
    poll: OwnedFd,
    start: Instant,
    connections: BTreeMap<u64, Connection>,
    idle: Vec<u64>,
    next_id: u64,
    in_flight: usize,
    plan: &'a Plan,
    outcome: Outcome,
}

/// Sends the plan to `address` and waits for the answers.
///
/// # Errors
/// When this process cannot make sockets. What the server does wrong is in the outcome instead.
pub fn run(address: SocketAddr, plan: &Plan) -> Result<Outcome> {
    let schedule = plan.schedule();
    let mut generator = Generator {
        address,
        requests: plan
            .classes
            .iter()
            .map(|class| get_request(address, &class.path))
            .collect(),
        poll: epoll::create(epoll::CreateFlags::CLOEXEC).context("creating an epoll")?,
        start: Instant::now(),
        connections: BTreeMap::new(),
        idle: Vec::new(),
        next_id: 0,
        in_flight: 0,
        plan,
        outcome: Outcome::default(),
    };
    for arrival in schedule {
        generator.wait_until(generator.start + arrival.at, false)?;
        generator.send(arrival)?;
    }
    generator.wait_until(Instant::now() + GRACE, true)?;
    generator.give_up_on_the_rest();
    Ok(generator.outcome)
}

impl Generator<'_> {
    /// Handles events until `deadline`, or until nothing is in flight where `or_quiet`.
    fn wait_until(&mut self, deadline: Instant, or_quiet: bool) -> Result<()> {
        let mut events = Vec::with_capacity(256);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || (or_quiet && self.in_flight == 0) {
                return Ok(());
            }
            let timeout = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            events.clear();
            match epoll::wait(
                &self.poll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error).context("waiting for events"),
            }
            for event in events.drain(..) {
                self.handle(event.data.u64());
            }
        }
    }

    fn send(&mut self, arrival: Arrival) -> Result<()> {
        let sent = Instant::now();
        self.outcome.max_lag = self.outcome.max_lag.max(sent - (self.start + arrival.at));
        self.in_flight += 1;
        self.outcome.peak_in_flight = self.outcome.peak_in_flight.max(self.in_flight);
        let id = match self.idle.pop() {
            Some(id) => id,
            None => self.open()?,
        };
        let connection = self
            .connections
            .get_mut(&id)
            .expect("idle and new connections exist");
        connection.current = Some(InFlight {
            arrival,
            sent,
            reader: ResponseReader::default(),
        });
        if connection.connected {
            self.write_request(id);
        }
        Ok(())
    }

    fn open(&mut self) -> Result<u64> {
        let socket = Socket::new(
            Domain::for_address(self.address),
            Type::STREAM,
            Some(Protocol::TCP),
        )
        .context("making a socket")?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        // In progress or refused: both come back as events.
        let connected = socket.connect(&self.address.into()).is_ok();
        let id = self.next_id;
        self.next_id += 1;
        let interest = if connected {
            READ
        } else {
            READ | epoll::EventFlags::OUT
        };
        epoll::add(&self.poll, &socket, epoll::EventData::new_u64(id), interest)
            .context("watching a socket")?;
        self.connections.insert(
            id,
            Connection {
                stream: socket.into(),
                connected,
                current: None,
            },
        );
        self.outcome.connections += 1;
        Ok(id)
    }

    fn handle(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if !connection.connected {
            match connection.stream.take_error() {
                Ok(None) if connection.stream.peer_addr().is_ok() => {
                    connection.connected = true;
                    // A failure shows at the next event as well.
                    let _ = epoll::modify(
                        &self.poll,
                        &connection.stream,
                        epoll::EventData::new_u64(id),
                        READ,
                    );
                    self.write_request(id);
                }
                Ok(None) => {}
                _ => self.close(id, End::Failed),
            }
            return;
        }
        self.read_response(id);
    }

    fn write_request(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Some(current) = &connection.current else {
            return;
        };
        let request = &self.requests[current.arrival.class];
        // A request of under a hundred bytes always fits an empty socket buffer.
        match connection.stream.write(request) {
            Ok(count) if count == request.len() => {}
            _ => self.close(id, End::Failed),
        }
    }

    fn read_response(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = match connection.stream.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return self.close(id, End::Failed),
            };
            let Some(current) = &mut connection.current else {
                return self.close(id, End::Failed);
            };
            let response = match count {
                0 => current.reader.closed().map(Some),
                _ => current.reader.feed(&buffer[..count]),
            };
            match response {
                Ok(None) => {}
                Ok(Some(response)) if response.keep_alive => {
                    let done = connection
                        .current
                        .take()
                        .expect("a response belongs to a request");
                    self.idle.push(id);
                    return self.record(&done, End::Answered(response.status));
                }
                Ok(Some(response)) => return self.close(id, End::Answered(response.status)),
                Err(_) => return self.close(id, End::Failed),
            }
        }
    }

    /// Drops a connection; `end` is that of the request on it, if there is one.
    fn close(&mut self, id: u64, end: End) {
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        self.idle.retain(|other| *other != id);
        if let Some(current) = connection.current {
            self.record(&current, end);
        }
    }

    fn record(&mut self, request: &InFlight, end: End) {
        self.in_flight -= 1;
        let now = Instant::now();
        let due = self.start + request.arrival.at;
        self.outcome.samples.push(Sample {
            class: request.arrival.class,
            due,
            latency: now - due,
            service: now - request.sent,
            end,
        });
    }

    fn give_up_on_the_rest(&mut self) {
        let left: Vec<u64> = self.connections.keys().copied().collect();
        for id in left {
            self.close(id, End::Unanswered);
        }
        debug_assert_eq!(self.outcome.samples.len(), self.plan.schedule().len());
    }
}

const READ: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP);

#[cfg(test)]
mod tests;
