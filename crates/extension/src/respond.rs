//! Responses, from Ruby's objects into the ring.
//!
//! Whatever would split a response is refused here, with an error for the application's log. This module
//! never calls a body's `each` or `close`; Ruby code does.

use std::ffi::c_int;
use std::sync::OnceLock;

use exchange::response::Kind;
use rb_sys::{rb_hash_foreach, rb_obj_as_string, rb_sym2str, ruby_value_type};

use crate::ruby::{self, Message, NIL, Value, boolean, bytes, elements, integer, is};
use crate::seat::{Refused, State, state, wait_for_room};

/// The classes of errors raised here.
struct Errors {
    invalid_response: Value,
    client_gone: Value,
}

static ERRORS: OnceLock<Errors> = OnceLock::new();

/// Names the classes of errors to raise; both must live for ever.
pub(crate) fn set_errors(invalid_response: Value, client_gone: Value) {
    let _ = ERRORS.set(Errors {
        invalid_response,
        client_gone,
    });
}

fn errors() -> &'static Errors {
    ERRORS.get().expect("set when the extension is loaded")
}

/// # Safety
/// The rules of [`crate::ruby`].
unsafe fn raise_invalid(message: std::fmt::Arguments<'_>) -> ! {
    // SAFETY: the caller keeps the rules.
    unsafe { ruby::raise(errors().invalid_response, &Message::new(message)) }
}

/// # Safety
/// The rules of [`crate::ruby`].
unsafe fn raise_refused(refused: Refused) -> ! {
    // SAFETY: the caller keeps the rules.
    unsafe {
        match refused {
            Refused::Gone => ruby::raise(
                errors().client_gone,
                &Message::new(format_args!("the client is gone")),
            ),
            Refused::TooLarge(limit) => {
                raise_invalid(format_args!("the response's head exceeds {limit} bytes"))
            }
        }
    }
}

/// `seat.respond(status, headers, list)`: a whole response with a body of strings.
///
/// False, with nothing written, for what needs Ruby code: a partial hijack, headers in something other
/// than a Hash, a body with other elements than strings.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn respond(
    this: Value,
    status: Value,
    headers: Value,
    list: Value,
) -> Value {
    // SAFETY: Ruby calls with the GVL. `list` and its strings are looked at again after each wait, as
    // another thread may have changed them.
    unsafe {
        if !state(this).open()
            || !is(headers, ruby_value_type::RUBY_T_HASH)
            || !is(list, ruby_value_type::RUBY_T_ARRAY)
            || integer::<i32>(status).is_none()
            || !elements(list)
                .iter()
                .all(|&part| is(part, ruby_value_type::RUBY_T_STRING))
            || !write_head(this, status, headers)
        {
            return boolean(false);
        }
        // The head is not in the ring yet, so errors up to here leave a clean slate.
        frame_of_head(this, Kind::Head);
        let mut index = 0;
        while let Some(&part) = elements(list).get(index) {
            if !is(part, ruby_value_type::RUBY_T_STRING) {
                raise_invalid(format_args!("the body was changed while it was sent"));
            }
            put_bytes(this, part);
            index += 1;
        }
        end(this);
        state(this).hand_back();
        boolean(true)
    }
}

/// `seat.head(status, headers)`: the head of a response whose body follows. It leaves with what comes next.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn head(this: Value, status: Value, headers: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        if !is(headers, ruby_value_type::RUBY_T_HASH) {
            raise_invalid(format_args!("the headers are no hash"));
        }
        write_head(this, status, headers);
        frame_of_head(this, Kind::Head);
    }
    NIL
}

/// `seat.hints(headers)`: early hints. Does nothing once the head is out.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn hints(this: Value, headers: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        if state(this).open() && is(headers, ruby_value_type::RUBY_T_HASH) {
            write_head(this, ruby::fixnum(103), headers);
            frame_of_head(this, Kind::Hints);
            state(this).flush();
        }
    }
    NIL
}

/// `seat.chunk(string)`: a piece of the body, which leaves at once.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn chunk(this: Value, part: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        if !is(part, ruby_value_type::RUBY_T_STRING) {
            raise_invalid(format_args!("the body yields other things than strings"));
        }
        put_bytes(this, part);
        state(this).flush();
    }
    NIL
}

/// `seat.file(path)`: the file at an absolute path is the body.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn file(this: Value, path: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { frame(this, Kind::File, path) };
    NIL
}

/// Puts an End frame into the ring.
///
/// # Safety
/// The rules of [`crate::ruby`]; `this` is a seat. May raise.
pub(crate) unsafe fn end(this: Value) {
    // SAFETY: the caller keeps the rules.
    unsafe { frame(this, Kind::End, NIL) }
}

