//! A server that orders its certificate from a real authority (Pebble), answers the challenge, and serves HTTPS with what
//! it got.

// The authority of the tests of crates/certificates, of which each test program uses a part.
#[allow(dead_code)]
#[path = "../../crates/certificates/tests/pebble/authority.rs"]
mod authority;

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use authority::{Authority, Options, free_address};
use test_support::{Application, Directory, Server, ServerBuilder, until};

const SOURCE: &str = r#"run lambda { |env| Test.text(env["rack.url_scheme"]) }"#;

/// A server for `a.example`, its authority and its storage.
struct Fixture {
    authority: Authority,
    storage: Directory,
    tls: SocketAddr,
    http: SocketAddr,
}

impl Fixture {
    fn new() -> Self {
        let (http, tls) = (free_address(), free_address());
        let authority = Authority::start(&Options {
            http,
            tls,
            refused_nonces: 0,
            external_accounts: false,
        });
        Self {
            authority,
            storage: Directory::new(),
            tls,
            http,
        }
    }

    fn server(&self) -> ServerBuilder {
        self.server_with("tls_hosts", "a.example")
    }

    /// The same, with this setting in place of `tls_hosts`.
    fn server_with(&self, setting: &str, value: &str) -> ServerBuilder {
        Server::application_of(Application::without_lint(SOURCE))
            .setting(setting, value)
            .setting("acme_directory", &self.authority.directory())
            .setting(
                "acme_ca_file",
                &self.authority.ca_file().display().to_string(),
            )
            .setting("acme_storage", &self.storage.path().display().to_string())
            .setting("acme_profile", "default")
    }

    /// What `https://a.example/` answers to a client that trusts the authority alone.
    fn page(&self) -> String {
        self.page_of("a.example").expect("a page")
    }

    /// The same of another host, or what curl says of its failure.
    fn page_of(&self, host: &str) -> Result<String, String> {
        let port = self.tls.port();
        let root = self.authority.root_file().display().to_string();
        let curl = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--noproxy",
                "*",
                "--cacert",
                &root,
            ])
            .args(["--resolve", &format!("{host}:{port}:127.0.0.1")])
            .arg(format!("https://{host}:{port}/"))
            .output()
            .expect("curl starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match curl.status.success() {
            true => Ok(text(&curl.stdout)),
            false => Err(text(&curl.stderr)),
        }
    }
}

fn has_certificate(server: &Server) -> bool {
    server.status().0["acme"][0]["not_after"].is_number()
}

#[test]
fn a_server_orders_its_certificate_by_http_and_serves_with_it() {
    let fixture = Fixture::new();
    let listen = [fixture.http.to_string(), format!("tls://{}", fixture.tls)];
    let server = fixture.server().listen(&listen).start();
    until("there is a certificate", || has_certificate(&server));
    assert_eq!(fixture.page(), "https");
    let shown = server.command(&["certificates"]);
    assert!(
        shown.stdout.contains("a.example: valid for 89 d"),
        "{shown:?}"
    );
    assert!(fixture.authority.count("Attempting to validate w/ HTTP") >= 1);
    server.stop();
    // The next server has it when it begins to serve, and orders none.
    let server = fixture.server().listen(&listen).start();
    assert_eq!(fixture.page(), "https");
    assert!(has_certificate(&server));
    assert_eq!(fixture.authority.orders(), 1);
}

#[test]
fn a_server_without_plain_http_proves_its_name_over_tls() {
    let fixture = Fixture::new();
    let listen = format!("tls://{}", fixture.tls);
    let server = fixture.server().listen([listen]).start();
    until("there is a certificate", || has_certificate(&server));
    assert_eq!(fixture.page(), "https");
    assert_eq!(fixture.authority.count("Attempting to validate w/ HTTP"), 0);
}

#[test]
fn a_name_that_cannot_be_checked_is_a_warning_in_status_and_certificates() {
    let fixture = Fixture::new();
    // Nobody listens where the authority looks.
    let listen = ["127.0.0.1:0", "tls://127.0.0.1:0"];
    let server = fixture.server().listen(listen).start();
    let failed = || server.status().0["acme"][0]["failure"]["text"].is_string();
    until("the order has failed", failed);
    for command in ["status", "certificates"] {
        let shown = server.command(&[command]);
        assert!(
            shown.stdout.contains("there is no certificate"),
            "{shown:?}"
        );
        assert!(shown.stdout.contains("checking a.example"), "{shown:?}");
    }
}

/// A folder with a program that keeps the records of this authority's name server, and then goes on with `last`.
fn record_keeper(authority: &Authority, last: &str) -> Directory {
    let folder = Directory::new();
    let records = authority.records().display().to_string();
    let script = format!(
        "#!/bin/sh\ncd '{records}'\ncase $1 in\n\
         add) echo \"$3\" >> \"$2\" ;;\nremove) rm -f \"$2\" ;;\nesac\n\
         echo \"kept $1\"\n{last}\n"
    );
    folder.write("dns", script);
    let path = folder.path().join("dns");
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("it is possible");
    folder
}

