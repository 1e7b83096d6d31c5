//! What Ruby code asks of a seat, besides taking requests and writing responses: what it runs, and how
//! its request ends.

use exchange::board::Claim;
use exchange::control::FromWorker;
use exchange::request::{BodyPlace, Record};
use exchange::response::Kind;
use rb_sys::{rb_eRuntimeError, ruby_value_type};

use super::state;
use crate::messages::{descriptor, number, send_from_worker};
use crate::respond;
use crate::ruby::{self, Message, NIL, Value, boolean, bytes, copied, fixnum};

/// `seat.thread`: its number in its worker.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn thread(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    fixnum(unsafe { state(this) }.seat.thread())
}

/// `seat.runs?(env)`: whether it holds the request of that env.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn runs(this: Value, env: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    let own = unsafe { state(this) };
    boolean(own.job.is_some() && own.env == env)
}

/// `seat.holds?(slot, sequence)`: whether its thread runs this very publication of a request, or what follows its response.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn holds(this: Value, slot: Value, sequence: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let wanted = Claim {
            slot: number(slot),
            sequence: number(sequence),
        };
        boolean(state(this).claim == Some(wanted))
    }
}

/// `seat.answered?`: whether the latest request has been handed back.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn answered(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    boolean(unsafe { state(this) }.job.is_none())
}

/// `seat.hijacked?`: whether the application has taken the connection of the request that it holds.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn hijacked(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    boolean(unsafe { state(this) }.hijacked)
}

/// `seat.input_path`: where the body of the request lies that it holds; nil when it came with the request.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn input_path(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let own = state(this);
        let record = own
            .job
            .as_ref()
            .and_then(|job| Record::parse(own.seat.record(job)).ok());
        match record.map(|record| record.facts.body) {
            Some(BodyPlace::File { descriptor, .. }) => {
                let path =
                    Message::new(format_args!("/proc/{}/fd/{descriptor}", own.template.front));
                ruby::binary(path.as_bytes())
            }
            _ => NIL,
        }
    }
}

/// `seat.flush`: makes what was written visible to the front.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn flush(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { state(this) }.flush();
    NIL
}

/// `seat.finish`: ends the response. Nothing more can be written.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn finish(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        if !state(this).hijacked {
            respond::end(this);
        }
        state(this).hand_back();
    }
    NIL
}

/// `seat.fail(text)`: ends the request with an error of the application, which the front logs and answers
/// with a 500, or by cutting a response that has begun. After the response the text is only logged.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn fail(this: Value, text: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let own = state(this);
        let told = match ruby::is(text, ruby_value_type::RUBY_T_STRING) {
            // There is no response to fail any more.
            _ if own.hijacked => {
                own.hand_back();
                false
            }
            true => own.fail(bytes(text)),
            false => own.fail(b""),
        };
        if !told {
            report(this, text);
        }
    }
    NIL
}

/// `seat.report(text)`: has the supervisor log what went wrong after the response.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn report(this: Value, text: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        send_from_worker(
            state(this).joined.control,
            FromWorker::Error {
                message: copied(text),
            },
            &[],
        )
    }
}

/// `seat.begin_out_of_band`: takes the turn for work between requests. True where it is this worker's now; then
/// `seat.end_out_of_band` must follow.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn begin_out_of_band(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    let own = unsafe { state(this) };
    boolean(own.job.is_none() && own.seat.begin_out_of_band())
}

/// `seat.end_out_of_band`: gives that turn back.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn end_out_of_band(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { state(this) }.seat.end_out_of_band();
    NIL
}

/// `seat.hijack(socket)`: gives the front a socket to splice the client's connection with.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn hijack(this: Value, socket: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let socket = descriptor(socket);
        let own = state(this);
        let Some(job) = own.job.filter(|_| own.open()) else {
            ruby::raise(
                rb_eRuntimeError,
                &Message::new(format_args!(
                    "the connection cannot be taken over: its response has begun"
                )),
            )
        };
        own.hijacked = true;
        let message = FromWorker::Hijack {
            worker: own.joined.number,
            thread: own.seat.thread(),
            slot: job.claim.slot.into(),
            sequence: job.claim.sequence.into(),
        };
        // Before the frame, so that the socket is there when the front reads of it.
        send_from_worker(own.joined.control, message, &[socket]);
        respond::frame(this, Kind::Hijacked, NIL);
        state(this).flush();
    }
    NIL
}
