//! The cases of Autobahn's testsuite that this client plays, by their numbers: what a client sends, and what an application
//! that echoes messages must answer. Connects to nobody.
//!
//! Autobahn itself runs under Python 2 alone. Compression (12, 13) is not offered here. Of the large messages (9) there is each
//! length, up to 16 MB; those are left out that differ only in how many pieces they come in, or in 8 and 16 MB that are binary.

/// Kinds of frames (RFC 6455 section 5.2).
pub(crate) const CONTINUATION: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// The longest message that the application takes, in bytes.
pub(crate) const MAX_MESSAGE: usize = 16 << 20;

/// Why the application ends the connection (RFC 6455 section 7.4.1).
const NORMAL: u16 = 1000;
const PROTOCOL: u16 = 1002;
const NOT_UTF_8: u16 = 1007;
const TOO_LARGE: u16 = 1009;

/// Something that comes back: the kind of its frame and its payload.
pub(crate) type Event = (u8, Vec<u8>);

/// What a client sends and must get.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// What is written at once, in order.
    pub(crate) writes: Vec<Vec<u8>>,
    pub(crate) events: Vec<Event>,
    /// The codes that are right when the application ends the connection; empty where it does so after the client has.
    pub(crate) codes: Vec<u16>,
}

impl Case {
    fn new(name: impl Into<String>, sends: Vec<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            writes: sends,
            events: Vec::new(),
            codes: Vec::new(),
        }
    }

    fn gets(mut self, kind: u8, payload: impl Into<Vec<u8>>) -> Self {
        self.events.push((kind, payload.into()));
        self
    }

    fn ends(mut self, codes: &[u16]) -> Self {
        self.codes = codes.to_vec();
        self
    }

    /// Writes all of it in pieces of this many bytes.
    fn in_pieces(mut self, bytes: usize) -> Self {
        let all = self.writes.concat();
        self.writes = all.chunks(bytes).map(<[u8]>::to_vec).collect();
        self
    }
}

/// A whole message or control frame.
fn frame(kind: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    part(true, 0, kind, payload)
}

/// A frame of a client, so it is masked (RFC 6455 section 5.3); `reserved` are the three bits that no extension has given a
/// meaning.
fn part(ends: bool, reserved: u8, kind: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let payload = payload.as_ref();
    let mut bytes = header(
        u8::from(ends) << 7 | reserved << 4 | kind,
        0x80,
        payload.len(),
    );
    bytes.extend(KEY);
    let masked = payload.iter().zip(KEY.iter().cycle());
    bytes.extend(masked.map(|(byte, key)| byte ^ key));
    bytes
}

fn header(first: u8, mask: u8, length: usize) -> Vec<u8> {
    match length {
        0..=125 => vec![first, mask | length as u8],
        126..=0xffff => [&[first, mask | 126][..], &(length as u16).to_be_bytes()].concat(),
        _ => [&[first, mask | 127][..], &(length as u64).to_be_bytes()].concat(),
    }
}

/// A close frame with this code.
pub(crate) fn close(code: u16) -> Vec<u8> {
    close_with(code, "")
}

fn close_with(code: u16, reason: impl AsRef<[u8]>) -> Vec<u8> {
    frame(CLOSE, [&code.to_be_bytes(), reason.as_ref()].concat())
}

/// A message in pieces of this many bytes, each a frame of its own.
fn fragments(kind: u8, payload: &[u8], bytes: usize) -> Vec<Vec<u8>> {
    let pieces: Vec<_> = payload.chunks(bytes).collect();
    let last = pieces.len() - 1;
    let piece = |(number, piece)| {
        let kind = if number == 0 { kind } else { CONTINUATION };
        part(number == last, 0, kind, piece)
    };
    pieces.into_iter().enumerate().map(piece).collect()
}

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    let groups = [
        messages(),
        pings(),
        reserved_bits(),
        unknown_kinds(),
        fragmented(),
        utf_8(),
        closing(),
        large(),
        masks_and_lengths(),
    ];
    groups.into_iter().flatten().collect()
}

/// 1: messages of all lengths.
fn messages() -> Vec<Case> {
    let mut cases = Vec::new();
    for (group, kind) in [(1, TEXT), (2, BINARY)] {
        for (number, length) in [0, 125, 126, 127, 128, 65535, 65536]
            .into_iter()
            .enumerate()
        {
            let payload = vec![b'*'; length];
            let case = Case::new(
                format!("1.{group}.{}", number + 1),
                vec![frame(kind, &payload)],
            );
            cases.push(case.gets(kind, payload));
        }
        let payload = vec![b'*'; 65536];
        let case = Case::new(format!("1.{group}.8"), vec![frame(kind, &payload)]);
        cases.push(case.gets(kind, payload).in_pieces(997));
    }
    cases
}

