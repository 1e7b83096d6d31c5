//! Responses, from Ruby's objects into the ring.
//!
//! Whatever would split a response is refused here, with an error for the application's log. This module
//! never calls a body's `each` or `close`; Ruby code does.

mod fields;
mod length;

use exchange::coordination::Claim;
use exchange::response::Kind;
use rb_sys::ruby_value_type;

use self::fields::build_head;
use self::length::declared_length;
use crate::errors::{raise_invalid, raise_over, raise_refused};
use crate::rack_release::RackRelease;
use crate::ruby::{self, NIL, Value, boolean, bytes, elements, integer, is};
use crate::worker_thread::claim::claim_from;
use crate::worker_thread::{State, state, wait_for_room};

/// `worker_thread.respond(env, status, headers, list)`: the whole response to the request of `env`, with a body of strings.
///
/// False, with nothing written, for what needs Ruby code: a partial hijack, headers in something other
/// than a Hash or with values that are no strings, a body with other elements than strings. Raises where the response has
/// ended, or the thread runs another request: a continuation (callcc) may have come back here.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn respond(
    this: Value,
    env: Value,
    status: Value,
    headers: Value,
    list: Value,
) -> Value {
    // SAFETY: Ruby calls with the GVL. `list` and its strings are looked at again after each wait, as
    // another thread may have changed them.
    unsafe {
        let own = state(this);
        let Some(claim) = own.claim_of(env) else {
            raise_over()
        };
        if let Err(refused) = own.job_of(claim) {
            raise_refused(refused);
        }
        // Before the first byte: what is thrown at this thread meanwhile cuts no response.
        own.measure();
        if !own.open(claim)
            || !is(headers, ruby_value_type::RUBY_T_HASH)
            || !is(list, ruby_value_type::RUBY_T_ARRAY)
            || integer::<i32>(status).is_none()
            || !elements(list)
                .iter()
                .all(|&part| is(part, ruby_value_type::RUBY_T_STRING))
            || !put_head(
                this,
                claim,
                Kind::Head,
                status,
                headers,
                declared_length(list),
            )
        {
            return boolean(false);
        }
        let mut index = 0;
        while let Some(&part) = elements(list).get(index) {
            if !is(part, ruby_value_type::RUBY_T_STRING) {
                raise_invalid(format_args!("the body was changed while it was sent"));
            }
            put_bytes(this, claim, part);
            index += 1;
        }
        end(this, claim);
        own.hand_back();
        own.meter.continue_from_end();
        boolean(true)
    }
}

/// `worker_thread.head(claim, status, headers)`: the head of a response whose body follows. It leaves with what comes next.
/// Headers are a Hash with strings, or arrays of strings, for values; a `rack.hijack` among them is passed over.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn head(
    this: Value,
    claim: Value,
    status: Value,
    headers: Value,
) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { put_plain_head(this, claim_from(claim), Kind::Head, status, headers) };
    NIL
}

/// `worker_thread.hints(claim, headers)`: early hints. Does nothing once the head is out.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn hints(this: Value, claim: Value, headers: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let claim = claim_from(claim);
        if state(this).open(claim) {
            put_plain_head(this, claim, Kind::Hints, ruby::fixnum(103), headers);
            state(this).flush();
        }
    }
    NIL
}

/// # Safety
/// As for [`put_head`].
unsafe fn put_plain_head(this: Value, claim: Claim, kind: Kind, status: Value, headers: Value) {
    // SAFETY: the caller keeps the rules.
    unsafe {
        if !is(headers, ruby_value_type::RUBY_T_HASH) {
            raise_invalid(format_args!("the headers are no hash"));
        }
        if !put_head(this, claim, kind, status, headers, None) {
            raise_invalid(format_args!("a header's value is no string"));
        }
    }
}

/// `worker_thread.chunk(claim, string)`: a piece of the body of the response to `claim`, which leaves at once.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn chunk(this: Value, claim: Value, part: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let claim = claim_from(claim);
        if !is(part, ruby_value_type::RUBY_T_STRING) {
            raise_invalid(format_args!("the body yields other things than strings"));
        }
        put_bytes(this, claim, part);
        state(this).flush();
    }
    NIL
}

