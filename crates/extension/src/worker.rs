//! The process as a worker: its place in the exchange, made in the template and taken after the fork.
//!
//! It runs no requests; [`crate::worker_thread`] does.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use exchange::Region;
use exchange::control::{self, Error, FromWorker, Purge, Received, ToWorker};
use exchange::worker::Worker;
use rb_sys::rb_eRuntimeError;

mod as_array;
mod idleness;
pub(crate) mod template;

use self::as_array::as_array;
use self::idleness::Idleness;
use crate::arguments::{descriptor, number};
use crate::children::{self, refuse_children};
use crate::env::{self, Parts};
use crate::messages;
use crate::process;
use crate::rack_release::RackRelease;
use crate::ruby::{self, Message, NIL, Value, array, copied, fixnum, list, truthy, unsigned};

/// What the template holds for its workers. The memory is not mapped there: what the application forks while it is loaded
/// must not have it.
struct Attached {
    memory: OwnedFd,
    doorbell: OwnedFd,
}

static ATTACHED: Mutex<Option<Attached>> = Mutex::new(None);

/// This process as a worker.
pub(crate) struct ThisWorker {
    /// Its place in the exchange.
    pub(crate) worker: Arc<Worker>,
    /// Its number.
    pub(crate) number: u16,
    /// How many threads it has.
    pub(crate) threads: u16,
    /// Its control socket.
    pub(crate) control: RawFd,
    /// Whether it has had requests lately.
    pub(crate) idleness: Idleness,
}

/// Null in the template. What it has pointed to is never freed: objects of Ruby's refer to it.
static THIS_WORKER: AtomicPtr<ThisWorker> = AtomicPtr::new(ptr::null_mut());

/// This process as a worker.
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises where it is none, also where it was forked from one.
pub(crate) unsafe fn this_worker() -> &'static ThisWorker {
    // SAFETY: the caller keeps the rules.
    unsafe { refuse_children() };
    match joined() {
        Some(joined) => joined,
        // SAFETY: the caller keeps the rules.
        None => unsafe {
            ruby::raise(
                rb_eRuntimeError,
                &Message::new(format_args!("this process is no worker")),
            )
        },
    }
}

/// This process as a worker, if it is one.
fn joined() -> Option<&'static ThisWorker> {
    // SAFETY: `join` stores what lives for ever.
    unsafe { THIS_WORKER.load(Ordering::Acquire).as_ref() }
}

/// Whether that is this process as a worker; not in a template that was forked from that worker, nor in its workers.
pub(crate) fn is_this_worker(joined: &ThisWorker) -> bool {
    ptr::eq(THIS_WORKER.load(Ordering::Acquire), joined)
}

/// `Native.attach(memory, doorbell)`: keeps the exchange for the workers to come. Takes the descriptors over.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn attach(_: Value, memory: Value, doorbell: Value) -> Value {
    // SAFETY: Ruby calls with the GVL; the descriptors were received with the message and have no other owner.
    unsafe {
        let (memory, doorbell) = (descriptor(memory), descriptor(doorbell));
        let (memory, doorbell) = (OwnedFd::from_raw_fd(memory), OwnedFd::from_raw_fd(doorbell));
        *ATTACHED.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Attached { memory, doorbell });
    }
    NIL
}

/// `Native.prepare(front, errors, empty_input, connection, multithread, early_hints, rack_release)`: makes what all
/// envs have in common.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn prepare(
    _: Value,
    front: Value,
    errors: Value,
    empty_input: Value,
    connection: Value,
    multithread: Value,
    early_hints: Value,
    rack_release: Value,
) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let (multithread, early_hints) = (truthy(multithread), truthy(early_hints));
        env::prepare(
            number(front),
            &Parts {
                errors,
                empty_input,
                connection,
                multithread,
                early_hints,
                rack_release: RackRelease::from_array(rack_release),
            },
        );
    }
    NIL
}

/// `Native.enter(number, control)`: makes this process, just forked, a worker. From then on it ends when
/// its control socket does.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn enter(_: Value, index: Value, control: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let (index, control) = (number::<u16>(index), descriptor(control));
        let failed = join(index, control).err();
        if let Some(failed) = failed.map(|error| Message::new(format_args!("{error}"))) {
            ruby::raise(rb_eRuntimeError, &failed)
        }
    }
    NIL
}

fn join(number: u16, control: RawFd) -> io::Result<()> {
    if joined().is_some() {
        return Err(io::Error::other("this process is a worker already"));
    }
    process::end_with_front(control)?;
    let attached = ATTACHED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let attached =
        attached.ok_or_else(|| io::Error::other("the template has attached no exchange"))?;
    let region = Region::open(attached.memory)?;
    let threads = region.geometry().threads;
    let worker = Worker::new(region, attached.doorbell, number)?;
    worker.keep_from_children()?;
    let [memory, bell] = worker.descriptors();
    children::close_in_children([control, memory, bell, -1])?;
    let joined = ThisWorker {
        worker,
        number,
        threads,
        control,
        idleness: Idleness::default(),
    };
    THIS_WORKER.store(Box::into_raw(Box::new(joined)), Ordering::Release);
    Ok(())
}

/// `Native.ready`: reports to the supervisor that this worker serves requests.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn ready(_: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let joined = this_worker();
        let message = FromWorker::Ready {
            worker: joined.number,
            pid: std::process::id() as i32,
        };
        messages::send_from_worker(joined.control, message, &[])
    }
}

