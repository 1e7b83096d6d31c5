//! A response's head from a Hash of headers, in the worker thread's memory. It runs no Ruby code and writes no frame.

use std::cell::RefCell;
use std::ffi::c_int;

use exchange::response::Head;
use rb_sys::{rb_hash_foreach, rb_sym2str, ruby_value_type};

use crate::errors::raise_invalid;
use crate::ruby::{self, Value, bytes, elements, integer, is};
use crate::worker_thread::State;

/// Builds a head in the worker thread's memory, without Ruby code. False where some is needed. With `has_lines`, each line
/// of a value is a field; else a line break is refused.
///
/// # Safety
/// The rules of [`crate::ruby`]; `headers` is a Hash. Raises for what cannot be sent.
pub(super) unsafe fn build_head(
    own: &State,
    status: Value,
    headers: Value,
    length: Option<usize>,
    has_lines: bool,
) -> bool {
    // SAFETY: the caller keeps the rules.
    unsafe {
        let number = match integer::<u16>(status) {
            Some(number @ 100..=999) => number,
            _ => raise_invalid(format_args!("the status is no number from 100 to 999")),
        };
        own.head.borrow_mut().begin(number);
        let mut walk = Walk {
            head: &raw const own.head,
            needs_ruby: false,
            is_framed: false,
            has_lines,
        };
        rb_hash_foreach(headers, Some(each_header), (&raw mut walk) as Value);
        // RFC 9110 sections 8.6, 15.3.6 and 15.4.5.
        let has_content = !matches!(number, 100..=199 | 204 | 205 | 304);
        if let Some(length) = length.filter(|_| has_content && !walk.is_framed) {
            let digits = length.to_string();
            own.head
                .borrow_mut()
                .field(b"content-length", digits.as_bytes());
        }
        !walk.needs_ruby
    }
}

/// What the walk over the headers carries along.
struct Walk {
    head: *const RefCell<Head>,
    needs_ruby: bool,
    /// Whether the application says how long the body is, or how it is coded.
    is_framed: bool,
    /// Whether several values are lines of one string (Rack 2 SPEC, "The Headers").
    has_lines: bool,
}

/// `ST_STOP`
const STOP: c_int = 1;

/// `ST_CONTINUE`
const CONTINUE: c_int = 0;

unsafe extern "C" fn each_header(name: Value, value: Value, walk: Value) -> c_int {
    // SAFETY: `build_head` passes a `Walk` that outlives the iteration.
    unsafe {
        let walk = walk as *mut Walk;
        let name = match ruby::is(name, ruby_value_type::RUBY_T_SYMBOL) {
            true => rb_sym2str(name),
            false if is(name, ruby_value_type::RUBY_T_STRING) => name,
            false => raise_invalid(format_args!("a header's name is no string")),
        };
        if bytes(name).starts_with(b"rack.") {
            let hijack = bytes(name) == b"rack.hijack" && ruby::truthy(value);
            (*walk).needs_ruby |= hijack;
            return if hijack { STOP } else { CONTINUE };
        }
        if bytes(name).is_empty()
            || bytes(name).len() > usize::from(u16::MAX)
            || !bytes(name).iter().all(|&byte| is_token(byte))
        {
            raise_invalid(format_args!(
                "the header's name {:?} is malformed",
                Shown(bytes(name))
            ));
        }
        (*walk).is_framed |= bytes(name).eq_ignore_ascii_case(b"content-length")
            || bytes(name).eq_ignore_ascii_case(b"transfer-encoding");
        let values: &[Value] = match is(value, ruby_value_type::RUBY_T_ARRAY) {
            true => elements(value),
            false => &[value],
        };
        for &value in values {
            if !is(value, ruby_value_type::RUBY_T_STRING) {
                (*walk).needs_ruby = true;
                return STOP;
            }
            match (*walk).has_lines {
                true => put_lines(&*(*walk).head, bytes(name), bytes(value)),
                false => put_value(&*(*walk).head, bytes(name), bytes(value)),
            }
        }
    }
    CONTINUE
}

/// Adds the lines of a header's value to the head, one field each.
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises for what cannot be sent.
unsafe fn put_lines(head: &RefCell<Head>, name: &[u8], value: &[u8]) {
    for line in value.split(|&byte| byte == b'\n') {
        // SAFETY: the caller keeps the rules.
        unsafe { put_value(head, name, line) };
    }
}

/// Adds a field to the head. Refuses every control character but the tab, also those that Rack's SPEC allows from 3.2 on:
/// HTTP does not (RFC 9110, section 5.5).
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises for what cannot be sent.
unsafe fn put_value(head: &RefCell<Head>, name: &[u8], value: &[u8]) {
    let is_control = |byte: &&u8| (**byte < b' ' && **byte != b'\t') || **byte == 127;
    if let Some(&byte) = value.iter().find(is_control) {
        let name = Shown(name);
        let advice = match byte {
            b'\n' => ": since Rack 3 several values are an array",
            _ => "",
        };
        // SAFETY: the caller keeps the rules; the head is not borrowed.
        unsafe {
            raise_invalid(format_args!(
                "the header {name:?} has the control character {byte:#04x} in its value{advice}"
            ))
        }
    }
    head.borrow_mut().field(name, value);
}

/// Whether a byte may stand in a header's name (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The start of some bytes, as a text without control characters.
struct Shown<'a>(&'a [u8]);

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "\"{}\"", self.0[..self.0.len().min(64)].escape_ascii())
    }
}
