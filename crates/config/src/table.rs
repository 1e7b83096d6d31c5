//! The table itself. Everything else in this crate reads it; no other place names a setting, save the
//! four that depend on another one, on the folder or on the machine (`resolve.rs`).
//!
//! `reload` says what a change takes in a server that runs; without it the change takes new processes.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Origin;
use crate::field::{Field, FileMode, LogFormat, MemoryBudget, Rollout};
use crate::kind::{GIB, KIB, Kind, MIB, MS, TIB, Value};
use crate::listen::Listen;
use crate::parameters::ParameterNames;
use crate::paths::PathRules;
use crate::proxies::TrustedProxies;
use crate::setting::{Reload, Setting};

macro_rules! settings {
    ($($category:literal {
        $(
            $(#[doc = $doc:literal])+
            $name:ident: $type:ty = $kind:expr, default $default:literal $(, env $env:expr)?
                $(, reload $reload:ident)?;
        )+
    })+) => {
        /// Every setting, typed, checked and resolved. Field names are the names of the table.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $($(
                $(#[doc = $doc])+
                pub $name: $type,
            )+)+
            /// Where each value came from, in the order of [`SETTINGS`].
            pub origins: Vec<Origin>,
        }

        /// The table of settings, in the order of the documentation.
        pub static SETTINGS: &[Setting] = &[
            $($(Setting {
                name: stringify!($name),
                kind: $kind,
                default: $default,
                shared_variables: settings!(@env $($env)?),
                reload: settings!(@reload $($reload)?),
                category: $category,
                doc: &[$($doc),+],
            },)+)+
        ];

        impl Settings {
            /// Builds the struct from one checked value and origin per setting, in the table's order.
            pub(crate) fn from_values(values: Vec<(Value, Origin)>) -> Self {
                let (values, origins): (Vec<_>, Vec<_>) = values.into_iter().unzip();
                let mut values = values.into_iter();
                Self {
                    $($($name: <$type>::from_value(values.next().expect("one value per setting")),)+)+
                    origins,
                }
            }

            /// The values as they are now, in the table's order.
            pub(crate) fn values(&self) -> Vec<Value> {
                vec![$($(self.$name.to_value(),)+)+]
            }
        }
    };
    (@env) => { &[] };
    (@env $env:expr) => { &$env };
    (@reload) => { Reload::Generation };
    (@reload $reload:ident) => { Reload::$reload };
}

/// The longest time-out: every wait has a clock.
const DAY: Duration = Duration::from_secs(24 * 3600);
const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The time that a request may be given.
const REQUEST_TIME: Kind = Kind::Duration {
    min: MS.saturating_mul(10),
    max: DAY,
};

