//! The screen in front of the HTTP parser: its verdict does not depend on how the bytes arrive, and whatever it passes
//! httparse, which hyper parses with, reads as the same request. Only which small chunks are joined depends on the arrival.

#![no_main]

use front::http::screen::{Head, Limits, Phase, Refusal, Screen};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    max_target_bytes: 512,
    max_header_count: 32,
    max_header_bytes: 2048,
    max_field_bytes: 1024,
    max_body_bytes: 4096,
};

/// What came of the bytes of one message.
#[derive(Debug, PartialEq)]
struct Verdict {
    /// The head, and the data of the body without its chunks.
    content: Vec<u8>,
    refusal: Option<Refusal>,
    head: Option<Head>,
    complete: bool,
}

/// Shows the screen `bytes` in pieces of this size. Returns what it passed, too.
fn verdict(bytes: &[u8], piece: usize) -> (Verdict, Vec<u8>) {
    let mut screen = Screen::new(LIMITS);
    let (mut buffered, mut passed) = (Vec::new(), Vec::new());
    let mut pieces = bytes.chunks(piece);
    let refusal = loop {
        match screen.advance(&mut buffered) {
            Ok(step) if !step.is_empty() => {
                buffered.drain(..step.skip);
                passed.extend(buffered.drain(..step.pass));
            }
            Ok(_) => match pieces.next() {
                Some(piece) => buffered.extend_from_slice(piece),
                None => break None,
            },
            Err(refusal) => break Some(refusal),
        }
    };
    let head = screen.head().copied();
    let verdict = Verdict {
        content: match head.is_some_and(|head| head.chunked) {
            true => without_chunks(&passed),
            false => passed.clone(),
        },
        refusal,
        head,
        complete: screen.phase() == Phase::Complete,
    };
    (verdict, passed)
}

/// The head of a chunked message, and all data after it. The screen has checked the sizes.
fn without_chunks(passed: &[u8]) -> Vec<u8> {
    let find = |bytes: &[u8], end: &[u8]| bytes.windows(end.len()).position(|part| part == end);
    let head = find(passed, b"\r\n\r\n").expect("a head") + 4;
    let (head, mut rest) = passed.split_at(head);
    let mut content = head.to_vec();
    while let Some(end) = find(rest, b"\r\n") {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit());
        let digits = std::str::from_utf8(&rest[..digits.count()]).expect("hexadecimal digits");
        let size = usize::from_str_radix(digits, 16).expect("a size");
        rest = &rest[end + 2..];
        let data = &rest[..size.min(rest.len())];
        content.extend_from_slice(data);
        rest = rest.get(size + 2..).unwrap_or(&[]);
        if size == 0 {
            break;
        }
    }
    content
}

/// Holds what was passed of a message against another parser.
fn compare(passed: &[u8], head: Head) {
    let mut fields = [httparse::EMPTY_HEADER; LIMITS.max_header_count + 1];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(passed) {
        Ok(httparse::Status::Complete(length)) => length,
        other => panic!("the parser says {other:?}"),
    };
    // The request line and the empty line at the end have a line end as well.
    let lines = passed[..length].windows(2).filter(|end| end == b"\r\n");
    assert_eq!(request.headers.len(), lines.count() - 2, "fields");
    assert_eq!(request.version, Some(head.version_minor));
    assert_eq!(request.method == Some("HEAD"), head.is_head);
    let values = |name: &str| {
        let fields = request.headers.iter();
        let named = fields.filter(move |field| field.name.eq_ignore_ascii_case(name));
        named
            .map(|field| field.value.trim_ascii())
            .collect::<Vec<_>>()
    };
    let number = |value: &&[u8]| std::str::from_utf8(value).ok()?.parse::<u64>().ok();
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    assert_eq!(lengths.first().map(number), head.content_length.map(Some));
    assert!(lengths.iter().all(|other| *other == lengths[0]));
    assert_eq!(!codings.is_empty(), head.chunked);
    assert!(codings.is_empty() || lengths.is_empty(), "two framings");
    assert!(
        codings
            .iter()
            .all(|coding| coding.eq_ignore_ascii_case(b"chunked"))
    );
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, bytes)) = data.split_first() else {
        return;
    };
    let (whole, passed) = verdict(bytes, usize::MAX);
    let (in_pieces, passed_in_pieces) = verdict(bytes, 1 + usize::from(piece % 32));
    assert_eq!(in_pieces, whole);
    assert!(whole.refusal.is_none() || !whole.complete);
    if let Some(head) = whole.head {
        compare(&passed, head);
        compare(&passed_in_pieces, head);
    }
});
