//! The table of settings. Everything else in this crate reads it. No other file names a setting, except
//! `resolve.rs` the four that depend on another one, on the folder or on the machine.
//!
//! `reload` says what a change needs in a running server; without it the change needs new processes.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Origin;
use crate::field::{Field, FileMode, LogFormat, MemoryBudget, Rollout};
use crate::kind::{Kind, Value};
use crate::listen::Listen;
use crate::parameters::ParameterNames;
use crate::paths::PathRules;
use crate::proxies::TrustedProxies;
use crate::setting::{Reload, Setting};
use crate::table_macro::settings;
use crate::units::{GIB, KIB, MIB, MS, TIB};

/// The longest time-out: every wait has one.
const DAY: Duration = Duration::from_secs(24 * 3600);
const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The range of deadlines.
const REQUEST_TIME: Kind = Kind::Duration {
    min: MS.saturating_mul(10),
    max: DAY,
};

settings! {
    "Application" {
        /// The environment that the application runs in.
        ///
        /// The application sees it as `RACK_ENV` and `RAILS_ENV`. In `production`, addresses without a host listen
        /// on every IPv4 interface instead of only the loopback one.
        environment: String = Kind::Text, default "development", env ["RAILS_ENV", "RACK_ENV"];

        /// The Ruby that runs the application: a program in `PATH`, or a path.
        ruby: String = Kind::Text, default "ruby";

        /// The rackup file.
        ///
        /// Relative to the application's folder.
        rackup: PathBuf = Kind::Text, default "config.ru";

        /// The file with the hooks before_fork, after_fork, out_of_band and before_worker_exit.
        ///
        /// Relative to the application's folder. The default file may be missing; a file that is named here must
        /// exist.
        hooks: PathBuf = Kind::Text, default "config/highball.rb";

        /// The user that the server and its workers run as once its ports are bound: a name, or a number.
        ///
        /// Only root can change the user. The server takes that user's groups; `HOME`, `USER` and `LOGNAME` of the
        /// application come from the user's entry in `/etc/passwd`. Only this user and root may send control
        /// commands. The server has lost root's rights then: an upgrade keeps the sockets that are open but cannot
        /// bind a new port below 1024, and reads settings and code as this user. With `none` the server keeps the
        /// user that started it; if that is root, a warning says so in `production`. `root` keeps root without a
        /// warning.
        user: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start;

        /// The group that the server runs as: a name, or a number.
        ///
        /// `none` is the primary group of `user`.
        group: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start;
    }

    "Listeners" {
        /// The addresses to listen on.
        ///
        /// `127.0.0.1:3000`, `[::1]:3000`, `localhost:3000` (which is 127.0.0.1), `unix:/path/to.sock` (a relative
        /// path starts at the application's folder), or only a port, `3000` or `:3000`: then the host is 127.0.0.1,
        /// and 0.0.0.0 in `production`. For port 0 the kernel chooses a port.
        ///
        /// `PORT` replaces the port of every TCP address from the file or the default.
        listen: Vec<Listen> = Kind::Listen, default "3000", env ["PORT"], reload Start;

        /// The mode of the files of UNIX sockets, in octal digits: users who may write to the file may connect.
        ///
        /// It does not depend on the umask, and the file never has a wider mode. `auto` is `0660` if
        /// `unix_socket_group` is set, otherwise `0600`: only the server's user and root may connect. Files that a
        /// service manager made keep their mode.
        unix_socket_mode: FileMode = Kind::FileMode, default "auto", reload Start;

        /// The group of the files of UNIX sockets, such as the group of a proxy: a name, or a number.
        ///
        /// The user who starts the server must be in that group, or be root. `none` is the server's own group.
        unix_socket_group: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start;

        /// Connections that the kernel queues for a listener before the server accepts them.
        backlog: u32 = Kind::Integer { min: 1, max: 65535 }, default "1024", reload Start;

        /// Connections that may be open at once.
        ///
        /// At this number, or when no descriptor is left, a new connection replaces the one that has been idle
        /// longest. If none is idle, accepting pauses.
        max_connections: usize = Kind::Integer { min: 1, max: 1_048_576 }, default "65536", reload AtOnce;

        /// Connections that one address may have open at once; further ones are closed.
        ///
        /// Many people may share one address, behind a router or in a mobile network, and a browser opens six
        /// connections. An IPv6 network of 64 bits counts as one address. Peers in `trusted_proxies` are not
        /// counted.
        max_connections_per_address: Option<usize> = Kind::Maybe(&Kind::Integer { min: 1, max: 1_048_576 }), default "none", reload AtOnce;

        /// The peers whose X-Forwarded-* headers are trusted.
        ///
        /// From other peers the application does not get these headers or similar ones: Forwarded, X-Real-IP,
        /// Client-IP, True-Client-IP, CF-Connecting-IP, X-Original-URL, X-Rewrite-URL, X-Host, X-Sendfile-Type and
        /// so on.
        ///
        /// Addresses and networks (`10.0.0.0/8`, `::1`), or `unix` for every peer on a UNIX socket; `all` or `none`
        /// only alone.
        trusted_proxies: TrustedProxies = Kind::Proxies, default "127.0.0.0/8,::1,unix", reload AtOnce;
    }

    "Workers" {
        /// The number of worker processes.
        ///
        /// `auto` is the number of cores that this process may use, by its CPU affinity and the CPU quota of its
        /// control groups; a part of a core counts as a whole one.
        workers: u16 = Kind::AutoInteger { min: 1, max: 1024 }, default "auto";

        /// The number of Ruby threads in each worker.
        threads: u16 = Kind::Integer { min: 1, max: 256 }, default "3";

        /// Whether Ruby's heap is compacted before workers are forked, so that they share more memory.
        compact: bool = Kind::Bool, default "true";

        /// Whether workers run under the kernel's SCHED_BATCH policy, and the front too while all requests are
        /// short.
        ///
        /// It reduces context switches. Where latency on idle cores matters most, measure with and without it.
        batch_scheduling: bool = Kind::Bool, default "true";

        /// How often a safe request runs again after the worker that ran it died.
        ///
        /// Only GET, HEAD, OPTIONS and TRACE, and only before the first byte of the response. A request that has
        /// killed two workers never runs a third time: it gets 502, and an error in the log names it.
        max_retries: u32 = Kind::Integer { min: 0, max: 1 }, default "1", reload AtOnce;
    }

    "Limits of workers" {
        /// The number of requests after which a worker is replaced.
        ///
        /// Its successor is ready before it is told to stop, and it finishes its requests. So that not all workers
        /// stop at once, each worker's own limit is a random number in the last tenth below this one. Checked every
        /// second: a worker runs on until then, and waits while another worker is being replaced or an old
        /// generation is still there.
        worker_max_requests: Option<u64> = Kind::Maybe(&Kind::Integer { min: 1, max: 1_000_000_000_000 }), default "none";

        /// The age at which a worker is replaced, counted from when it was ready.
        ///
        /// As with `worker_max_requests`, its successor starts first, and each worker's own limit is in the last
        /// tenth.
        worker_max_age: Option<Duration> = Kind::Maybe(&Kind::Duration { min: SECOND, max: YEAR }), default "none";

        /// The private memory at which a worker is replaced.
        ///
        /// It counts pages that no other process shares (Private_Clean and Private_Dirty in
        /// `/proc/PID/smaps_rollup`), so not what workers share with their template, and swapped pages (SwapPss).
        /// Checked every 5 seconds. Its successor starts first, as with `worker_max_requests`.
        worker_max_memory: Option<u64> = Kind::Maybe(&Kind::Bytes { min: MIB, max: TIB }), default "none";

        /// The memory that front, templates and workers may use together.
        ///
        /// Shared pages count once (Pss and SwapPss in `/proc/PID/smaps_rollup`). Memory that the front uses for
        /// clients, above the least that it ever used, has limits of its own (`response_buffer_total_bytes`) and does not
        /// count. In any case the limit is what other processes leave in the server's control groups; `auto` is
        /// that alone, less a twentieth of each group's limit. Checked every 5 seconds.
        ///
        /// Above the limit the largest worker stops, one at a time. A new worker starts when there is room for it,
        /// after 10 seconds at the earliest, and later each time memory becomes short again soon. Workers that are
        /// stopping do not count for 30 seconds. The last worker is only replaced, and only if a new one would use
        /// little enough; otherwise it stays, and the log says so. No worker stops while a restart starts workers.
        ///
        /// A restart replaces worker by worker if a second generation does not fit. If not even its template and
        /// one worker fit, it does so all the same, for new code may use less: until the old generation is gone the
        /// server may use that much more than the budget. An upgrade starts with as many workers as fit, and is
        /// refused if none fits.
        memory_budget: Option<MemoryBudget> = Kind::Maybe(&Kind::AutoBytes { min: MIB, max: TIB }), default "none";
    }

    "Work between requests" {
        /// The number of requests after which a worker collects garbage and runs the hooks `out_of_band`, between
        /// two requests.
        ///
        /// Only one worker of a generation does so at a time (a restart has two generations for a while, an upgrade
        /// two servers). It never does so while requests wait or while another of its threads runs a request; if
        /// there are several workers, only while another one is idle. Otherwise it tries again after its next
        /// request. Hooks have as much time as the request before them (`request_timeout`).
        out_of_band_interval: Option<u32> = Kind::Maybe(&Kind::Integer { min: 1, max: 1_000_000_000 }), default "none";
    }

    "Restarts" {
        /// How a restart replaces the workers.
        ///
        /// `all-at-once` starts all workers with the new code, then stops the old ones: twice the memory for a
        /// moment, and all requests move to the new code together. `worker-by-worker` starts one and stops one, and
        /// so on: at most one worker too many, and old and new code both answer until the last one is replaced.
        rollout: Rollout = Kind::Choice(&["all-at-once", "worker-by-worker"]), default "all-at-once", reload AtOnce;

        /// A path that new code must answer before it takes over in a restart.
        ///
        /// A worker with the new code gets one GET, with `Host: localhost` and as over HTTPS (`X-Forwarded-Proto:
        /// https`); any status from 200 to 299 passes. With `none` it is enough that the workers are ready. The
        /// first start makes no check.
        ready_check: Option<String> = Kind::Maybe(&Kind::RequestPath), default "none", reload AtOnce;

        /// A path requested once before workers are forked, so that they share compiled code and warm caches.
        ///
        /// One GET, with `Host: localhost` and as over HTTPS, in the template: at the start, in a restart and in an
        /// upgrade. Without it the first requests of each worker do that work while their clients wait. The status
        /// does not matter; an error is logged. It must be a page that may be requested at any time. Active
        /// Record's connections are closed afterwards; close other connections that the page opens in
        /// `before_fork`. `highball check` names them.
        warm_up: Option<String> = Kind::Maybe(&Kind::RequestPath), default "none";

        /// The file whose touch restarts the server, checked every second.
        ///
        /// Relative to the application's folder. It need not exist.
        restart_file: PathBuf = Kind::Text, default "tmp/restart.txt", reload AtOnce;
    }

    "Queue" {
        /// The number of requests that may wait for a thread; further ones get 503.
        ///
        /// `auto` is 100 for each thread of all workers, at least 256.
        queue_limit: usize = Kind::AutoInteger { min: 1, max: 1_000_000 }, default "auto", reload AtOnce;

        /// The paths whose requests are served before all others, even if the queue is full.
        ///
        /// Each path stands for itself and everything below it. This is for health checks, which must be answered
        /// in an overload as well: while such a request waits, no other one starts. As many of them as
        /// `queue_limit` may wait, beside the others, and `path_shares` does not limit them. No thread is reserved
        /// for them: if slow requests may take all threads, use `path_shares`.
        ///
        /// In all rules for paths the spelling does not matter: `/%75p`, `//up` and `/a/../up` are `/up`, but `/UP`
        /// is not. The application gets the path as the client sent it.
        priority_paths: PathRules<()> = Kind::Paths(None), default "none", reload AtOnce;

        /// The share of all threads that requests below a path may use at once, so that a slow endpoint leaves
        /// threads for others.
        ///
        /// With `/reports=50%`, at most half of the threads of all workers that serve (rounded, at least one) run
        /// requests for `/reports` and everything below it, and other requests pass those that wait. They also take
        /// at most the same share of `queue_limit`.
        path_shares: PathRules<u16> = Kind::Paths(Some(&Kind::Percent)), default "none", reload AtOnce;
    }

    "Limits of a request" {
        /// The size of all header fields together, with their line ends; larger gets 431.
        max_header_bytes: usize = Kind::Bytes { min: 8 * KIB, max: MIB }, default "112KiB", reload AtOnce;

        /// The number of header fields; more get 431.
        max_header_count: usize = Kind::Integer { min: 1, max: 10_000 }, default "128", reload AtOnce;

        /// The length of the request target (path and query); longer gets 414.
        max_target_bytes: usize = Kind::Bytes { min: 16, max: 65_534 }, default "12KiB", reload AtOnce;

        /// The length of one header field with its name; longer gets 431.
        max_field_bytes: usize = Kind::Bytes { min: 64, max: MIB }, default "80KiB", reload AtOnce;

        /// The size of a request's body; larger gets 413.
        max_body_bytes: u64 = Kind::Bytes { min: 1, max: TIB }, default "1GiB", reload AtOnce;

        /// Whether TRACE requests reach the application; otherwise they get 405.
        ///
        /// An answer to TRACE may send cookies and credentials of the request back as content (RFC 9110 section
        /// 9.3.8).
        allow_trace: bool = Kind::Bool, default "false", reload AtOnce;
    }

    "Time-outs" {
        /// How long a client may take to send the header of a request, from its first byte.
        header_timeout: Duration = Kind::Duration { min: MS.saturating_mul(10), max: DAY }, default "30s", reload AtOnce;

        /// The longest pause while a client sends a body.
        ///
        /// Each byte restarts it: the whole upload may take longer.
        body_timeout: Duration = Kind::Duration { min: MS.saturating_mul(10), max: DAY }, default "30s", reload AtOnce;

        /// The longest pause while a client receives its response.
        ///
        /// Each byte restarts it: the whole download may take longer.
        send_timeout: Duration = Kind::Duration { min: MS.saturating_mul(10), max: DAY }, default "30s", reload AtOnce;

        /// The bytes per second that a client must send of a body, averaged over 10 seconds of waiting for it.
        ///
        /// A slower client gets 408. With `none` only `body_timeout` limits slow bodies.
        min_body_rate: Option<u64> = Kind::Maybe(&Kind::Bytes { min: 1, max: GIB }), default "240", reload AtOnce;

        /// The bytes per second that a client must receive of a response, averaged over 10 seconds of waiting for
        /// it.
        ///
        /// The connection of a slower client is closed. Time in which the application has nothing to send does not
        /// count; connections that the application has hijacked are not checked. With `none` only `send_timeout`
        /// limits slow readers.
        min_send_rate: Option<u64> = Kind::Maybe(&Kind::Bytes { min: 1, max: GIB }), default "240", reload AtOnce;

        /// How long a connection may be idle between two requests.
        ///
        /// 0 turns keep-alive off: each connection is closed after its response.
        keep_alive_timeout: Duration = Kind::Duration { min: Duration::ZERO, max: DAY }, default "65s", reload AtOnce;

        /// How long it may take to open a file that the application returns as its response, and to read each piece
        /// of it.
        ///
        /// A file system may hang (NFS, FUSE). If the file is not open by then, or by the request's deadline, the
        /// client gets 504; if a later piece cannot be read in time, the response is cut.
        file_timeout: Duration = Kind::Duration { min: MS.saturating_mul(10), max: DAY }, default "30s", reload AtOnce;

        /// The deadline of a request, from when it has arrived completely, with its time in the queue.
        ///
        /// By then its response must have begun. After that each piece of the response restarts the same time: a
        /// response that pauses for longer is cut, and its thread counts as late, as one without any answer does. A
        /// stream of events that pauses longer needs a heartbeat, or a rule in `request_timeouts`. Time in which
        /// the application waits for the client does not count.
        ///
        /// The same time limits what follows a response (`close` of its body, `rack.response_finished`,
        /// `rack.after_reply`), and how long the application may take to notice that the client of a response or of
        /// a hijacked connection has left.
        request_timeout: Duration = REQUEST_TIME, default "60s", reload AtOnce;

        /// Deadlines for requests below some paths.
        ///
        /// They replace `request_timeout`, longer or shorter: with `/reports=5m,/up=2s`, a request for `/reports`
        /// or `/reports/1` has five minutes, and one for `/up` two seconds.
        request_timeouts: PathRules<Duration> = Kind::Paths(Some(&REQUEST_TIME)), default "none", reload AtOnce;

        /// How long a request may run on after its deadline before its worker is replaced.
        ///
        /// At the deadline its client got 504, or its response was cut. After this time the worker gets no more
        /// requests. Its other threads may finish their requests within their own deadlines, then it is killed.
        request_grace: Duration = Kind::Duration { min: Duration::ZERO, max: DAY }, default "10s", reload AtOnce;

        /// How long the application may take to load, and after that its workers to be ready.
        boot_timeout: Duration = Kind::Duration { min: MS.saturating_mul(100), max: DAY }, default "90s", reload AtOnce;

        /// How long running requests may take to finish when the server stops or their worker is replaced.
        ///
        /// A stop waits no longer than this; 0 cuts at once. Workers that are replaced (by a restart, for a limit
        /// or for lack of memory), and a server that an upgrade has replaced, may finish requests within their
        /// deadlines (`request_timeout`, `request_timeouts`), even if these end later. Hijacked connections and
        /// requests past their deadline end after this time, or after one second if it is less. What waits for
        /// them, such as the next restart, waits no longer than this either.
        drain_timeout: Duration = Kind::Duration { min: Duration::ZERO, max: DAY }, default "30s", reload AtOnce;
    }

    "Responses" {
        /// The part of a response that is kept in memory for a slow client; the rest goes to a file.
        response_buffer_bytes: usize = Kind::Bytes { min: 4 * KIB, max: GIB }, default "1MiB", reload AtOnce;

        /// The memory that all responses together may use.
        ///
        /// Above it a response goes to its file from 16 KiB on, and slow clients are sent smaller pieces at a time.
        /// A client that keeps up with its response still gets it from memory.
        response_buffer_total_bytes: usize = Kind::Bytes { min: MIB, max: TIB }, default "256MiB", reload AtOnce;

        /// The size to which that file may grow for one response.
        ///
        /// At this size the application waits for the client.
        response_spool_max_bytes: u64 = Kind::Bytes { min: 4 * KIB, max: TIB }, default "1GiB", reload AtOnce;

        /// The folder for bodies of requests and responses that do not fit in memory.
        ///
        /// `none` is the first of `TMPDIR`, `/var/tmp` and `/tmp` that is on a disk and writable. If all are in
        /// memory (tmpfs), the log and `highball check` say so. The files have no names and leave nothing behind.
        spool_dir: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start;

        /// The size of all files for bodies and responses together.
        ///
        /// Above it a request whose body needs a file gets 503, and an application whose response needs one waits
        /// for its client.
        spool_max_bytes: u64 = Kind::Bytes { min: MIB, max: TIB }, default "10GiB", reload AtOnce;

        /// Whether the application gets `rack.early_hints`, to send 103 (Early Hints) before its response.
        ///
        /// Rails then sends one for each style sheet and script of a page. Browsers use them over HTTP/2 only, and
        /// some proxies take a 103 for the response: turn it on only if the proxy in front passes it on.
        early_hints: bool = Kind::Bool, default "false";
    }

    "Logs" {
        /// Whether each request is logged to stdout, in one line.
        access_log: bool = Kind::Bool, default "true", reload AtOnce;

        /// The query parameters whose values the log shows as `[FILTERED]`.
        ///
        /// Each item is a part of such names, in upper or lower case: `passw` matches `password` and
        /// `user[Passwd]`. The default is that of Rails' `filter_parameters`; `none` alone filters nothing.
        log_filter_parameters: ParameterNames = Kind::ParameterNames,
            default "passw,email,secret,token,_key,crypt,salt,certificate,otp,ssn,cvv,cvc", reload AtOnce;

        /// The format of the log's lines.
        log_format: LogFormat = Kind::Choice(&["text", "json"]), default "text", reload AtOnce;
    }
}
