//! The control messages of [`exchange::control`], for Ruby code: those to the template, and those
//! from it. Requests never pass here.

use std::ffi::c_int;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};

use exchange::control::{
    self, Error, FromTemplate, FromWorker, PublicFolder, Received, RuntimeOption, Start, ToTemplate,
};
use rb_sys::{ID2SYM, rb_eRuntimeError, rb_hash_aset, rb_hash_new, rb_intern2, rb_thread_wait_fd};

use crate::arguments::{descriptor, number};
use crate::children::refuse_children;
use crate::ruby::{self, Message, NIL, Value, array, boolean, copied, fixnum, list, text};

/// Sends a message to the supervisor. False where the supervisor is gone.
///
/// # Safety
/// The rules of [`crate::ruby`]; the descriptors are open. Raises where it cannot be sent.
unsafe fn sent<M: control::Message>(socket: RawFd, message: M, fds: &[RawFd]) -> Value {
    // SAFETY: the caller keeps the rules. What has `Drop` is gone before the raise.
    unsafe {
        let failed = {
            let message = message;
            let fds: Vec<_> = fds.iter().map(|&fd| BorrowedFd::borrow_raw(fd)).collect();
            match control::send(BorrowedFd::borrow_raw(socket), &message, &fds) {
                Ok(()) => return boolean(true),
                Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                    return boolean(false);
                }
                Err(error) => Message::new(format_args!("{error}")),
            }
        };
        ruby::raise(rb_eRuntimeError, &failed)
    }
}

/// Sends a worker's message, see [`sent`].
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises where it cannot be sent.
pub(crate) unsafe fn send_from_worker(socket: RawFd, message: FromWorker, fds: &[RawFd]) -> Value {
    // SAFETY: the caller keeps the rules.
    unsafe { sent(socket, message, fds) }
}

/// Sends what the application has counted, unless the socket has no room. False where it was not sent.
///
/// # Safety
/// The descriptor is open.
pub(crate) unsafe fn try_count<M: control::Message>(socket: RawFd, message: M) -> Value {
    // SAFETY: the caller keeps the rules.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    boolean(control::try_send(socket, &message, &[]).is_ok())
}

/// `Native.count_in_template(socket, batch)`: tells the supervisor what the application has counted in the template. Never
/// waits; false where it was not sent.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn count(_: Value, socket: Value, batch: Value) -> Value {
    // SAFETY: Ruby calls with the GVL. What may raise comes before what has `Drop`.
    unsafe {
        refuse_children();
        let socket = descriptor(socket);
        let batch = copied(batch);
        try_count(socket, FromTemplate::Counts { batch })
    }
}

/// `Native.receive(socket)`: waits for the supervisor's next message.
///
/// Returns `[:start, memory, doorbell, fields]`, `[:fork, worker, socket]`, `[:exit]`, or nil at the end.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn receive(_: Value, socket: Value) -> Value {
    // SAFETY: Ruby calls with the GVL. The received message is on the heap while Ruby may jump.
    unsafe {
        let socket = descriptor(socket);
        loop {
            rb_thread_wait_fd(socket as c_int);
            // A finalizer may have run meanwhile, and forked.
            refuse_children();
            match control::try_receive::<ToTemplate>(BorrowedFd::borrow_raw(socket)) {
                Ok(None) => return NIL,
                Ok(Some(received)) => {
                    let received = Box::into_raw(Box::new(received));
                    let value = command(&mut *received);
                    drop(Box::from_raw(received));
                    return value;
                }
                Err(error) if error.would_block() || error.interrupted() => {}
                Err(error) => {
                    let text = Message::new(format_args!("{error}"));
                    drop(error);
                    ruby::raise(rb_eRuntimeError, &text)
                }
            }
        }
    }
}

