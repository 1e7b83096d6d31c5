//! The part of the table of settings for operators (addresses of their own, tokens, health) and for work between requests. Like the rest of the table it is
//! data: `table.rs` makes settings of it.

/// Puts the settings for operators between the first ones and the given ones, and passes all to a macro.
macro_rules! operations_settings {
    ($next:ident; $($rest:tt)*) => { acme_settings! { $next;
        "Operators" {
            /// The address where operators reach the API over TCP, with a token of `admin_tokens_file`: an IP address with a
            /// port.
            ///
            /// It serves status and changes as the control socket does, for clients on other machines. Without TLS: give
            /// it a private network or a proxy. On a loopback address a client must name it `localhost` or by its IP
            /// address. [docs/admin.md](admin.md) lists the paths.
            admin_listen: Option<SocketAddr> = Kind::Maybe(&Kind::SocketAddress), default "none", reload Start, scope Server;

            /// The file with the tokens of `admin_listen`, one a line.
            ///
            /// Relative to the application's folder. A token has 32 to 256 characters: `openssl rand -hex 32`. Empty lines and
            /// those that begin with `#` are no tokens; without any token nobody is let in. The file must belong to the
            /// server's user or to root, and others must not be able to read it. A reload reads it again.
            admin_tokens_file: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload AtOnce, scope Server;

            /// Whether clients of `admin_listen` may change the server: restart, reload, upgrade, purge, stop.
            ///
            /// Without it they only read. The control socket is not concerned.
            admin_write: bool = Kind::Bool, default "false", reload AtOnce, scope Server;

            /// The address of `/live`, `/ready` and other paths for machines that watch the server, without a token: an IP
            /// address with a port.
            ///
            /// It shows no request and changes nothing. Give it an address that only they reach.
            metrics_listen: Option<SocketAddr> = Kind::Maybe(&Kind::SocketAddress), default "none", reload Start, scope Server;

            /// The StatsD server that is told how the server and its applications are: an IP address with a port (UDP), or the
            /// absolute path of a socket (UNIX datagrams).
            ///
            /// Counters since the last time, gauges, and means and percentiles of times: see
            /// [docs/metrics.md](metrics.md#statsd). A server that is not there delays nothing.
            statsd: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload Start, scope Server;

            /// How often it is told.
            statsd_interval: Duration = Kind::Duration { min: SECOND, max: HOUR }, default "10s", reload Start, scope Server;

            /// Whether labels are told as tags behind the value, as DogStatsD reads them: `orders:3|c|#kind:web`.
            ///
            /// Without it they are parts of the name, for servers that know no tags: `orders.web:3|c`.
            statsd_tags: bool = Kind::Bool, default "true", reload Start, scope Server;

            /// The address of the dashboard for people on other machines, who sign in with a token of
            /// `dashboard_tokens_file`: an IP address with a port.
            ///
            /// Without TLS: give it a private network or a proxy. On a loopback address a client, or the proxy, must name it
            /// `localhost` or by its IP address. [docs/dashboard.md](dashboard.md) says more.
            dashboard_listen: Option<SocketAddr> = Kind::Maybe(&Kind::SocketAddress), default "none", reload Start, scope Server;

            /// The file with the tokens with which people sign in at `dashboard_listen`, one a line.
            ///
            /// Its form and who may own and read it are those of `admin_tokens_file`. Without any token nobody is let in. A
            /// reload reads it again; if the tokens have changed, all must sign in again.
            dashboard_tokens_file: Option<String> = Kind::Maybe(&Kind::Text), default "none", reload AtOnce, scope Server;

            /// The folder of the file in which the dashboard's last day outlives the server: `auto`, a path, or `none`.
            ///
            /// `auto` is `dashboard` in the first of these that is there: `STATE_DIRECTORY` (systemd), `/var/lib/highball`,
            /// `highball` in `XDG_STATE_HOME` or `~/.local/state`; without any the history is kept in memory alone. A
            /// relative path begins at the application's folder. The file has at most 1 MB for each application.
            dashboard_history: Option<String> = Kind::Maybe(&Kind::Text), default "auto", development "none", reload Start, scope Server;

            /// How long the server goes on serving after it was asked to stop, while `/ready` says already that it is not
            /// ready.
            ///
            /// Load balancers and Kubernetes need some seconds until they send no further request. Then the server drains
            /// (`drain_timeout`). A second signal and `highball stop --now` end it at once.
            stop_delay: Duration = Kind::Duration { min: Duration::ZERO, max: DAY }, default "0", reload AtOnce, scope Server;

            /// The address where HAProxy's `agent-check` learns how busy the server is, as a weight: an IP address with a port.
            ///
            /// Each connection gets one line, such as `up 70%`, and is closed. [docs/health.md](health.md#haproxy) says more.
            agent_check_listen: Option<SocketAddr> = Kind::Maybe(&Kind::SocketAddress), default "none", reload Start, scope Server;

            /// Whether responses to proxies in `trusted_proxies` that ask for it say how busy the application is
            /// (`endpoint-load-metrics`).
            ///
            /// A request asks by `endpoint-load-metrics-format: TEXT` or `JSON` (ORCA, as Envoy reads it). Other clients
            /// learn nothing.
            endpoint_load_metrics: bool = Kind::Bool, default "false", reload AtOnce;

            /// The path where the server itself answers clients of `listen` whether its front works: with 200, always.
            ///
            /// The application never gets requests for it, on any host. `metrics_listen` has `/live` without this setting.
            live_path: Option<String> = Kind::Maybe(&Kind::RequestPath), default "none", reload AtOnce, scope Server;

            /// The path where the server itself answers clients of `listen` whether it can serve: with 200, or with 503 while
            /// no worker can serve, or when it is to stop.
            ///
            /// The application never gets requests for it, on any host. `metrics_listen` has `/ready` without this setting.
            ready_path: Option<String> = Kind::Maybe(&Kind::RequestPath), default "none", reload AtOnce, scope Server;
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

            /// Whether workers make their major collections of garbage between requests.
            ///
            /// `auto` does so on Ruby 3.4 and newer; older ones cannot. A worker then makes a major one after a response, when
            /// Ruby wants it, on the conditions of `out_of_band_interval`. It costs memory: Ruby lets the heap grow instead.
            /// Beyond three times what the old objects need, Ruby decides as always.
            out_of_band_gc: String = Kind::Choice(&["auto", "none"]), default "none";

            /// How long a worker has had no request when it collects garbage and gives free memory back to the system.
            ///
            /// A worker does so after ten or more requests, once, and again after ten further ones. It begins between this
            /// time and twice this time after the last request. As with `out_of_band_interval`, one worker of a generation
            /// does so at a time, never while requests wait, and if there are several workers, only while another one is
            /// idle, which takes the requests that come meanwhile. With a single worker a request may wait for the
            /// collection.
            release_memory_after: Option<Duration> = Kind::Maybe(&Kind::Duration { min: SECOND, max: YEAR }), default "10s";
        }

        $($rest)*
    } };
}

pub(crate) use operations_settings;
