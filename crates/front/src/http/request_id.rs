//! The id of a request, by which the logs of proxies, server and application name it: that of a trusted proxy, or one of its
//! own (UUID version 7, RFC 9562). It never changes the request's fields.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use config::Settings;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::http::request::Peer;
use crate::random::random;

/// The field that carries it.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longer ids are replaced, in bytes; Rails cuts them here.
const MAX_ID_BYTES: usize = 255;
/// Random bytes of one id.
const RANDOM_BYTES: usize = 10;
/// Bytes of the text of an id.
const TEXT_BYTES: usize = 36;
/// Texts share memory of this size, so that not each of them is an allocation; one that is kept keeps all of it.
const SHARED_BYTES: usize = 64 * TEXT_BYTES;

thread_local! {
    /// Room for the texts of the next ids.
    static ROOM: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// The two digits of each byte.
static DIGITS: [[u8; 2]; 256] = digits();

/// Returns the id of a request with these fields, from this peer; none where the settings want none. The id of a trusted peer
/// stays if it is one that Rails takes too.
pub fn of(settings: &Settings, peer: &Peer, fields: &HeaderMap) -> Option<HeaderValue> {
    if !settings.request_id {
        return None;
    }
    let sent = match peer.trusted {
        true => fields.get(X_REQUEST_ID),
        false => None,
    };
    Some(match sent.filter(|id| is_sound(id.as_bytes())) {
        Some(id) => id.clone(),
        None => make(),
    })
}

/// Whether an id has only characters that need no escape in any log.
fn is_sound(id: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-@".contains(byte);
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.iter().all(is_plain)
}

/// Returns a new id.
pub fn make() -> HeaderValue {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |since| since.as_millis() as u64);
    let text = format(now_ms, random());
    let text = ROOM.with_borrow_mut(|room| {
        if room.capacity() < TEXT_BYTES {
            *room = BytesMut::with_capacity(SHARED_BYTES);
        }
        room.extend_from_slice(&text);
        room.split().freeze()
    });
    HeaderValue::from_maybe_shared(text).unwrap_or(HeaderValue::from_static("-"))
}

/// The text of a UUID version 7 of this time, in milliseconds since 1970, and these random bytes.
fn format(now_ms: u64, random: [u8; RANDOM_BYTES]) -> [u8; TEXT_BYTES] {
    /// Where the digits of each byte are, after RFC 9562 section 4.
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let mut bytes = [0_u8; 16];
    bytes[..6].copy_from_slice(&now_ms.to_be_bytes()[2..]);
    bytes[6..].copy_from_slice(&random);
    bytes[6] = bytes[6] & 0x0f | 0x70;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = [b'-'; TEXT_BYTES];
    for (byte, place) in bytes.into_iter().zip(PLACES) {
        [text[place], text[place + 1]] = DIGITS[usize::from(byte)];
    }
    text
}

const fn digits() -> [[u8; 2]; 256] {
    let hexadecimal = b"0123456789abcdef";
    let mut all = [[0; 2]; 256];
    let mut byte = 0;
    while byte < all.len() {
        all[byte] = [hexadecimal[byte >> 4], hexadecimal[byte & 15]];
        byte += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_rails_takes_are_sound() {
        for id in ["a", "A-b_c@1", &"x".repeat(255)] {
            assert!(is_sound(id.as_bytes()), "{id}");
        }
        for id in ["", "a b", "a\"", "a\n", "\u{e9}", "a;b", &"x".repeat(256)] {
            assert!(!is_sound(id.as_bytes()), "{id}");
        }
    }

    #[test]
    fn an_id_of_its_own_is_a_uuid_of_version_7() {
        let text = format(0x0192_3456_789a, [0xff; RANDOM_BYTES]);
        assert_eq!(&text, b"01923456-789a-7fff-bfff-ffffffffffff");
        let text = format(0, [0; RANDOM_BYTES]);
        assert_eq!(&text, b"00000000-0000-7000-8000-000000000000");
    }

    #[test]
    fn no_two_ids_are_equal() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| make()).collect();
        assert_eq!(ids.len(), 1000);
    }
}
