//! The front's side of an exchange, for the tests of the Ruby side: `TestFront` functions over
//! [`exchange::Front`]. It is no part of the gem, and it speaks no HTTP.

use std::os::fd::IntoRawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use exchange::front::Holder;
use exchange::request::{BodyLocation, ENV_KEYS, FixedFields, TEXTS, Writer};
use exchange::{Front, Geometry};
use rb_sys::{rb_ary_new, rb_ary_push, rb_define_module, rb_eRuntimeError};

use ruby::Function::{A1, A2, A4};
use ruby::{Message, NIL, Value, boolean, bytes, fixnum, integer, list};

#[allow(dead_code)]
#[path = "../src/ruby.rs"]
mod ruby;

static FRONTS: Mutex<Vec<Front>> = Mutex::new(Vec::new());

fn fronts() -> MutexGuard<'static, Vec<Front>> {
    FRONTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that a test passes; a wrong one ends the test's process.
fn number<T: TryFrom<i64>>(value: Value) -> T {
    integer(value).expect("a number within bounds")
}

/// Calls `with` with the front of that number.
fn on<T>(front: Value, with: impl FnOnce(&mut Front) -> T) -> T {
    with(&mut fronts()[number::<usize>(front)])
}

/// `create(workers, threads, request_bytes, response_bytes)`: a new front's number.
unsafe extern "C" fn create(
    _: Value,
    workers: Value,
    threads: Value,
    request: Value,
    response: Value,
) -> Value {
    let geometry = Geometry::new(
        number(workers),
        number(threads),
        number(request),
        number(response),
    );
    let mut fronts = fronts();
    fronts.push(Front::new(geometry).expect("a front"));
    fixnum(fronts.len() as i32 - 1)
}

/// `files(front)`: descriptors of the memory and of the doorbell, for the caller to close.
unsafe extern "C" fn files(_: Value, front: Value) -> Value {
    let (memory, doorbell) = on(front, |front| {
        let (memory, doorbell) = front.files();
        let raw = |fd: std::os::fd::BorrowedFd<'_>| {
            fd.try_clone_to_owned().expect("a descriptor").into_raw_fd()
        };
        (raw(memory), raw(doorbell))
    });
    // SAFETY: called by Ruby, with the GVL.
    unsafe { array(&[fixnum(memory), fixnum(doorbell)]) }
}

/// # Safety
/// The rules of [`ruby`].
unsafe fn array(values: &[Value]) -> Value {
    // SAFETY: the caller keeps the rules.
    unsafe {
        let array = rb_ary_new();
        for &value in values {
            rb_ary_push(array, value);
        }
        array
    }
}

/// `publish(front, fixed, texts, fields)`: the slot. The fixed fields are arrival (us), deadline (ns), port,
/// remote port, and descriptor and length of a body in a file, or -1. The body is the last of the texts.
unsafe extern "C" fn publish(
    _: Value,
    front: Value,
    fixed: Value,
    texts: Value,
    fields: Value,
) -> Value {
    // SAFETY: called by Ruby, with the GVL; nothing of Ruby's is called while the bytes are in use.
    let slot = unsafe {
        let fixed = list(fixed);
        let place = match number::<i64>(fixed[4]) {
            -1 => BodyLocation::Inline,
            descriptor => BodyLocation::File {
                descriptor: descriptor as u32,
                length: number(fixed[5]),
            },
        };
        let fixed = FixedFields {
            arrived_us: number(fixed[0]),
            deadline_ns: number(fixed[1]),
            server_port: number(fixed[2]),
            remote_port: number(fixed[3]),
            body: place,
        };
        let body = bytes(list(texts)[TEXTS]);
        let texts: [&[u8]; TEXTS] = std::array::from_fn(|index| bytes(list(texts)[index]));
        on(front, |front| {
            let slot = front.acquire()?;
            let mut writer =
                Writer::new(front.request_area(slot), fixed, texts).expect("room for the texts");
            for &field in list(fields) {
                let (name, value) = (bytes(list(field)[0]), bytes(list(field)[1]));
                let known = ENV_KEYS.iter().position(|(_, key)| key.as_bytes() == name);
                let (number, name) = known.map_or((0, name), |index| (index as u8 + 1, &b""[..]));
                writer.field(number, name, value).expect("room for a field");
            }
            let length = writer.finish(body).expect("room for the body");
            front.publish(slot, length).then_some(slot)
        })
    };
    match slot {
        Some(slot) => fixnum(slot),
        // SAFETY: as above; nothing here has `Drop`.
        None => unsafe {
            ruby::raise(
                rb_eRuntimeError,
                &Message::new(format_args!("no free slot")),
            )
        },
    }
}

/// `frame(front, slot)`: the next frame as `[kind, payload]`, or nil.
unsafe extern "C" fn frame(_: Value, front: Value, slot: Value) -> Value {
    let mut payload = Vec::new();
    let kind = on(front, |front| front.frame(number(slot), &mut payload)).expect("a sound frame");
    // SAFETY: called by Ruby, with the GVL. Should Ruby raise for lack of memory, the payload is leaked.
    unsafe {
        kind.map_or(NIL, |kind| {
            array(&[fixnum(kind as i32), ruby::binary(&payload)])
        })
    }
}

/// `done?(front, slot)`: whether the slot's request has been handed back.
unsafe extern "C" fn done(_: Value, front: Value, slot: Value) -> Value {
    boolean(matches!(
        on(front, |front| front.publication(number(slot)).holder()),
        Holder::Done { .. }
    ))
}

/// `park(front)`: whether the front may sleep until its doorbell rings.
unsafe extern "C" fn park(_: Value, front: Value) -> Value {
    boolean(on(front, |front| front.completions().park()))
}

/// `unpark(front)`: awake again; the news is taken.
unsafe extern "C" fn unpark(_: Value, front: Value) -> Value {
    on(front, |front| {
        front.completions().unpark();
        front.completions().take(|_| {});
    });
    NIL
}

/// `release(front, slot)`
unsafe extern "C" fn release(_: Value, front: Value, slot: Value) -> Value {
    on(front, |front| front.release(number(slot)));
    NIL
}

/// `abandon(front, slot)`: the client is gone.
unsafe extern "C" fn abandon(_: Value, front: Value, slot: Value) -> Value {
    on(front, |front| front.abandon(number(slot)));
    NIL
}

/// `stop(front, worker)`
unsafe extern "C" fn stop(_: Value, front: Value, worker: Value) -> Value {
    on(front, |front| {
        front
            .coordination()
            .availability
            .threads
            .stop_worker(number(worker))
    });
    NIL
}

/// Ruby calls it when it loads the extension.
#[unsafe(no_mangle)]
pub extern "C" fn Init_test_front() {
    // SAFETY: called by Ruby, with the GVL.
    unsafe {
        ruby::define_functions(
            rb_define_module(c"TestFront".as_ptr()),
            &[
                (c"create", A4(create)),
                (c"files", A1(files)),
                (c"publish", A4(publish)),
                (c"frame", A2(frame)),
                (c"done?", A2(done)),
                (c"park", A1(park)),
                (c"unpark", A1(unpark)),
                (c"release", A2(release)),
                (c"abandon", A2(abandon)),
                (c"stop", A2(stop)),
            ],
        );
    }
}
