//! WebSockets over HTTP/2 (RFC 8441): the application sees the upgrade of HTTP/1.1 and takes the connection over, the client
//! has a stream. Others share the connection meanwhile.

use bytes::Bytes;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use highball_tests::http2::{Http2, read_body, run};
use http::Response;
use test_support::{Application, Server, ServerBuilder};

/// Takes each path but `/` over, as its name says.
const SOURCE: &str = r##"require "digest/sha1"
run lambda { |env|
  path = env["PATH_INFO"]
  next Test.text("no such socket", status: 404) if path == "/missing"
  next Test.text("hello") if path == "/"
  io = env["rack.hijack"].call
  key = env["HTTP_SEC_WEBSOCKET_KEY"].to_s
  accept = Digest::SHA1.base64digest("#{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
  accept = "wrong" if path == "/wrong"
  seen = [env["REQUEST_METHOD"], env["HTTP_UPGRADE"], env["HTTP_CONNECTION"], env["HTTP_SEC_WEBSOCKET_VERSION"]]
  upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: #{accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
  case path
  when "/plain" then io.write("HTTP/1.1 203 Fine\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nplain"); io.close
  when "/nonsense" then io.write("nonsense\r\n\r\n"); io.close
  else
    io.write("HTTP/1.1 101 Switching Protocols\r\n" + upgrade)
    Thread.new do
      io.write("#{seen.join(" ")}\n")
      while (line = io.gets)
        io.write("echo #{line}")
      end
      io.close
    end
  end
  [200, {}, []]
}"##;

fn start(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Server {
    let application = Application::without_lint(SOURCE);
    settings(Server::application_of(application)).start()
}

/// Opens a stream for a WebSocket.
async fn open(
    client: &Http2,
    path: &str,
) -> Result<(Response<RecvStream>, SendStream<Bytes>), h2::Error> {
    let request = client
        .request("CONNECT", path)
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "chat")
        .extension(Protocol::from_static("websocket"));
    let request = request.body(()).expect("a request");
    let (response, stream) = client.send(request, false).await?;
    Ok((response.await?, stream))
}

/// Reads until so much has come.
async fn read_text(body: &mut RecvStream, expected: &str) {
    let mut text = Vec::new();
    while text.len() < expected.len() {
        let data = body.data().await.expect("more").expect("more");
        body.flow_control()
            .release_capacity(data.len())
            .expect("a stream");
        text.extend(data);
    }
    assert_eq!(String::from_utf8_lossy(&text), expected);
}

#[test]
fn a_websocket_of_http_2_is_an_upgrade_for_the_application() {
    let server = start(|builder| builder);
    let client = Http2::connect(server.address());
    run(async {
        // The server says with its settings, which come with the first answer, that it takes these.
        assert_eq!(client.get("/").await.expect("a response").text(), "hello");
        let (response, mut to) = open(&client, "/socket").await.expect("a stream");
        assert_eq!(response.status(), 200);
        let fields = response.headers();
        assert_eq!(fields["sec-websocket-protocol"], "chat");
        for name in ["upgrade", "connection", "sec-websocket-accept"] {
            assert!(!fields.contains_key(name), "{fields:?}");
        }
        let mut from = response.into_body();
        read_text(&mut from, "GET websocket Upgrade 13\n").await;
        for line in ["one\n", "two\n"] {
            to.send_data(line.into(), false).expect("a stream");
            read_text(&mut from, &format!("echo {line}")).await;
            // Its connection and its thread are free.
            assert_eq!(client.get("/").await.expect("a response").text(), "hello");
        }
        to.send_data(Bytes::new(), true).expect("a stream");
        assert_eq!(read_body(&mut from).await.expect("the end"), b"");
    });
    server
        .log()
        .wait(|line| line.contains("/socket") && line.contains("outcome=hijacked"));
}

#[test]
fn much_goes_through_a_websocket_of_http_2_in_both_directions() {
    let server = start(|builder| builder);
    let client = Http2::connect(server.address());
    run(async {
        client.get("/").await.expect("a response");
        let (response, mut to) = open(&client, "/socket").await.expect("a stream");
        let mut from = response.into_body();
        read_text(&mut from, "GET websocket Upgrade 13\n").await;
        let line = format!("{}\n", "x".repeat(9_999));
        let sends = async {
            let mut left = Bytes::from(line.repeat(200));
            while !left.is_empty() {
                to.reserve_capacity(left.len());
                let room = std::future::poll_fn(|cx| to.poll_capacity(cx)).await;
                let room = room.expect("open").expect("room").min(left.len());
                to.send_data(left.split_to(room), false).expect("open");
            }
            to.send_data(Bytes::new(), true).expect("open");
        };
        let ((), echoed) = tokio::join!(sends, read_body(&mut from));
        assert!(echoed.expect("all of it") == format!("echo {line}").repeat(200).as_bytes());
    });
}

#[test]
fn an_application_that_takes_no_websocket_answers_or_resets() {
    let server = start(|builder| builder);
    let client = Http2::connect(server.address());
    run(async {
        client.get("/").await.expect("a response");
        let (missing, _to) = open(&client, "/missing").await.expect("an answer");
        assert_eq!(missing.status(), 404);
        for path in ["/wrong", "/nonsense"] {
            let error = open(&client, path).await.expect_err("no answer");
            assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR), "{path}");
        }
        // A connection that is taken over without an upgrade.
        let plain = client.get("/plain").await.expect("an answer");
        assert_eq!((plain.status, plain.text()), (203, "plain".to_owned()));
        assert_eq!(plain.field("connection"), None);
        assert_eq!(client.get("/").await.expect("a response").text(), "hello");
    });
}

#[test]
fn a_stop_closes_websockets_of_http_2_after_their_own_limit() {
    let server = start(|builder| {
        let builder = builder.setting("drain_timeout", "1h");
        builder.setting("websocket_drain_timeout", "100ms")
    });
    let client = Http2::connect(server.address());
    run(async {
        client.get("/").await.expect("a response");
        let (response, _to) = open(&client, "/socket").await.expect("a stream");
        let mut from = response.into_body();
        read_text(&mut from, "GET websocket Upgrade 13\n").await;
        server.process().signal(rustix::process::Signal::TERM);
        let end = read_body(&mut from).await.expect_err("a reset");
        assert_eq!(end.reason(), Some(Reason::CANCEL));
    });
    let stopped = server.wait_end();
    let text = stopped.log.join("\n");
    assert!(text.contains("closing hijacked connections"), "{text}");
}
