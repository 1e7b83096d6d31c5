//! The table of settings. Everything else in this crate reads it. No other file names a setting, except
//! `resolve.rs` those that depend on another one, on the folder or on the machine. The first parts of the table are
//! `table/server.rs`, `table/tls.rs`, `table/acme.rs` and `table/operations.rs`, the last ones are
//! `table/files.rs` and `table/access.rs`.
//!
//! `scope Server` marks what no `[[application]]` may have. `reload` says what a change needs in a running server; without it the change needs new processes.

mod access;
mod acme;
mod exceptions;
mod files;
mod operations;
mod server;
mod tls;
mod traces;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::address_list::AddressList;
use crate::error::Origin;
use crate::field::{
    Allocator, CachePolicy, ClientVerification, Field, FileMode, Jit, LogFormat, LogLevel,
    MemoryBudget, PublicFiles, Rollout, RuntimeTuning, TlsVersion, WarmUp,
};
use crate::hsts::Hsts;
use crate::kind::{Kind, Value};
use crate::listen::Listen;
use crate::log_fields::LogFields;
use crate::media_types::MediaTypes;
use crate::number_range::NumberRange;
use crate::parameters::ParameterNames;
use crate::paths::PathRules;
use crate::rate_limit::RateLimit;
use crate::setting::{Reload, Scope, Setting};
use crate::table::access::access_settings;
use crate::table::acme::acme_settings;
use crate::table::exceptions::exception_settings;
use crate::table::files::files_settings;
use crate::table::operations::operations_settings;
use crate::table::server::server_settings;
use crate::table::tls::tls_settings;
use crate::table::traces::traces_settings;
use crate::table_macro::settings;
use crate::units::{GIB, KIB, MIB, MS, TIB};

/// The longest time-out: every wait has one.
const DAY: Duration = Duration::from_secs(24 * 3600);
const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The range of deadlines.
const REQUEST_TIME: Kind = Kind::Duration {
    min: MS.saturating_mul(10),
    max: DAY,
};

