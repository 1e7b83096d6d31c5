//! What Ruby code asks of a worker thread, besides taking requests and writing responses: what it runs, and how
//! its request ends.

use exchange::control::FromWorker;
use exchange::coordination::Claim;
use exchange::request::{BodyLocation, Record};
use exchange::response::Kind;
use rb_sys::{rb_eRuntimeError, ruby_value_type};

use super::claim::{claim_from, claim_number};
use super::{State, state, state_anywhere};
use crate::arguments::{descriptor, number};
use crate::children;
use crate::errors::{raise_over, raise_refused};
use crate::messages::send_from_worker;
use crate::respond;
use crate::ruby::{self, Message, NIL, Value, boolean, bytes, copied, fixnum, unsigned};
use crate::worker::is_this_worker;

/// `worker_thread.number`: its number in its worker.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn own_number(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    fixnum(unsafe { state(this) }.thread.number())
}

/// `worker_thread.claim_of(env)`: what stands for the request of `env`, where its thread runs it, or what follows its response;
/// nil otherwise. Each write of the response gives it, so that a late one is distinguished from those of the next
/// request.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn claim_of(this: Value, env: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    let claim = unsafe { state(this) }.claim_of(env);
    claim.map_or(NIL, claim_number)
}

/// `worker_thread.holds?(slot, sequence)`: whether its thread runs this very publication of a request, or what follows its response.
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
        boolean(state(this).running.get() == Some(wanted))
    }
}

/// `worker_thread.answered?`: whether this process has no request to answer: the latest one has been handed back, or is the
/// worker's that this process was forked from.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn answered(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    let state = unsafe { state_anywhere(this) };
    boolean(children::is_child() || !is_this_worker(state.joined) || state.claim().is_none())
}

/// `worker_thread.hijacked?`: whether the application has taken the connection of the request that it holds.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn hijacked(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    boolean(unsafe { state(this) }.hijacked.get())
}

/// `worker_thread.input_path`: where the body of the request lies that it holds; nil when it came with the request.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn input_path(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let own = state(this);
        let record = own
            .job
            .get()
            .and_then(|job| Record::parse(own.thread.record(&job)).ok());
        match record.map(|record| record.fixed.body) {
            Some(BodyLocation::File { descriptor, .. }) => {
                let path =
                    Message::new(format_args!("/proc/{}/fd/{descriptor}", own.template.front));
                ruby::binary(path.as_bytes())
            }
            _ => NIL,
        }
    }
}

/// `worker_thread.ask_for_body`: asks the front for the body of the request that it holds, which lies in a file. Returns the
/// sequence number that the answer has ([`exchange::control::ToWorker::Body`]).
///
/// # Safety
/// Called by Ruby. Raises where it holds no request.
pub(crate) unsafe extern "C" fn ask_for_body(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let own = state(this);
        let Some(claim) = own.job.get().map(|job| job.claim) else {
            raise_over()
        };
        let message = FromWorker::Body {
            thread: own.thread.number(),
            slot: claim.slot,
            sequence: claim.sequence,
        };
        send_from_worker(own.joined.control, message, &[]);
        unsigned(claim.sequence)
    }
}

/// `worker_thread.flush`: makes what was written visible to the front.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn flush(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { state(this) }.flush();
    NIL
}

/// `worker_thread.finish(claim)`: ends the response to `claim`, where it has not ended before. Nothing more can be written.
///
/// # Safety
/// Called by Ruby. Raises where the thread runs another request.
pub(crate) unsafe extern "C" fn finish(this: Value, claim: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let claim = claim_from(claim);
        let own = state(this);
        if own.running.get() != Some(claim) {
            raise_over();
        }
        if let Some(claim) = own.claim().filter(|_| !own.hijacked.get()) {
            own.measure();
            respond::end(this, claim);
        }
        own.hand_back();
    }
    NIL
}

/// `worker_thread.finish_with_error(claim, text)`: ends the response to `claim`, which is a page about an error of the
/// application, and has the front log that error.
///
/// # Safety
/// Called by Ruby. Raises where the response cannot be ended.
pub(crate) unsafe extern "C" fn finish_with_error(this: Value, claim: Value, text: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let claim = claim_from(claim);
        state(this).measure();
        respond::end(this, claim);
        fail(this, text)
    }
}

