//! The client against scripted responses: framing, cut responses, malformed ones, silence.

use std::io::Write;
use std::net::TcpListener;

use super::*;

/// A client whose server sends `script` and then ends the connection in order.
fn served(script: &str) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::connect(listener.local_addr().unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(script.as_bytes()).unwrap();
    client
}

#[test]
fn bodies_are_read_by_their_framing() {
    let check = |method: &str, script: &str, body: &str, rest: &str| {
        let mut client = served(script);
        let response = client.response_to(method);
        assert_eq!(response.text(), body, "{script:?}");
        assert_eq!(client.rest().0, rest.as_bytes(), "{script:?}");
    };
    check(
        "GET",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi!",
        "hi",
        "!",
    );
    check(
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n!",
        "hi",
        "!",
    );
    check("GET", "HTTP/1.0 200 OK\r\n\r\nhi", "hi", "");
    check(
        "HEAD",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        "",
        "hi",
    );
    check("GET", "HTTP/1.1 204 No Content\r\n\r\nhi", "", "hi");
    check(
        "GET",
        "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "",
        "",
    );
}

#[test]
fn what_is_cut_short_is_told() {
    for script in [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n",
    ] {
        let fault = served(script).try_response("GET").unwrap_err();
        assert!(matches!(fault, Fault::Truncated { .. }), "{fault}");
    }
    let fault = served("HTTP/1.1 200").try_response("GET").unwrap_err();
    assert!(matches!(fault, Fault::Ended { .. }), "{fault}");
}

#[test]
fn what_is_no_response_is_refused() {
    for script in [
        "HTTP/1.1 200 OK\r\nA: b\nB: c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    ] {
        let fault = served(script).try_response("GET").unwrap_err();
        assert!(matches!(fault, Fault::Malformed(_)), "{fault}");
    }
}

#[test]
fn silence_is_told_from_bytes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = Client::connect(listener.local_addr().unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    client.expect_silence();
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
    client.response().expect(200);
    client.expect_silence();
    drop(stream);
    client.expect_end();
}
