//! The first part of the table of settings: application, listeners and workers. `table.rs` has the second part and the
//! imports; this file holds no more than rows.

/// Passes these rows, and those that follow, on to the macro `$table`.
macro_rules! server_settings {
    ($table:ident; $($rest:tt)*) => { $table! {
        "Application" {
            /// The environment that the application runs in.
            ///
            /// The application sees it as `RACK_ENV` and `RAILS_ENV`. In `production`, addresses without a host listen
            /// on every interface instead of only the loopback one.
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
            /// Inside a table `[[application]]` `user` and `group` are those of that application's processes; only root can
            /// start such a server.
            user: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The group that the server runs as: a name, or a number.
            ///
            /// `none` is the primary group of `user`.
            group: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// The file that holds the number of the server's process while it runs.
            ///
            /// Relative to the application's folder, whose subfolder must exist. After an upgrade it holds the number of
            /// the new server. Commands (`highball stop`) do not need it.
            pid_file: Option<String> = Kind::Maybe(&Kind::Text), default "none", env ["PIDFILE"], reload Start, scope Server;
        }

        "Listeners" {
            /// The addresses to listen on.
            ///
            /// `127.0.0.1:3000`, `[::1]:3000`, `localhost:3000`, `unix:/path/to.sock` (a relative path starts at the
            /// application's folder), or only a port, `3000` or `:3000`. A port alone is that of `localhost`, and that of
            /// every interface in `production`. Both mean IPv4 and, where this machine has it, IPv6: `127.0.0.1` and
            /// `[::1]`, `0.0.0.0` and `[::]`. For port 0 the kernel chooses a port, of IPv4 if there is no host.
            /// The forms of Puma are read too: `tcp://0.0.0.0:3000` and `unix:///path/to.sock`.
            ///
            /// `tls://0.0.0.0:8443` is an address with TLS (`https://` and `ssl://` mean the same), and so is one with
            /// port 443 unless it begins with `tcp://`. Its certificates are those of `tls_certificate_files`. Of Puma's
            /// options `ssl://0.0.0.0:8443?cert=PATH&key=PATH` is read.
            ///
            /// `PORT` replaces the port of every TCP address without TLS from the file or the default.
            listen: Vec<Listen> = Kind::Listen, default "3000", env ["PORT"], reload Start, scope Server;

            /// The mode of the files of UNIX sockets, in octal digits: users who may write to the file may connect.
            ///
            /// It does not depend on the umask, and the file never has a wider mode. `auto` is `0660` if
            /// `unix_socket_group` is set, otherwise `0600`: only the server's user and root may connect. Files that a
            /// service manager made keep their mode.
            unix_socket_mode: FileMode = Kind::FileMode, default "auto", reload Start, scope Server;

            /// The group of the files of UNIX sockets, such as the group of a proxy: a name, or a number.
            ///
            /// The user who starts the server must be in that group, or be root. `none` is the server's own group.
            unix_socket_group: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// Connections that the kernel queues for a listener before the server accepts them.
            backlog: u32 = Kind::Integer { min: 1, max: 65535 }, default "1024", reload Start, scope Server;

            /// Connections that may be open at once.
            ///
            /// At this number, or when no descriptor is left, a new connection replaces the one that has been idle
            /// longest. If none is idle, accepting pauses.
            max_connections: usize = Kind::Integer { min: 1, max: 1_048_576 }, default "65536", reload AtOnce, scope Server;

            /// Connections that one address may have open at once; further ones are closed.
            ///
            /// Many people may share one address, behind a router or in a mobile network, and a browser opens six
            /// connections. An IPv6 network of 64 bits counts as one address. Peers in `trusted_proxies` are not
            /// counted.
            max_connections_per_address: Option<usize> = Kind::Maybe(&Kind::Integer { min: 1, max: 1_048_576 }), default "none", reload AtOnce, scope Server;

            /// The peers whose X-Forwarded-* headers are trusted.
            ///
            /// From other peers the application does not get these headers or similar ones: Forwarded, X-Real-IP,
            /// Client-IP, True-Client-IP, CF-Connecting-IP, X-Original-URL, X-Rewrite-URL, X-Host, X-Sendfile-Type and
            /// so on.
            ///
            /// Addresses and networks (`10.0.0.0/8`, `::1`), or `unix` for every peer on a UNIX socket; `all` or `none`
            /// only alone.
            trusted_proxies: AddressList = Kind::Addresses, default "127.0.0.0/8,::1,unix", reload AtOnce, scope Server;

            /// Whether peers in `trusted_proxies` begin each connection with a PROXY header (version 1 or 2), which names
            /// the client.
            ///
            /// For HAProxy (`send-proxy`, `send-proxy-v2`), and for load balancers that pass TCP on. The client's
            /// address is then `REMOTE_ADDR`, is logged and counts for limits. X-Forwarded-* headers are trusted only if
            /// that address is itself in `trusted_proxies`. A trusted peer that sends no such header within 5 seconds
            /// is disconnected; this includes programs on the same machine, as 127.0.0.1 is trusted by default. Other peers send
            /// none, and get 400 if they do.
            proxy_protocol: bool = Kind::Bool, default "false", reload AtOnce, scope Server;

            /// The number of threads that serve connections: TLS, HTTP, files, compression and the cache. One of them has
            /// the queue for all.
            ///
            /// `auto` is 1 up to 7 cores that this process may use, and a quarter of them beyond that, at most 8. One
            /// thread answers tens of thousands of requests a second and more than a thousand new TLS connections; more threads
            /// take cores from the workers. Limits hold for all threads together.
            front_threads: u16 = Kind::AutoInteger { min: 1, max: 8 }, default "auto", reload Start, scope Server;
        }

        "Workers" {
            /// The number of worker processes.
            ///
            /// `auto` is the number of cores that this process may use, by its CPU affinity and the CPU quota of its
            /// control groups; a part of a core counts as a whole one. 0, a single process for Puma, is one worker.
            ///
            /// A range such as `2..8` has the number follow the load within it: a worker more where requests wait longer than
            /// 50 ms, one fewer after ten minutes in which one fewer would have been enough. See
            /// [workers by load](tuning.md#workers-by-load).
            ///
        /// What an application keeps in the memory of one process works with one worker alone: Action Cable's
        /// adapter `async`, the cache `:memory_store`, web-console.
        workers: NumberRange = Kind::AutoRange { min: 0, max: 1024 }, default "auto", development "1", env ["WEB_CONCURRENCY"];

            /// The most workers that `highball scale` and the signal TTIN may ask for while the server runs.
            ///
            /// `auto` is twice `workers`; where `workers` is a range, its upper end. Less than `workers` counts as `workers`. Room for a worker that is not there
            /// costs address space and no memory.
            max_workers: u16 = Kind::AutoInteger { min: 1, max: 2048 }, default "auto";

            /// The number of Ruby threads in each worker.
            ///
            /// With a range such as `1..8` a worker has 8, and the server decides how many of them take requests, by the
            /// part of their time in which requests wait: one more or one fewer every 30 seconds at most. It begins with 3,
            /// or the end of the range that is nearest. The others rest, unless a request says that it only waits
            /// (`env["highball.io_bound"].call`).
            ///
            /// A worker always has all its threads, so `RAILS_MIN_THREADS` has no counterpart. `-t 0:5` is 5 threads.
            threads: NumberRange = Kind::Range { min: 1, max: 256 }, default "3", env ["RAILS_MAX_THREADS"];

            /// What is done for the speed and the memory of Ruby itself.
            ///
            /// `auto` is what is known to be safe on the Ruby that runs: a compiler (`jit`) and an allocator
            /// (`allocator`). With `plain` Ruby runs as it is, and these two settings have an effect only where they name
            /// something. `highball check` says what each of them comes to on this machine, and why.
            runtime: RuntimeTuning = Kind::Choice(&["auto", "plain"]), default "auto", development "plain";

            /// The compiler of Ruby that makes machine code of the application.
            ///
            /// `auto` is YJIT from Ruby 3.2 on; `yjit` is YJIT in 3.1 too, where it is experimental. A Ruby that was built
            /// without it runs without it, as Debian's 3.3 and 3.4 do. From 3.3 on it is enabled once the application is
            /// loaded, so that workers share what `warm_up` compiles. What the operator decides by `RUBYOPT` or
            /// `RUBY_YJIT_ENABLE` holds, and with `auto` what `config.yjit` of Rails 7.2 says, which is `false` by itself
            /// where `load_defaults` is older. With `none` the server enables none.
            jit: Jit = Kind::Choice(&["auto", "yjit", "none"]), default "auto";

            /// What gives the application memory: jemalloc, or the C library (`system`).
            ///
            /// `auto` is jemalloc where version 5.3 or newer is installed (Debian's package libjemalloc2), else the C
            /// library with two arenas (`MALLOC_ARENA_MAX=2`), as with `system`. With `jemalloc` the server does not start
            /// without it. Variables of yours hold: `LD_PRELOAD`, `MALLOC_CONF`, `MALLOC_ARENA_MAX`. jemalloc 5.2 is never
            /// used: it can lock up in processes that were forked.
            allocator: Allocator = Kind::Choice(&["auto", "jemalloc", "system"]), default "auto";

            /// Whether Ruby's heap is compacted before workers are forked, so that they share more memory.
            compact: bool = Kind::Bool, default "true";

            /// How much room Ruby's heap has for new objects when workers are forked.
            ///
            /// `small` leaves it as loading and `warm_up` have made it. `roomy` gives it a free slot for each object, so that
            /// workers collect garbage less often, and each of them takes more memory.
            /// [docs/runtime.md](runtime.md#the-heap) says how much of both.
            heap: String = Kind::Choice(&["small", "roomy"]), default "small";

            /// Whether the kernel may merge equal pages of template and workers (KSM, Linux 6.4).
            ///
            /// It saves memory and costs CPU time of the kernel's thread ksmd, whose rate the machine's operator sets
            /// (`/sys/kernel/mm/ksm`). `highball check` says whether the kernel allows it and whether ksmd runs. Who can
            /// measure how long a write takes can find out what other merged processes of the machine hold, so leave it off
            /// where users do not trust each other.
            merge_pages: bool = Kind::Bool, default "false";

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

            /// How long the application may have nothing to do before its workers and its template stop, so that it uses no
            /// memory.
            ///
            /// Its next request starts it again, waits in its queue meanwhile, and takes as long as that. Nothing to do means:
            /// no request, no response on its way out of a worker, no connection that the application took over (a
            /// WebSocket), no work after a response. Threads of its own and work in a queue do not count: do not set it
            /// for an application that does anything by itself. Files of its public folder and cached responses are still
            /// served.
            idle_timeout: Option<Duration> = Kind::Maybe(&Kind::Duration { min: SECOND, max: YEAR }), default "none", reload AtOnce;
        }

        "Limits of workers" {
            /// The number of requests after which a worker is replaced.
            ///
            /// Its successor is ready before it gets the request to stop, and it finishes its requests. So that not all workers
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

            /// After how many requests of a worker a new template is forked from it, from which all workers are then replaced.
            ///
            /// Workers share what is in memory when they are forked, and most of what an application loads, compiles and caches it
            /// does in its first requests. With `500,1500,4000` a template is forked after 500 requests of a worker, from the
            /// workers of that one another after 1500, and a last one after 4000. It is checked every second, in a generation that
            /// is whole. Where a new template saves less than 5 % of the memory, no further one follows. Not in development,
            /// not for applications with users of their own, and not with gems that do not survive it, which
            /// `highball check` names.
            refork: Vec<u64> = Kind::Counts, default "none";

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

        $($rest)*
    } };
}

pub(crate) use server_settings;
