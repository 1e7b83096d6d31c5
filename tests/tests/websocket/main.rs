//! WebSockets through the front to a Ruby application that speaks them with websocket-driver, as Action Cable does: the cases of
//! Autobahn's testsuite, over HTTP/1.1, TLS and HTTP/2. Row 33 of the list of faults.

mod cases;
mod wire;

use std::io;

use cases::{CLOSE, Case, Event, MAX_MESSAGE};
use highball_tests::authority::Authority;
use highball_tests::http2::{Http2, run};
use highball_tests::tls::{configuration, with_http_2};
use test_support::{Application, Server};
use wire::{Way, Wire};

/// Echoes each message.
const SOURCE: &str = r##"require "websocket/driver"

class Echo
  attr_reader :env

  def initialize(env, max_length)
    @env = env
    @io = env["rack.hijack"].call
    @driver = WebSocket::Driver.rack(self, max_length: max_length)
    @driver.on(:message) do |event|
      event.data.is_a?(String) ? @driver.text(event.data) : @driver.binary(event.data)
    end
    @driver.on(:close) { @io.close_write }
    @driver.start
  end

  def write(bytes) = @io.write(bytes)

  # To the client's end: a socket that is closed on unread bytes resets its connection.
  def run
    loop { @driver.parse(@io.readpartial(65_536)) }
  rescue EOFError, SystemCallError
    @io.close
  end
end

run lambda { |env|
  next Test.text("hello") if env["PATH_INFO"] == "/"
  if env["HTTP_SEC_WEBSOCKET_VERSION"] != "13"
    next [426, { "sec-websocket-version" => "13", "content-type" => "text/plain" }, ["version 13"]]
  end
  echo = Echo.new(env, MAX_LENGTH)
  Thread.new { echo.run }
  [200, {}, []]
}"##;

fn application() -> Application {
    Application::without_lint(&SOURCE.replace("MAX_LENGTH", &MAX_MESSAGE.to_string()))
}

fn with_tls() -> (Authority, Server) {
    let (authority, application) = (Authority::new(), application());
    let signed = authority.sign(&["localhost"]);
    signed.write(&application, "localhost");
    let server = Server::application_of(application)
        .listen(["tls://127.0.0.1:0"])
        .setting("tls_certificate_files", "localhost.pem:localhost.key")
        .start();
    (authority, server)
}

/// A frame of the application: its kind and its payload.
fn read_frame(wire: &mut dyn Wire) -> io::Result<Option<Event>> {
    let Some(head) = wire.receive(2)? else {
        return Ok(None);
    };
    let more = |count: usize, wire: &mut dyn Wire| {
        wire.receive(count)?
            .ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))
    };
    assert_eq!(head[0] & 0xf0, 0x80, "whole, and without reserved bits");
    assert_eq!(head[1] & 0x80, 0, "a server masks nothing");
    let number = |bytes: Vec<u8>| {
        let add = |all: usize, byte: &u8| all << 8 | usize::from(*byte);
        bytes.iter().fold(0, add)
    };
    let length = match head[1] {
        126 => number(more(2, wire)?),
        127 => number(more(8, wire)?),
        length => usize::from(length),
    };
    let payload = more(length, wire)?;
    Ok(Some((head[0] & 0x0f, payload)))
}

/// Plays a case, and returns what is wrong.
fn play(case: &Case, wire: &mut dyn Wire) -> Result<(), String> {
    for bytes in &case.writes {
        // Where the application has ended the connection, reading tells more.
        if wire.send(bytes).is_err() {
            break;
        }
    }
    let expected = if case.codes.is_empty() {
        let _ = wire.send(&cases::close(1000));
        &[1000][..]
    } else {
        &case.codes
    };
    let mut events = Vec::new();
    let code = loop {
        match read_frame(wire) {
            Ok(Some((CLOSE, payload))) => break payload,
            Ok(Some(event)) => events.push(event),
            Ok(None) => return Err(format!("no close frame after {} others", events.len())),
            Err(error) => return Err(format!("{error} after {} frames", events.len())),
        }
    };
    let code = code.first_chunk().map(|&code| u16::from_be_bytes(code));
    if !code.is_some_and(|code| expected.contains(&code)) {
        return Err(format!("closed with {code:?} and not one of {expected:?}"));
    }
    if events != case.events {
        let short = |events: &[Event]| -> Vec<_> {
            let short = events.iter().map(|(kind, bytes)| (*kind, bytes.len()));
            short.collect()
        };
        let (came, expected) = (short(&events), short(&case.events));
        return Err(format!("kinds and lengths {came:?} and not {expected:?}"));
    }
    match wire.receive(1) {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?} after the close frame")),
    }
}

/// Plays all cases, each on a WebSocket of its own.
fn play_all(server: &Server, way: &Way) {
    let failures: Vec<_> = cases::all()
        .iter()
        .filter_map(|case| {
            let mut wire = way.open(server, "13").expect("a WebSocket");
            let played = play(case, &mut *wire);
            wire.end();
            let wrong = played.err()?;
            Some(format!("{}: {wrong}", case.name))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(way.open(server, "12").err(), Some(426));
}

#[test]
fn row_33_autobahns_cases_pass_over_http_1() {
    let server = Server::application_of(application()).start();
    play_all(&server, &Way::Plain);
}

#[test]
fn row_33_autobahns_cases_pass_over_tls() {
    let (authority, server) = with_tls();
    let trusting = configuration(&authority, rustls::ALL_VERSIONS, None);
    play_all(&server, &Way::Tls(trusting));
}

#[test]
fn row_33_autobahns_cases_pass_over_http_2() {
    let (authority, server) = with_tls();
    let trusting = with_http_2(&configuration(&authority, rustls::ALL_VERSIONS, None));
    let client = Http2::try_tls(server.tls_address(), "localhost", &trusting);
    let client = client.expect("HTTP/2");
    // The server's settings, which come with the first answer, say that it takes WebSockets.
    run(client.get("/")).expect("an answer");
    play_all(&server, &Way::Http2(client));
}
