//! nginx and HAProxy with the shipped configurations, over TLS, before a real server.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Signal, geteuid};
use serde_json::Value;
use test_support::{Directory, Process, Program, Server, TEST_TIMEOUT, reflect};

use super::contrib;

/// A proxy that runs, in a folder of its own.
struct Proxy {
    child: Child,
    dir: Directory,
}

impl Proxy {
    /// Starts it and waits until it listens on the sockets `http.sock` and `https.sock` of the folder.
    #[track_caller]
    fn start(mut command: Command, dir: Directory) -> Self {
        let log = fs::File::create(dir.join("log")).expect("a folder of the test's own");
        let errors = log.try_clone().expect("a file can be shared");
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().unwrap_or_else(|error| {
            let program = command.get_program();
            panic!("{program:?}: {error} (scripts/install test)")
        });
        let mut proxy = Self { child, dir };
        let deadline = Instant::now() + TEST_TIMEOUT;
        for name in ["http.sock", "https.sock"] {
            while UnixStream::connect(proxy.dir.join(name)).is_err() {
                let ended = proxy.child.try_wait().expect("a child of ours");
                let late = Instant::now() > deadline;
                assert!(ended.is_none() && !late, "{ended:?}: {}", proxy.log());
                thread::yield_now();
            }
        }
        proxy
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// What curl prints for this address of shop.example.com, over the socket of that name.
    #[track_caller]
    fn curl(&self, socket: &str, url: &str, flags: &[&str]) -> String {
        let ran = Program::new("curl")
            .args(["--silent", "--show-error", "--insecure", "--unix-socket"])
            .arg(self.dir.join(socket))
            .args(flags)
            .arg(url)
            .run();
        assert!(ran.status.success(), "{}\n{}", ran.output(), self.log());
        ran.stdout
    }

    /// The Rack env of a request over HTTP/2 from a client that claims to be another, over plain HTTP.
    #[track_caller]
    fn env_of_a_liar(&self) -> Value {
        let flags = [
            "--http2",
            "--header",
            "X-Forwarded-For: 203.0.113.9",
            "--header",
            "X-Forwarded-Proto: http",
        ];
        let text = self.curl("https.sock", "https://shop.example.com/page", &flags);
        let answer: Value = serde_json::from_str(&text).expect("the application's JSON");
        answer["env"].clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        Process(self.child.id()).signal(Signal::TERM);
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- the proxy's log\n{}\n---", self.log());
        }
    }
}

/// Writes a certificate and its key, `fullchain.pem` and `privkey.pem`.
#[track_caller]
fn write_certificate(dir: &Directory) {
    let ran = Program::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", "/CN=shop.example.com", "-keyout"])
        .arg(dir.join("privkey.pem"))
        .arg("-out")
        .arg(dir.join("fullchain.pem"))
        .run();
    assert!(ran.status.success(), "{}", ran.output());
}

/// The text with each of these replaced; every one of them must be there.
#[track_caller]
fn replaced(mut text: String, pairs: &[(&str, String)]) -> String {
    for (from, to) in pairs {
        assert!(text.contains(from), "no `{from}` in\n{text}");
        text = text.replace(from, to);
    }
    text
}

fn nginx(socket: &Path) -> Proxy {
    let dir = Directory::new();
    write_certificate(&dir);
    fs::create_dir(dir.join("public")).expect("a folder of the test's own");
    dir.write("public/robots.txt", "a file");
    let place = dir.path().display();
    let pairs = [
        (
            "server unix:/run/highball/shop.sock;",
            format!("server unix:{};", socket.display()),
        ),
        (
            "listen 80;\n    listen [::]:80;",
            format!("listen unix:{place}/http.sock;"),
        ),
        (
            "listen 443 ssl http2;\n    listen [::]:443 ssl http2;",
            format!("listen unix:{place}/https.sock ssl http2;"),
        ),
        ("/etc/letsencrypt/live/shop.example.com", place.to_string()),
        ("/srv/shop/current", place.to_string()),
    ];
    dir.write("shop.conf", replaced(contrib("nginx/shop.conf"), &pairs));
    let user = if geteuid().is_root() {
        "user root;\n"
    } else {
        ""
    };
    let bodies = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let bodies = bodies.map(|name| format!("{name}_temp_path {place}/{name};\n"));
    let main = format!(
        "{user}daemon off;\nworker_processes 1;\npid {place}/nginx.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 100; }}\n\
         http {{\naccess_log off;\n{}include {place}/shop.conf;\n}}\n",
        bodies.concat()
    );
    let file = dir.write("nginx.conf", main);
    let mut command = Command::new("nginx");
    command.arg("-p").arg(dir.path()).arg("-c").arg(file);
    command.args(["-e", "stderr"]);
    Proxy::start(command, dir)
}

