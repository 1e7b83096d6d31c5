//! The answer to an error of the application: a page in development, and nothing of the application elsewhere.

use std::net::SocketAddr;

use highball_tests::browser::keep_pictures;
use test_support::{
    Application, Client, Program, Response, Server, ServerBuilder, TerminalSession,
};

/// What an error of the application looks like outside of development.
const PLAIN: &str = "500 Internal Server Error\n";

/// An application that raises, with a message that must be escaped.
fn raises() -> ServerBuilder {
    Server::app(
        r##"require File.join(Dir.pwd, "shop")
        run lambda { |env|
          next Test.text("fine") if env["PATH_INFO"] == "/fine"
          Shop.sell(env["QUERY_STRING"])
        }"##,
    )
}

/// The same with its source.
fn shop() -> ServerBuilder {
    let builder = raises();
    let source = "module Shop\n  def self.sell(what)\n    # A comment with <b>tags</b> & more.\n    raise ArgumentError, \"no <script>alert(1)</script> of #{what}\"\n  end\nend\n";
    builder.application().dir().write("shop.rb", source);
    builder
}

fn start(environment: Option<&str>, listen: &str) -> Server {
    shop().environment(environment).listen([listen]).start()
}

fn get(server: &Server, accept: &str, more: &str) -> Response {
    let mut client: Client = server.connect();
    client.send(format!(
        "GET /?%3Cbooks%3E HTTP/1.1\r\nhost: test\r\naccept: {accept}\r\n{more}\r\n"
    ));
    client.response()
}

const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