/// # Safety
/// The rules of [`crate::ruby`]. May raise.
unsafe fn command(received: &mut Received<ToTemplate>) -> Value {
    // SAFETY: the caller keeps the rules; every object is on the stack until it is in the array.
    unsafe {
        let mut descriptors = received.fds.drain(..).map(IntoRawFd::into_raw_fd);
        let mut next = || descriptors.next().map_or(NIL, fixnum);
        match &received.message {
            ToTemplate::Start(start) => array(&[symbol("start"), next(), next(), fields(start)]),
            ToTemplate::Fork { worker } => array(&[symbol("fork"), fixnum(*worker), next()]),
            ToTemplate::Exit => array(&[symbol("exit")]),
        }
    }
}

/// # Safety
/// The rules of [`crate::ruby`]. May raise.
unsafe fn fields(start: &Start) -> Value {
    // The workers inherit it.
    if start.batch
        && let Err(error) = exchange::scheduling::Policy::Batch.apply()
    {
        eprintln!("highball: the kernel refuses SCHED_BATCH: {error} (setting `batch_scheduling`)");
    }
    // SAFETY: the caller keeps the rules; `start` is on the heap.
    unsafe {
        let hash = rb_hash_new();
        let sockets = texts(&start.unix_sockets);
        for (name, value) in [
            ("app", text(&start.app)),
            ("config_ru", text(&start.config_ru)),
            ("environment", text(&start.environment)),
            (
                "hooks",
                start.hooks.as_deref().map_or(NIL, |path| text(path)),
            ),
            ("warm_up", texts(&start.warm_up)),
            (
                "frequent_paths",
                start
                    .frequent_paths
                    .as_ref()
                    .map_or(NIL, |paths| texts(paths)),
            ),
            ("threads", fixnum(start.threads)),
            ("compact_heap", boolean(start.compact)),
            ("roomy_heap", boolean(start.roomy_heap)),
            ("merge_pages", boolean(start.merge_pages)),
            ("low_priority", boolean(start.low_priority)),
            ("early_hints", boolean(start.early_hints)),
            ("rails_log_to_stdout", boolean(start.rails_log_to_stdout)),
            (
                "out_of_band",
                start
                    .out_of_band
                    .map_or(NIL, |interval| fixnum(interval as i32)),
            ),
            ("out_of_band_gc", boolean(start.out_of_band_gc)),
            (
                "release_memory_after",
                (start.release_memory_after).map_or(NIL, |seconds| fixnum(seconds as i32)),
            ),
            ("generation", fixnum(start.generation as i32)),
            ("unix_sockets", sockets),
            (
                "terminal",
                start.terminal.as_deref().map_or(NIL, |path| text(path)),
            ),
            ("error_page", boolean(start.error_page)),
            ("own_user", boolean(start.own_user)),
            ("measure_requests", boolean(start.measure_requests)),
            (
                "exceptions",
                start.exceptions.as_ref().map_or(NIL, |rules| {
                    array(&[
                        texts(&rules.ignore),
                        texts(&rules.filter),
                        rules
                            .release
                            .as_deref()
                            .map_or(NIL, |release| text(release)),
                    ])
                }),
            ),
        ] {
            rb_hash_aset(hash, symbol(name), value);
        }
        hash
    }
}

/// # Safety
/// The rules of [`crate::ruby`]. May raise.
unsafe fn texts(all: &[String]) -> Value {
    // SAFETY: the caller keeps the rules; the array is on the stack.
    unsafe {
        let array = rb_sys::rb_ary_new();
        for one in all {
            rb_sys::rb_ary_push(array, text(one));
        }
        array
    }
}

/// # Safety
/// The rules of [`crate::ruby`]. May raise.
pub(crate) unsafe fn symbol(name: &str) -> Value {
    // SAFETY: the caller keeps the rules.
    unsafe { ID2SYM(rb_intern2(name.as_ptr().cast(), name.len() as _)) }
}