/// 2: pings and pongs.
fn pings() -> Vec<Case> {
    let longest = vec![0xfe; 125];
    let ten: Vec<_> = (0..10).map(|number| format!("payload-{number}")).collect();
    let many = || {
        let sends = ten.iter().map(|text| frame(PING, text)).collect();
        let case = Case::new("2.10", sends);
        ten.iter()
            .fold(case, |case, text| case.gets(PONG, text.as_str()))
    };
    vec![
        Case::new("2.1", vec![frame(PING, "")]).gets(PONG, ""),
        Case::new("2.2", vec![frame(PING, "Hello, world!")]).gets(PONG, "Hello, world!"),
        Case::new("2.3", vec![frame(PING, [0, 255, 254, 253])]).gets(PONG, [0, 255, 254, 253]),
        Case::new("2.4", vec![frame(PING, &longest)]).gets(PONG, longest.clone()),
        Case::new("2.5", vec![frame(PING, vec![0xfe; 126])]).ends(&[PROTOCOL]),
        Case::new("2.6", vec![frame(PING, &longest)])
            .gets(PONG, longest)
            .in_pieces(1),
        Case::new("2.7", vec![frame(PONG, "")]),
        Case::new("2.8", vec![frame(PONG, "unasked")]),
        Case::new("2.9", vec![frame(PONG, "unasked"), frame(PING, "ping")]).gets(PONG, "ping"),
        many(),
        Case {
            name: "2.11".to_owned(),
            ..many().in_pieces(1)
        },
    ]
}

/// 3: bits without a meaning.
fn reserved_bits() -> Vec<Case> {
    let with = |reserved, kind| part(true, reserved, kind, "Hello, world!");
    let between = |name: &str, reserved| {
        let sends = vec![frame(TEXT, "first"), with(reserved, TEXT), frame(PING, "")];
        Case::new(name, sends).gets(TEXT, "first").ends(&[PROTOCOL])
    };
    vec![
        Case::new("3.1", vec![with(1, TEXT)]).ends(&[PROTOCOL]),
        between("3.2", 2),
        between("3.3", 3),
        between("3.4", 4).in_pieces(1),
        Case::new("3.5", vec![with(5, BINARY)]).ends(&[PROTOCOL]),
        Case::new("3.6", vec![with(6, PING)]).ends(&[PROTOCOL]),
        Case::new("3.7", vec![with(7, CLOSE)]).ends(&[PROTOCOL]),
    ]
}

/// 4: kinds of frames that there are not.
fn unknown_kinds() -> Vec<Case> {
    let mut cases = Vec::new();
    for (group, first) in [(1, 3), (2, 11)] {
        for number in 0..5 {
            let unknown = frame(first + number, if number == 0 { "" } else { "payload" });
            let name = format!("4.{group}.{}", number + 1);
            cases.push(match number {
                0 | 1 => Case::new(name, vec![unknown]).ends(&[PROTOCOL]),
                _ => Case::new(name, vec![frame(TEXT, "first"), unknown, frame(PING, "")])
                    .gets(TEXT, "first")
                    .ends(&[PROTOCOL]),
            });
        }
    }
    cases
}