#[test]
fn a_wildcard_is_proven_by_the_operators_command() {
    let fixture = Fixture::new();
    let keeper = record_keeper(&fixture.authority, "");
    let server = fixture
        .server_with("tls_hosts", "*.a.example")
        .setting(
            "acme_dns_command",
            &keeper.path().join("dns").display().to_string(),
        )
        .listen([format!("tls://{}", fixture.tls)])
        .start();
    until("it has a certificate", || has_certificate(&server));
    for host in ["b.a.example", "c.a.example"] {
        assert_eq!(fixture.page_of(host).expect("a page"), "https");
    }
    assert!(fixture.page_of("a.example").is_err());
    let added = "dns add _acme-challenge.a.example ";
    let line = server.log().wait(|line| line.contains(added));
    assert!(line.contains(": kept add"), "{line}");
    server.log().wait(|line| line.contains(": kept remove"));
    let left = std::fs::read_dir(fixture.authority.records()).expect("it is there");
    assert_eq!(left.count(), 0);
}

#[test]
fn words_of_a_command_that_fails_are_shown_with_the_certificate() {
    let fixture = Fixture::new();
    let keeper = record_keeper(&fixture.authority, "echo no such zone >&2; exit 3");
    let server = fixture
        .server_with("tls_hosts", "*.a.example")
        .setting(
            "acme_dns_command",
            &keeper.path().join("dns").display().to_string(),
        )
        .listen([format!("tls://{}", fixture.tls)])
        .start();
    until("it has failed", || {
        let shown = server.command(&["certificates"]).stdout;
        shown.contains("exit status: 3") && shown.contains("no such zone")
    });
    server
        .log()
        .wait(|line| line.contains("dns remove _acme-challenge.a.example"));
}

#[test]
fn a_wildcard_without_a_command_is_refused_at_the_start() {
    let application = Application::without_lint(SOURCE);
    let serve = |more: &[&str]| {
        test_support::Program::highball(["serve"])
            .arg(application.path())
            .args([
                "--listen",
                "tls://127.0.0.1:0",
                "--tls-hosts",
                "*.a.example",
            ])
            .args(more)
            .run()
    };
    let ran = serve(&[]);
    assert!(!ran.status.success());
    assert!(ran.stderr.contains("set acme_dns_command"), "{ran:?}");
    let ran = serve(&["--acme-dns-command", "missing"]);
    assert!(!ran.status.success());
    assert!(ran.stderr.contains("acme_dns_command"), "{ran:?}");
}

#[test]
fn a_host_that_nobody_listed_gets_a_certificate_if_the_address_says_yes() {
    let fixture = Fixture::new();
    let listen = [fixture.http.to_string(), format!("tls://{}", fixture.tls)];
    let asked = authority::decider("shop.example");
    let server = fixture.server_with("acme_ask_url", &asked);
    let server = server.listen(&listen).start();
    let refused = fixture.page_of("attacker.example");
    assert!(refused.is_err(), "{refused:?}");
    let answer = "no certificate for attacker.example: acme_ask_url answered 403";
    server.log().wait(|line| line.contains(answer));
    // The first client waits in its handshake until there is one.
    assert_eq!(fixture.page_of("shop.example").as_deref(), Ok("https"));
    // The answer is remembered.
    assert!(fixture.page_of("attacker.example").is_err());
    let shown = server.command(&["certificates"]).stdout;
    assert!(shown.contains("shop.example: valid for"), "{shown}");
    assert!(!shown.contains("attacker"), "{shown}");
    server.stop();
    let server = fixture.server_with("acme_ask_url", &asked);
    let _server = server.listen(&listen).start();
    assert_eq!(fixture.page_of("shop.example").as_deref(), Ok("https"));
    assert_eq!(fixture.authority.orders(), 1);
}

#[test]
fn an_address_that_cannot_be_asked_is_refused_at_the_start() {
    let application = Application::without_lint(SOURCE);
    let ran = test_support::Program::highball(["serve"])
        .arg(application.path())
        .args(["--listen", "tls://127.0.0.1:0", "--acme-ask-url", "/ask"])
        .run();
    assert!(!ran.status.success());
    assert!(ran.stderr.contains("acme_ask_url"), "{ran:?}");
}

#[test]
fn a_storage_within_the_application_is_refused() {
    let application = Application::without_lint(SOURCE);
    let storage = application.path().join("acme").display().to_string();
    let ran = test_support::Program::highball(["serve"])
        .arg(application.path())
        .args(["--listen", "tls://127.0.0.1:0", "--tls-hosts", "a.example"])
        .args(["--acme-storage", &storage])
        .run();
    assert!(!ran.status.success());
    assert!(
        ran.stderr.contains("outside of the application's folder"),
        "{ran:?}"
    );
}