/// Puts a frame whose payload is a Ruby string, or nothing, into the ring. Waits where it is full.
///
/// # Safety
/// The rules of [`crate::ruby`]; `this` is a seat. Raises where it cannot be written.
pub(crate) unsafe fn frame(this: Value, kind: Kind, payload: Value) {
    // SAFETY: the caller keeps the rules; the string is looked at again after each wait.
    unsafe {
        loop {
            let payload = if is(payload, ruby_value_type::RUBY_T_STRING) {
                bytes(payload)
            } else {
                &[]
            };
            match state(this).try_frame(kind, payload) {
                Some(Ok(())) => return,
                Some(Err(refused)) => raise_refused(refused),
                None => wait_for_room(this),
            }
        }
    }
}

/// Puts the bytes of a string into the ring, in as many frames as it takes.
///
/// # Safety
/// As for [`frame`].
unsafe fn put_bytes(this: Value, string: Value) {
    let mut at = 0;
    // SAFETY: the caller keeps the rules; the string is looked at again after each wait, and may have
    // become shorter.
    unsafe {
        loop {
            let rest = bytes(string).get(at..).unwrap_or(&[]);
            if rest.is_empty() {
                return;
            }
            let own = state(this);
            let piece = &rest[..rest.len().min(own.longest())];
            match own.try_frame(Kind::Chunk, piece) {
                Some(Ok(())) => at += piece.len(),
                Some(Err(refused)) => raise_refused(refused),
                None => wait_for_room(this),
            }
        }
    }
}

/// Puts the head that [`write_head`] left into the ring.
///
/// # Safety
/// As for [`frame`].
unsafe fn frame_of_head(this: Value, kind: Kind) {
    // SAFETY: the caller keeps the rules. The head stays as it is: only this thread writes heads of this seat.
    unsafe {
        loop {
            let own = state(this);
            let payload: *const [u8] = own.head.bytes();
            match own.try_frame(kind, &*payload) {
                Some(Ok(())) => return,
                Some(Err(refused)) => raise_refused(refused),
                None => wait_for_room(this),
            }
        }
    }
}

/// Builds a head in the seat's memory. False when it has a `rack.hijack`.
///
/// # Safety
/// The rules of [`crate::ruby`]; `headers` is a Hash. Raises for what cannot be sent.
unsafe fn write_head(this: Value, status: Value, headers: Value) -> bool {
    // SAFETY: the caller keeps the rules.
    unsafe {
        let number = match integer::<u16>(status) {
            Some(number @ 100..=999) => number,
            _ => raise_invalid(format_args!("the status is no number from 100 to 999")),
        };
        let own = state(this);
        own.head.begin(number);
        let mut walk = Walk {
            state: own,
            hijack: false,
        };
        rb_hash_foreach(headers, Some(each_header), (&raw mut walk) as Value);
        !walk.hijack
    }
}

/// What the walk over the headers carries along.
struct Walk {
    state: *mut State,
    hijack: bool,
}

/// `ST_CONTINUE`
const CONTINUE: c_int = 0;

unsafe extern "C" fn each_header(name: Value, value: Value, walk: Value) -> c_int {
    // SAFETY: `write_head` passes a `Walk` that outlives the iteration.
    unsafe {
        let walk = walk as *mut Walk;
        let name = match ruby::is(name, ruby_value_type::RUBY_T_SYMBOL) {
            true => rb_sym2str(name),
            false if is(name, ruby_value_type::RUBY_T_STRING) => name,
            false => raise_invalid(format_args!("a header's name is no string")),
        };
        if bytes(name).starts_with(b"rack.") {
            (*walk).hijack |= bytes(name) == b"rack.hijack" && ruby::truthy(value);
            return CONTINUE;
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
        let head = (*walk).state;
        if is(value, ruby_value_type::RUBY_T_ARRAY) {
            let mut index = 0;
            while let Some(&value) = elements(value).get(index) {
                put_value(head, name, value);
                index += 1;
            }
        } else {
            put_value(head, name, value);
        }
    }
    CONTINUE
}

/// Adds the lines of a header's value to the head, one field each (Rack 2 SPEC, "The Headers").
///
/// # Safety
/// The rules of [`crate::ruby`]; `name` is a String. Raises for what cannot be sent.
unsafe fn put_value(state: *mut State, name: Value, value: Value) {
    // SAFETY: the caller keeps the rules; `state` outlives the call, and nothing else has it.
    unsafe {
        let value = if is(value, ruby_value_type::RUBY_T_STRING) {
            value
        } else {
            rb_obj_as_string(value)
        };
        for line in bytes(value).split(|&byte| byte == b'\n') {
            if let Some(&byte) = line
                .iter()
                .find(|&&byte| (byte < b' ' && byte != b'\t') || byte == 127)
            {
                let name = Shown(bytes(name));
                raise_invalid(format_args!(
                    "the header {name:?} has the control character {byte:#04x} in its value"
                ));
            }
            (*state).head.field(bytes(name), line);
        }
    }
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
