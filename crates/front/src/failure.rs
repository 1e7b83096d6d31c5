//! Why a request ends without the application's answer: whose fault it is, what the client gets, and
//! what the log calls it. One place for all of them; it never decides when.

use http::StatusCode;

use crate::http::screen::Refusal;

/// After how many seconds clients may come again during maintenance: nobody knows when it ends.
const MAINTENANCE_RETRY_S: u32 = 60;

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The client sent something wrong, or left.
    Client,
    /// The application or its worker failed.
    Worker,
    /// This server refused, for load or to stop, or ended.
    Server,
}

/// How a request ended, as the log and the counters call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The application answered and the client took all of it.
    Ok,
    /// The application raised or answered nonsense: 500.
    AppError,
    /// The request was malformed: 4xx, or 501 or 505.
    Refused,
    /// The body was over its limit: 413.
    TooLarge,
    /// The client was too slow: 408, or the connection was cut.
    Timeout,
    /// The queue was full, or the server stops, and it never ran: 503. Or too many files waited to be opened, or too many
    /// WebSockets were open.
    Shed,
    /// The server ended while the application ran it, or had no more time for its generation: 502.
    Stopped,
    /// No worker could serve: 503.
    NoWorker,
    /// The deadline passed: 503 in the queue, 504 in a worker or for a file that does not open; cut, where the response had
    /// begun.
    Expired,
    /// The client left before it was answered.
    ClientGone,
    /// The worker died: 502.
    WorkerDied,
    /// The response was cut, visibly, after its head.
    Aborted,
    /// The application took the connection over.
    Hijacked,
    /// There is maintenance: 503.
    Maintenance,
    /// The client's address may not request the path: 403.
    Denied,
    /// The client sent too many requests: 429.
    RateLimited,
    /// The path needs a password, and the client sent none that is right: 401.
    Unauthorized,
    /// No application has the host: 421, or the path there: 404.
    NoApplication,
}

impl Outcome {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 18] = [
        Self::Ok,
        Self::AppError,
        Self::Refused,
        Self::TooLarge,
        Self::Timeout,
        Self::Shed,
        Self::Stopped,
        Self::NoWorker,
        Self::Expired,
        Self::ClientGone,
        Self::WorkerDied,
        Self::Aborted,
        Self::Hijacked,
        Self::Maintenance,
        Self::Denied,
        Self::RateLimited,
        Self::Unauthorized,
        Self::NoApplication,
    ];

    /// The name in logs and counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::AppError => "app_error",
            Self::Refused => "bad_request",
            Self::TooLarge => "too_large",
            Self::Timeout => "client_timeout",
            Self::Shed => "shed",
            Self::Stopped => "stopped",
            Self::NoWorker => "no_worker",
            Self::Expired => "deadline_exceeded",
            Self::ClientGone => "client_closed",
            Self::WorkerDied => "worker_died",
            Self::Aborted => "aborted",
            Self::Hijacked => "hijacked",
            Self::Maintenance => "maintenance",
            Self::Denied => "denied",
            Self::RateLimited => "rate_limited",
            Self::Unauthorized => "unauthorized",
            Self::NoApplication => "no_application",
        }
    }
}