/// `Native.report(text)`: has the supervisor log it.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn report(_: Value, text: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let control = this_worker().control;
        messages::send_from_worker(
            control,
            FromWorker::Error {
                message: copied(text),
            },
            &[],
        )
    }
}

/// `Native.next_message(seconds)`: waits for the supervisor: `[:backtrace, thread, slot, sequence]` where it wants to know where a
/// thread is, see [`ToWorker::Backtrace`]; `[:purged, id, result]` where it answers [`purge`], the result being a number, nil
/// without a cache, or false; `[:body, thread, sequence, descriptor]` where it answers `WorkerThread#ask_for_body`, see
/// [`ToWorker::Body`]; `[:inspect, id, kind, milliseconds, mode]` where it wants to know how this process is, see
/// [`ToWorker::Inspect`]; `[:refork, descriptor]` where a template is wanted, see [`ToWorker::Refork`]; nil at the end.
///
/// `[:idle]` once this worker has had requests, but none for so many `seconds`, and has the turn for work between requests:
/// `Native.end_idle_work` must follow. With nil for `seconds` it never does.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn next_message(_: Value, seconds: Value) -> Value {
    // SAFETY: Ruby calls with the GVL, which it gives up while it waits. What has `Drop` is gone before anything may
    // raise.
    unsafe {
        let joined = this_worker();
        let control = joined.control;
        let seconds = (seconds != NIL).then(|| number::<u32>(seconds));
        loop {
            let readable = idleness::wait_for_input(control, seconds);
            // A finalizer may have run meanwhile, and forked.
            refuse_children();
            if !readable && joined.idleness.begin_work(&joined.worker) {
                return array(&[messages::symbol("idle")]);
            }
            match control::try_receive::<ToWorker>(BorrowedFd::borrow_raw(control)) {
                Ok(None) => return NIL,
                Ok(Some(received)) => {
                    let Received { message, fds } = received;
                    if message == ToWorker::Refork {
                        let socket = fds.into_iter().next().map(IntoRawFd::into_raw_fd);
                        let kind = messages::symbol("refork");
                        return array(&[kind, socket.map_or(NIL, fixnum)]);
                    }
                    if let ToWorker::Body { thread, sequence } = message {
                        let file = fds.into_iter().next().map(IntoRawFd::into_raw_fd);
                        let file = file.map_or(NIL, fixnum);
                        let kind = messages::symbol("body");
                        return array(&[kind, fixnum(thread), unsigned(sequence), file]);
                    }
                    drop(fds);
                    return as_array(&message);
                }
                // What is no message may be that of a newer front.
                Err(Error::Malformed(_)) => {}
                Err(error) if error.would_block() || error.interrupted() => {}
                Err(_) => return NIL,
            }
        }
    }
}

/// `Native.end_idle_work`: gives the turn back that [`next_message`] has taken; it is not that of a process that was forked
/// meanwhile.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn end_idle_work(_: Value) -> Value {
    if !children::is_child() {
        // SAFETY: Ruby calls with the GVL.
        unsafe { this_worker() }.worker.end_out_of_band();
    }
    NIL
}

/// `Native.purge(id, kind, text)`: asks the supervisor to have the response cache forget what the text names: a `url`, a
/// `prefix` or a `tag`.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn purge(_: Value, id: Value, kind: Value, text: Value) -> Value {
    // SAFETY: Ruby calls with the GVL. What may raise comes before what has `Drop`.
    unsafe {
        let (control, id) = (this_worker().control, number(id));
        let what = match copied(kind).as_str() {
            "url" => Purge::Url,
            "prefix" => Purge::Prefix,
            _ => Purge::Tag,
        };
        let what = what(copied(text));
        messages::send_from_worker(control, FromWorker::Purge { id, what }, &[])
    }
}

/// `Native.count(batch)`: tells the supervisor what the application has counted in this worker. Never waits; false where it
/// was not sent.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn count(_: Value, batch: Value) -> Value {
    // SAFETY: Ruby calls with the GVL. What may raise comes before what has `Drop`.
    unsafe {
        let control = this_worker().control;
        let batch = copied(batch);
        messages::try_count(control, FromWorker::Counts { batch })
    }
}

/// `Native.backtrace(slot, sequence, lines)`: answers the question that [`next_message`] returned.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn backtrace(
    _: Value,
    slot: Value,
    sequence: Value,
    lines: Value,
) -> Value {
    // SAFETY: Ruby calls with the GVL. What may raise comes before what has `Drop`.
    unsafe {
        let control = this_worker().control;
        let (slot, sequence) = (number(slot), number(sequence));
        let message = FromWorker::Backtrace {
            slot,
            sequence,
            backtrace: list(lines).iter().map(|&line| copied(line)).collect(),
        };
        messages::send_from_worker(control, message, &[])
    }
}

/// `Native.inspected(id, text, last)`: sends a piece of the answer to a question that [`next_message`] returned.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn inspected(_: Value, id: Value, text: Value, last: Value) -> Value {
    // SAFETY: Ruby calls with the GVL. What may raise comes before what has `Drop`.
    unsafe {
        let control = this_worker().control;
        let (id, last) = (number(id), truthy(last));
        let text = copied(text);
        messages::send_from_worker(control, FromWorker::Inspected { id, text, last }, &[])
    }
}

/// `Native.stop`: has this worker finish what it runs, and then exit. May be called from a signal's handler in Ruby.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn stop(_: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe { this_worker() }.worker.stop();
    NIL
}