/// 5: messages in fragments.
fn fragmented() -> Vec<Case> {
    let first = || part(false, 0, TEXT, "fragment1");
    let middle = || part(false, 0, CONTINUATION, "fragment2");
    let last = || part(true, 0, CONTINUATION, "fragment2");
    let (whole, ping) = ("fragment1fragment2", || frame(PING, "ping"));
    let five = || {
        let piece = |number: usize| {
            let kind = if number == 0 { TEXT } else { CONTINUATION };
            part(number == 4, 0, kind, format!("fragment{number}"))
        };
        vec![
            piece(0),
            piece(1),
            ping(),
            piece(2),
            piece(3),
            ping(),
            piece(4),
        ]
    };
    let of_five = |name: &str| {
        Case::new(name, five())
            .gets(PONG, "ping")
            .gets(PONG, "ping")
            .gets(TEXT, "fragment0fragment1fragment2fragment3fragment4")
    };
    let stray = |name: &str, ends| {
        let sends = vec![
            part(ends, 0, CONTINUATION, "stray"),
            frame(TEXT, "Hello, world!"),
        ];
        Case::new(name, sends).ends(&[PROTOCOL])
    };
    let repeated = |name: &str, ends| {
        let stray = part(ends, 0, CONTINUATION, "stray");
        Case::new(name, vec![stray, first(), last()]).ends(&[PROTOCOL])
    };
    vec![
        Case::new(
            "5.1",
            vec![part(false, 0, PING, "a"), part(true, 0, CONTINUATION, "b")],
        )
        .ends(&[PROTOCOL]),
        Case::new(
            "5.2",
            vec![part(false, 0, PONG, "a"), part(true, 0, CONTINUATION, "b")],
        )
        .ends(&[PROTOCOL]),
        Case::new("5.3", vec![first(), last()]).gets(TEXT, whole),
        Case::new("5.4", vec![[first(), last()].concat()]).gets(TEXT, whole),
        Case::new("5.5", vec![first(), last()])
            .gets(TEXT, whole)
            .in_pieces(1),
        Case::new("5.6", vec![first(), ping(), last()])
            .gets(PONG, "ping")
            .gets(TEXT, whole),
        Case::new("5.8", vec![first(), ping(), last()])
            .gets(PONG, "ping")
            .gets(TEXT, whole)
            .in_pieces(1),
        stray("5.9", true),
        stray("5.11", true).in_pieces(1),
        stray("5.12", false),
        stray("5.14", false).in_pieces(1),
        Case::new("5.15", vec![first(), last(), middle(), frame(TEXT, "more")])
            .gets(TEXT, whole)
            .ends(&[PROTOCOL]),
        repeated("5.16", false),
        repeated("5.17", true),
        Case::new("5.18", vec![first(), frame(TEXT, "fragment2")]).ends(&[PROTOCOL]),
        of_five("5.19"),
        of_five("5.20").in_pieces(1),
    ]
}

/// 6: text that is UTF-8, and text that is not.
fn utf_8() -> Vec<Case> {
    const GREEK: &[u8] = "Hello-µ@ßöäüàá-UTF-8!!".as_bytes();
    const TEXTS: [&[u8]; 32] = [
        "κόσμε".as_bytes(),
        b"\0",
        "\u{80}\u{800}\u{10000}".as_bytes(),
        "\u{7f}\u{7ff}\u{ffff}\u{10ffff}".as_bytes(),
        "\u{d7ff}\u{e000}\u{fffd}".as_bytes(),
        "\u{fffe}\u{ffff}\u{1fffe}\u{1ffff}".as_bytes(),
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80\x65\x64\x69\x74\x65\x64",
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90\x80\x80\x65\x64\x69\x74\x65\x64",
        b"\xf8\x88\x80\x80\x80",
        b"\xfc\x84\x80\x80\x80\x80",
        b"\xf7\xbf\xbf\xbf",
        b"\xfb\xbf\xbf\xbf\xbf",
        b"\xfd\xbf\xbf\xbf\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\x80",
        b"\xbf",
        b"\x80\xbf\x80\xbf",
        b"\xc0 \xc1 \xc2 ",
        b"\xe0 \xe1 ",
        b"\xf0 \xf1 ",
        b"\xc0",
        b"\xe0\x80",
        b"\xf0\x80\x80",
        b"\xdf",
        b"\xef\xbf",
        b"\xfe",
        b"\xff",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xed\xa0\x80\xed\xb0\x80",
        b"\xed\xbf\xbf",
    ];
    let empty = || part(false, 0, CONTINUATION, "");
    let mut cases = vec![
        Case::new("6.1.1", vec![frame(TEXT, "")]).gets(TEXT, ""),
        Case::new(
            "6.1.2",
            vec![part(false, 0, TEXT, ""), empty(), frame(CONTINUATION, "")],
        )
        .gets(TEXT, ""),
        Case::new(
            "6.1.3",
            vec![
                part(false, 0, TEXT, ""),
                part(false, 0, CONTINUATION, "middle"),
                frame(CONTINUATION, ""),
            ],
        )
        .gets(TEXT, "middle"),
        Case::new("6.2.1", vec![frame(TEXT, GREEK)]).gets(TEXT, GREEK),
        Case::new("6.2.2", fragments(TEXT, GREEK, 7)).gets(TEXT, GREEK),
        Case::new("6.2.3", fragments(TEXT, GREEK, 1)).gets(TEXT, GREEK),
    ];
    for (number, text) in TEXTS.into_iter().enumerate() {
        let whole = vec![frame(TEXT, text)];
        let single = fragments(TEXT, text, 1);
        for (way, sends) in [("", whole), (" octet by octet", single)] {
            let case = Case::new(format!("6.3 to 6.23, text {number}{way}"), sends);
            cases.push(match std::str::from_utf8(text) {
                Ok(_) => case.gets(TEXT, text),
                Err(_) => case.ends(&[NOT_UTF_8]),
            });
        }
    }
    cases
}