operations_settings! { files_settings;
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

    /// Paths requested before workers are forked, so that they share compiled code and warm caches.
    ///
    /// One GET of each, one after the other, with `Host: localhost` and as over HTTPS, in the template: at the start, in a
    /// restart and in an upgrade, all within `boot_timeout`. Without it the first requests of each worker do that work
    /// while their clients wait. The status does not matter; an error is logged, and the next path follows. They must be
    /// pages that may be requested at any time; take those that are asked for most. Write a comma within a path as `%2C`.
    /// Active Record's connections are closed afterwards; close other connections that the pages open in `before_fork`.
    /// `highball check` names them.
    ///
    /// `frequent`, alone or beside paths, adds up to 20 pages that clients asked for most and that are public: a GET without a
    /// query, `Cookie` and `Authorization`, answered by a worker within a second with status 200 and without `Set-Cookie` and
    /// `Cache-Control: no-store`. They have 10 seconds in all. Clients choose them: leave it off where a GET has an effect.
    /// `highball status` lists them.
    warm_up: WarmUp = Kind::RequestPaths, default "none";

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
    /// `queue_limit` may wait in addition to the others, and `path_shares` does not limit them. No thread is reserved
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

"Response cache" {
    /// The memory for responses that may be used again; `none` switches the cache off.
    ///
    /// The cache answers GET and HEAD requests in place of the application (RFC 9111), also while no worker
    /// serves. It never stores a response that sets a cookie. `highball purge` empties it; after a restart what
    /// it has counts as stale.
    cache_bytes: Option<u64> = Kind::Maybe(&Kind::Bytes { min: MIB, max: TIB }), default "none", reload AtOnce;

    /// The longest body that is stored.
    cache_entry_bytes: usize = Kind::Bytes { min: KIB, max: GIB }, default "1MiB", reload AtOnce;

    /// What a response must say to be stored.
    ///
    /// With `explicit`, `Cache-Control: public` or `s-maxage`, or `CDN-Cache-Control` with `max-age`, and a client
    /// cannot make the application answer again. With `standard` all that RFC 9111 lets a shared cache store,
    /// also what says only `max-age`, and clients may ask for newer responses.
    cache_policy: CachePolicy = Kind::Choice(&["explicit", "standard"]), default "explicit", reload AtOnce;
}

"Limits of a request" {
    /// The size of all header fields together, with their line ends; larger gets 431.
    max_header_bytes: usize = Kind::Bytes { min: 8 * KIB, max: MIB }, default "112KiB", reload AtOnce, scope Server;

    /// The number of header fields; more get 431.
    max_header_count: usize = Kind::Integer { min: 1, max: 10_000 }, default "128", reload AtOnce, scope Server;

    /// The length of the request target (path and query); longer gets 414.
    max_target_bytes: usize = Kind::Bytes { min: 16, max: 65_534 }, default "12KiB", reload AtOnce, scope Server;

    /// The length of one header field with its name; longer gets 431.
    max_field_bytes: usize = Kind::Bytes { min: 64, max: MIB }, default "80KiB", reload AtOnce, scope Server;

    /// The size of a request's body; larger gets 413.
    max_body_bytes: u64 = Kind::Bytes { min: 1, max: TIB }, default "1GiB", reload AtOnce, scope Server;

    /// Whether TRACE requests reach the application; otherwise they get 405.
    ///
    /// An answer to TRACE may send cookies and credentials of the request back as content (RFC 9110 section
    /// 9.3.8).
    allow_trace: bool = Kind::Bool, default "false", reload AtOnce;

    /// Whether clients may speak HTTP/2.
    ///
    /// Over TLS a client asks for it (ALPN). Without TLS it must know beforehand, as a proxy does that is set so:
    /// the connection then begins with HTTP/2. The limits of requests are those of HTTP/1.1.
    http2: bool = Kind::Bool, default "true", reload AtOnce, scope Server;
}

"Time-outs" {
    /// How long a client may take to send the header of a request, from its first byte.
    header_timeout: Duration = Kind::Duration { min: MS.saturating_mul(10), max: DAY }, default "30s", reload AtOnce, scope Server;

    /// The longest pause while a client sends a body.
    ///
    /// Each byte restarts it: the whole upload may take longer.
    body_timeout: Duration = Kind::Duration { min: MS.saturating_mul(10), max: DAY }, default "30s", reload AtOnce, scope Server;

    /// The longest pause while a client receives its response.
    ///
    /// Each byte restarts it: the whole download may take longer.
    send_timeout: Duration = Kind::Duration { min: MS.saturating_mul(10), max: DAY }, default "30s", reload AtOnce, scope Server;

    /// The bytes per second that a client must send of a body, averaged over 10 seconds of waiting for it.
    ///
    /// A slower client gets 408. With `none` only `body_timeout` limits slow bodies.
    min_body_rate: Option<u64> = Kind::Maybe(&Kind::Bytes { min: 1, max: GIB }), default "240", reload AtOnce, scope Server;

    /// The bytes per second that a client must receive of a response, averaged over 10 seconds of waiting for
    /// it.
    ///
    /// The connection of a slower client is closed. Time in which the application has nothing to send does not
    /// count; connections that the application has hijacked are not checked. With `none` only `send_timeout`
    /// limits slow readers.
    min_send_rate: Option<u64> = Kind::Maybe(&Kind::Bytes { min: 1, max: GIB }), default "240", reload AtOnce, scope Server;

    /// How long a connection may be idle between two requests.
    ///
    /// 0 turns keep-alive off: each connection is closed after its response.
    keep_alive_timeout: Duration = Kind::Duration { min: Duration::ZERO, max: DAY }, default "65s", reload AtOnce, scope Server;

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
    ///
    /// With `none` a request has no deadline, and no worker is replaced because it does not react or is busy
    /// between requests: a debugger may hold it for as long as it takes. Requests without a deadline have
    /// `drain_timeout` when their worker is to stop.
    request_timeout: Option<Duration> = Kind::Maybe(&REQUEST_TIME), default "60s", development "none", reload AtOnce;

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

    /// How long a request may run before it counts as slow.
    ///
    /// Ten times a second, and at most 20 times, the server then asks the worker where the request's thread is.
    /// `highball slow` lists the 50 slowest requests of the last hour and shows where each spent its time. `none`
    /// switches this off.
    slow_request: Option<Duration> = Kind::Maybe(&Kind::Duration { min: MS.saturating_mul(10), max: DAY }), default "1s", reload AtOnce;

    /// How long the application may take to load, and after that its workers to be ready.
    boot_timeout: Duration = Kind::Duration { min: MS.saturating_mul(100), max: DAY }, default "90s", development "24h", reload AtOnce;

    /// How long running requests may take to finish when the server stops or their worker is replaced.
    ///
    /// A stop waits no longer than this; 0 cuts at once. Workers that are replaced (by a restart, for a limit
    /// or for lack of memory), and a server that an upgrade has replaced, may finish requests within their
    /// deadlines (`request_timeout`, `request_timeouts`), even if these end later. Requests past
    /// their deadline end after this time, or after one second if it is less. What waits for them, such as the next restart, waits no longer than this either.
    drain_timeout: Duration = Kind::Duration { min: Duration::ZERO, max: DAY }, default "30s", development "500ms", reload AtOnce;

    /// How long hijacked connections, such as WebSockets, stay open when the server stops or their worker is
    /// replaced.
    ///
    /// Clients of a WebSocket connect again by themselves, and then reach a worker with the new code. `drain_timeout`
    /// limits this time as well.
    websocket_drain_timeout: Duration = Kind::Duration { min: Duration::ZERO, max: DAY }, default "5s", development "1s", reload AtOnce;
}

"Responses" {
    /// The part of a response that is kept in memory for a slow client; the rest goes to a file.
    response_buffer_bytes: usize = Kind::Bytes { min: 4 * KIB, max: GIB }, default "1MiB", reload AtOnce, scope Server;

    /// The memory that all responses together may use.
    ///
    /// Above it a response goes to its file from 16 KiB on, and slow clients are sent smaller pieces at a time.
    /// A client that keeps up with its response still gets it from memory.
    response_buffer_total_bytes: usize = Kind::Bytes { min: MIB, max: TIB }, default "256MiB", reload AtOnce, scope Server;

    /// The size to which that file may grow for one response.
    ///
    /// At this size the application waits for the client.
    response_spool_max_bytes: u64 = Kind::Bytes { min: 4 * KIB, max: TIB }, default "1GiB", reload AtOnce, scope Server;

    /// The folder for bodies of requests and responses that do not fit in memory.
    ///
    /// `none` is the first of `TMPDIR`, `/var/tmp` and `/tmp` that is on a disk and writable. If all are in
    /// memory (tmpfs), the log and `highball check` say so. The files have no names and leave nothing behind.
    spool_dir: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

    /// The size of all files for bodies and responses together.
    ///
    /// Above it a request whose body needs a file gets 503, and an application whose response needs one waits
    /// for its client.
    spool_max_bytes: u64 = Kind::Bytes { min: MIB, max: TIB }, default "10GiB", reload AtOnce, scope Server;

    /// Whether the application gets `rack.early_hints`, to send 103 (Early Hints) before its response.
    ///
    /// Rails then sends one for each style sheet and script of a page. Browsers use them over HTTP/2 only, and
    /// some proxies take a 103 for the response: turn it on only if the proxy in front passes it on.
    early_hints: bool = Kind::Bool, default "false";
}

"Compression" {
    /// Whether responses are compressed for clients that accept it: by zstd, gzip or brotli.
    ///
    /// Of the codings that a client values equally (Accept-Encoding) it gets zstd, else gzip, else brotli. Streams
    /// are compressed too: what the application has written goes out whenever it pauses. Responses of random
    /// length (up to 32 bytes more) make it harder to guess secrets from sizes (BREACH). Never compressed: what
    /// has a Content-Encoding already, 206, `Cache-Control: no-transform`, `text/event-stream`, responses with
    /// a digest, and all for HTTP/1.0.
    compression: bool = Kind::Bool, default "true", development "false", reload AtOnce;

    /// The types of content that are compressed.
    ///
    /// `text/*` is every text but `text/event-stream`, `*json` every type that ends so. Pictures, videos,
    /// archives and WOFF fonts are compressed already.
    compression_types: MediaTypes = Kind::MediaTypes,
        default "text/*,*json,*xml,*javascript,*/wasm,*/otf,*/ttf,*/x-icon", reload AtOnce;

    /// The size from which a response is compressed.
    ///
    /// A response whose size is not known before its end, such as a stream, is compressed in any case.
    compression_min_bytes: u64 = Kind::Bytes { min: 0, max: GIB }, default "1KiB", reload AtOnce;

    /// Whether responses to requests with a Cookie or an Authorization field are left as they are.
    ///
    /// This is the sure protection against BREACH, which guesses secrets of a page, such as tokens that do not
    /// change, from its compressed size. Rails masks its CSRF tokens differently in each page.
    compression_skip_authenticated: bool = Kind::Bool, default "false", reload AtOnce;
}

"Logs" {
    /// Whether each request is logged, in one line.
    access_log: bool = Kind::Bool, default "true", reload AtOnce;

    /// The fields that a line of the access log has in addition to time, method, path, status, worker,
    /// generation and outcome.
    ///
    /// `client` is the address of the peer, as in `REMOTE_ADDR`. `encoding` is how the front compressed the response,
    /// and `bytes` what was sent of it then. `bytes` and `bytes_in` are the sizes of the
    /// bodies of response and request, `queue_ms` and `app_ms` the times in the queue and in the application.
    /// `trace_id` and `span_id` name the trace of the request and its span there, also where traces are not sent but the
    /// client says `traceparent`: then `span_id` is the client's span.
    /// `route` and those after it are what `measure_requests` measures: the route as the application's framework
    /// names it, the times in the database, in views, in garbage collection, on the CPU and waiting for Ruby's lock
    /// (Ruby 3.3 and newer), objects allocated and queries.
    /// Lines of the format `text` have status, time and worker in any case, and of this list what is not in the
    /// default.
    log_fields: LogFields = Kind::LogFields, default "request_id,bytes,queue_ms,app_ms", reload AtOnce;

    /// The file of the log; without one the log goes to stdout.
    ///
    /// Relative to the application's folder. HUP opens it again, after a program such as logrotate has renamed
    /// it. Its folder must exist and belong to the server's user. What the application writes to stdout stays
    /// there.
    log_file: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

    /// The query parameters whose values the log shows as `[FILTERED]`.
    ///
    /// Each item is a part of such names, in upper or lower case: `passw` matches `password` and
    /// `user[Passwd]`. The default is that of a new Rails application; `none` alone filters nothing. The names in
    /// `config.filter_parameters` of a Rails application are added.
    log_filter_parameters: ParameterNames = Kind::ParameterNames,
        default "passw,email,secret,token,_key,crypt,salt,certificate,otp,ssn,cvv,cvc", reload AtOnce;

    /// The format of the log's lines.
    ///
    /// `text` is for people: short aligned lines that fit the terminal, in colours unless `NO_COLOR` is set or
    /// `TERM` is `dumb`. `logfmt` has `key=value` pairs, `json` an object with the same keys. `auto` is `text`
    /// in a terminal and `logfmt` elsewhere.
    log_format: LogFormat = Kind::Choice(&["auto", "text", "logfmt", "json"]), default "auto", reload AtOnce, scope Server;

    /// Which lines of the server's own are written: those of this level and above.
    ///
    /// `info` writes all; `warn` what is wrong and what has failed, such as a worker that dies or a late request; `error`
    /// what has failed alone, exceptions of the application included. Lines of requests have no level (`access_log`),
    /// and what a start says of its addresses is always shown. `highball log-level` changes it while the server runs.
    log_level: LogLevel = Kind::Choice(&["info", "warn", "error"]), default "info", reload AtOnce, scope Server;

    /// Whether every request has an id, by which the logs of proxies, server and application name it.
    ///
    /// The id of a trusted proxy (X-Request-Id, as Rails takes it: up to 255 letters, digits and `- _ @`)
    /// stays; any other request gets a new one (UUID version 7). It is in the log (`log_fields`), in the env
    /// (`HTTP_X_REQUEST_ID`), and in the response unless the application sets one there. Errors of the server
    /// have it too. With `false` the field X-Request-Id of every client reaches the application as it is.
    request_id: bool = Kind::Bool, default "true", reload AtOnce, scope Server;

    /// Whether Rails' log is also written to stdout, as `rails server` does in development.
    rails_log_to_stdout: bool = Kind::Bool, default "false";
}

    "Metrics" {
        /// Whether each request is measured where it runs: its route, its time in the database, in views, in garbage
        /// collection, on the CPU and waiting for Ruby's lock, its allocations and its queries.
        ///
        /// It costs about two microseconds a request, and with Ruby 3.3 or newer two readings of the clock each time that a
        /// thread gets Ruby's lock. Rails 6.1 or later and Sinatra name routes; for other
        /// applications the server makes them of paths, with `:id` in place of numbers and long identifiers. With
        /// `false` nothing is measured, and Active Support gets no subscriber.
        measure_requests: bool = Kind::Bool, default "true";
    }
}
