//! Each table is checked whole, byte by byte and in random pieces; the outcome must be the same.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Head, Limits, Phase, Refusal, Screen, Step};

const LIMITS: Limits = Limits {
    max_target_bytes: 12288,
    max_header_count: 128,
    max_header_bytes: 114_688,
    max_field_bytes: 81920,
    max_body_bytes: 1 << 30,
};

/// What came of all bytes.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    passed: Vec<u8>,
    refusal: Option<Refusal>,
    phase: Phase,
    head: Option<Head>,
    left: usize,
}

/// Feeds `bytes` in pieces of the sizes that `piece` gives, up to the end of the first message.
fn feed(limits: Limits, bytes: &[u8], mut piece: impl FnMut() -> usize) -> Outcome {
    let mut screen = Screen::new(limits);
    let mut buffered = Vec::new();
    let mut passed = Vec::new();
    let mut refusal = None;
    let mut rest = bytes;
    loop {
        match screen.advance(&mut buffered) {
            Ok(step) if !step.is_empty() => {
                buffered.drain(..step.skip);
                passed.extend(buffered.drain(..step.pass));
            }
            Ok(_) if rest.is_empty() => break,
            Ok(_) => {
                let (now, later) = rest.split_at(piece().clamp(1, rest.len()));
                buffered.extend_from_slice(now);
                rest = later;
            }
            Err(reason) => {
                assert_eq!(
                    screen.advance(&mut buffered),
                    Err(reason),
                    "a refusal stays"
                );
                refusal = Some(reason);
                break;
            }
        }
    }
    // After a refusal nothing that is left counts.
    let left = if refusal.is_some() {
        0
    } else {
        buffered.len() + rest.len()
    };
    Outcome {
        passed,
        refusal,
        phase: screen.phase(),
        head: screen.head().copied(),
        left,
    }
}

/// The same with the data of a chunked body in place of its chunks: small ones are joined as they come.
fn decoded(mut outcome: Outcome) -> Outcome {
    if outcome.head.is_some_and(|head| head.chunked) {
        let end = outcome.passed.windows(4).position(|end| end == b"\r\n\r\n");
        let body = outcome.passed.split_off(end.unwrap() + 4);
        let mut rest = body.as_slice();
        while let Some(end) = rest.windows(2).position(|end| end == b"\r\n") {
            let digits = rest[..end]
                .iter()
                .take_while(|byte| byte.is_ascii_hexdigit());
            let size =
                usize::from_str_radix(std::str::from_utf8(&rest[..digits.count()]).unwrap(), 16);
            let data = &rest[end + 2..];
            let (data, after) = data.split_at(size.unwrap().min(data.len()));
            outcome.passed.extend_from_slice(data);
            rest = after.strip_prefix(b"\r\n").unwrap_or_default();
        }
    }
    outcome
}

/// Feeds `bytes` in every way and asserts that the way makes no difference.
fn screen_with(limits: Limits, bytes: &[u8]) -> Outcome {
    let raw = feed(limits, bytes, || usize::MAX);
    let whole = decoded(feed(limits, bytes, || usize::MAX));
    assert_eq!(
        decoded(feed(limits, bytes, || 1)),
        whole,
        "byte by byte: {}",
        bytes.escape_ascii()
    );
    let mut random = Random(bytes.len() as u64 + 1);
    for largest in [3, 7, 40] {
        let pieces = decoded(feed(limits, bytes, || 1 + random.below(largest)));
        assert_eq!(
            pieces,
            whole,
            "in pieces of up to {largest}: {}",
            bytes.escape_ascii()
        );
    }
    raw
}

fn screen(bytes: &[u8]) -> Outcome {
    screen_with(LIMITS, bytes)
}

fn accepts(bytes: impl AsRef<[u8]>) -> Head {
    let bytes = bytes.as_ref();
    let outcome = screen(bytes);
    assert_eq!(outcome.refusal, None, "{}", bytes.escape_ascii());
    assert_eq!(outcome.phase, Phase::Complete, "{}", bytes.escape_ascii());
    assert_eq!(outcome.left, 0, "{}", bytes.escape_ascii());
    outcome.head.unwrap()
}

fn refuses(status: u16, bytes: impl AsRef<[u8]>) {
    refuses_with(LIMITS, status, bytes);
}

fn refuses_with(limits: Limits, status: u16, bytes: impl AsRef<[u8]>) {
    let bytes = bytes.as_ref();
    let outcome = screen_with(limits, bytes);
    assert_eq!(
        outcome.refusal.map(|refusal| refusal.status),
        Some(status),
        "{}",
        bytes.escape_ascii()
    );
}

/// A head with this request line and a Host.
fn request(line: &str) -> String {
    format!("{line}\r\nHost: a\r\n\r\n")
}