/// Why the application's answer is not what the client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The message is malformed or over a limit.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// TRACE, which the settings do not allow.
    #[error("the method TRACE is not allowed")]
    TraceRefused,
    /// The queue is full.
    #[error("the queue is full")]
    QueueFull,
    /// No worker can serve, and the next one is started in so many seconds.
    #[error("no worker can serve")]
    NoWorker(u32),
    /// The server stops, and the application has not had the request.
    #[error("the server is stopping")]
    Stopping,
    /// The server ends while the application runs the request, or has no more time for the generation that does.
    #[error("the server stopped while the application ran the request")]
    Stopped,
    /// The application has as many WebSockets as `max_websockets` allows.
    #[error("too many WebSockets are open (setting `max_websockets`)")]
    TooManyWebSockets,
    /// The deadline passed before a worker had the request.
    #[error("the deadline passed in the queue")]
    ExpiredInQueue,
    /// The deadline passed while a worker ran the request.
    #[error("the deadline passed in the application")]
    ExpiredInWorker,
    /// The client left.
    #[error("the client left")]
    ClientGone,
    /// The client ended its side within the body (RFC 9112 section 8).
    #[error("the client ended within its body")]
    BodyCut,
    /// The worker died and the request must not, or not again, be run elsewhere.
    #[error("the worker died")]
    WorkerDied,
    /// The application raised; its own message is in the log.
    #[error("the application failed")]
    AppError,
    /// The application's response can't be sent as it is.
    #[error("the application's response is not valid: {0}")]
    BadResponse(&'static str),
    /// So many files that the application named wait to be opened that one more would wait too long.
    #[error("too many files wait to be opened")]
    TooManyFiles,
    /// The file that the application named was not opened in time.
    #[error("the response's file was not opened in time")]
    FileTimeout,
    /// There is maintenance, and the client is not among those who are served all the same.
    #[error("there is maintenance")]
    Maintenance,
    /// The client's address may not request the path.
    #[error("the client's address may not request this path")]
    Denied,
    /// The client sent too many requests, and may send the next one in so many seconds.
    #[error("too many requests of this client")]
    RateLimited(u32),
    /// The path needs a password, and the client sent none that is right.
    #[error("the request has no user name and password that are right")]
    Unauthorized,
    /// No application has the host that the client asked for.
    #[error("no application has this host")]
    UnknownHost,
    /// No application has the path that the client asked for, but some have its host.
    #[error("no application has this path")]
    NoApplication,
    /// The client's password cannot be checked now.
    #[error("the password could not be checked: {0}")]
    NotChecked(&'static str),
    /// The request does not fit into a slot, or could not be stored.
    #[error("the request could not be stored: {0}")]
    NotStored(&'static str),
}

impl Failure {
    /// Whose fault it is.
    pub const fn fault(self) -> Fault {
        match self {
            Self::Refused(_)
            | Self::TraceRefused
            | Self::ClientGone
            | Self::BodyCut
            | Self::Denied
            | Self::Unauthorized
            | Self::UnknownHost
            | Self::NoApplication
            | Self::RateLimited(_) => Fault::Client,
            Self::ExpiredInWorker | Self::WorkerDied | Self::AppError | Self::BadResponse(_) => {
                Fault::Worker
            }
            Self::QueueFull
            | Self::TooManyWebSockets
            | Self::NoWorker(_)
            | Self::Stopping
            | Self::Stopped
            | Self::ExpiredInQueue
            | Self::TooManyFiles
            | Self::FileTimeout
            | Self::Maintenance
            | Self::NotChecked(_)
            | Self::NotStored(_) => Fault::Server,
        }
    }

    /// The status the client gets.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Refused(refusal) => {
                StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST)
            }
            Self::TraceRefused => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyCut => StatusCode::BAD_REQUEST,
            Self::Denied => StatusCode::FORBIDDEN,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::UnknownHost => StatusCode::MISDIRECTED_REQUEST,
            Self::NoApplication => StatusCode::NOT_FOUND,
            Self::RateLimited(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::QueueFull
            | Self::TooManyWebSockets
            | Self::NoWorker(_)
            | Self::Stopping
            | Self::ExpiredInQueue
            | Self::ClientGone
            | Self::TooManyFiles
            | Self::Maintenance
            | Self::NotChecked(_)
            | Self::NotStored(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::ExpiredInWorker | Self::FileTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::WorkerDied | Self::Stopped => StatusCode::BAD_GATEWAY,
            Self::AppError | Self::BadResponse(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Where the same request may be sent again without harm, for it has had no effect: after how many seconds
    /// (RFC 9110 section 10.2.3).
    pub const fn retry_after(self) -> Option<u32> {
        match (self, self.fault()) {
            (Self::NoWorker(seconds) | Self::RateLimited(seconds), _) => Some(seconds),
            (Self::Maintenance, _) => Some(MAINTENANCE_RETRY_S),
            // The application has run it.
            (Self::Stopped | Self::TooManyFiles | Self::FileTimeout, _) => None,
            (Self::ClientGone, _) | (_, Fault::Server) => Some(1),
            _ => None,
        }
    }

    /// Whether the connection ends with the answer: what follows on it can't be trusted, or must not come.
    pub const fn closes(self) -> bool {
        matches!(
            self,
            Self::Refused(_)
                | Self::TraceRefused
                | Self::Stopping
                | Self::Stopped
                | Self::ClientGone
                | Self::BodyCut
        )
    }

    /// What the log calls it.
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::Refused(Refusal { status: 413, .. }) => Outcome::TooLarge,
            Self::Refused(Refusal { status: 408, .. }) => Outcome::Timeout,
            Self::Refused(_) | Self::TraceRefused => Outcome::Refused,
            Self::QueueFull
            | Self::TooManyWebSockets
            | Self::Stopping
            | Self::TooManyFiles
            | Self::NotChecked(_)
            | Self::NotStored(_) => Outcome::Shed,
            Self::Stopped => Outcome::Stopped,
            Self::NoWorker(_) => Outcome::NoWorker,
            Self::Maintenance => Outcome::Maintenance,
            Self::Denied => Outcome::Denied,
            Self::Unauthorized => Outcome::Unauthorized,
            Self::UnknownHost | Self::NoApplication => Outcome::NoApplication,
            Self::RateLimited(_) => Outcome::RateLimited,
            Self::ExpiredInQueue | Self::ExpiredInWorker | Self::FileTimeout => Outcome::Expired,
            Self::ClientGone | Self::BodyCut => Outcome::ClientGone,
            Self::WorkerDied => Outcome::WorkerDied,
            Self::AppError | Self::BadResponse(_) => Outcome::AppError,
        }
    }
}