/// `worker_thread.fail(text)`: ends the request with an error of the application, which the front logs and answers
/// with a 500, or by cutting a response that has begun. After the response the text is only logged.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn fail(this: Value, text: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let own = state(this);
        let sent = match ruby::is(text, ruby_value_type::RUBY_T_STRING) {
            // There is no response to fail any more.
            _ if own.hijacked.get() => {
                own.hand_back();
                false
            }
            true => {
                own.measure();
                own.fail(bytes(text))
            }
            false => own.fail(b""),
        };
        if !sent {
            report(this, text);
        }
    }
    NIL
}

/// `worker_thread.env`: the env of the request that it runs, or of the one whose response it follows up; nil between requests.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn env(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { state(this) }.env.get()
}

/// `worker_thread.report_exception(report)`: tells the front of an exception in the request that is not answered yet. False
/// where there is none, or where the response ring has no room.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn report_exception(this: Value, report: Value) -> Value {
    // SAFETY: Ruby calls with the GVL; a string is looked at before anything else runs.
    unsafe {
        let own = state(this);
        let is_text = ruby::is(report, ruby_value_type::RUBY_T_STRING);
        boolean(is_text && own.tell_aside(Kind::Exception, bytes(report)))
    }
}

/// `worker_thread.count(batch)`: tells the front, with the request that is not answered yet, what the application has counted.
/// False where there is none, or where the response ring has no room.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn count(this: Value, batch: Value) -> Value {
    // SAFETY: Ruby calls with the GVL; a string is looked at before anything else runs.
    unsafe {
        let own = state(this);
        let is_text = ruby::is(batch, ruby_value_type::RUBY_T_STRING);
        boolean(is_text && own.tell_aside(Kind::Counts, bytes(batch)))
    }
}

/// `worker_thread.report(text)`: has the supervisor log what went wrong after the response.
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

/// `worker_thread.begin_out_of_band`: takes the turn for work between requests. True where it is this worker's now; then
/// `worker_thread.end_out_of_band` must follow.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn begin_out_of_band(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    let own = unsafe { state(this) };
    own.meter.forget_end();
    boolean(own.claim().is_none() && own.thread.begin_out_of_band())
}

/// `worker_thread.leave_request`: what the thread does from here on, until it takes its next request, is no part of what a
/// request costs.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn leave_request(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { state_anywhere(this) }.meter.forget_end();
    NIL
}

/// `worker_thread.begin_io`: the request that it runs only waits from now on. Once for each request; nothing where it runs
/// none.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn begin_io(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    let own = unsafe { state_anywhere(this) };
    if !children::is_child() && own.claim().is_some() && !own.io_bound.replace(true) {
        own.thread.begin_io();
    }
    NIL
}

/// `worker_thread.end_out_of_band`: gives that turn back; it is not that of a process that was forked meanwhile.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn end_out_of_band(this: Value) -> Value {
    if !children::is_child() {
        // SAFETY: Ruby calls with the GVL.
        unsafe { state(this) }.thread.end_out_of_band();
    }
    NIL
}

/// `worker_thread.hijack(claim, socket)`: gives the front a socket to splice the connection of the claim's client with.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn hijack(this: Value, claim: Value, socket: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let (claim, socket) = (claim_from(claim), descriptor(socket));
        let own = state(this);
        if let Err(refused) = own.job_of(claim) {
            raise_refused(refused);
        }
        if !own.open(claim) {
            ruby::raise(
                rb_eRuntimeError,
                &Message::new(format_args!(
                    "the connection cannot be taken over: its response has begun"
                )),
            )
        }
        own.hijacked.set(true);
        let message = FromWorker::Hijack {
            worker: own.joined.number,
            thread: own.thread.number(),
            slot: claim.slot.into(),
            sequence: claim.sequence.into(),
        };
        // Before the frame, so that the socket is there when the front reads of it.
        send_from_worker(own.joined.control, message, &[socket]);
        respond::frame(this, claim, Kind::Hijacked, NIL);
        own.flush();
    }
    NIL
}

impl State {
    /// Tells the front of something beside the response, where a request is held and the ring has room for it. Never waits.
    fn tell_aside(&self, kind: Kind, text: &[u8]) -> bool {
        let Some(mut job) = self.job.get() else {
            return false;
        };
        let frame = self.thread.try_frame(&mut job, kind, &[text]);
        self.job.set(Some(job));
        frame.is_ok()
    }
}
