//! Loading: sources, precedence, messages, what is worked out.

use std::fs;
use std::time::Duration;

use super::*;
use crate::field::{LogFormat, Rollout};
use crate::kind::Kind;
use crate::log_fields::{LogField, LogFields};

const FOUR_CORES: Machine = Machine {
    cores: || 4,
    has_ipv6: || false,
};

/// Loads in a fresh folder with this text as `highball.toml`, on four cores.
struct Case {
    dir: tempfile::TempDir,
    sources: Sources,
}

fn case(file: &str) -> Case {
    let dir = tempfile::tempdir().expect("a folder");
    if !file.is_empty() {
        fs::write(dir.path().join("highball.toml"), file).expect("written");
    }
    let sources = Sources {
        dir: dir.path().to_owned(),
        ..Sources::default()
    };
    Case { dir, sources }
}

/// The same in production.
fn production() -> Case {
    case("").flag("environment", "production")
}

impl Case {
    fn env(mut self, name: &str, value: &str) -> Self {
        self.sources.env.push((name.into(), value.into()));
        self
    }

    fn flag(mut self, name: &str, value: &str) -> Self {
        self.sources.flags.push((name.into(), value.into()));
        self
    }

    fn load(self) -> Result<Settings, ConfigErrors> {
        Settings::load_on(self.sources, FOUR_CORES)
    }