/// A GET with these field lines after Host.
fn get(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n")
}

/// A POST with these field lines after Host, and a body.
fn post(fields: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}")
}

fn chunked(body: &str) -> String {
    post("Transfer-Encoding: chunked", body)
}

/// xorshift64: the tests must be the same at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn request_lines_of_http_1_are_accepted() {
    for line in [
        "GET / HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "get / HTTP/1.0",
        "M-SEARCH!#$%&'*+.^_`|~09 /x HTTP/1.1",
        "GET /a?b=c&d=%20%zz&e[]=1&f={x|y}^`\\ HTTP/1.1",
        "GET /with_\"quotes\"{a|b}^[c]\\ HTTP/1.1",
        "GET //// HTTP/1.1",
        "GET /?? HTTP/1.1",
        "GET /`caf\u{e9}` HTTP/1.1",
        "GET /?\"a\" HTTP/1.1",
        "GET http://example.com/\u{e9}`?\"q\u{e9}\" HTTP/1.1",
        "GET http://example.com/foo?q=1 HTTP/1.1",
        "GET HTTP://example.com HTTP/1.1",
        "GET https://example.com:8443?q HTTP/1.1",
        "GET http://[::1]:8080/ HTTP/1.1",
        "GET http://a_b.c:/ HTTP/1.1",
    ] {
        accepts(request(line));
    }
    assert_eq!(accepts("GET / HTTP/1.0\r\n\r\n").version_minor, 0);
    assert!(accepts(request("HEAD / HTTP/1.1")).is_head);
}

#[test]
fn malformed_request_lines_are_refused() {
    for line in [
        "GET",
        "GET ",
        "GET /",
        "GET / ",
        "GET HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET / /x HTTP/1.1",
        "GET / FTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/1",
        "GET / HTTP/1.",
        "GET / HTTP/111",
        "GET / HTTP/1.10",
        "GET / HTTP/0.99",
        "GET / HTTP/1111111111111111111111111.1",
        "GET / HTTP/+1.1",
        "GET: / HTTP/1.1",
        "G\u{df}T / HTTP/1.1",
        "GET\0 / HTTP/1.1",
        "GET\0PROXY / HTTP/1.1",
        "\"GET\" / HTTP/1.1",
        "bla:rgh / HTTP/1.1",
        "GET /\0 HTTP/1.1",
        "GET /\x7f HTTP/1.1",
        "GET /a\tb HTTP/1.1",
        "GET /a#b HTTP/1.1",
        "GET /?a#b HTTP/1.1",
        "GET /<a> HTTP/1.1",
        "GET /?<a> HTTP/1.1",
        "GET http://ex\u{e9}mple.com/ HTTP/1.1",
        "GET http://a`b/ HTTP/1.1",
        "GET * HTTP/1.1",
        "OPTIONS ** HTTP/1.1",
        "GET foo/bar HTTP/1.1",
        "GET example.com:443 HTTP/1.1",
        "GET ?a HTTP/1.1",
        "GET s://]ufd/: HTTP/1.1",
        "GET ftp://example.com/ HTTP/1.1",
        "GET http:/example.com/ HTTP/1.1",
        "GET http:// HTTP/1.1",
        "GET http:///x HTTP/1.1",
        "GET http://:80/x HTTP/1.1",
        "GET http://user@example.com/ HTTP/1.1",
        "GET http://user:pass@example.com:8080/ HTTP/1.1",
        "GET http://a%41/ HTTP/1.1",
        "GET http://a:b/ HTTP/1.1",
        "GET http://[::1/ HTTP/1.1",
        "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443",
        "GET / HTTP/1.1\r",
        "GET /\r HTTP/1.1",
    ] {
        refuses(400, request(line));
    }
}

#[test]
fn a_connection_that_speaks_no_http_is_refused_at_its_first_byte() {
    refuses(400, b"\x16\x03\x01");
    refuses(400, b"\n");
    refuses(400, b"\0");
    refuses(400, b" ");
}

#[test]
fn other_major_versions_are_refused_with_505() {
    for line in [
        "GET / HTTP/2.0",
        "PRI * HTTP/2.0",
        "GET / HTTP/9.9",
        "GET / HTTP/0.9",
        "GET / HTTP/3.1",
    ] {
        refuses(505, request(line));
    }
}

#[test]
fn a_higher_minor_version_is_treated_as_1_1() {
    for minor in 2..=9 {
        let outcome = screen(request(&format!("GET /HTTP/1.{minor} HTTP/1.{minor}")).as_bytes());
        assert_eq!(outcome.head.unwrap().version_minor, 1);
        assert_eq!(
            outcome.passed,
            request(&format!("GET /HTTP/1.{minor} HTTP/1.1")).as_bytes()
        );
    }
}

