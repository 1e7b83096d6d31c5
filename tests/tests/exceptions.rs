//! Exceptions of applications: who is told of them, and what receivers get.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use highball_tests::receiver::take_request;
use serde_json::Value;
use test_support::{Application, Directory, Server, ServerBuilder, TEST_TIMEOUT};

/// Raises an error of one class in the method that the path names; `/many` with ever other messages.
const RAISES: &str = r##"
class Orders
  12.times { |number| class_eval "def place#{number}\n  raise ArgumentError, 'no place'\nend", __FILE__ }
  def many(number) = raise(KeyError, "no order #{number}")
end
class Gone < StandardError; end
run lambda { |env|
  name, number = env["PATH_INFO"].delete_prefix("/").split("/")
  raise Gone if name == "gone"
  next Test.text("fine") if name == "fine"
  number ? Orders.new.public_send(name, number) : Orders.new.public_send(name)
}"##;

fn raises() -> ServerBuilder {
    let builder = Server::application_of(Application::without_lint(RAISES)).workers(1);
    // What backtraces name must be the application's own.
    builder.setting("exception_ignore", "default,Gone")
}

/// Takes notices, and answers each with this status.
struct Webhook {
    address: SocketAddr,
    notices: Receiver<(String, Value)>,
}

impl Webhook {
    fn start(status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = listener.local_addr().expect("an address");
        let (sender, notices) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if Self::take(stream, status, &sender).is_none() {
                    return;
                }
            }
        });
        Self { address, notices }
    }

    fn take(stream: TcpStream, status: &str, notices: &Sender<(String, Value)>) -> Option<()> {
        let (head, body) = take_request(&stream, status)?;
        let body = serde_json::from_slice(&body).expect("JSON");
        notices.send((head, body)).ok()
    }

    fn url(&self) -> String {
        format!("http://{}/hook/secret", self.address)
    }

    fn next(&self) -> Value {
        let notice = self.notices.recv_timeout(TEST_TIMEOUT);
        notice.expect("a notice").1
    }
}

#[test]
fn a_webhook_is_told_of_a_new_group_once() {
    let webhook = Webhook::start("204 No Content");
    let server = raises()
        .setting("exception_webhook", &webhook.url())
        .start();
    for _ in 0..3 {
        server.get("/many/1?card=4111").expect(500);
    }
    server.get("/place0").expect(500);
    let (head, notice) = webhook
        .notices
        .recv_timeout(TEST_TIMEOUT)
        .expect("a notice");
    assert!(head.starts_with("POST /hook/secret HTTP/1.1\r\n"), "{head}");
    assert!(
        head.to_ascii_lowercase()
            .contains("content-type: application/json\r\n"),
        "{head}"
    );
    assert_eq!(
        (&notice["reason"], &notice["class"]),
        (&"new".into(), &"KeyError".into())
    );
    assert_eq!(
        notice["text"],
        "new exception: KeyError in config.ru:many: no order 1"
    );
    assert!(!notice.to_string().contains("4111"), "{notice}");
    // Had it been told of the first group again, that came before.
    assert_eq!(webhook.next()["class"], "ArgumentError");
    server.stop();
    assert!(webhook.notices.try_recv().is_err());
}

#[test]
fn twelve_errors_of_one_class_are_twelve_groups_and_many_messages_one() {
    let webhook = Webhook::start("204 No Content");
    let server = raises()
        .setting("exception_webhook", &webhook.url())
        .start();
    let mut client = server.connect();
    for number in 0..1_000 {
        client.get(&format!("/many/{number}")).expect(500);
    }
    for number in (0..12).chain(0..12) {
        client.get(&format!("/place{number}")).expect(500);
    }
    client.get("/gone").expect(500);
    let told: Vec<Value> = (0..13).map(|_| webhook.next()).collect();
    assert_eq!(told[0]["class"], "KeyError");
    let groups: std::collections::BTreeSet<_> =
        told.iter().map(|one| one["group"].to_string()).collect();
    assert_eq!(groups.len(), 13);
    assert!(
        told[1..].iter().all(|one| one["class"] == "ArgumentError"),
        "{told:?}"
    );
    server.stop();
    assert!(
        webhook.notices.try_recv().is_err(),
        "an ignored class was told"
    );
}