#[test]
fn a_browser_gets_a_page_with_message_source_and_backtrace() {
    let server = start(Some("development"), "127.0.0.1:0");
    let response = get(&server, BROWSER, "");
    assert_eq!(response.status(), 500);
    assert_eq!(
        response.field("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert_eq!(response.field("cache-control"), Some("no-store"));
    let page = response.text();
    for part in [
        "<h1>ArgumentError</h1>",
        "no &lt;script&gt;alert(1)&lt;",
        "shop.rb:4",
        "# A comment with &lt;b&gt;tags&lt;",
        "config.ru:",
    ] {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
    for part in ["<script", "<b>", "<link", "<img", "http://", "https://"] {
        assert!(!page.contains(part), "{part:?} in {page}");
    }
    // The error is in the log, once, and the next request of the connection is served.
    server
        .log()
        .wait(|line| line.contains("class=\"ArgumentError\""));
    server.log().wait(|line| line.contains("shop.rb:4:in "));
    let mut client = server.connect();
    client.send(format!(
        "GET / HTTP/1.1\r\nhost: test\r\naccept: {BROWSER}\r\n\r\n"
    ));
    assert_eq!(client.response().status(), 500);
    assert_eq!(client.get("/fine").text(), "fine");
}

#[test]
fn the_page_is_shown_by_a_browser() {
    let server = start(Some("development"), "127.0.0.1:0");
    let address = format!("http://{}/books?what=%3Cbooks%3E", server.address());
    keep_pictures(&address, "h1", "error_page", server.application().path());
}

#[test]
fn other_clients_get_the_error_as_text() {
    let server = start(Some("development"), "127.0.0.1:0");
    let response = get(&server, "*/*", "");
    assert_eq!(response.status(), 500);
    assert_eq!(
        response.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
    let text = response.text();
    let first = "500 Internal Server Error\n\nArgumentError: no <script>alert(1)</script> of ";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("shop.rb:4:in "), "{text}");
}

#[test]
fn outside_of_development_no_client_sees_anything_of_an_error() {
    for environment in ["production", "staging", "test"] {
        let server = start(Some(environment), "127.0.0.1:0");
        for accept in [BROWSER, "*/*"] {
            assert_eq!(get(&server, accept, "").text(), PLAIN, "{environment}");
        }
    }
}

#[test]
fn clients_with_a_public_address_see_nothing_of_an_error() {
    let server = start(Some("development"), "127.0.0.1:0");
    for field in [
        "x-forwarded-for: 198.51.100.7\r\n",
        "x-forwarded-for: 198.51.100.7, 10.0.0.1\r\n",
        "x-forwarded-for: unknown\r\n",
        "x-real-ip: 2001:db8::1\r\n",
        "forwarded: for=\"[2001:db8::1]:4711\";proto=https\r\n",
    ] {
        assert_eq!(get(&server, BROWSER, field).text(), PLAIN, "{field}");
    }
    for field in [
        "x-forwarded-for: 192.168.0.7, 127.0.0.1\r\n",
        "forwarded: for=\"[::1]:4711\";proto=https;by=198.51.100.7\r\n",
    ] {
        let page = get(&server, BROWSER, field).text();
        assert!(page.contains("<h1>ArgumentError</h1>"), "{field}: {page}");
    }
}

#[test]
fn a_proxy_without_trust_and_a_public_host_get_no_page() {
    let server = shop()
        .environment(Some("development"))
        .setting("trusted_proxies", "192.0.2.1")
        .start();
    for field in [
        "x-forwarded-for: 192.168.0.7\r\n",
        "x-real-ip: 127.0.0.1\r\n",
        "x-forwarded-proto: https\r\n",
        "cf-connecting-ip: 10.0.0.1\r\n",
    ] {
        assert_eq!(get(&server, BROWSER, field).text(), PLAIN, "{field}");
    }
    for (host, has_page) in [
        ("localhost:3000", true),
        ("shop.localhost", true),
        ("127.0.0.1:3000", true),
        ("[::1]:3000", true),
        ("192.168.0.7", true),
        ("my-laptop:3000", true),
        ("shop.example.com", false),
        ("shop.example.com.:3000", false),
        ("198.51.100.7", false),
        ("localhost.example.com", false),
    ] {
        let mut client: Client = server.connect();
        client.send(format!(
            "GET / HTTP/1.1\r\nhost: {host}\r\naccept: {BROWSER}\r\n\r\n"
        ));
        let text = client.response().text();
        assert_eq!(
            text.contains("<h1>ArgumentError</h1>"),
            has_page,
            "{host}: {text}"
        );
    }
}

#[test]
fn without_a_chosen_environment_the_page_needs_a_terminal() {
    let server = start(None, "127.0.0.1:0");
    assert_eq!(get(&server, BROWSER, "").text(), PLAIN);
    server
        .log()
        .wait(|line| line.contains("level=warn") && line.contains("no environment is named"));
}

#[test]
fn in_a_terminal_the_page_needs_a_chosen_environment_or_a_local_listener() {
    for (listen, has_page) in [("127.0.0.1:0", true), ("0.0.0.0:0", false)] {
        let shop = shop();
        let terminal = TerminalSession::highball(shop.application().path(), &["-b", listen]);
        let line = terminal
            .log()
            .wait(|line| line.contains("listening on http://"));
        let (_, port) = line.trim_end().rsplit_once(':').expect("an address");
        let address = SocketAddr::from(([127, 0, 0, 1], port.parse().expect("a port")));
        let mut client = Client::connect(address);
        client.send(format!(
            "GET /?%3Cbooks%3E HTTP/1.1\r\nhost: test\r\naccept: {BROWSER}\r\n\r\n"
        ));
        let text = client.response().text();
        assert_eq!(
            text.contains("<h1>ArgumentError</h1>"),
            has_page,
            "{listen}: {text}"
        );
    }
}

#[test]
fn a_response_that_has_begun_is_cut_and_gets_no_page() {
    let builder = Server::app(
        r##"class Breaks
          def each
            yield "a"
            Test.pass("raise")
            raise "too late"
          end
        end
        run lambda { |_env| [200, { "content-type" => "text/plain" }, Breaks.new] }"##,
    )
    .environment(Some("development"));
    let gate = builder.application().gate("raise");
    let mut events = builder.application().events();
    let server = builder.start();
    let mut client = server.connect();
    client.send(format!(
        "GET / HTTP/1.1\r\nhost: test\r\naccept: {BROWSER}\r\n\r\n"
    ));
    // Once the client has its head, the response cannot become another one.
    assert_eq!(client.head().status, 200);
    assert_eq!(events.wait(), "at raise");
    gate.admit(1);
    let (bytes, _) = client.rest();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("too late"), "{text}");
    server.log().wait(|line| line.contains("too late"));
}

#[test]
fn check_names_the_defaults_of_development() {
    let application = Application::new("run lambda { |_env| Test.text(\"\") }");
    let text = Program::highball(["check"])
        .arg(application.path())
        .run()
        .stdout;
    let line = |name: &str| {
        text.lines()
            .find(|line| line.trim_start().starts_with(name))
    };
    for (name, value) in [("workers ", "  1  "), ("request_timeout ", "  none  ")] {
        let line = line(name).expect("a line for it");
        assert!(
            line.contains(value) && line.ends_with("(default in development)"),
            "{line}"
        );
    }
}
