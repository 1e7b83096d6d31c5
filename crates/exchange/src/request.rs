//! The request record: what a slot's request area holds, written by the front and read by the extension.
//!
//! It is the request as the Rack env wants it, so that the worker does little: names are already env keys
//! (`HTTP_ACCEPT`), the usual ones as a number from [`ENV_KEYS`]. It never carries a response, and it
//! knows nothing of HTTP's framing.
//!
//! Layout, little endian: a fixed part of [`FIXED`] bytes, the texts in the order of [`Text`], the fields
//! (key number `u8`, `0` = named; name length `u16`; value length `u32`; name; value), the inline body.

/// Bytes of the fixed part.
pub const FIXED: usize = 64;

/// Env keys that travel as numbers: the number is the place in this list plus one.
pub const ENV_KEYS: &[(&str, &str)] = &[
    ("host", "HTTP_HOST"),
    ("user-agent", "HTTP_USER_AGENT"),
    ("accept", "HTTP_ACCEPT"),
    ("accept-encoding", "HTTP_ACCEPT_ENCODING"),
    ("accept-language", "HTTP_ACCEPT_LANGUAGE"),
    ("accept-charset", "HTTP_ACCEPT_CHARSET"),
    ("authorization", "HTTP_AUTHORIZATION"),
    ("cache-control", "HTTP_CACHE_CONTROL"),
    ("connection", "HTTP_CONNECTION"),
    ("content-length", "CONTENT_LENGTH"),
    ("content-type", "CONTENT_TYPE"),
    ("content-encoding", "HTTP_CONTENT_ENCODING"),
    ("cookie", "HTTP_COOKIE"),
    ("date", "HTTP_DATE"),
    ("dnt", "HTTP_DNT"),
    ("expect", "HTTP_EXPECT"),
    ("forwarded", "HTTP_FORWARDED"),
    ("from", "HTTP_FROM"),
    ("if-match", "HTTP_IF_MATCH"),
    ("if-modified-since", "HTTP_IF_MODIFIED_SINCE"),
    ("if-none-match", "HTTP_IF_NONE_MATCH"),
    ("if-range", "HTTP_IF_RANGE"),
    ("if-unmodified-since", "HTTP_IF_UNMODIFIED_SINCE"),
    ("keep-alive", "HTTP_KEEP_ALIVE"),
    ("origin", "HTTP_ORIGIN"),
    ("pragma", "HTTP_PRAGMA"),
    ("priority", "HTTP_PRIORITY"),
    ("proxy-authorization", "HTTP_PROXY_AUTHORIZATION"),
    ("range", "HTTP_RANGE"),
    ("referer", "HTTP_REFERER"),
    ("sec-ch-ua", "HTTP_SEC_CH_UA"),
    ("sec-ch-ua-mobile", "HTTP_SEC_CH_UA_MOBILE"),
    ("sec-ch-ua-platform", "HTTP_SEC_CH_UA_PLATFORM"),
    ("sec-fetch-dest", "HTTP_SEC_FETCH_DEST"),
    ("sec-fetch-mode", "HTTP_SEC_FETCH_MODE"),
    ("sec-fetch-site", "HTTP_SEC_FETCH_SITE"),
    ("sec-fetch-user", "HTTP_SEC_FETCH_USER"),
    ("sec-websocket-extensions", "HTTP_SEC_WEBSOCKET_EXTENSIONS"),
    ("sec-websocket-key", "HTTP_SEC_WEBSOCKET_KEY"),
    ("sec-websocket-protocol", "HTTP_SEC_WEBSOCKET_PROTOCOL"),
    ("sec-websocket-version", "HTTP_SEC_WEBSOCKET_VERSION"),
    ("te", "HTTP_TE"),
    ("traceparent", "HTTP_TRACEPARENT"),
    ("tracestate", "HTTP_TRACESTATE"),
    ("transfer-encoding", "HTTP_TRANSFER_ENCODING"),
    ("upgrade", "HTTP_UPGRADE"),
    (
        "upgrade-insecure-requests",
        "HTTP_UPGRADE_INSECURE_REQUESTS",
    ),
    ("via", "HTTP_VIA"),
    ("x-csrf-token", "HTTP_X_CSRF_TOKEN"),
    ("x-forwarded-for", "HTTP_X_FORWARDED_FOR"),
    ("x-forwarded-host", "HTTP_X_FORWARDED_HOST"),
    ("x-forwarded-port", "HTTP_X_FORWARDED_PORT"),
    ("x-forwarded-proto", "HTTP_X_FORWARDED_PROTO"),
    ("x-forwarded-ssl", "HTTP_X_FORWARDED_SSL"),
    ("x-real-ip", "HTTP_X_REAL_IP"),
    ("x-request-id", "HTTP_X_REQUEST_ID"),
    ("x-request-start", "HTTP_X_REQUEST_START"),
    ("x-requested-with", "HTTP_X_REQUESTED_WITH"),
];