#[test]
fn connect_and_methods_too_long_are_not_implemented() {
    refuses(501, request("CONNECT example.com:443 HTTP/1.1"));
    refuses(501, request("CONNECT [::1]:443 HTTP/1.1"));
    refuses(501, request("CONNECT / HTTP/1.1"));
    refuses(501, request(&format!("{} / HTTP/1.1", "M".repeat(65))));
    accepts(request(&format!("{} / HTTP/1.1", "M".repeat(64))));
    refuses(
        501,
        request(&format!("{} / HTTP/1.1", "M".repeat(16 * 1024))),
    );
    refuses(501, "M".repeat(20_000));
}

#[test]
fn a_target_that_hyper_refuses_reaches_it_masked_and_is_kept_raw() {
    for (target, masked, path, query) in [
        (
            &b"/a\xc3\xa9`b?c"[..],
            &b"/a___b?c"[..],
            &b"/a\xc3\xa9`b"[..],
            &b"c"[..],
        ),
        (b"/\xff?\"x\"?`", b"/_?_x_?`", b"/\xff", b"\"x\"?`"),
        (b"/\xe9", b"/_", b"/\xe9", b""),
        (b"http://a:80?\xe9", b"http://a:80?_", b"/", b"\xe9"),
        (b"HTTPS://[::1]/x`?y", b"HTTPS://[::1]/x_?y", b"/x`", b"y"),
    ] {
        let head = |target: &[u8]| [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
        let mut bytes = head(target);
        let mut screen = Screen::new(LIMITS);
        assert_eq!(screen.advance(&mut bytes).unwrap().pass, bytes.len());
        assert_eq!(bytes, head(masked));
        let raw = screen.take_raw_target().expect("a raw target");
        assert_eq!((raw.path(), raw.query()), (path, query));
        assert!(screen.take_raw_target().is_none());
    }
    let mut screen = Screen::new(LIMITS);
    let mut plain = request("GET /with_\"quotes\"{a|b}^[c]\\?{x|y}^` HTTP/1.1").into_bytes();
    screen.advance(&mut plain).unwrap();
    assert!(screen.take_raw_target().is_none());
}

#[test]
fn host_must_stand_once_and_be_valid() {
    for host in [
        "a",
        "a,b",
        "0.0.0.0=5000",
        "a_b-c.~d:80",
        "a:",
        "[::1]",
        "[2001:db8::1]:3000",
        "a:65535",
        " \ta\t ",
    ] {
        accepts(format!("GET / HTTP/1.1\r\nhOsT:{host}\r\n\r\n"));
    }
    accepts("GET / HTTP/1.0\r\n\r\n");
    let long = |bytes: usize| format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(bytes));
    accepts(long(1024));
    for bytes in [1025, 70_000] {
        refuses(400, long(bytes));
    }
    refuses(
        400,
        request(&format!("GET http://{}/ HTTP/1.1", "a".repeat(1025))),
    );
    refuses(400, "GET / HTTP/1.1\r\n\r\n");
    refuses(400, "GET http://a/ HTTP/1.1\r\n\r\n");
    refuses(400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n");
    refuses(400, "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n");
    for host in [
        "",
        " ",
        ":80",
        "a b",
        "a/b",
        "a?b",
        "a#b",
        "u@a",
        "a:b",
        "a:65536",
        "a:000080",
        "a:-1",
        "a:80:80",
        "[::1",
        "[]",
        "[1]",
        "[::1]x",
        "[v1.a]",
        "[fe80::1%25eth0]",
        "::1",
        "\u{e9}",
        "a%41",
        "a\"",
        "<a>",
        "http://a",
    ] {
        refuses(400, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    }
}

#[test]
fn well_formed_fields_are_accepted() {
    for fields in [
        "A:",
        "A: ",
        "A:b",
        "A: \t value \t ",
        "!#$%&'*+-.^_`|~aZ09: x",
        "X_Under: score",
        "A: caf\u{e9}",
        "A: !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
        "Content-Type: a/b",
        "Accept: a\r\nAccept: b",
    ] {
        accepts(get(fields));
    }
}

#[test]
fn malformed_fields_are_refused() {
    for fields in [
        "A",
        ":b",
        " A: b",
        "A : b",
        "A\t: b",
        "A b: c",
        "A\0: b",
        "(A): b",
        "\u{e9}: b",
        "Content-Length\u{df}: 3",
        "A: b\r\n c",
        "A: b\r\n\tc",
        "A: b\r\n : c",
        "A: b\0",
        "A: b\x07c",
        "A: b\x1bc",
        "A: b\x7fc",
        "A: b\rc",
        "A: b\r\rc",
        "A: b\nC: d",
        "A: b\n",
        "A: b\r",
        "Content-Type: a/b\r\ncontent-type: a/b",
    ] {
        refuses(400, get(fields));
    }
    refuses(400, "GET / HTTP/1.1\nHost: a\n\n");
    refuses(400, "GET / HTTP/1.1\r\nHost: a\r\n\n");
    refuses(400, "GET / HTTP/1.1\r\nHost: a\r\n\rX");
    refuses(400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n");
}

#[test]
fn every_control_character_in_a_head_is_refused() {
    for byte in (0..0x20).chain([0x7f]).filter(|&byte| byte != b'\t') {
        for place in 0.."GET / HTTP/1.1\r\nHost: a\r\nAb: cd".len() {
            let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\nAb: cd\r\n\r\n".to_vec();
            bytes.insert(place, byte);
            let refused = screen(&bytes).refusal.map(|refusal| refusal.status);
            assert_eq!(refused, Some(400), "{}", bytes.escape_ascii());
        }
    }
}

#[test]
fn content_length_is_one_plain_number() {
    assert_eq!(
        accepts(post("Content-Length: 5", "hello")).content_length,
        Some(5)
    );
    assert_eq!(
        accepts(post("conTENT-Length:\t005 ", "hello")).content_length,
        Some(5)
    );
    assert_eq!(accepts(get("Content-Length: 0")).content_length, Some(0));
    assert_eq!(
        accepts("POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello").content_length,
        Some(5)
    );
    for value in [
        "",
        "+5",
        "-5",
        "-0",
        "5_0",
        "5, 5",
        "5,5",
        "5 5",
        "0x5",
        "5.",
        "5e0",
        "\u{665}",
        "bla",
        "18446744073709551616",
        "99999999999999999999999",
        "5;a",
    ] {
        refuses(400, post(&format!("Content-Length: {value}"), "hello"));
    }
    refuses(400, post("Content-Length: 5\r\nContent-Length: 5", "hello"));
    refuses(400, post("Content-Length: 5\r\nContent-Length: 6", "hello"));
    refuses(400, post("Content-Length : 5", "hello"));
}

#[test]
fn transfer_encoding_is_chunked_and_nothing_else() {
    for value in ["chunked", "Chunked", " \tCHUNKED\t"] {
        let head = accepts(post(&format!("Transfer-Encoding:{value}"), "0\r\n\r\n"));
        assert!(head.chunked && head.content_length.is_none());
    }
    for value in [
        "",
        ",",
        ",chunked",
        "chunked,",
        "chunked, chunked",
        "chunked\r\nTransfer-Encoding: chunked",
        "chunked, gzip",
        "chunked\r\nTransfer-Encoding: gzip",
        "chunked, identity",
        "chunked, foo",
        "identity",
        "gzip",
        "chunked;a=b",
        "\"chunked\"",
        "chunked foo",
        "identity, chunked, identity, chunked",
    ] {
        refuses(
            400,
            post(&format!("Transfer-Encoding: {value}"), "0\r\n\r\n"),
        );
    }
    for value in [
        "gzip, chunked",
        "gzip\r\nTransfer-Encoding: chunked",
        "identity, chunked",
        "foo, chunked",
        "foo",
        "xchunked",
        "chunkedx",
        "foo;a=b, chunked",
    ] {
        refuses(
            501,
            post(&format!("Transfer-Encoding: {value}"), "0\r\n\r\n"),
        );
    }
    refuses(
        400,
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    );
    refuses(
        400,
        "POST / HTTP/1.0\r\nTransfer-Encoding: foo\r\n\r\n0\r\n\r\n",
    );
    for both in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
    ] {
        refuses(400, post(both, "0\r\n\r\n"));
    }
    refuses(
        400,
        post("Transfer-Encoding: identity\r\nContent-Length: 5", "hello"),
    );
    refuses(400, post("Content-Length: 0\r\nTransfer-Encoding: foo", ""));
}

#[test]
fn underscores_do_not_frame() {
    let head = accepts(get("Transfer_Encoding: chunked\r\nContent_Length: 5"));
    assert!(!head.chunked && head.content_length.is_none());
}

#[test]
fn only_100_continue_may_be_expected() {
    assert!(accepts(post("Expect: 100-Continue\r\nContent-Length: 1", "a")).expect_continue);
    assert!(!accepts(get("A: b")).expect_continue);
    for value in [
        "",
        "200-ok",
        "100-continue, foo",
        "100-continue=1",
        "100-continue\r\nExpect: foo",
    ] {
        refuses(417, get(&format!("Expect: {value}")));
    }
    assert!(!accepts("GET / HTTP/1.0\r\nExpect: foo\r\n\r\n").expect_continue);
    assert!(!accepts("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").expect_continue);
}

#[test]
fn persistence_follows_version_and_connection() {
    for (fields, persists) in [
        ("GET / HTTP/1.1\r\nHost: a", true),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: Close", false),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: a , close", false),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close",
            false,
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: closed", true),
        ("GET / HTTP/1.2\r\nHost: a", true),
        ("GET / HTTP/1.0", false),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive", true),
        ("GET / HTTP/1.0\r\nConnection: close, keep-alive", false),
    ] {
        assert_eq!(
            accepts(format!("{fields}\r\n\r\n")).keep_alive,
            persists,
            "{fields}"
        );
    }
}

#[test]
fn chunked_bodies_are_accepted() {
    for body in [
        "0\r\n\r\n",
        "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
        "5\r\nhello\r\n000\r\n\r\n",
        "0000000000000005\r\nhello\r\n0000000000000000\r\n\r\n",
        "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
        "5;a\r\nhello\r\n0;b=c\r\n\r\n",
        "5; some; parameters=stuff\r\nhello\r\n0\r\n\r\n",
        "5 \t;\ta = \"b;c\\\"\" \r\nhello\r\n0\r\n\r\n",
        "5;a=\"\";b=\"\\\\\u{e9}\t\" ; c\r\nhello\r\n0\r\n\r\n",
        "5;a=b;c=d\r\nhello\r\n0\r\n\r\n",
        "2\r\n\r\n\r\n0\r\n\r\n",
        "5\r\n0\r\n\r\n\r\n0\r\n\r\n",
    ] {
        assert!(accepts(chunked(body)).chunked);
    }
}

#[test]
fn small_chunks_reach_the_parser_joined_into_one() {
    let small: String = (0..1000)
        .map(|at| format!("1\r\n{}\r\n", at % 10))
        .collect();
    let data: String = (0..1000).map(|at| (at % 10).to_string()).collect();
    let large = format!("200\r\n{}\r\n", "x".repeat(512));
    for (body, joined) in [
        (
            format!("{small}0\r\n\r\n"),
            format!("3e8\r\n{data}\r\n0\r\n\r\n"),
        ),
        (
            format!("{large}{small}{large}{small}0\r\n\r\n"),
            format!("{large}3e8\r\n{data}\r\n{large}3e8\r\n{data}\r\n0\r\n\r\n"),
        ),
        // An extension counts, so its chunk stays as it is.
        (
            "1\r\na\r\n002\r\nbc\r\n1;x\r\nd\r\n1\r\ne\r\n0\r\n\r\n".to_owned(),
            "3\r\nabc\r\n1;x\r\nd\r\n1\r\ne\r\n0\r\n\r\n".to_owned(),
        ),
        (
            "ff\r\n".to_owned() + &"y".repeat(255) + "\r\n1\r\nz\r\n0\r\n\r\n",
            "100\r\n".to_owned() + &"y".repeat(255) + "z\r\n0\r\n\r\n",
        ),
    ] {
        let outcome = screen(chunked(&body).as_bytes());
        assert_eq!(outcome.phase, Phase::Complete);
        assert_eq!(
            outcome.passed.escape_ascii().to_string(),
            chunked(&joined).as_bytes().escape_ascii().to_string()
        );
    }
}

#[test]
fn malformed_chunks_are_refused() {
    for body in [
        "\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5\t\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "1_0\r\nhello\r\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
        ";a=b\r\nhello\r\n0\r\n\r\n",
        " ;a=b\r\nhello\r\n0\r\n\r\n",
        "5;\r\nhello\r\n0\r\n\r\n",
        "5;=b\r\nhello\r\n0\r\n\r\n",
        "5;;a\r\nhello\r\n0\r\n\r\n",
        "5;bad[=x\r\nhello\r\n0\r\n\r\n",
        "5;a=\r\nhello\r\n0\r\n\r\n",
        "5;a=;b\r\nhello\r\n0\r\n\r\n",
        "5;a=b c\r\nhello\r\n0\r\n\r\n",
        "5;a b\r\nhello\r\n0\r\n\r\n",
        "5;a=[b]\r\nhello\r\n0\r\n\r\n",
        "5;a=b\"c\"\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\"c\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\\\"\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\\\r\nhello\r\n0\r\n\r\n",
        "5;a;\r\nhello\r\n0\r\n\r\n",
        "0;a=\"\r\n\r\n",
        "5 a\r\nhello\r\n0\r\n\r\n",
        "5,5\r\nhello\r\n0\r\n\r\n",
        "5;a\0\r\nhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "5\n;\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "5\r\nhell\r\n0\r\n\r\n",
        "5\r\nhello\r\r0\r\n\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "0\r\n\n",
        "0\r\n\rx",
        "0\n\r\n",
    ] {
        refuses(400, chunked(body));
    }
}

#[test]
fn trailers_are_checked_and_skipped() {
    let head_and_last_chunk = chunked("0\r\n");
    for trailers in [
        "A: b\r\n",
        "Host: evil\r\n",
        "Content-Length: 99\r\nAuthorization: x\r\n",
        "A:\r\nB:\r\nC:\r\n",
    ] {
        let outcome = screen(format!("{head_and_last_chunk}{trailers}\r\n").as_bytes());
        assert_eq!(outcome.refusal, None);
        assert_eq!(outcome.phase, Phase::Complete);
        assert_eq!(
            outcome.passed,
            format!("{head_and_last_chunk}\r\n").as_bytes()
        );
    }
    for trailers in [
        "A\r\n",
        "A : b\r\n",
        " A: b\r\n",
        "A: b\r\n c\r\n",
        "A: b\0\r\n",
        "A: b\n",
        "GET / HTTP/1.1\r\n",
    ] {
        refuses(400, format!("{head_and_last_chunk}{trailers}\r\n"));
    }
    let field = |bytes: usize| format!("A:{}\r\n", "b".repeat(bytes - 4));
    accepts(format!(
        "{head_and_last_chunk}{}{}\r\n",
        field(16000),
        field(384)
    ));
    refuses(
        431,
        format!("{head_and_last_chunk}{}{}\r\n", field(16000), field(385)),
    );
    refuses(431, format!("{head_and_last_chunk}{}", "A".repeat(17000)));
}

#[test]
fn chunk_extensions_are_bounded_for_the_whole_body() {
    let chunk = |bytes: usize| format!("1;{}\r\nx\r\n", "e".repeat(bytes - 1));
    accepts(chunked(&format!("{}{}0\r\n\r\n", chunk(16000), chunk(384))));
    refuses(
        400,
        chunked(&format!("{}{}0\r\n\r\n", chunk(16000), chunk(385))),
    );
    refuses(400, chunked(&format!("1;{}", "e".repeat(17000))));
    refuses(400, chunked(&chunk(2).repeat(8193)));
}

#[test]
fn the_target_has_a_limit() {
    let limits = Limits {
        max_target_bytes: 20,
        ..LIMITS
    };
    let line = |bytes: usize| request(&format!("GET /{} HTTP/1.1", "a".repeat(bytes - 1)));
    assert_eq!(
        screen_with(limits, line(20).as_bytes()).phase,
        Phase::Complete
    );
    refuses_with(limits, 414, line(21));
    refuses_with(limits, 414, line(200));
    refuses_with(limits, 414, format!("GET /{}", "a".repeat(200)));
    let limits = Limits {
        max_target_bytes: usize::MAX,
        ..LIMITS
    };
    assert_eq!(
        feed(limits, line(65534).as_bytes(), || 9000).phase,
        Phase::Complete
    );
    assert_eq!(
        feed(limits, line(65535).as_bytes(), || 9000)
            .refusal
            .unwrap()
            .status,
        414
    );
}

#[test]
fn the_header_fields_have_limits() {
    let limits = Limits {
        max_header_count: 3,
        max_header_bytes: 60,
        max_field_bytes: 40,
        ..LIMITS
    };
    let accepts = |fields: String| {
        let outcome = screen_with(limits, get(&fields).as_bytes());
        assert_eq!(outcome.refusal, None, "{fields}");
    };
    accepts("A: b\r\nC: d".into());
    refuses_with(limits, 431, get("A: b\r\nC: d\r\nE: f"));
    let field = |bytes: usize| format!("A:{}", "b".repeat(bytes - 2));
    accepts(field(40));
    refuses_with(limits, 431, get(&field(41)));
    refuses_with(limits, 431, format!("GET / HTTP/1.1\r\n{}", "A".repeat(41)));
    // "Host: a" and CRLF are 9 of the 60.
    accepts(format!("{}\r\n{}", field(30), field(17)));
    refuses_with(limits, 431, get(&format!("{}\r\n{}", field(30), field(18))));
    let name = |bytes: usize| get(&format!("{}: b", "A".repeat(bytes)));
    assert_eq!(screen(name(256).as_bytes()).refusal, None);
    refuses(431, name(257));
    let nothing = Limits {
        max_header_bytes: 0,
        ..LIMITS
    };
    assert_eq!(
        screen_with(nothing, b"GET / HTTP/1.0\r\n\r\n").refusal,
        None
    );
    refuses_with(nothing, 431, "GET / HTTP/1.0\r\nA:\r\n\r\n");
}

#[test]
fn the_body_has_a_limit() {
    let limits = Limits {
        max_body_bytes: 10,
        ..LIMITS
    };
    let accepts =
        |bytes: String| assert_eq!(screen_with(limits, bytes.as_bytes()).phase, Phase::Complete);
    accepts(post("Content-Length: 10", "0123456789"));
    refuses_with(limits, 413, post("Content-Length: 11", ""));
    refuses_with(
        limits,
        413,
        post("Content-Length: 11\r\nExpect: 100-continue", ""),
    );
    accepts(chunked("5\r\n01234\r\n5\r\n01234\r\n0\r\n\r\n"));
    refuses_with(
        limits,
        413,
        chunked("5\r\n01234\r\n6\r\n012345\r\n0\r\n\r\n"),
    );
    refuses_with(limits, 413, chunked("1\r\n0\r\nffffffffffffffff\r\n"));
    refuses_with(
        Limits {
            max_body_bytes: u64::MAX,
            ..LIMITS
        },
        400,
        chunked("10000000000000000\r\n"),
    );
}

#[test]
fn two_leading_empty_lines_are_skipped() {
    for lines in ["\r\n", "\r\n\r\n"] {
        let outcome = screen(format!("{lines}GET / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert_eq!(outcome.passed, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    refuses(400, "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    refuses(400, "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    refuses(400, "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    refuses(400, "\r\n\rGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    for nothing in ["", "\r", "\r\n", "\r\n\r", "\r\n\r\n"] {
        assert_eq!(screen(nothing.as_bytes()).phase, Phase::Idle);
    }
}

#[test]
fn phases_follow_the_bytes() {
    let phase = |bytes: &str| screen(bytes.as_bytes()).phase;
    assert_eq!(phase("G"), Phase::Head);
    assert_eq!(phase("GET / HTTP/1.1\r\nHost: a\r\n\r"), Phase::Head);
    assert_eq!(phase(&post("Content-Length: 2", "a")), Phase::Body);
    assert_eq!(phase(&chunked("0\r\n")), Phase::Body);
    assert_eq!(phase(&chunked("0\r\n\r")), Phase::Body);
    assert_eq!(phase(&chunked("0\r\n\r\n")), Phase::Complete);
}

#[test]
fn a_head_is_passed_only_when_it_is_complete() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for bytes in 0..head.len() {
        assert!(screen(&head[..bytes]).passed.is_empty());
    }
    assert_eq!(screen(head).passed, head);
}

#[test]
fn pipelined_requests_are_held_back_until_asked_for() {
    let first = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let second = &post("Content-Length: 2", "ab");
    let third = "GET /3 HTTP/1.1\nHost: a\r\n\r\n";
    let fourth = "GET /4 HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut buffered = format!("{first}{second}{third}{fourth}").into_bytes();
    let mut screen = Screen::new(LIMITS);
    for message in [first, second] {
        assert_eq!(
            screen.advance(&mut buffered),
            Ok(Step {
                skip: 0,
                pass: message.len()
            })
        );
        assert_eq!(
            buffered.drain(..message.len()).as_slice(),
            message.as_bytes()
        );
        assert_eq!(screen.advance(&mut buffered), Ok(Step::default()));
        assert_eq!(screen.phase(), Phase::Complete);
        screen.next_message();
        assert_eq!((screen.phase(), screen.head()), (Phase::Idle, None));
    }
    let refusal = screen.advance(&mut buffered).unwrap_err();
    assert_eq!(refusal.status, 400);
    screen.next_message();
    assert_eq!(screen.advance(&mut buffered), Err(refusal));
}

#[test]
fn next_message_does_nothing_within_a_message() {
    let mut screen = Screen::new(LIMITS);
    let mut bytes = post("Content-Length: 2", "a").into_bytes();
    assert_eq!(screen.advance(&mut bytes).unwrap().pass, bytes.len());
    screen.next_message();
    assert_eq!(screen.phase(), Phase::Body);
}

/// The pieces that random messages are made of: what faults are made of, and what is right.
const PIECES: &[&str] = &[
    "GET",
    "POST",
    " ",
    "/",
    "*",
    "?a=b",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/1.2",
    "HTTP/2.0",
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    "Host: a",
    "Host",
    ":",
    "Content-Length: 5",
    "Content-Length: 0",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding:",
    "chunked",
    ",",
    "gzip",
    "Expect: 100-continue",
    "Connection: close",
    "\t",
    "\0",
    "\x7f",
    "\u{e9}",
    "0",
    "5",
    "hello",
    ";",
    "a",
    "=",
    "\"",
    "5\r\nhello\r\n",
    "1\r\na\r\n02\r\nbc\r\n",
    "0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
];

fn random_message(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    if random.below(2) == 0 {
        bytes.extend_from_slice(b"POST /x HTTP/1.1\r\nHost: a\r\n");
    }
    for _ in 0..random.below(14) {
        bytes.extend_from_slice(PIECES[random.below(PIECES.len())].as_bytes());
    }
    bytes
}

#[test]
fn how_bytes_arrive_never_matters() {
    let small = Limits {
        max_target_bytes: 12,
        max_header_count: 3,
        max_header_bytes: 80,
        max_field_bytes: 40,
        max_body_bytes: 9,
    };
    let mut random = Random(7);
    let mut complete = 0;
    for _ in 0..20_000 {
        let bytes = random_message(&mut random);
        complete += usize::from(screen(&bytes).phase == Phase::Complete);
        screen_with(small, &bytes);
    }
    assert!(
        complete > 500,
        "only {complete} random messages were complete: the pieces test too little"
    );
}

/// The reader's side of a connection whose bytes are all there; what is written is dropped.
struct AllAtOnce(io::Cursor<Vec<u8>>);

impl hyper::rt::Read for AllAtOnce {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut into: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let at = self.0.position() as usize;
        let bytes = self.0.get_ref().len().min(at + into.remaining()) - at;
        into.put_slice(&self.0.get_ref()[at..at + bytes]);
        self.0.set_position((at + bytes) as u64);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for AllAtOnce {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(from.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The bodies that hyper reads from `bytes`, trailers refused.
async fn hyper_reads(bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, hyper::Error> {
    use http_body_util::{BodyExt, Empty};
    let bodies = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let into = bodies.clone();
    let service =
        hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let into = into.clone();
            async move {
                let body = request
                    .into_body()
                    .collect()
                    .await
                    .expect("hyper refuses a body");
                assert!(body.trailers().is_none());
                into.borrow_mut().push(body.to_bytes().to_vec());
                Ok::<_, Infallible>(hyper::Response::new(Empty::<hyper::body::Bytes>::new()))
            }
        });
    hyper::server::conn::http1::Builder::new()
        .half_close(true)
        .max_headers(200)
        .serve_connection(AllAtOnce(io::Cursor::new(bytes)), service)
        .await?;
    Ok(bodies.take())
}

#[test]
fn hyper_reads_what_the_screen_passes_as_one_message() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut random = Random(11);
    let mut read = 0;
    for _ in 0..30_000 {
        let bytes = random_message(&mut random);
        let outcome = feed(LIMITS, &bytes, || usize::MAX);
        if outcome.phase == Phase::Complete {
            let bodies = runtime.block_on(hyper_reads(outcome.passed.clone()));
            let shown = outcome.passed.escape_ascii();
            let bodies = bodies.unwrap_or_else(|error| panic!("hyper refuses {shown}: {error}"));
            assert_eq!(bodies.len(), 1, "{shown}");
            if let Some(length) = outcome.head.unwrap().content_length {
                assert_eq!(bodies[0].len() as u64, length, "{shown}");
            }
            read += 1;
        }
    }
    assert!(read > 500, "only {read} messages");
}

#[test]
fn hyper_takes_every_byte_that_the_screen_takes() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for byte in 0..=255_u8 {
        for before in [
            "GET /a",
            "GET /?a",
            "GET",
            "GET / HTTP/1.1\r\nHost: a\r\nA",
            "GET / HTTP/1.1\r\nHost: a\r\nA: b",
        ] {
            let after = match before {
                "GET" => " / HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nA" => ": b\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nA: b" => "\r\n\r\n",
                _ => " HTTP/1.1\r\nHost: a\r\n\r\n",
            };
            let bytes = [before.as_bytes(), &[byte], after.as_bytes()].concat();
            let outcome = feed(LIMITS, &bytes, || usize::MAX);
            if outcome.phase == Phase::Complete {
                let bodies = runtime.block_on(hyper_reads(outcome.passed));
                assert_eq!(bodies.unwrap().len(), 1, "{}", bytes.escape_ascii());
            }
        }
    }
}

#[test]
fn control_characters_are_found_wherever_they_stand() {
    let plain = |bytes: &[u8]| {
        bytes
            .iter()
            .position(|&byte| byte.is_ascii_control() && byte != b'\t')
    };
    for first in 0..=255 {
        for second in 0..=255 {
            for before in 0..9 {
                let bytes = [&b"abcdefghi"[..before], &[first, second], b"abcdefgh\r\n"].concat();
                let found = super::line::scan(&bytes, 0).content_end();
                assert_eq!(Some(found), plain(&bytes), "{}", bytes.escape_ascii());
            }
        }
    }
}