/// 7: how a connection is closed.
fn closing() -> Vec<Case> {
    let (text, ping) = (|| frame(TEXT, "Hello World!"), || frame(PING, ""));
    let normal = |name: &str, sends| Case::new(name, sends).ends(&[NORMAL]);
    let long = vec![b'*'; 256 * 1024];
    let mut cases = vec![
        normal("7.1.1", vec![text(), close(NORMAL)]).gets(TEXT, "Hello World!"),
        normal("7.1.2", vec![close(NORMAL), close(NORMAL)]),
        normal("7.1.3", vec![close(NORMAL), ping()]),
        normal("7.1.4", vec![close(NORMAL), text()]),
        normal(
            "7.1.5",
            vec![
                part(false, 0, TEXT, "fragment1"),
                close(NORMAL),
                part(true, 0, CONTINUATION, "fragment2"),
            ],
        ),
        normal("7.1.6", vec![frame(TEXT, &long), close(NORMAL), ping()]).gets(TEXT, long),
        normal("7.3.1", vec![frame(CLOSE, "")]),
        Case::new("7.3.2", vec![frame(CLOSE, "a")]).ends(&[PROTOCOL]),
        normal("7.3.3", vec![close(NORMAL)]),
        normal("7.3.4", vec![close_with(NORMAL, "Hello World!")]),
        normal("7.3.5", vec![close_with(NORMAL, "*".repeat(123))]),
        Case::new("7.3.6", vec![close_with(NORMAL, "*".repeat(124))]).ends(&[PROTOCOL]),
        Case::new("7.5.1", vec![close_with(NORMAL, b"\xce\xba\xed\xa0\x80")])
            .ends(&[PROTOCOL, NOT_UTF_8]),
    ];
    for code in [
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999,
    ] {
        let case = Case::new(format!("7.7, code {code}"), vec![close(code)]);
        cases.push(case.ends(&[code, NORMAL]));
    }
    for code in [
        0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65535,
    ] {
        let case = Case::new(format!("7.9, code {code}"), vec![close(code)]);
        cases.push(case.ends(&[PROTOCOL]));
    }
    cases
}

/// 9 and 10: large messages, many messages, in frames and in writes of several sizes.
fn large() -> Vec<Case> {
    let payload =
        |length: usize| -> Vec<u8> { (0..length).map(|at| b'a' + (at % 26) as u8).collect() };
    let mut cases = Vec::new();
    let lengths_kib = [64, 256, 1024, 4096, 8192, 16384];
    for (group, kind, count) in [(1, TEXT, 6), (2, BINARY, 4)] {
        for (number, kib) in lengths_kib.into_iter().take(count).enumerate() {
            let payload = payload(kib * 1024);
            let name = format!("9.{group}.{}", number + 1);
            cases.push(Case::new(name, vec![frame(kind, &payload)]).gets(kind, payload));
        }
    }
    for (name, kind, kib) in [
        ("9.3.4", TEXT, 4),
        ("9.3.8", TEXT, 1024),
        ("9.4.6", BINARY, 64),
        ("9.4.9", BINARY, 4096),
    ] {
        let payload = payload(4 << 20);
        let sends = fragments(kind, &payload, kib * 1024);
        cases.push(Case::new(name, sends).gets(kind, payload));
    }
    for (group, kind) in [(5, TEXT), (6, BINARY)] {
        let payload = payload(1 << 20);
        let case = Case::new(format!("9.{group}.4"), vec![frame(kind, &payload)]);
        cases.push(case.gets(kind, payload).in_pieces(512));
    }
    let many = Case::new("9.7", (0..250).map(|_| frame(TEXT, payload(64))).collect());
    cases.push((0..250).fold(many, |case, _| case.gets(TEXT, payload(64))));
    let payload = payload(65536);
    cases.push(Case::new("10.1.1", fragments(TEXT, &payload, 1300)).gets(TEXT, payload));
    cases
}

/// None of Autobahn's: a frame without a mask, and lengths that only a header claims.
fn masks_and_lengths() -> Vec<Case> {
    let unmasked = [header(0x80 | TEXT, 0, 5), b"Hello".to_vec()].concat();
    let claims = |length| header(0x80 | BINARY, 0x80, length);
    vec![
        // The library calls that 1003; RFC 6455 section 5.1 allows 1002.
        Case::new("without a mask", vec![unmasked]).ends(&[PROTOCOL, 1003]),
        Case::new("too large", vec![claims(MAX_MESSAGE + 1)]).ends(&[TOO_LARGE]),
        Case::new("claims all there is", vec![claims(usize::MAX)]).ends(&[TOO_LARGE, PROTOCOL]),
    ]
}
