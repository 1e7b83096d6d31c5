//! What a load sends, where to, and when: data, checked whole before anything is sent. It holds no socket.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod check;

/// Where a load goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// TCP without TLS.
    Tcp(SocketAddr),
    /// TCP with TLS.
    Tls(SocketAddr, Tls),
    /// A UNIX stream socket.
    Unix(PathBuf),
}

/// How the generator speaks TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The host whose certificate is expected (SNI); an address is not sent as one.
    pub name: String,
    /// Which certificates are accepted.
    pub trust: Trust,
    /// Whether later connections resume the session of earlier ones, as browsers do; otherwise each makes a full
    /// handshake.
    pub resumption: bool,
}

/// Which certificates of servers are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// All of them, also those that have ended or name another host.
    Any,
    /// Those of the authorities that this machine trusts.
    System,
    /// Those of the authorities in this file (PEM).
    File(PathBuf),
}

/// One load.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server.
    pub target: Target,
    /// The `Host` field (RFC 9110 section 7.2).
    pub host: String,
    /// What is sent; at least one, drawn by weight.
    pub requests: Vec<Request>,
    /// Sent once by every connection before its first request; the cookies it sets are sent from then on. It is not counted.
    pub login: Option<Request>,
    /// When requests leave.
    pub mode: Mode,
    /// How many requests a connection carries.
    pub connections: ConnectionUse,
    /// Speaks HTTP/2 with so many requests at a time on each connection; HTTP/1.1 where it is absent. Without TLS the
    /// server must expect it (prior knowledge, RFC 9113 section 3.3).
    pub streams: Option<usize>,
    /// A request without its whole response after so long has failed, and its connection is closed.
    pub timeout: Duration,
    /// Generator threads, each with connections of its own.
    pub threads: usize,
    /// Cores that the threads are pinned to, one after the other; empty leaves them to the kernel.
    pub cores: Vec<usize>,
    /// What the arrivals and the draw of requests depend on: the same seed gives the same schedule.
    pub seed: u64,
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Fields other than `Host`, `Content-Length` and `Connection`, which the generator writes itself.
    pub headers: Vec<(String, String)>,
    /// The body, which may be empty.
    pub body: Vec<u8>,
    /// Its share, relative to the other requests' weights; positive and finite.
    pub weight: f64,
    /// Where given, a response that is anything else is an error and no good response.
    pub expected: Option<Expected>,
}

/// When requests leave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// So many connections, each with one request in flight: the next leaves when the last is answered (ab, wrk).
    Closed {
        /// Connections in all.
        connections: usize,
        /// When it ends.
        end: End,
    },
    /// Requests leave at scheduled times, whatever became of earlier ones; connections are opened as needed.
    Open {
        /// Requests a second; with [`ConnectionUse::Calls`] still requests and not connections.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
        /// Length of the schedule.
        duration: Duration,
        /// More connections than this are never open; a request that then waits for one keeps its scheduled time.
        max_connections: usize,
    },
}

/// When a closed loop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After so many requests were sent and answered or failed.
    Requests(u64),
    /// After so long; what is in flight then is waited for as [`Plan::grace`] says.
    After(Duration),
}

/// How an open loop's requests are spread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Independently of each other, as people are.
    #[default]
    Poisson,
    /// At equal distances.
    Constant,
}

/// How many requests a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionUse {
    /// As many as the server allows.
    KeepAlive,
    /// One, with `Connection: close`: connecting is part of every latency.
    PerRequest,
    /// So many in a row, as httperf's `--num-calls`.
    Calls(u32),
}

/// What every good response to a request must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The status.
    pub status: u16,
    /// The body's length in bytes; `None` where pages differ from request to request.
    pub length: Option<u64>,
}

impl Mode {
    /// The same load for another time.
    pub fn lasting(self, time: Duration) -> Self {
        match self {
            Self::Closed { connections, .. } => Self::Closed {
                connections,
                end: End::After(time),
            },
            Self::Open {
                rate,
                arrivals,
                max_connections,
                ..
            } => Self::Open {
                rate,
                arrivals,
                duration: time,
                max_connections,
            },
        }
    }
}

impl Plan {
    /// How long requests leave; `None` where their number ends the load.
    pub fn length(&self) -> Option<Duration> {
        match self.mode {
            Mode::Open { duration, .. }
            | Mode::Closed {
                end: End::After(duration),
                ..
            } => Some(duration),
            Mode::Closed { .. } => None,
        }
    }

    /// How long after the end of a timed load answers may still come: as long as the load itself, and no longer than
    /// the time-out. What is missing then counts as unanswered at its age, in the tail.
    pub fn grace(&self) -> Duration {
        self.length().unwrap_or_default().min(self.timeout)
    }

    /// Whether it is known of any request how its response must be.
    pub fn expects(&self) -> bool {
        self.requests
            .iter()
            .any(|request| request.expected.is_some())
    }

    /// Requests that a connection carries at a time.
    pub fn streams_at_most(&self) -> usize {
        self.streams.unwrap_or(1)
    }

    /// The most connections that are open at once.
    pub fn connections_at_most(&self) -> usize {
        match self.mode {
            Mode::Closed { connections, .. } => connections,
            Mode::Open {
                max_connections, ..
            } => max_connections,
        }
    }
}