    fn settings(self) -> Settings {
        self.load().unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// The lines of the errors, with the folder cut from them.
    fn errors(self) -> Vec<String> {
        let dir = format!("{}/", self.dir.path().display());
        let errors = Settings::load_on(self.sources, FOUR_CORES).expect_err("errors");
        errors
            .to_string()
            .replace(&dir, "")
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

fn listens(settings: &Settings) -> Vec<String> {
    settings.listen.iter().map(Listen::to_string).collect()
}

fn described(settings: &Settings, name: &str) -> (String, String) {
    let found = settings
        .describe()
        .into_iter()
        .find(|(found, ..)| *found == name);
    let (_, value, origin) = found.expect("a setting");
    (value, origin)
}

#[test]
fn defaults_need_no_source() {
    let settings = production().settings();
    assert_eq!(listens(&settings), ["0.0.0.0:3000"]);
    assert_eq!(
        (
            settings.workers,
            settings.threads.most(),
            settings.queue_limit
        ),
        (4.into(), 3, 1200)
    );
    assert_eq!(settings.environment, "production");
    assert_eq!(settings.request_timeout, Some(Duration::from_secs(60)));
    assert_eq!(settings.max_body_bytes, 1 << 30);
    assert_eq!(settings.max_header_bytes, 112 << 10);
    assert_eq!(settings.keep_alive_timeout.as_secs(), 65);
    assert_eq!(settings.log_format, LogFormat::Auto);
    let fields = LogFields::NONE
        .with(LogField::RequestId)
        .with(LogField::Bytes);
    let fields = fields.with(LogField::QueueMs).with(LogField::AppMs);
    assert_eq!(settings.log_fields, fields);
    assert_eq!(settings.rollout, Rollout::AllAtOnce);
    assert_eq!(settings.ready_check, None);
    let limits = (
        settings.worker_max_requests,
        settings.worker_max_age,
        settings.worker_max_memory,
    );
    assert_eq!(limits, (None, None, None));
    assert_eq!(settings.memory_budget, None);
    assert!(settings.access_log && settings.compact && settings.batch_scheduling);
    assert!(
        settings
            .trusted_proxies
            .contains("127.0.0.1".parse().unwrap())
    );
    assert!(settings.trusted_proxies.contains_unix());
    let on_two_cores = Settings {
        workers: 2.into(),
        max_workers: 4,
        queue_limit: 600,
        ..settings
    };
    assert_eq!(Settings::default(), on_two_cores);
}

#[test]
fn hijacked_connections_end_sooner_in_development() {
    for (environment, text) in [
        ("development", "1s"),
        ("test", "1s"),
        ("production", "5s"),
        ("staging", "5s"),
    ] {
        let settings = case(&format!("environment = \"{environment}\"")).settings();
        let (value, _) = described(&settings, "websocket_drain_timeout");
        assert_eq!(value, text, "{environment}");
    }
    let settings = case("websocket_drain_timeout = \"2m\"").settings();
    assert_eq!(described(&settings, "websocket_drain_timeout").0, "2m");
}

#[test]
fn development_and_test_have_defaults_of_their_own() {
    let check = |case: Case, name: &str, value: &str, origin: &str| {
        let found = described(&case.settings(), name);
        assert_eq!(found, (value.to_owned(), origin.to_owned()), "{name}");
    };
    check(case(""), "environment", "development", "default");
    let test = || case("").env("RACK_ENV", "test");
    check(case(""), "workers", "1", "default in development");
    check(test(), "workers", "1", "default in test");
    check(test(), "request_timeout", "none", "default in test");
    check(test(), "drain_timeout", "500ms", "default in test");
    // Only a default gives way, and `auto` is what it is elsewhere.
    check(
        case("workers = 3").flag("workers", "2"),
        "workers",
        "2",
        "--workers",
    );
    check(
        case("").flag("workers", "auto"),
        "workers",
        "4",
        "--workers (auto)",
    );
    let staging = || case("").flag("environment", "staging");
    check(staging(), "workers", "4", "default (auto)");
    check(staging(), "request_timeout", "1m", "default");
    for setting in SETTINGS {
        let Some(default) = setting.development else {
            continue;
        };
        let index = index_of(setting.name).expect("a setting");
        let mut errors = Vec::new();
        super::check(&raw(index, default, &Place::Default), &mut errors);
        assert!(errors.is_empty(), "{}: {errors:?}", setting.name);
    }
}

#[test]
fn settings_for_tests_listen_on_a_free_port() {
    assert_eq!(listens(&Settings::for_tests()), ["127.0.0.1:0"]);
}

#[test]
fn every_key_of_the_file_is_read() {
    let settings = case(
        r#"
        listen = ["[::1]:80", 8080, "unix:tmp/a.sock"]
        workers = 2
        max_workers = 7
        agent_check_listen = "127.0.0.1:9395"
        endpoint_load_metrics = true
        threads = 0x10
        environment = "test"
        ruby = "/usr/bin/ruby3.1"
        rackup = "other.ru"
        user = "app"
        group = "www-data"
        pid_file = "tmp/pids/server.pid"
        unix_socket_mode = "0620"
        unix_socket_group = "www-data"
        backlog = 1_000
        max_connections = 10
        max_connections_per_address = 5
        max_header_bytes = "8KiB"
        max_header_count = 20
        max_target_bytes = 100
        max_field_bytes = 200
        max_body_bytes = "2 GB"
        allow_trace = true
        http2 = false
        header_timeout = 1
        body_timeout = "2s"
        send_timeout = "1500ms"
        min_body_rate = 1000
        min_send_rate = "none"
        keep_alive_timeout = 0
        file_timeout = "20s"
        request_timeout = "2m"
        request_timeouts = ["/reports=300s", "/up = 5"]
        request_grace = 0
        slow_request = "250ms"
        boot_timeout = "1h"
        drain_timeout = 0
        queue_limit = 7
        priority_paths = ["/up", "/health/"]
        path_shares = ["/reports=50%", "/slow=5%"]
        max_websockets = 20
        cache_bytes = "32MiB"
        cache_entry_bytes = "64KiB"
        cache_policy = "standard"
        response_buffer_bytes = "64KiB"
        response_buffer_total_bytes = "64MiB"
        response_spool_max_bytes = "1TiB"
        spool_dir = "/srv/spool"
        spool_max_bytes = "5GiB"
        early_hints = true
        compression = false
        compression_types = ["text/*", "*+json"]
        compression_min_bytes = "4KiB"
        compression_skip_authenticated = true
        public_files = "static"
        trusted_proxies = "none"
        proxy_protocol = true
        front_threads = 3
        access_log = false
        log_filter_parameters = ["pin", "card_"]
        log_format = "json"
        log_level = "warn"
        log_fields = ["client", "app_ms"]
        log_file = "log/highball.log"
        request_id = false
        websocket_drain_timeout = "3s"
        runtime = "plain"
        jit = "yjit"
        allocator = "system"
        compact = false
        heap = "roomy"
        merge_pages = true
        batch_scheduling = false
        max_retries = 0
        idle_timeout = "30m"
        worker_max_requests = 5000
        refork = [500, 1500]
        worker_max_age = "6h"
        worker_max_memory = "300MiB"
        memory_budget = "2GiB"
        tls_certificate_files = ["a.pem:a.key", "certificates"]
        tls_min_version = "1.3"
        tls_client_ca_file = "clients.pem"
        tls_client_verify = "optional"
        tls_redirect = false
        canonical_host = "WWW.example.com"
        hsts = "2y; includeSubDomains"
        tls_hosts = ["a.example", "b.example"]
        acme_ask_url = "http://127.0.0.1/ask"
        acme_dns_command = "bin/dns"
        acme_directory = "staging"
        acme_contact = "a@a.example"
        acme_profile = "shortlived"
        acme_eab_key_id = "kid"
        acme_eab_key_file = "eab"
        acme_ca_file = "ca.pem"
        acme_storage = "/srv/acme"
        admin_listen = "127.0.0.1:9180"
        admin_tokens_file = "config/tokens"
        admin_write = true
        metrics_listen = "[::1]:9181"
        statsd = "/run/statsd.sock"
        statsd_interval = "1m"
        statsd_tags = false
        dashboard_listen = "127.0.0.1:9292"
        dashboard_tokens_file = "config/readers"
        dashboard_history = "/srv/history"
        stop_delay = "5s"
        live_path = "/live"
        ready_path = "/ready"
        out_of_band_interval = 100
        out_of_band_gc = "auto"
        release_memory_after = "20s"
        rollout = "worker-by-worker"
        ready_check = "/up"
        warm_up = ["/projects", "frequent", "/issues?set_filter=1"]
        restart_file = "tmp/again"
        rails_log_to_stdout = true
        measure_requests = false
        sendfile_roots = ["storage", "/srv/files"]
        accel_redirects = ["/protected=/srv/files"]
        exceptions = false
        exception_ignore = ["default", "Mine::Gone"]
        release = "1.2"
        exception_webhook = "https://hooks.example/x"
        exception_mail_to = "ops@a.example"
        exception_mail_from = "web@a.example"
        smtp_url = "smtps://mail.a.example"
        otlp_endpoint = "https://traces.a.example/token"
        otlp_headers_file = "traces.headers"
        trace_sample = 0.25
        trace_limit = 7
        trace_service = "shop"
        error_pages = "errors"
        maintenance_file = "none"
        maintenance_allow = ["192.0.2.0/24", "::1"]
        maintenance_except = ["/up"]
        allow = ["/admin=10.0.0.0/8  192.0.2.7", "/=all"]
        deny = ["/=198.51.100.0/24"]
        basic_auth = ["/admin=config/htpasswd", "/admin/open=none"]
        rate_limits = ["/login = 5/m", "/=100/s burst 200 by X-Api-Key"]
        "#,
    );
    let dir = settings.dir.path().to_owned();
    let settings = settings.settings();
    let socket = format!("unix:{}/tmp/a.sock", dir.display());
    assert_eq!(listens(&settings), ["[::1]:80", "127.0.0.1:8080", &socket]);
    let texts: Vec<_> = settings
        .describe()
        .into_iter()
        .skip(1)
        .map(|(name, value, _)| format!("{name}={value}"))
        .collect();
    let texts: Vec<_> = texts
        .iter()
        .filter(|text| !text.starts_with("listen="))
        .map(String::as_str)
        .collect();
    assert_eq!(
        texts.join(" "),
        "ruby=/usr/bin/ruby3.1 rackup=other.ru hooks=config/highball.rb user=app group=www-data pid_file=tmp/pids/server.pid unix_socket_mode=0620 unix_socket_group=www-data backlog=1000 max_connections=10 max_connections_per_address=5 trusted_proxies=none proxy_protocol=true front_threads=3 \
         workers=2 max_workers=7 threads=16 runtime=plain jit=yjit allocator=system compact=false heap=roomy merge_pages=true batch_scheduling=false max_retries=0 idle_timeout=30m worker_max_requests=5000 worker_max_age=6h worker_max_memory=300MiB refork=500,1500 memory_budget=2GiB tls_certificate_files=a.pem:a.key,certificates tls_min_version=1.3 tls_client_ca_file=clients.pem tls_client_verify=optional tls_redirect=false canonical_host=www.example.com hsts=2y; includeSubDomains tls_hosts=a.example,b.example acme_ask_url=http://127.0.0.1/ask acme_dns_command=bin/dns acme_directory=staging acme_contact=a@a.example acme_profile=shortlived acme_eab_key_id=kid acme_eab_key_file=eab acme_ca_file=ca.pem acme_storage=/srv/acme admin_listen=127.0.0.1:9180 admin_tokens_file=config/tokens admin_write=true metrics_listen=[::1]:9181 statsd=/run/statsd.sock statsd_interval=1m statsd_tags=false dashboard_listen=127.0.0.1:9292 dashboard_tokens_file=config/readers dashboard_history=/srv/history stop_delay=5s agent_check_listen=127.0.0.1:9395 endpoint_load_metrics=true live_path=/live ready_path=/ready out_of_band_interval=100 out_of_band_gc=auto release_memory_after=20s rollout=worker-by-worker ready_check=/up warm_up=/projects,/issues?set_filter=1,frequent restart_file=tmp/again queue_limit=7 priority_paths=/up,/health path_shares=/reports=50%,/slow=5% cache_bytes=32MiB cache_entry_bytes=64KiB cache_policy=standard max_header_bytes=8KiB \
         max_header_count=20 max_target_bytes=100 max_field_bytes=200 max_body_bytes=2GB allow_trace=true http2=false header_timeout=1s \
         body_timeout=2s send_timeout=1500ms min_body_rate=1KB min_send_rate=none keep_alive_timeout=0 file_timeout=20s request_timeout=2m request_timeouts=/reports=5m,/up=5s request_grace=0 slow_request=250ms boot_timeout=1h drain_timeout=0 websocket_drain_timeout=3s \
         response_buffer_bytes=64KiB response_buffer_total_bytes=64MiB response_spool_max_bytes=1TiB spool_dir=/srv/spool spool_max_bytes=5GiB early_hints=true compression=false compression_types=text/*,*+json compression_min_bytes=4KiB compression_skip_authenticated=true access_log=false log_fields=client,app_ms log_file=log/highball.log log_filter_parameters=pin,card_ log_format=json log_level=warn request_id=false rails_log_to_stdout=true measure_requests=false public_files=static sendfile_roots=STORAGE,/srv/files accel_redirects=/protected=/srv/files exceptions=false exception_ignore=default,Mine::Gone release=1.2 exception_webhook=https://hooks.example/(not shown) exception_mail_to=ops@a.example exception_mail_from=web@a.example smtp_url=smtps://mail.a.example \
         otlp_endpoint=https://traces.a.example/(not shown) otlp_headers_file=traces.headers trace_sample=0.25 trace_limit=7 trace_service=shop \
         error_pages=errors maintenance_file=none maintenance_allow=192.0.2.0/24,::1 maintenance_except=/up allow=/admin=10.0.0.0/8 192.0.2.7,/=all deny=/=198.51.100.0/24 \
         rate_limits=/login=5/m,/=100/s burst 200 by x-api-key max_websockets=20 basic_auth=/admin=config/htpasswd,/admin/open=none"
            .replace("STORAGE", &dir.join("storage").to_string_lossy())
    );
    assert!(
        settings
            .origins
            .iter()
            .filter(|origin| origin.place == Place::Default)
            .count()
            == 1,
        "hooks alone"
    );
}

#[test]
fn the_strongest_source_wins() {
    let check = |case: Case, name: &str, value: &str, origin: &str| {
        let prefix = format!("{}/", case.dir.path().display());
        let (found, from) = described(&case.settings(), name);
        assert_eq!(
            (found.as_str(), from.replace(&prefix, "").as_str()),
            (value, origin),
            "{name}"
        );
    };
    let file = "# a comment\nthreads = 5\nenvironment = 'staging'\n";
    check(case(""), "threads", "3", "default");
    check(case(file), "threads", "5", "highball.toml:2");
    check(
        case(file).env("HIGHBALL_THREADS", "6"),
        "threads",
        "6",
        "HIGHBALL_THREADS",
    );
    check(
        case(file).env("HIGHBALL_THREADS", "6").flag("threads", "7"),
        "threads",
        "7",
        "--threads",
    );
    check(
        case(file).flag("threads", "7").flag("threads", "8"),
        "threads",
        "8",
        "--threads",
    );
    check(
        case(file).flag("max-header-count", "9"),
        "max_header_count",
        "9",
        "--max-header-count",
    );
    check(case(file), "environment", "staging", "highball.toml:3");
    check(
        case(file).env("RACK_ENV", "test"),
        "environment",
        "test",
        "RACK_ENV",
    );
    check(
        case(file).env("RACK_ENV", ""),
        "environment",
        "staging",
        "highball.toml:3",
    );
    let both = |file| {
        case(file)
            .env("RACK_ENV", "test")
            .env("RAILS_ENV", "production")
    };
    check(both(file), "environment", "production", "RAILS_ENV");
    check(
        both(file).env("HIGHBALL_ENVIRONMENT", "qa"),
        "environment",
        "qa",
        "HIGHBALL_ENVIRONMENT",
    );
    check(production(), "workers", "4", "default (auto)");
    check(
        case("").flag("workers", "auto"),
        "workers",
        "4",
        "--workers (auto)",
    );
    check(case("").flag("workers", "1"), "workers", "1", "--workers");
    check(
        case("").flag("workers", "1"),
        "queue_limit",
        "300",
        "default (auto)",
    );
    check(
        case("").flag("workers", "1").flag("threads", "1"),
        "queue_limit",
        "256",
        "default (auto)",
    );
    check(
        case("").flag("workers", "1024").flag("threads", "256"),
        "queue_limit",
        "1000000",
        "default (auto)",
    );
    check(
        case("").flag("trusted-proxies", "10.0.0.0/8, unix"),
        "trusted_proxies",
        "10.0.0.0/8,unix",
        "--trusted-proxies",
    );
    check(
        case("").env("HIGHBALL_TRUSTED_PROXIES", ""),
        "trusted_proxies",
        "",
        "HIGHBALL_TRUSTED_PROXIES",
    );
    check(
        case("request_timeouts = ['/a=1s']").flag("request-timeouts", "/b=2s, /c=3s"),
        "request_timeouts",
        "/b=2s,/c=3s",
        "--request-timeouts",
    );
    check(
        case("request_timeouts = '/a=1s'").flag("request-timeouts", "none"),
        "request_timeouts",
        "none",
        "--request-timeouts",
    );
}

#[test]
fn addresses_follow_environment_and_port() {
    let check = |case: Case, expect: &[&str]| assert_eq!(listens(&case.settings()), expect);
    check(case("").env("PORT", "5000"), &["127.0.0.1:5000"]);
    check(case("").env("PORT", ""), &["127.0.0.1:3000"]);
    check(case("").env("RACK_ENV", "production"), &["0.0.0.0:3000"]);
    check(
        case("").env("RAILS_ENV", "production").env("PORT", "0"),
        &["0.0.0.0:0"],
    );
    check(
        case("environment = 'production'").env("PORT", "5000"),
        &["0.0.0.0:5000"],
    );
    check(
        case("environment = 'production'\nlisten = ':80'"),
        &["0.0.0.0:80"],
    );
    check(
        case("environment = 'production'\nlisten = 'localhost:80'"),
        &["127.0.0.1:80"],
    );
    let file = "listen = ['127.0.0.1:80', '[::1]:80', '127.0.0.1:81', 'unix:/run/a.sock']";
    check(
        case(file).env("PORT", "5000"),
        &["127.0.0.1:5000", "[::1]:5000", "unix:/run/a.sock"],
    );
    check(
        case(file).env("PORT", "5000").env("HIGHBALL_LISTEN", "1,2"),
        &["127.0.0.1:1", "127.0.0.1:2"],
    );
    check(
        case(file)
            .env("PORT", "5000")
            .flag("listen", "1")
            .flag("listen", "[::1]:2"),
        &["127.0.0.1:1", "[::1]:2"],
    );
    assert_eq!(
        described(&case(file).env("PORT", "5000").settings(), "listen").1,
        "PORT"
    );
    assert_eq!(
        described(
            &case(file)
                .env("PORT", "5000")
                .flag("listen", "1")
                .settings(),
            "listen"
        )
        .1,
        "--listen"
    );
}

#[test]
fn the_file_is_looked_up_in_its_places() {
    let origin = |case: Case| described(&case.settings(), "threads").0;
    let both = case("threads = 1");
    fs::create_dir(both.dir.path().join("config")).unwrap();
    fs::write(both.dir.path().join("config/highball.toml"), "threads = 2").unwrap();
    fs::write(both.dir.path().join("named.toml"), "threads = 3").unwrap();
    let again = |config: Option<&str>| {
        let dir = both.dir.path().to_owned();
        let config = config.map(|name| dir.join(name));
        Settings::load_on(
            Sources {
                dir,
                config,
                ..Sources::default()
            },
            FOUR_CORES,
        )
    };
    assert_eq!(again(Some("named.toml")).unwrap().threads.most(), 3);
    assert_eq!(again(None).unwrap().threads.most(), 1);
    fs::remove_file(both.dir.path().join("highball.toml")).unwrap();
    assert_eq!(again(None).unwrap().threads.most(), 2);
    let missing = again(Some("absent.toml")).unwrap_err().to_string();
    assert!(
        missing.contains("absent.toml: cannot read the file: No such file"),
        "{missing}"
    );
    assert_eq!(origin(case("")), "3");
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let case = case("");
    fs::create_dir(case.dir.path().join("highball.toml")).unwrap();
    assert!(case.errors()[0].starts_with("highball.toml: cannot read the file: "));
}

#[test]
fn wrong_entries_name_place_and_remedy() {
    let check = |case: Case, expect: &str| assert_eq!(case.errors(), [expect]);
    check(
        case("\n\nworker = 2"),
        "highball.toml:3: unknown setting worker; the nearest known one is workers",
    );
    check(
        case("max-body-bytes = 2"),
        "highball.toml:1: unknown setting max-body-bytes; the nearest known one is max_body_bytes",
    );
    check(
        case("threads = 3\n[server]\nworkers = 2"),
        "highball.toml:2: unknown setting server (a table; settings stand at the top level or in [[application]]); \
         the nearest known one is user",
    );
    check(
        case("max_retries = \"1\""),
        "highball.toml:1: max_retries: expected a whole number from 0 to 1, found the text \"1\"",
    );
    check(
        case("threads = 0"),
        "highball.toml:1: threads: 0 is out of range; expected a whole number from 1 to 256, or a range such as \"1..8\"",
    );
    check(
        case("threads = -1"),
        "highball.toml:1: threads: -1 is out of range; expected a whole number from 1 to 256, or a range such as \"1..8\"",
    );
    check(
        case("threads = 1.5"),
        "highball.toml:1: threads: expected a whole number from 1 to 256, or a range such as \"1..8\", found the number 1.5",
    );
    check(
        case("compact = 1"),
        "highball.toml:1: compact: expected true or false, found the number 1",
    );
    check(
        case("log_format = 'xml'"),
        "highball.toml:1: log_format: \"xml\" is not allowed; expected \"auto\", \"text\", \"logfmt\" or \"json\"",
    );
    check(
        case("ruby = ['a']"),
        "highball.toml:1: ruby: expected a text that is not empty and has no control character, found a list",
    );
    check(
        case("hooks = 'absent.rb'"),
        "highball.toml:1: hooks: there is no file absent.rb",
    );
    check(
        case("listen = [\n  '3000',\n  '3000x',\n]"),
        &format!(
            "highball.toml:3: listen: \"3000x\" is not an address to listen on; expected {}",
            crate::listen::ALLOWED
        ),
    );
    check(
        case("listen = []"),
        "highball.toml:1: listen: the list is empty; give at least one address",
    );
    check(
        case("trusted_proxies = ['unix', 'all']"),
        "highball.toml:1: trusted_proxies: \"all\" must stand alone in the list",
    );
    check(
        case("request_timeouts = [\n  '/a=1s',\n  '/b=soon',\n]"),
        "highball.toml:3: request_timeouts: /b: \"soon\" is not allowed; expected a time from 10ms to 24h, such as 30 \
         (seconds), \"500ms\" or \"2m\"",
    );
    check(
        case("").flag("request-timeouts", "/a=1s,/a=2s"),
        "--request-timeouts: /a is listed twice",
    );
    check(
        case("").env("HIGHBALL_WORKER", "1"),
        "unknown setting HIGHBALL_WORKER; the nearest known one is HIGHBALL_WORKERS",
    );
    check(
        case("").env("HIGHBALL_THREADS", "x"),
        "HIGHBALL_THREADS: \"x\" is not allowed; expected a whole number from 1 to 256, or a range such as \"1..8\"",
    );
    check(
        case("").env("PORT", "http"),
        "PORT: \"http\" is not allowed; expected a port from 0 to 65535",
    );
    check(
        case("").env("PORT", "65536"),
        "PORT: \"65536\" is not allowed; expected a port from 0 to 65535",
    );
    check(
        case("").flag("thread", "1"),
        "unknown setting --thread; the nearest known one is --threads",
    );
    check(
        case("").flag("max_retries", "2"),
        "--max-retries: 2 is out of range; expected a whole number from 0 to 1",
    );
}

#[test]
fn variables_of_other_servers_count_below_our_own() {
    let check = |case: Case, name: &str, value: &str, origin: &str| {
        let (found, from) = described(&case.settings(), name);
        assert_eq!((&*found, &*from), (value, origin), "{name}");
    };
    for (variable, name, value, own, flag) in [
        ("WEB_CONCURRENCY", "workers", "3", "HIGHBALL_WORKERS", "5"),
        ("RAILS_MAX_THREADS", "threads", "3", "HIGHBALL_THREADS", "5"),
        ("PIDFILE", "pid_file", "/a", "HIGHBALL_PID_FILE", "/b"),
    ] {
        let with = || case("workers = 7\nthreads = 7\npid_file = 'c'").env(variable, value);
        check(with(), name, value, variable);
        check(with().env(own, flag), name, flag, own);
        let given = with().env(own, "6").flag(name, flag);
        check(given, name, flag, &format!("--{}", name.replace('_', "-")));
    }
    let one = case("").env("WEB_CONCURRENCY", "0");
    check(one, "workers", "1", "WEB_CONCURRENCY");
    let cores = case("").env("WEB_CONCURRENCY", "auto");
    check(cores, "workers", "4", "WEB_CONCURRENCY (auto)");
    let wrong = case("").env("RAILS_MAX_THREADS", "many").errors();
    assert!(
        wrong[0].starts_with("RAILS_MAX_THREADS: \"many\""),
        "{wrong:?}"
    );
}

#[test]
fn a_variable_without_a_counterpart_is_explained() {
    let notes = |case: Case| case.settings().notes;
    let explained = notes(case("").env("RAILS_MIN_THREADS", "2"));
    assert_eq!(explained.len(), 1);
    assert!(explained[0].starts_with("RAILS_MIN_THREADS has no effect: "));
    assert_eq!(notes(case("").env("RAILS_MIN_THREADS", "")), [""; 0]);
}

#[test]
fn an_unknown_variable_is_a_warning_unless_it_is_nearly_known() {
    let warnings = |case: Case| case.settings().warnings;
    let known = case("")
        .env("HIGHBALL_METRICS_TOKEN", "1")
        .env("HIGHBALL_PORT", "3000")
        .env("HIGHBALL_\u{1b}[31m", "1");
    assert_eq!(
        warnings(known),
        [
            "no setting has these variables, they are ignored: HIGHBALL_METRICS_TOKEN, HIGHBALL_PORT, \
             HIGHBALL_\\u{1b}[31m; PORT and HIGHBALL_LISTEN set the port"
        ]
    );
    let many = (0..9).fold(case(""), |case, n| {
        case.env(&format!("HIGHBALL_SOMETHING_ELSE_{n}"), "")
    });
    let text = warnings(many).concat();
    assert!(text.ends_with("ELSE_4 and 4 more"), "{text}");
    let long = format!("HIGHBALL_{}", "X".repeat(5000));
    assert!(warnings(case("").env(&long, ""))[0].len() < 200);
    for (name, nearest) in [
        ("HIGHBALL_TREADS", "HIGHBALL_THREADS"),
        ("HIGHBALL_LISTNE", "HIGHBALL_LISTEN"),
        ("HIGHBALL_MAX_BODY_BYTE", "HIGHBALL_MAX_BODY_BYTES"),
    ] {
        let expect = format!("unknown setting {name}; the nearest known one is {nearest}");
        assert_eq!(case("").env(name, "5").errors(), [expect]);
    }
}

#[test]
fn variables_that_kubernetes_sets_for_a_service_are_left_alone() {
    let mut case = case("");
    for (name, value) in [
        ("HIGHBALL_PORT", "tcp://10.0.0.1:3000"),
        ("HIGHBALL_PORT_3000_TCP", "tcp://10.0.0.1:3000"),
        ("HIGHBALL_PORT_3000_TCP_ADDR", "10.0.0.1"),
        ("HIGHBALL_PORT_3000_TCP_PORT", "3000"),
        ("HIGHBALL_PORT_3000_TCP_PROTO", "tcp"),
        ("HIGHBALL_SERVICE_HOST", "10.0.0.1"),
        ("HIGHBALL_SERVICE_PORT", "3000"),
        ("HIGHBALL_SERVICE_PORT_HTTP", "3000"),
        ("HIGHBALL_WEB_SERVICE_HOST", "10.0.0.1"),
        ("HIGHBALL_WEB_PORT", "tcp://10.0.0.1:3000"),
    ] {
        case = case.env(name, value);
    }
    let settings = case.settings();
    assert_eq!(settings.warnings, [""; 0]);
    assert_eq!(listens(&settings), ["127.0.0.1:3000"]);
}

#[test]
fn addresses_without_a_host_are_ipv6_too_where_the_machine_has_it() {
    let listens = |case: Case| {
        let machine = Machine {
            has_ipv6: || true,
            ..FOUR_CORES
        };
        let settings = Settings::load_on(case.sources, machine).unwrap();
        listens(&settings).join(" ")
    };
    assert_eq!(listens(case("")), "127.0.0.1:3000 [::1]:3000");
    let production = || case("environment = 'production'");
    assert_eq!(listens(production()), "0.0.0.0:3000 [::]:3000");
    assert_eq!(
        listens(production().env("PORT", "80")),
        "0.0.0.0:80 [::]:80"
    );
    let twice = "listen = [3000, '[::1]:3000', '127.0.0.1:0', '127.0.0.1:0']";
    assert_eq!(
        listens(case(twice)),
        "127.0.0.1:3000 [::1]:3000 127.0.0.1:0 127.0.0.1:0"
    );
}

#[test]
fn the_configuration_of_another_server_is_named_as_such() {
    let mut case = case("");
    fs::write(case.dir.path().join("puma.rb"), "threads 5, 5\n").unwrap();
    case.sources.config = Some(case.dir.path().join("puma.rb"));
    let errors = case.errors();
    assert_eq!(
        errors,
        [
            "puma.rb: settings are TOML, and this file is Ruby; `highball init --from puma.rb` translates the configuration \
             of Puma and Unicorn"
        ]
    );
}

#[test]
fn variables_of_others_are_left_alone() {
    case("")
        .env("HIGHBALL_RUBY_LIB", "/x")
        .env("HIGHBALL_BIN", "/x")
        .env("HIGHBALL_LAB", "/x")
        .env("HIGHBAL_THREADS", "x")
        .env("highball_threads", "x")
        .settings();
}

#[test]
fn a_file_that_is_no_toml_is_one_error_for_each_fault() {
    let errors = case("threads = \nworkers = 2\nworkers = 3\n").errors();
    assert!(
        errors[0].starts_with("highball.toml:1: not valid TOML: "),
        "{errors:?}"
    );
    assert!(
        errors[1].starts_with("highball.toml:3: not valid TOML: duplicate key"),
        "{errors:?}"
    );
    assert_eq!(errors.len(), 2);
}

#[test]
fn all_errors_are_reported_together_in_the_order_of_the_sources() {
    let errors = case("zzz = 1\nthreads = 0\nlisten = ['x', 'y']\n")
        .env("HIGHBALL_THREAD", "1")
        .env("PORT", "x")
        .flag("threads", "4")
        .flag("workers", "-1")
        .errors();
    let places: Vec<_> = errors
        .iter()
        .map(|line| line.split(": ").next().unwrap_or_default())
        .collect();
    assert_eq!(
        places,
        [
            "highball.toml:1",
            "highball.toml:2",
            "highball.toml:3",
            "highball.toml:3",
            "PORT",
            "unknown setting HIGHBALL_THREAD; the nearest known one is HIGHBALL_THREADS",
            "--workers",
        ]
    );
}

#[test]
fn both_ends_of_each_range_are_allowed_and_fit_their_fields() {
    for setting in SETTINGS {
        let kind = match setting.kind {
            Kind::Maybe(kind) => *kind,
            kind => kind,
        };
        let (low, high, below, above) = match kind {
            Kind::Integer { min, max }
            | Kind::AutoInteger { min, max }
            | Kind::AutoRange { min, max }
            | Kind::Range { min, max }
            | Kind::Bytes { min, max }
            | Kind::AutoBytes { min, max } => (
                min.to_string(),
                max.to_string(),
                i128::from(min) - 1,
                i128::from(max) + 1,
            ),
            Kind::Duration { min, max } => {
                let (min, max) = (min.as_millis(), max.as_millis());
                let below = i128::try_from(min).unwrap() - 1;
                (
                    format!("{min}ms"),
                    format!("{max}ms"),
                    below,
                    i128::try_from(max).unwrap() + 1,
                )
            }
            _ => continue,
        };
        let unit = if low.ends_with("ms") { "ms" } else { "" };
        for text in [&low, &high] {
            // No workers are one.
            let shown = match (setting.name, &**text) {
                ("workers", "0") => "1",
                (_, text) => text,
            };
            let value = setting
                .kind
                .parse(shown)
                .unwrap_or_else(|error| panic!("{} {error}", setting.name));
            let settings = case("").flag(setting.name, text).settings();
            assert_eq!(
                described(&settings, setting.name).0,
                setting.kind.text(&value),
                "{}",
                setting.name
            );
        }
        for text in [format!("{below}{unit}"), format!("{above}{unit}")] {
            let errors = case("").flag(setting.name, &text).errors();
            assert!(
                errors[0].contains("expected"),
                "{} {text}: {errors:?}",
                setting.name
            );
        }
    }
}

#[test]
fn a_range_of_workers_comes_from_every_source_and_makes_room_for_its_end() {
    for (case, origin) in [
        (case("workers = \"2..8\""), "highball.toml:1"),
        (case("").env("HIGHBALL_WORKERS", "2..8"), "HIGHBALL_WORKERS"),
        (case("").env("WEB_CONCURRENCY", "2..8"), "WEB_CONCURRENCY"),
        (case("").flag("workers", "2..8"), "--workers"),
    ] {
        let settings = case.settings();
        let workers = settings.workers;
        assert_eq!((workers.least(), workers.most()), (2, 8));
        assert!(workers.is_range());
        assert_eq!((settings.max_workers, settings.most_workers()), (8, 8));
        assert_eq!(settings.queue_limit, 2400);
        let (value, from) = described(&settings, "workers");
        assert_eq!(value, "2..8");
        assert!(from.ends_with(origin), "{from}");
    }
    // Operators may go further than the load.
    let more = case("workers = \"2..8\"\nmax_workers = 12").settings();
    assert_eq!(more.most_workers(), 12);
    let fewer = case("workers = \"2..8\"\nmax_workers = 4").settings();
    assert_eq!(fewer.most_workers(), 8);
    let same = case("workers = \"3..3\"").settings();
    assert_eq!(same.workers, 3.into());
    assert!(!same.workers.is_range());
    for (text, reason) in [
        ("8..2", "write it as \"2..8\""),
        ("0..3", "expected a range within 1..1024"),
    ] {
        let errors = case("").env("HIGHBALL_WORKERS", text).errors();
        assert!(errors[0].contains(reason), "{errors:?}");
        let errors = case(&format!("workers = \"{text}\"")).errors();
        assert!(
            errors[0].starts_with("highball.toml:1: workers"),
            "{errors:?}"
        );
    }
}

#[test]
fn auto_workers_stay_within_the_range() {
    let Kind::AutoRange { max, .. } = SETTINGS[index_of("workers").unwrap()].kind else {
        panic!("workers")
    };
    assert_eq!(max, u64::from(crate::cores::MAX_WORKERS));
}

#[test]
fn names_are_unique_and_follow_one_form() {
    for (index, setting) in SETTINGS.iter().enumerate() {
        assert_eq!(index_of(setting.name), Some(index));
        assert_eq!(setting.flag().replace('-', "_"), setting.name);
        assert_eq!(
            setting.variable(),
            format!("HIGHBALL_{}", setting.name.to_uppercase())
        );
    }
}

#[test]
fn one_setting_may_have_another_value() {
    let old = Settings::for_tests();
    let new = old
        .with("jit", "none")
        .unwrap()
        .with("threads", "7")
        .unwrap();
    let changed: Vec<_> = old.changes(&new).iter().map(|one| one.name).collect();
    assert_eq!(changed, ["threads", "jit"]);
    assert!(old.with("jit", "maybe").is_err() && old.with("nothing", "1").is_err());
}
