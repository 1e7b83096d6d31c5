//! Every kind of framing, whole, byte by byte, and broken off.

use super::*;

/// Feeds `bytes` whole and then byte by byte, which must come to the same.
fn read(bytes: &[u8], to_head: bool) -> Result<Step, Malformed> {
    let mut framer = Framer::new();
    framer.expect(to_head, false);
    let whole = framer.feed(bytes);

    framer.expect(to_head, false);
    let mut step = Ok(Step::More);
    for (index, byte) in bytes.iter().enumerate() {
        step = framer.feed(std::slice::from_ref(byte));
        match &mut step {
            Ok(Step::More) => {}
            Ok(Step::Whole(_, used)) => {
                *used += index;
                break;
            }
            Err(_) => break,
        }
    }
    assert_eq!(step, whole, "{}", String::from_utf8_lossy(bytes));
    whole
}

/// Status, content, whether the connection stays; all bytes must belong to the response.
fn check(text: &str, expected: (u16, u64, bool)) {
    let Ok(Step::Whole(response, used)) = read(text.as_bytes(), false) else {
        panic!("{text:?} is whole");
    };
    assert_eq!(used, text.len(), "{text:?}");
    let Response {
        status,
        body,
        keep_alive,
        ..
    } = response;
    assert_eq!((status, body, keep_alive), expected, "{text:?}");
}

#[test]
fn responses_with_a_length_end_after_it() {
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        (200, 5, true),
    );
    check(
        "HTTP/1.1 404 No\r\ncontent-length:0\r\n\r\n",
        (404, 0, true),
    );
    check("HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", (200, 2, true));
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        (200, 2, true),
    );
}

#[test]
fn chunked_responses_end_after_their_trailers() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (body, length) in [
        ("0\r\n\r\n", 0),
        ("5\r\nhello\r\n0\r\n\r\n", 5),
        ("A;name=value\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n", 11),
        ("3\r\nabc\r\n0\r\nDigest: x\r\nOther: y\r\n\r\n", 3),
    ] {
        check(&format!("{head}{body}"), (200, length, true));
    }
    // RFC 9112 section 6.3: the coding overrides a length.
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        (200, 1, true),
    );
}

#[test]
fn some_responses_have_no_content_whatever_they_say() {
    check(
        "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n",
        (204, 0, true),
    );
    check(
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
        (304, 0, true),
    );
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n";
    assert!(matches!(
        read(head, true),
        Ok(Step::Whole(Response { status: 200, body: 0, keep_alive: true, .. }, used)) if used == head.len()
    ));
}

#[test]
fn interim_responses_are_passed_over() {
    check(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx",
        (201, 1, true),
    );
}

#[test]
fn the_connection_stays_where_both_sides_agree() {
    let close = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    check(close, (200, 0, false));
    check(
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        (200, 0, false),
    );
    check(
        "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n",
        (200, 0, true),
    );
    check(
        "HTTP/1.1 200 OK\r\nConnection: upgrade, close\r\nContent-Length: 0\r\n\r\n",
        (200, 0, false),
    );
    check(
        "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n",
        (101, 0, false),
    );
}

#[test]
fn an_answer_that_is_no_http_is_reported() {
    for text in [
        "hello\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
    ] {
        assert_eq!(read(text.as_bytes(), false), Err(Malformed), "{text:?}");
    }
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(LONGEST_HEAD));
    assert_eq!(Framer::new().feed(endless.as_bytes()), Err(Malformed));
}

#[test]
fn bytes_behind_a_response_are_left() {
    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more";
    assert!(matches!(read(text, false), Ok(Step::Whole(_, used)) if used == text.len() - 9));
}

#[test]
fn an_end_completes_only_what_has_no_length() {
    let end = |text: &str| {
        let mut framer = Framer::new();
        framer.expect(false, false);
        assert_eq!(framer.feed(text.as_bytes()), Ok(Step::More), "{text:?}");
        framer.end()
    };
    assert_eq!(end(""), Ending::Nothing);
    assert_eq!(end("HTTP/1.1 200"), Ending::Short);
    assert_eq!(
        end("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"),
        Ending::Short
    );
    assert_eq!(
        end("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"),
        Ending::Short
    );
    assert!(matches!(
        end("HTTP/1.1 200 OK\r\n\r\nhello"),
        Ending::Whole(Response {
            status: 200,
            body: 5,
            keep_alive: false,
            ..
        })
    ));
}

#[test]
fn the_fields_of_a_kept_head_can_be_read() {
    let text = "HTTP/1.1 100 Continue\r\nA: 1\r\n\r\nHTTP/1.1 200 OK\r\nB: 2\r\nContent-Length: 2\r\n\r\nhi";
    for step in [1, 7, text.len()] {
        let mut framer = Framer::new();
        framer.expect(false, true);
        for bytes in text.as_bytes().chunks(step) {
            framer.feed(bytes).unwrap();
        }
        let mut seen = Vec::new();
        framer.fields(|name, value| seen.push((name.to_owned(), value.to_vec())));
        assert_eq!(
            seen[0],
            ("B".to_owned(), b"2".to_vec()),
            "in steps of {step}"
        );
        assert_eq!(seen.len(), 2);
    }
}