fn list(server: &Server) -> Vec<Value> {
    let ran = server.command(&["exceptions", "--json"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    let list: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    list["groups"].as_array().expect("groups").clone()
}

#[test]
fn the_command_lists_groups_and_shows_one_with_its_samples() {
    let server = raises().start();
    assert_eq!(
        server.command(&["exceptions"]).stdout,
        "no exceptions (setting exceptions)"
    );
    for number in 0..7 {
        server
            .get(&format!("/many/{number}?a=1&api_token=hidden"))
            .expect(500);
    }
    let group = &list(&server)[0];
    assert_eq!(
        (&group["class"], &group["count"]),
        (&"KeyError".into(), &7.into())
    );
    let page = server.command(&["exceptions"]).stdout;
    assert!(
        page.contains("KeyError in config.ru:many: no order 6"),
        "{page}"
    );
    let id = group["group"].as_str().expect("an id");
    let page = server.command(&["exceptions", "--group", &id[..6]]).stdout;
    assert_eq!(page.matches("GET /many/").count(), 5, "{page}");
    assert!(
        page.contains(r#"parameters {"a":"1","api_token":"[FILTERED]"}"#),
        "{page}"
    );
    assert!(
        page.contains("    config.ru:") && !page.contains("hidden"),
        "{page}"
    );
    let ran = server.command(&["exceptions", "--group", "ffffffffffff"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        ran.stderr.contains("no group of exceptions has this id"),
        "{}",
        ran.output()
    );
}

#[test]
fn groups_survive_a_restart_and_an_upgrade() {
    let webhook = Webhook::start("204 No Content");
    let mut server = raises()
        .setting("exception_webhook", &webhook.url())
        .start();
    server.get("/place0").expect(500);
    assert_eq!(webhook.next()["reason"], "new");
    assert_eq!(server.command(&["restart"]).status.code(), Some(0));
    server.get("/place0").expect(500);
    let ran = server.command(&["upgrade"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    server.replaced_by(ran.process());
    server.get("/place0").expect(500);
    let group = &list(&server)[0];
    assert_eq!(
        (&group["class"], &group["count"]),
        (&"ArgumentError".into(), &3.into())
    );
    server.stop();
    assert!(
        webhook.notices.try_recv().is_err(),
        "told again after the upgrade"
    );
}

/// A Rails application that renders its own errors.
const RAILS: &str = r##"
require "action_controller/railtie"
class Example < Rails::Application
  config.root = Dir.pwd
  config.eager_load = false
  config.consider_all_requests_local = false
  config.secret_key_base = "a secret of the test"
  config.logger = Logger.new(nil)
  config.hosts.clear
  config.filter_parameters += [:card]
end
class OrdersController < ActionController::Base
  def show = raise(IOError, "no such order")
end
Rails.application.initialize!
Rails.application.routes.draw { get "orders/:id", to: "orders#show" }
run Rails.application
"##;

#[test]
fn an_exception_that_rails_renders_is_collected_with_its_route() {
    let server = Server::application_of(Application::without_lint(RAILS))
        .workers(1)
        .environment(Some("production"))
        .start();
    server.get("/orders/7?card=4111&a=b").expect(500);
    server.get("/nothing").expect(404);
    let groups = list(&server);
    assert_eq!(
        groups.len(),
        1,
        "a route that is not there is ignored: {groups:?}"
    );
    let group = &groups[0];
    assert_eq!(group["class"], "IOError");
    assert_eq!(group["frame"], "config.ru:show");
    let route = group["route"].as_str().expect("a route");
    assert!(["orders#show", "/orders/:id"].contains(&route), "{route}");
    let id = group["group"].as_str().expect("an id");
    let page = server.command(&["exceptions", "--group", id]).stdout;
    assert!(
        page.contains(r#""card":"[FILTERED]""#) && page.contains(r#""id":"7""#),
        "{page}"
    );
    assert!(!page.contains("4111"), "{page}");
}

#[test]
fn a_dead_webhook_costs_no_request_and_is_named_without_its_secret() {
    // Nothing accepts there: the kernel takes connections, and nobody answers.
    let dead = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = dead.local_addr().expect("an address");
    let server = raises()
        .setting(
            "exception_webhook",
            &format!("http://{address}/hook/secret"),
        )
        .start();
    let mut client = server.connect();
    for number in 0..12 {
        client.get(&format!("/place{number}")).expect(500);
        assert_eq!(client.get("/fine").text(), "fine");
    }
    assert_eq!(server.stop().status.code(), Some(0));
    let refuses = Webhook::start("404 Not Found");
    let server = raises()
        .setting("exception_webhook", &refuses.url())
        .start();
    server.get("/place0").expect(500);
    let line = server
        .log()
        .wait(|line| line.contains("could not tell the webhook"));
    assert!(line.contains("at 127.0.0.1 of exception group"), "{line}");
    assert!(
        line.contains("404 Not Found") && !line.contains("secret"),
        "{line}"
    );
}

#[test]
fn the_file_revision_names_the_release() {
    let webhook = Webhook::start("204 No Content");
    let builder = raises().setting("exception_webhook", &webhook.url());
    builder.application().dir().write("REVISION", "abc123\n");
    let server = builder.start();
    server.get("/place0").expect(500);
    assert_eq!(webhook.next()["release"], "abc123");
}

#[test]
fn settings_that_cannot_be_used_end_the_start() {
    for (name, value, said) in [
        (
            "exception_webhook",
            "hooks.example.com",
            "exception_webhook: write an address",
        ),
        (
            "exception_mail_to",
            "nobody",
            "exception_mail_to: write a mail address",
        ),
    ] {
        let directory = Directory::new();
        directory.write("config.ru", "run ->(_) { [200, {}, []] }");
        let ran = test_support::Program::highball([
            "serve",
            &format!("--{}", name.replace('_', "-")),
            value,
        ])
        .args(["--listen", "127.0.0.1:0"])
        .current_dir(directory.path())
        .run();
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
        assert!(ran.stderr.contains(said), "{}", ran.output());
    }
}

/// A mail server of Debian's package python3-aiosmtpd, which prints each mail.
struct MailServer {
    child: Child,
    address: SocketAddr,
    lines: Receiver<String>,
}

const MAIL_SERVER: &str = "
import asyncio, sys
from aiosmtpd.smtp import SMTP
class Print:
    async def handle_DATA(self, server, session, envelope):
        print('FROM', envelope.mail_from, 'TO', envelope.rcpt_tos, flush=True)
        for line in envelope.content.decode().splitlines():
            print(line, flush=True)
        print('END', flush=True)
        return '250 OK'
async def serve():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(Print(), loop=loop), '127.0.0.1', 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
asyncio.run(serve())
";

impl MailServer {
    fn start() -> Self {
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", MAIL_SERVER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 with aiosmtpd: scripts/install test");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let port = lines.recv_timeout(TEST_TIMEOUT).expect("its port");
        let port = port
            .parse()
            .expect("a port: is python3-aiosmtpd installed?");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            child,
            address,
            lines,
        }
    }

    /// The next mail, with its envelope before it.
    fn mail(&self) -> Vec<String> {
        let next = || self.lines.recv_timeout(TEST_TIMEOUT).expect("a mail");
        std::iter::repeat_with(next)
            .take_while(|line| line != "END")
            .collect()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        // Its input ends with this process in any case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_mail_tells_of_a_new_group() {
    let mails = MailServer::start();
    let server = raises()
        .setting("exception_mail_to", "ops@a.example")
        .setting("exception_mail_from", "web@a.example")
        .setting("smtp_url", &format!("smtp://{}", mails.address))
        .start();
    server
        .get("/many/%0d%0aBcc:%20x@b.example?card=4111")
        .expect(500);
    let mail = mails.mail();
    let text = mail.join("\n");
    assert_eq!(mail[0], "FROM web@a.example TO ['ops@a.example']");
    let subject = mail
        .iter()
        .find(|line| line.starts_with("Subject: "))
        .expect("a subject");
    assert!(
        subject.contains("[highball] new exception: KeyError"),
        "{text}"
    );
    assert!(
        mail.iter().any(|line| line.contains("config.ru:many")),
        "{text}"
    );
    assert!(!mail.iter().any(|line| line.starts_with("Bcc:")), "{text}");
    assert!(!text.contains("4111"), "{text}");
    assert!(text.contains("highball exceptions"), "{text}");
}

#[test]
fn a_dead_mail_server_costs_no_request_and_is_named() {
    // Nothing accepts there: the kernel takes connections, and nobody speaks.
    let dead = TcpListener::bind("127.0.0.1:0").expect("an address");
    let mailing = |address: SocketAddr| {
        raises()
            .setting("exception_mail_to", "ops@a.example")
            .setting("exception_mail_from", "web@a.example")
            .setting("smtp_url", &format!("smtp://{address}"))
            .start()
    };
    let address = dead.local_addr().expect("an address");
    let server = mailing(address);
    let mut client = server.connect();
    for number in 0..12 {
        client.get(&format!("/place{number}")).expect(500);
        assert_eq!(client.get("/fine").text(), "fine");
    }
    assert_eq!(server.stop().status.code(), Some(0));
    thread::spawn(move || {
        for mut stream in dead.incoming().flatten() {
            // A client that has left needs no answer.
            let _ = stream.write_all(b"554 no mail here\r\n");
        }
    });
    let server = mailing(address);
    server.get("/place0").expect(500);
    let line = server.log().wait(|line| line.contains("could not tell"));
    assert!(line.contains("554"), "{line}");
    assert_eq!(server.get("/fine").text(), "fine");
    assert_eq!(server.stop().status.code(), Some(0));
}