/// The number of the env key of a field that is in [`ENV_KEYS`], by its name. Another name does not compile in a constant.
pub const fn env_key(name: &str) -> u8 {
    let mut at = 0;
    while !is_same(ENV_KEYS[at].0.as_bytes(), name.as_bytes()) {
        at += 1;
    }
    at as u8 + 1
}

/// `==`, which no constant may call.
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// The texts of a record, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Text {
    /// `REQUEST_METHOD`
    Method,
    /// `PATH_INFO`, as it came: not decoded.
    Path,
    /// `QUERY_STRING`, without the question mark.
    Query,
    /// `SERVER_NAME`
    ServerName,
    /// `REMOTE_ADDR`
    RemoteAddress,
    /// `SERVER_PROTOCOL`, for example `HTTP/1.1`.
    Protocol,
    /// `rack.url_scheme`
    Scheme,
}

/// How many texts there are.
pub const TEXTS: usize = 7;

/// Where a request's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLocation {
    /// In the record; may be empty.
    Inline,
    /// In the front's file descriptor `descriptor`: an unnamed file of `length` bytes, to be opened as
    /// `/proc/<front pid>/fd/<descriptor>`.
    File {
        /// The number in the front's table.
        descriptor: u32,
        /// Bytes.
        length: u64,
    },
}

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedFields {
    /// When the request had arrived whole: microseconds since 1970.
    pub arrived_us: u64,
    /// When it must be done: nanoseconds of `CLOCK_MONOTONIC`; 0 = no deadline.
    pub deadline_ns: u64,
    /// `SERVER_PORT`
    pub server_port: u16,
    /// `REMOTE_PORT`; 0 for a UNIX socket.
    pub remote_port: u16,
    /// Where the body is.
    pub body: BodyLocation,
}

/// The record does not fit into the request area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request's head does not fit into a slot")]
pub struct TooLarge;

/// The record is malformed: the front and the extension are not of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed request record")]
pub struct Malformed;

/// Writes one record from its start to its end.
pub struct Writer<'a> {
    area: &'a mut [u8],
    at: usize,
    fields: u16,
}

impl<'a> Writer<'a> {
    /// Begins a record with its fixed part and its texts.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn new(
        area: &'a mut [u8],
        fixed: FixedFields,
        texts: [&[u8]; TEXTS],
    ) -> Result<Self, TooLarge> {
        let mut writer = Self {
            area,
            at: 0,
            fields: 0,
        };
        let mut bytes = [0_u8; FIXED];
        bytes[0..8].copy_from_slice(&fixed.arrived_us.to_le_bytes());
        bytes[8..16].copy_from_slice(&fixed.deadline_ns.to_le_bytes());
        if let BodyLocation::File { descriptor, length } = fixed.body {
            bytes[16..24].copy_from_slice(&length.to_le_bytes());
            bytes[24..28].copy_from_slice(&descriptor.to_le_bytes());
            bytes[36] = 1;
        }
        bytes[28..30].copy_from_slice(&fixed.server_port.to_le_bytes());
        bytes[30..32].copy_from_slice(&fixed.remote_port.to_le_bytes());
        for (index, text) in texts.iter().enumerate() {
            let length = u16::try_from(text.len()).map_err(|_| TooLarge)?;
            bytes[40 + 2 * index..42 + 2 * index].copy_from_slice(&length.to_le_bytes());
        }
        writer.put(&bytes)?;
        for text in texts {
            writer.put(text)?;
        }
        Ok(writer)
    }

    /// Adds a field with a key of [`ENV_KEYS`] (its number), or with a name already in env form.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn field(&mut self, key: u8, name: &[u8], value: &[u8]) -> Result<(), TooLarge> {
        let mut head = [0_u8; 8];
        head[0] = key;
        head[2..4].copy_from_slice(
            &u16::try_from(name.len())
                .map_err(|_| TooLarge)?
                .to_le_bytes(),
        );
        head[4..8].copy_from_slice(
            &u32::try_from(value.len())
                .map_err(|_| TooLarge)?
                .to_le_bytes(),
        );
        self.put(&head)?;
        self.put(name)?;
        self.put(value)?;
        self.fields = self.fields.checked_add(1).ok_or(TooLarge)?;
        Ok(())
    }

    /// Ends the record with its inline body and returns its length.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn finish(mut self, body: &[u8]) -> Result<u32, TooLarge> {
        self.area[32..34].copy_from_slice(&self.fields.to_le_bytes());
        self.put(body)?;
        Ok(self.at as u32)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        let place = self
            .area
            .get_mut(self.at..self.at + bytes.len())
            .ok_or(TooLarge)?;
        place.copy_from_slice(bytes);
        self.at += bytes.len();
        Ok(())
    }
}