fn haproxy(server: &Server) -> Proxy {
    let dir = Directory::new();
    write_certificate(&dir);
    let place = dir.path().display();
    let read = |name| fs::read_to_string(dir.join(name)).expect("a certificate");
    dir.write("shop.pem", read("fullchain.pem") + &read("privkey.pem"));
    let pairs = [
        // Whoever runs the tests may have few descriptors.
        ("maxconn 20000", "maxconn 1000".to_owned()),
        ("    user haproxy\n    group haproxy\n", String::new()),
        (
            "bind :443 ssl crt /etc/haproxy/certs/shop.example.com.pem",
            format!("bind unix@{place}/https.sock ssl crt {place}/shop.pem"),
        ),
        ("bind :80\n", format!("bind unix@{place}/http.sock\n")),
        ("10.0.0.11:3000", server.address().to_string()),
        ("10.0.0.12:3000", server.address().to_string()),
    ];
    let file = dir.write(
        "haproxy.cfg",
        replaced(contrib("haproxy/haproxy.cfg"), &pairs),
    );
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(file);
    Proxy::start(command, dir)
}

#[test]
fn nginx_ends_tls_serves_files_and_says_who_the_client_is() {
    let folder = Directory::new();
    let socket = folder.join("highball.sock");
    let builder = Server::app(reflect()).listen([format!("unix:{}", socket.display())]);
    let mut events = builder.application().events();
    let _server = builder.start();
    let proxy = nginx(&socket);

    let env = proxy.env_of_a_liar();
    assert_eq!(events.wait(), "GET /page");
    assert_eq!(env["HTTP_HOST"], "shop.example.com");
    assert_eq!(env["rack.url_scheme"], "https");
    // nginx has no address for a client on a UNIX socket.
    assert_eq!(env["HTTP_X_FORWARDED_FOR"], "unix:");

    let headers = ["--include"];
    let redirect = proxy.curl("http.sock", "http://shop.example.com/page", &headers);
    assert!(redirect.starts_with("HTTP/1.1 301"), "{redirect}");
    assert!(redirect.contains("https://shop.example.com/page"));
    let file = proxy.curl("https.sock", "https://shop.example.com/robots.txt", &[]);
    assert_eq!(file, "a file");

    let upgrade = [
        "--http1.1",
        "--header",
        "Connection: Upgrade",
        "--header",
        "Upgrade: websocket",
    ];
    let text = proxy.curl("https.sock", "https://shop.example.com/cable", &upgrade);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["env"]["HTTP_UPGRADE"], "websocket");
}

#[test]
fn haproxy_ends_tls_checks_the_server_and_drops_what_clients_claim() {
    let builder = Server::app(reflect()).setting("priority_paths", "/up");
    let mut events = builder.application().events();
    let server = builder.start();
    let proxy = haproxy(&server);

    // The check of either server.
    assert_eq!(events.wait(), "GET /up");
    assert_eq!(events.wait(), "GET /up");
    let env = proxy.env_of_a_liar();
    assert_eq!(env["HTTP_HOST"], "shop.example.com");
    assert_eq!(env["rack.url_scheme"], "https");
    assert_eq!(env["HTTP_X_FORWARDED_FOR"], Value::Null);

    let headers = ["--include"];
    let redirect = proxy.curl("http.sock", "http://shop.example.com/page", &headers);
    assert!(redirect.starts_with("HTTP/1.1 301"), "{redirect}");
    assert!(redirect.contains("https://shop.example.com/page"));
    assert!(!proxy.log().contains("is DOWN"), "{}", proxy.log());
}