/// `worker_thread.file(claim, path)`: the file at an absolute path is the body of the response to `claim`.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn file(this: Value, claim: Value, path: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { frame(this, claim_from(claim), Kind::File, path) };
    NIL
}

/// Puts a frame whose payload is a Ruby string, or nothing, into the ring. Waits where it is full.
///
/// # Safety
/// The rules of [`crate::ruby`]; `this` is a worker thread. Raises where it cannot be written.
pub(crate) unsafe fn frame(this: Value, claim: Claim, kind: Kind, payload: Value) {
    // SAFETY: the caller keeps the rules; the string is looked at again after each wait.
    unsafe {
        loop {
            let payload = if is(payload, ruby_value_type::RUBY_T_STRING) {
                bytes(payload)
            } else {
                &[]
            };
            match state(this).try_frame(claim, kind, payload) {
                Some(Ok(())) => return,
                Some(Err(refused)) => raise_refused(refused),
                None => wait_for_room(this, claim),
            }
        }
    }
}

/// Puts the end of the response into the ring, with what was measured of its request. Waits where the ring is full.
///
/// # Safety
/// The rules of [`crate::ruby`]; `this` is a worker thread. Raises where it cannot be written.
pub(crate) unsafe fn end(this: Value, claim: Claim) {
    // SAFETY: the caller keeps the rules.
    unsafe {
        loop {
            let own = state(this);
            // The borrow ends before anything may raise.
            let tried = own
                .meter
                .with_payload(|payload| own.try_frame(claim, Kind::End, payload));
            match tried {
                Some(Ok(())) => return,
                Some(Err(refused)) => raise_refused(refused),
                None => wait_for_room(this, claim),
            }
        }
    }
}

/// Puts the bytes of a string into the ring, in as many frames as it takes.
///
/// # Safety
/// As for [`frame`].
unsafe fn put_bytes(this: Value, claim: Claim, string: Value) {
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
            match own.try_frame(claim, Kind::Chunk, piece) {
                Some(Ok(())) => at += piece.len(),
                Some(Err(refused)) => raise_refused(refused),
                None => wait_for_room(this, claim),
            }
        }
    }
}

/// Builds a head and puts it into the ring. False, with nothing written, for what needs Ruby code: a `rack.hijack`, or
/// values that are neither strings nor arrays of strings.
///
/// A `length` is sent as Content-Length, unless the application frames the body itself or the status has no content.
/// Hints are passed over once the head is out or the response has ended.
///
/// Between the building and the frame no Ruby code runs and the GVL is kept, for another thread may build a head in the
/// same memory. After a wait it is built again.
///
/// # Safety
/// The rules of [`crate::ruby`]; `headers` is a Hash. Raises for what cannot be sent.
unsafe fn put_head(
    this: Value,
    claim: Claim,
    kind: Kind,
    status: Value,
    headers: Value,
    length: Option<usize>,
) -> bool {
    // SAFETY: the caller keeps the rules.
    unsafe {
        // Early hints are in no SPEC, and come in lines from Rails with Rack 3 too.
        let has_lines = kind == Kind::Hints
            || state(this).template.rack_release < RackRelease::ARRAYS_OF_VALUES;
        loop {
            let own = state(this);
            // In each round: while this thread waited, another one may have begun the response.
            if !may_begin(own, claim, kind) {
                return true;
            }
            if !build_head(own, status, headers, length, has_lines) {
                return false;
            }
            // The borrow ends before anything may raise.
            let tried = own.try_frame(claim, kind, own.head.borrow().bytes());
            match tried {
                Some(Ok(())) => return true,
                Some(Err(refused)) => raise_refused(refused),
                None => wait_for_room(this, claim),
            }
        }
    }
}

/// Whether nothing of the response was written yet. False for hints alone, which are passed over then.
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises for a head.
unsafe fn may_begin(own: &State, claim: Claim, kind: Kind) -> bool {
    // SAFETY: the caller keeps the rules.
    unsafe {
        match own.job_of(claim) {
            _ if own.open(claim) => true,
            _ if kind == Kind::Hints => false,
            Ok(_) => raise_invalid(format_args!(
                "the response has begun, or its connection was taken over"
            )),
            Err(refused) => raise_refused(refused),
        }
    }
}