settings! {
    "Application" {
        /// The environment the application runs in.
        ///
        /// The application sees it as `RACK_ENV` and `RAILS_ENV`. In `production`, addresses without a host
        /// listen on every IPv4 interface instead of on the loopback one.
        environment: String = Kind::Text, default "development", env ["RAILS_ENV", "RACK_ENV"];

        /// The Ruby that runs the application: a program in `PATH`, or a path.
        ruby: String = Kind::Text, default "ruby";

        /// The rackup file: what the application is.
        ///
        /// Relative to the application's folder.
        rackup: PathBuf = Kind::Text, default "config.ru";

        /// The file with the hooks: before_fork, after_fork, out_of_band, before_worker_exit.
        ///
        /// Relative to the application's folder. The default file may be absent; one named here must exist.
        hooks: PathBuf = Kind::Text, default "config/highball.rb";

        /// The user that the server becomes, with its workers, once its ports are bound: a name, or a number.
        ///
        /// Only root can become another user. The server takes on that user's groups; `HOME`, `USER` and `LOGNAME` of the
        /// application are those of its entry in `/etc/passwd`. Control commands are for this user and for root. What needs
        /// root's rights cannot be done again later: an upgrade keeps the sockets that are there, but binds no new port below
        /// 1024, and reads settings and code as this user. `none` stays who started the server; in `production` a warning
        /// says so where that is root. `root` means it.
        user: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start;

        /// The group that the server becomes: a name, or a number.
        ///
        /// `none` is the first group of `user`.
        group: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start;
    }

    "Listeners" {
        /// The addresses to listen on.
        ///
        /// `127.0.0.1:3000`, `[::1]:3000`, `localhost:3000` (that is 127.0.0.1), `unix:/path/to.sock` (a relative path is
        /// taken from the application's folder), or a port alone, `3000` or `:3000`: then the host is 127.0.0.1, and in
        /// `production` 0.0.0.0. Port 0 lets the kernel choose one.
        ///
        /// `PORT` replaces the port of every TCP address that the file or the default gives.
        listen: Vec<Listen> = Kind::Listen, default "3000", env ["PORT"], reload Start;

        /// The mode of the files of UNIX sockets, in octal digits: users who may write to the file may connect.
        ///
        /// It does not depend on the umask, and the file never has a wider one. `auto` is `0660` where `unix_socket_group`
        /// names a group, and `0600` otherwise, for the server's user and root alone. Files that a service manager made
        /// stay as they are.
        unix_socket_mode: FileMode = Kind::FileMode, default "auto", reload Start;

        /// The group of the files of UNIX sockets, such as that of a proxy: a name, or a number.
        ///
        /// The user who starts the server has to be in that group, or root. `none` is the server's own group.
        unix_socket_group: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start;

        /// Connections that the kernel holds for a listener before they are accepted.
        backlog: u32 = Kind::Integer { min: 1, max: 65535 }, default "1024", reload Start;

        /// Connections open at once.
        ///
        /// At this number, and where no descriptor is left, the connection that has been idle longest is closed for a
        /// newcomer. Where none is idle accepting pauses.
        max_connections: usize = Kind::Integer { min: 1, max: 1_048_576 }, default "65536", reload AtOnce;

        /// Connections open at once from one address; further ones are closed.
        ///
        /// Many people may share one address, behind a router or a mobile network, and browsers open six each. Of IPv6 a
        /// network of 64 bits counts as one address. Peers in `trusted_proxies` are not counted.
        max_connections_per_address: Option<usize> = Kind::Maybe(&Kind::Integer { min: 1, max: 1_048_576 }), default "none", reload AtOnce;

        /// The peers whose X-Forwarded-* headers are believed.
        ///
        /// From others these headers do not reach the application, nor do the like: Forwarded, X-Real-IP, Client-IP,
        /// True-Client-IP, CF-Connecting-IP, X-Original-URL, X-Rewrite-URL, X-Host, X-Sendfile-Type and their kin.
        ///
        /// Addresses and networks (`10.0.0.0/8`, `::1`), `unix` for every peer on a UNIX socket; `all` or `none` alone.
        trusted_proxies: TrustedProxies = Kind::Proxies, default "127.0.0.0/8,::1,unix", reload AtOnce;
    }

    "Workers" {
        /// The number of worker processes.
        ///
        /// `auto` is the number of cores that this process may use: its CPU affinity and the CPU quota of
        /// its control groups are counted, a part of a core as a whole one.
        workers: u16 = Kind::AutoInteger { min: 1, max: 1024 }, default "auto";

        /// The number of Ruby threads in each worker.
        threads: u16 = Kind::Integer { min: 1, max: 256 }, default "3";

        /// Whether Ruby's heap is compacted before workers are forked, so that they share more memory.
        compact: bool = Kind::Bool, default "true";

        /// Whether workers run under the kernel's SCHED_BATCH policy, and the front too while all requests are short.
        ///
        /// It spends less time on task switches; measure both where latency on idle cores matters most.
        batch_scheduling: bool = Kind::Bool, default "true";

        /// How often a safe request is run again when the worker that held it died.
        ///
        /// Only GET, HEAD, OPTIONS and TRACE, and only before the first byte of the response. One that has killed two
        /// workers is never tried a third time: it gets 502, and an error in the log names it.
        max_retries: u32 = Kind::Integer { min: 0, max: 1 }, default "1", reload AtOnce;
    }

    "Limits of workers" {
        /// The requests after which a worker is replaced.
        ///
        /// Its successor is ready before it is told to leave, and it finishes what it runs. So that not all workers go at
        /// once, each one's own limit lies somewhere in the last tenth below this number. Looked at every second: a worker
        /// goes on for so long, and waits its turn where another one is being replaced, or an old generation has not finished.
        worker_max_requests: Option<u64> = Kind::Maybe(&Kind::Integer { min: 1, max: 1_000_000_000_000 }), default "none";

        /// The age at which a worker is replaced, counted from when it was ready.
        ///
        /// As with `worker_max_requests`: its successor comes first, and each one's own limit lies in the last tenth.
        worker_max_age: Option<Duration> = Kind::Maybe(&Kind::Duration { min: SECOND, max: YEAR }), default "none";

        /// The memory of its own at which a worker is replaced.
        ///
        /// Counted are the pages that no other process shares (Private_Clean and Private_Dirty in
        /// `/proc/PID/smaps_rollup`): what workers share with their template is not held against any of them. What is swapped
        /// out counts as well (SwapPss). Looked at every 5 seconds. Its successor comes first, as with `worker_max_requests`.
        worker_max_memory: Option<u64> = Kind::Maybe(&Kind::Bytes { min: MIB, max: TIB }), default "none";

        /// The memory that front, templates and workers may hold together.
        ///
        /// A page that several of them share counts once (Pss and SwapPss in `/proc/PID/smaps_rollup`). What the front holds for clients, beyond the least that it ever held, has
        /// bounds of its own (`response_memory_total`) and does not count. What others in the
        /// same control groups leave is the limit in any case: `auto` is that alone, less a twentieth of each group's limit.
        /// Looked at every 5 seconds. Where more is held, the largest worker leaves, one at a time; a fresh one comes back when
        /// there is room for it, after 10 seconds at least, later and later where memory is short again soon. What workers hold
        /// that leave already counts for nothing, for 30 seconds. The last worker is followed by a fresh one, where that would
        /// hold little enough; otherwise it stays, and the log says so. Nobody goes while a restart brings workers up. A restart
        /// goes worker by worker where a second generation does not fit beside the first. Where not even its template and one
        /// worker fit, it goes so all the same, for new code may be what helps: that much may be held above the budget until the
        /// old generation is gone. An upgrade begins with the workers that fit, and is refused where none does.
        memory_budget: Option<MemoryBudget> = Kind::Maybe(&Kind::AutoBytes { min: MIB, max: TIB }), default "none";
    }

    "Work between requests" {
        /// The requests after which a worker collects its garbage and runs the hooks `out_of_band`, between two of them.
        ///
        /// One worker of a generation at a time (a restart has two generations for a while, and an upgrade two servers), and
        /// never while requests wait or another thread of that worker has one; of several workers only while another one
        /// idles. Where that does not hold it is tried again after the next request. Hooks have as much time as the request
        /// before them (`request_timeout`).
        out_of_band_interval: Option<u32> = Kind::Maybe(&Kind::Integer { min: 1, max: 1_000_000_000 }), default "none";
    }

    "Restarts" {
        /// How a restart replaces the workers.
        ///
        /// `all-at-once` brings all workers of the new code up, then lets those of the old code finish: twice the memory
        /// for a moment, and all requests move to the new code together. `worker-by-worker` brings one up and lets one
        /// finish, and so on: one worker too many at most, and until the last one both answer.
        rollout: Rollout = Kind::Choice(&["all-at-once", "worker-by-worker"]), default "all-at-once", reload AtOnce;

        /// A path that new code must answer before it takes over in a restart.
        ///
        /// A worker of the new code is sent one GET, with `Host: localhost` and as over HTTPS (`X-Forwarded-Proto: https`); any
        /// status from 200 to 299 is an answer. With `none` it is enough that the workers are up. The first start makes no
        /// check.
        ready_check: Option<String> = Kind::Maybe(&Kind::RequestPath), default "none", reload AtOnce;

        /// A path that new code is asked for before its workers are forked, so that they share what that compiles, loads and
        /// keeps.
        ///
        /// One GET, with `Host: localhost` and as over HTTPS, in the template: at the start, in a restart and in an upgrade. Without it each
        /// worker's first requests do that work, at their client's cost. What it answers decides nothing; an error is told. It
        /// must be a page that may be asked for at any time. Active Record's connections are closed afterwards; others that it
        /// opens are to be closed in `before_fork`, and `highball check` names them.
        warm_up: Option<String> = Kind::Maybe(&Kind::RequestPath), default "none";

        /// The file whose touch restarts the server, looked at every second.
        ///
        /// Relative to the application's folder. It need not exist.
        restart_file: PathBuf = Kind::Text, default "tmp/restart.txt", reload AtOnce;
    }

    "Queue" {
        /// The requests that may wait for a thread; more are refused with 503.
        ///
        /// `auto` is 100 for each thread of all workers, at least 256.
        queue_limit: usize = Kind::AutoInteger { min: 1, max: 1_000_000 }, default "auto", reload AtOnce;

        /// The paths whose requests go before all others and pass a full queue.
        ///
        /// Each stands for itself and all below it. Meant for health checks, which must be answered in an overload as well:
        /// while such requests wait, no other begins. They may be as many as `queue_limit` beside the others, and take
        /// part in no share. No thread is kept free for them: where all may be taken by slow requests, `path_shares` does that.
        ///
        /// Here and in the other rules for paths a path counts however it is spelled: `/%75p`, `//up` and `/a/../up` are
        /// `/up`, and `/UP` is not. The application gets it as it was sent.
        priority_paths: PathRules<()> = Kind::Paths(None), default "none", reload AtOnce;

        /// The share of all threads that requests below a path may take at once, so that a slow endpoint leaves some for
        /// others.
        ///
        /// With `/reports=50%`, at most half of the threads of all workers that serve just now (rounded, at least one) run
        /// requests for `/reports` and all below it, and others pass those that wait. They take no more than the same share of
        /// `queue_limit` either.
        path_shares: PathRules<u16> = Kind::Paths(Some(&Kind::Percent)), default "none", reload AtOnce;
    }

    "Limits of a request" {
        /// The size of all header fields together, their line ends included; larger is refused with 431.
        max_header_bytes: usize = Kind::Bytes { min: 8 * KIB, max: MIB }, default "112KiB", reload AtOnce;

        /// The number of header fields; more are refused with 431.
        max_header_count: usize = Kind::Integer { min: 1, max: 10_000 }, default "128", reload AtOnce;

        /// The length of the request target (path and query); longer is refused with 414.
        max_target_bytes: usize = Kind::Bytes { min: 16, max: 65_534 }, default "12KiB", reload AtOnce;

        /// The length of one header field, its name included; longer is refused with 431.
        max_field_bytes: usize = Kind::Bytes { min: 64, max: MIB }, default "80KiB", reload AtOnce;

        /// The length of a request's body; longer is refused with 413.
        max_body_bytes: u64 = Kind::Bytes { min: 1, max: TIB }, default "1GiB", reload AtOnce;

        /// Whether requests with the method TRACE reach the application; otherwise they are refused with 405.
        ///
        /// What answers TRACE may send cookies and credentials of the request back as content (RFC 9110 section 9.3.8).
        allow_trace: bool = Kind::Bool, default "false", reload AtOnce;
    }

    "Time-outs" {
        /// The time a client has to send the header of a request, once it began.
        header_timeout: Duration = Kind::Duration { min: MS.saturating_mul(10), max: DAY }, default "30s", reload AtOnce;

        /// The longest pause while a client sends a body.
        ///
        /// Any progress starts it again: it is no limit on the whole upload.
        body_timeout: Duration = Kind::Duration { min: MS.saturating_mul(10), max: DAY }, default "30s", reload AtOnce;

        /// The longest pause while a client takes its response.
        ///
        /// Any progress starts it again: it is no limit on the whole download.
        send_timeout: Duration = Kind::Duration { min: MS.saturating_mul(10), max: DAY }, default "30s", reload AtOnce;

        /// The bytes a second that a client must send of a body, averaged over 10 seconds in which it is waited for.
        ///
        /// One that is slower gets 408. `none` leaves slow bodies to `body_timeout`.
        min_body_rate: Option<u64> = Kind::Maybe(&Kind::Bytes { min: 1, max: GIB }), default "240", reload AtOnce;

        /// The bytes a second that a client must take of a response, averaged over 10 seconds in which it is waited for.
        ///
        /// One that is slower is cut off. Time in which the application has nothing to send does not count, nor does a
        /// connection that it took over. `none` leaves slow readers to `send_timeout`.
        min_send_rate: Option<u64> = Kind::Maybe(&Kind::Bytes { min: 1, max: GIB }), default "240", reload AtOnce;

        /// The time a connection may be idle between two requests.
        ///
        /// 0 turns keep-alive off: each connection is closed after its response.
        keep_alive_timeout: Duration = Kind::Duration { min: Duration::ZERO, max: DAY }, default "65s", reload AtOnce;

        /// The time that opening a file may take which the application names as its response, and reading each piece of it.
        ///
        /// A file system may not answer (NFS, FUSE). A file that is not open by then, or by the request's deadline, is
        /// answered with 504, and a response whose file is not read on is cut.
        file_timeout: Duration = Kind::Duration { min: MS.saturating_mul(10), max: DAY }, default "30s", reload AtOnce;

        /// The deadline of a request, counted from when it has arrived whole, its time in the queue included.
        ///
        /// By then its response must have begun. From there on the same time is counted anew from each piece of it: a
        /// response of which nothing comes for so long is cut, and its thread is late as one that answered nothing is. A
        /// stream of events that pauses longer needs a sign of life in between, or a rule in `request_timeouts`. While the
        /// application waits for the client no time is counted.
        ///
        /// The same time is there for what follows a response (`close` of its body, `rack.response_finished`,
        /// `rack.after_reply`), and for the application to notice that the client of a response or of a connection that
        /// it took over has left.
        request_timeout: Duration = REQUEST_TIME, default "60s", reload AtOnce;

        /// Deadlines of their own for requests below some paths.
        ///
        /// They take the place of `request_timeout`, longer or shorter: with `/reports=5m,/up=2s`, a request for `/reports`
        /// or `/reports/1` has five minutes, and one for `/up` two seconds.
        request_timeouts: PathRules<Duration> = Kind::Paths(Some(&REQUEST_TIME)), default "none", reload AtOnce;

        /// The time that a request may run on past its deadline before its worker is replaced.
        ///
        /// Its client has been answered with 504 at the deadline, or its response cut. The worker then takes no more
        /// requests. Its other threads may finish what they run, within their own deadlines, and it is killed.
        request_grace: Duration = Kind::Duration { min: Duration::ZERO, max: DAY }, default "10s", reload AtOnce;

        /// The time the application has to load, and its workers to be ready after that.
        boot_timeout: Duration = Kind::Duration { min: MS.saturating_mul(100), max: DAY }, default "90s", reload AtOnce;

        /// The time that what runs gets when the server stops, and what has no deadline to come when its worker leaves.
        ///
        /// A stop waits no longer than this, and 0 cuts at once. Workers that leave for new code, for a limit or for lack of
        /// memory, and a server that was replaced by an upgrade, may finish the requests that are in time, also where their
        /// deadlines (`request_timeout`, `request_timeouts`) are later than this. Connections that the application took
        /// over, and what runs past its deadline, end after this time, or after one second where it is less. Whoever waits
        /// for that, such as the next restart, waits no longer than this either.
        drain_timeout: Duration = Kind::Duration { min: Duration::ZERO, max: DAY }, default "30s", reload AtOnce;
    }

    "Responses" {
        /// The part of a response that is held in memory for a slow client; what is beyond goes to a file.
        response_memory: usize = Kind::Bytes { min: 4 * KIB, max: GIB }, default "1MiB", reload AtOnce;

        /// The memory that all responses may hold together.
        ///
        /// Beyond it a response goes to its file from 16 KiB on, and slow clients are sent smaller pieces at a time. A client
        /// that keeps up with its response has it from memory all the same.
        response_memory_total: usize = Kind::Bytes { min: MIB, max: TIB }, default "256MiB", reload AtOnce;

        /// The size to which that file may grow, for one response.
        ///
        /// At this size the application waits for the client.
        response_limit: u64 = Kind::Bytes { min: 4 * KIB, max: TIB }, default "1GiB", reload AtOnce;

        /// The folder for bodies of requests and responses that outgrow memory.
        ///
        /// `none` is the first of `TMPDIR`, `/var/tmp` and `/tmp` that is on a disk and may be written to. Where all are in
        /// memory (tmpfs) the log and `highball check` say so. The files have no names and leave nothing behind.
        spool_dir: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start;

        /// The size of all files for bodies and responses together.
        ///
        /// Beyond it a request whose body needs a file gets 503, and an application whose response needs one waits for its
        /// client.
        spool_limit: u64 = Kind::Bytes { min: MIB, max: TIB }, default "10GiB", reload AtOnce;

        /// Whether the application is offered `rack.early_hints`, to send 103 (Early Hints) before its response.
        ///
        /// Rails then sends one for each style sheet and script of a page. Browsers heed them over HTTP/2 alone, and
        /// there are proxies that take a 103 for the response: turn it on where what stands in front is known to pass
        /// it on.
        early_hints: bool = Kind::Bool, default "false";
    }

    "Logs" {
        /// Whether each request is logged to stdout, in one line.
        access_log: bool = Kind::Bool, default "true", reload AtOnce;

        /// The parameters of queries whose values the log shows as `[FILTERED]`.
        ///
        /// Each item is a part of such names, in capitals or not: `passw` stands for `password` and `user[Passwd]`. The default is
        /// what Rails puts into `filter_parameters`; `none` alone filters nothing.
        log_filter_parameters: ParameterNames = Kind::ParameterNames,
            default "passw,email,secret,token,_key,crypt,salt,certificate,otp,ssn,cvv,cvc", reload AtOnce;

        /// The form of the log's lines.
        log_format: LogFormat = Kind::Choice(&["text", "json"]), default "text", reload AtOnce;
    }
}