/// `Native.booted(socket, ruby, rack, seconds, held, gems, filter_parameters, public_folder, runtime)`, the last five being lists
/// of texts. `public_folder` is empty, or path, index and `true` or `false` (whether it is for https only), and then names and
/// values of fields by turns. `runtime` is name, value and reason of each option, by turns.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn booted(
    _: Value,
    socket: Value,
    version: Value,
    rack: Value,
    seconds: Value,
    held: Value,
    gems: Value,
    filter_parameters: Value,
    public_folder: Value,
    runtime: Value,
) -> Value {
    // SAFETY: Ruby calls with the GVL. What may raise comes before what has `Drop`.
    unsafe {
        let socket = descriptor(socket);
        let seconds = rb_sys::NUM2DBL(seconds);
        let texts =
            |texts| -> Vec<String> { list(texts).iter().map(|&text| copied(text)).collect() };
        let pid = std::process::id() as i32;
        let message = FromTemplate::Booted {
            pid,
            ruby: copied(version),
            rack: copied(rack),
            seconds,
            held: texts(held),
            gems: texts(gems),
            filter_parameters: texts(filter_parameters),
            public_folder: folder(&texts(public_folder)),
            runtime: options(&texts(runtime)),
        };
        sent(socket, message, &[])
    }
}

/// The folder in these texts of `booted`.
fn folder(texts: &[String]) -> Option<PublicFolder> {
    let [path, index, https_only, fields @ ..] = texts else {
        return None;
    };
    let fields = fields.chunks_exact(2);
    Some(PublicFolder {
        path: path.clone(),
        index: index.clone(),
        https_only: https_only == "true",
        headers: fields
            .map(|field| (field[0].clone(), field[1].clone()))
            .collect(),
    })
}

/// The options in these texts of `booted`.
fn options(texts: &[String]) -> Vec<RuntimeOption> {
    let all = texts.chunks_exact(3);
    all.map(|option| RuntimeOption {
        name: option[0].clone(),
        value: option[1].clone(),
        reason: option[2].clone(),
    })
    .collect()
}

/// `Native.boot_failed(socket, class, message, backtrace)`
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn boot_failed(
    _: Value,
    socket: Value,
    class: Value,
    message: Value,
    backtrace: Value,
) -> Value {
    // SAFETY: as in `booted`.
    unsafe {
        let socket = descriptor(socket);
        let backtrace = list(backtrace).iter().map(|&line| copied(line)).collect();
        let message = FromTemplate::BootFailed {
            class: copied(class),
            message: copied(message),
            backtrace,
        };
        sent(socket, message, &[])
    }
}

/// `Native.donor(socket, lost)`: this worker will fork a template, which lacks what these texts say.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn donor(_: Value, socket: Value, lost: Value) -> Value {
    // SAFETY: as in `booted`.
    unsafe {
        let socket = descriptor(socket);
        let lost = list(lost).iter().map(|&text| copied(text)).collect();
        sent(socket, FromTemplate::Donor { lost }, &[])
    }
}

/// `Native.forked(socket, worker, pid, pidfd)`
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn forked(
    _: Value,
    socket: Value,
    worker: Value,
    pid: Value,
    pidfd: Value,
) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let (socket, pidfd) = (descriptor(socket), descriptor(pidfd));
        sent(
            socket,
            FromTemplate::Forked {
                worker: number(worker),
                pid: number(pid),
            },
            &[pidfd],
        )
    }
}

/// `Native.not_forked(socket, worker, reason)`
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn not_forked(
    _: Value,
    socket: Value,
    worker: Value,
    reason: Value,
) -> Value {
    // SAFETY: Ruby calls with the GVL. What may raise comes before what has `Drop`.
    unsafe {
        let (socket, worker) = (descriptor(socket), number(worker));
        let reason = copied(reason);
        sent(socket, FromTemplate::NotForked { worker, reason }, &[])
    }
}

/// `Native.exited(socket, worker, pid, status)`
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn exited(
    _: Value,
    socket: Value,
    worker: Value,
    pid: Value,
    status: Value,
) -> Value {
    // SAFETY: Ruby calls with the GVL. What may raise comes before what has `Drop`.
    unsafe {
        let (socket, worker, pid) = (descriptor(socket), number(worker), number(pid));
        sent(
            socket,
            FromTemplate::Exited {
                worker,
                pid,
                status: copied(status),
            },
            &[],
        )
    }
}