/// A record, read.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// The fixed part.
    pub fixed: FixedFields,
    texts: [&'a [u8]; TEXTS],
    fields: &'a [u8],
    count: u16,
}

impl<'a> Record<'a> {
    /// Reads a record.
    ///
    /// # Errors
    /// [`Malformed`] when a length points outside.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (head, mut rest) = bytes.split_at_checked(FIXED).ok_or(Malformed)?;
        let body = match head[36] {
            0 => BodyLocation::Inline,
            _ => BodyLocation::File {
                descriptor: u32_at(head, 24),
                length: u64_at(head, 16),
            },
        };
        let fixed = FixedFields {
            arrived_us: u64_at(head, 0),
            deadline_ns: u64_at(head, 8),
            server_port: u16_at(head, 28),
            remote_port: u16_at(head, 30),
            body,
        };
        let mut texts = [&[][..]; TEXTS];
        for (index, text) in texts.iter_mut().enumerate() {
            let length = usize::from(u16_at(head, 40 + 2 * index));
            (*text, rest) = rest.split_at_checked(length).ok_or(Malformed)?;
        }
        Ok(Self {
            fixed,
            texts,
            fields: rest,
            count: u16_at(head, 32),
        })
    }

    /// One of the texts.
    pub fn text(&self, text: Text) -> &'a [u8] {
        self.texts[text as usize]
    }

    /// The fields, in order. After the last one, [`Fields::body`] is the inline body.
    pub fn fields(&self) -> Fields<'a> {
        Fields {
            rest: self.fields,
            left: self.count,
        }
    }
}

/// Iterates over `(key number, name, value)`; stops early at a malformed field.
pub struct Fields<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Fields<'a> {
    /// What is left after the fields: the inline body, once the iterator has ended.
    pub fn body(self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u8, &'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (head, rest) = self.rest.split_at_checked(8)?;
        let (name, rest) = rest.split_at_checked(usize::from(u16_at(head, 2)))?;
        let (value, rest) = rest.split_at_checked(u32_at(head, 4) as usize)?;
        self.rest = rest;
        Some((head[0], name, value))
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(body: BodyLocation) -> FixedFields {
        FixedFields {
            arrived_us: 1_700_000_000_000_000,
            deadline_ns: 5,
            server_port: 3000,
            remote_port: 4,
            body,
        }
    }

    const TEXT: [&[u8]; TEXTS] = [
        b"GET",
        b"/a%20b",
        b"q=1",
        b"host",
        b"127.0.0.1",
        b"HTTP/1.1",
        b"http",
    ];

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut area = [0; 1024];
        let mut writer = Writer::new(&mut area, fixed(BodyLocation::Inline), TEXT).unwrap();
        writer.field(1, b"", b"example.org").unwrap();
        writer.field(0, b"HTTP_X_ODD", b"").unwrap();
        let length = writer.finish(b"body").unwrap() as usize;
        let record = Record::parse(&area[..length]).unwrap();
        assert_eq!(record.fixed, fixed(BodyLocation::Inline));
        assert_eq!(record.text(Text::Path), b"/a%20b");
        assert_eq!(record.text(Text::Scheme), b"http");
        let mut fields = record.fields();
        assert_eq!(fields.next(), Some((1, &b""[..], &b"example.org"[..])));
        assert_eq!(fields.next(), Some((0, &b"HTTP_X_ODD"[..], &b""[..])));
        assert_eq!(fields.next(), None);
        assert_eq!(fields.body(), b"body");
    }

    #[test]
    fn a_body_in_a_file_is_told_by_descriptor_and_length() {
        let mut area = [0; 1024];
        let place = BodyLocation::File {
            descriptor: 17,
            length: 1 << 40,
        };
        let length = Writer::new(&mut area, fixed(place), TEXT)
            .unwrap()
            .finish(b"")
            .unwrap() as usize;
        assert_eq!(Record::parse(&area[..length]).unwrap().fixed.body, place);
    }

    #[test]
    fn a_record_that_does_not_fit_is_an_error_at_every_size() {
        for size in 0..FIXED + 60 {
            let mut area = vec![0; size];
            let written = Writer::new(&mut area, fixed(BodyLocation::Inline), TEXT)
                .and_then(|mut writer| writer.field(1, b"", b"example.org").map(|()| writer))
                .and_then(|writer| writer.finish(b"body"));
            assert_eq!(
                written.is_ok(),
                written.is_ok_and(|length| length as usize <= size)
            );
        }
    }

    #[test]
    fn a_cut_record_never_reads_outside() {
        let mut area = [0; 1024];
        let mut writer = Writer::new(&mut area, fixed(BodyLocation::Inline), TEXT).unwrap();
        writer.field(1, b"", b"example.org").unwrap();
        let length = writer.finish(b"").unwrap() as usize;
        for cut in 0..length {
            if let Ok(record) = Record::parse(&area[..cut]) {
                assert!(record.fields().count() <= 1);
            }
        }
    }
}
