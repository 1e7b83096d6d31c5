//! `Highball::WorkerThread`: one thread's place in the exchange, as a Ruby object.
//!
//! It takes requests and hands them back answered. It holds at most one request, and knows how far the
//! response has come; what to answer is decided elsewhere ([`crate::respond`], Ruby code).

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr;

use exchange::coordination::Claim;
use exchange::response::{Head, Kind, WriteError};
use exchange::worker::{Interrupt, Job, WorkerThread};
use rb_sys::{
    RB_NOGVL_UBF_ASYNC_SAFE, RTYPEDDATA_GET_DATA, rb_check_typeddata,
    rb_data_type_struct__bindgen_ty_1, rb_data_type_t, rb_data_typed_object_wrap, rb_eRuntimeError,
    rb_gc_mark, rb_nogvl,
};

use crate::arguments;
use crate::children::{refuse, refuse_children};
use crate::env::{self, CachedStrings, EnvTemplate};
use crate::errors::Refused;
use crate::measures::Meter;
use crate::ruby::{self, DataType, Message, NIL, Value};
use crate::worker::{ThisWorker, is_this_worker, this_worker};

pub(crate) mod claim;
pub(crate) mod methods;

/// What a worker thread holds. It lies on the heap, so that a jump of Ruby's leaves it as it is. Ruby's collector may look at it
/// at any call into Ruby, so what changes is in cells.
pub(crate) struct State {
    thread: WorkerThread,
    joined: &'static ThisWorker,
    pub(crate) template: &'static EnvTemplate,
    /// The request, until it is handed back.
    job: Cell<Option<Job>>,
    /// What the thread runs, until it looks for the next one: the request, and what follows its response.
    running: Cell<Option<Claim>>,
    /// The env of what it runs.
    env: Cell<Value>,
    cached_strings: CachedStrings,
    /// Whether a head is in the ring.
    begun: Cell<bool>,
    /// Whether the application has the connection.
    hijacked: Cell<bool>,
    /// Whether the response has ended early because no client waits for it.
    gone: Cell<bool>,
    /// Whether the request has said that it only waits.
    io_bound: Cell<bool>,
    /// What the request costs.
    pub(crate) meter: Meter,
    /// Memory for heads. No call into Ruby while it is borrowed.
    pub(crate) head: RefCell<Head>,
}

static DATA_TYPE: DataType = DataType(rb_data_type_t {
    wrap_struct_name: c"Highball::WorkerThread".as_ptr(),
    function: rb_data_type_struct__bindgen_ty_1 {
        dmark: Some(mark),
        dfree: Some(free),
        dsize: None,
        dcompact: None,
        reserved: [ptr::null_mut(); 1],
    },
    parent: ptr::null(),
    data: ptr::null_mut(),
    flags: 0,
});

unsafe extern "C" fn mark(data: *mut c_void) {
    // SAFETY: Ruby passes what `new` wrapped.
    unsafe {
        let state = &*data.cast::<State>();
        rb_gc_mark(state.env.get());
        for value in state.cached_strings.values() {
            rb_gc_mark(value);
        }
    }
}

unsafe extern "C" fn free(data: *mut c_void) {
    // SAFETY: Ruby passes what `new` wrapped, once.
    drop(unsafe { Box::from_raw(data.cast::<State>()) });
}

/// The state of a worker thread, in the worker alone.
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises TypeError for another object, and NotTheWorker in a process that the application
/// forked from the worker.
pub(crate) unsafe fn state<'a>(this: Value) -> &'a State {
    // SAFETY: the caller keeps the rules.
    unsafe {
        refuse_children();
        let state = state_anywhere(this);
        if !is_this_worker(state.joined) {
            refuse();
        }
        state
    }
}

/// The state of a worker thread, in a process that was forked from the worker as well: nothing of the exchange may be touched.
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises TypeError for another object.
pub(crate) unsafe fn state_anywhere<'a>(this: Value) -> &'a State {
    // SAFETY: the caller keeps the rules; checked to be of this type, whose data `new` made.
    unsafe {
        rb_check_typeddata(this, &raw const DATA_TYPE.0);
        &*RTYPEDDATA_GET_DATA(this).cast::<State>()
    }
}

/// `WorkerThread.new(number)`
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn new(class: Value, number: Value) -> Value {
    // SAFETY: Ruby calls with the GVL. The state belongs to the new object once that exists; should making
    // it raise, the state is leaked.
    unsafe {
        let joined = this_worker();
        let number = arguments::number::<u16>(number);
        if number >= joined.threads {
            ruby::raise(
                rb_sys::rb_eArgError,
                &Message::new(format_args!("the exchange has no thread {number}")),
            )
        }
        let Some(template) = env::template() else {
            ruby::raise(
                rb_eRuntimeError,
                &Message::new(format_args!("Native.prepare comes first")),
            )
        };
        let state = Box::into_raw(Box::new(State {
            thread: joined.worker.thread(number),
            joined,
            template,
            job: Cell::new(None),
            running: Cell::new(None),
            env: Cell::new(NIL),
            cached_strings: CachedStrings::default(),
            begun: Cell::new(false),
            hijacked: Cell::new(false),
            gone: Cell::new(false),
            io_bound: Cell::new(false),
            meter: Meter::default(),
            head: RefCell::default(),
        }));
        rb_data_typed_object_wrap(class, state.cast(), &raw const DATA_TYPE.0)
    }
}

/// What a wait without the GVL needs, and what wakes it.
struct Wait {
    thread: *const WorkerThread,
    job: Option<Job>,
    interrupt: Interrupt,
}

unsafe extern "C" fn wait(wait: *mut c_void) -> *mut c_void {
    // SAFETY: `blocked` passes a `Wait` whose thread outlives the call.
    unsafe {
        let wait = &*wait.cast::<Wait>();
        match &wait.job {
            None => (*wait.thread).wait(&wait.interrupt),
            Some(job) => (*wait.thread).wait_for_room(job, &wait.interrupt),
        }
    }
    ptr::null_mut()
}

/// Ruby calls it from another thread or from a signal's handler, so it is async-signal-safe.
unsafe extern "C" fn interrupt(wait: *mut c_void) {
    // SAFETY: as in `wait`; Ruby unregisters it before `rb_nogvl` returns.
    unsafe {
        let wait = &*wait.cast::<Wait>();
        (*wait.thread).interrupt(&wait.interrupt, wait.job.as_ref());
    }
}

/// Sleeps without the GVL: for a request, or for room in the ring of `job`.
///
/// # Safety
/// The rules of [`crate::ruby`]; `thread` outlives the call. Raises what was thrown at this thread.
unsafe fn blocked(thread: *const WorkerThread, job: Option<Job>) {
    let wait_data = Wait {
        thread,
        job,
        interrupt: Interrupt::default(),
    };
    let data = (&raw const wait_data).cast_mut().cast();
    // SAFETY: the caller keeps the rules. `wait_data` is plain data and lives until `rb_nogvl` returns or jumps. Ruby
    // looks at what is pending after it has registered the function, so no interrupt falls between.
    unsafe {
        rb_nogvl(
            Some(wait),
            data,
            Some(interrupt),
            data,
            RB_NOGVL_UBF_ASYNC_SAFE as c_int,
        );
    }
}

/// `worker_thread.take`: waits for a request and returns its env; nil when the worker is to stop.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn take(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL; the state lives as long as `this`, which is on the stack.
    unsafe {
        let own = state(this);
        // A thread that ended on the way to the application may have left one.
        own.fail(b"the request was lost by its thread");
        if own.running.take().is_some() {
            own.joined.idleness.request_ended();
        }
        own.meter.end();
        if own.io_bound.take() {
            own.thread.end_io();
        }
        // Nothing is kept for an idle thread's sake.
        own.env.set(NIL);
        if own.joined.worker.stopping() {
            own.thread.leave();
            return NIL;
        }
        loop {
            // With the GVL: a claim that then waited for it would keep others from the request.
            if let Some(job) = own.thread.claim() {
                own.begin(job);
                let record = own.thread.record(&job);
                match own.template.build(record, this, &own.cached_strings) {
                    Ok(env) => {
                        own.env.set(env);
                        own.meter.begin(env);
                        return env;
                    }
                    Err(malformed) => {
                        own.fail(Message::new(format_args!("{malformed}")).as_bytes());
                    }
                }
                continue;
            }
            // After the claim: a wake-up for a request must not be lost with a thread that leaves.
            if own.joined.worker.stopping() {
                own.thread.leave();
                return NIL;
            }
            own.meter.note_wait();
            blocked(&raw const own.thread, None);
            // A handler of a signal or a finalizer has run, and may have forked.
            refuse_children();
        }
    }
}

impl State {
    fn begin(&self, job: Job) {
        self.job.set(Some(job));
        self.running.set(Some(job.claim));
        self.begun.set(false);
        self.hijacked.set(false);
        self.gone.set(false);
        self.meter.reset();
    }

    /// Takes the measures of the request, up to now.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]. Raises what is thrown at this thread.
    pub(crate) unsafe fn measure(&self) {
        // SAFETY: the caller keeps the rules.
        unsafe { self.meter.measure(self.env.get()) }
    }

    /// What the request is claimed as that is not answered yet.
    pub(crate) fn claim(&self) -> Option<Claim> {
        self.job.get().map(|job| job.claim)
    }

    /// What the request of `env` is claimed as, where the thread runs it, or what follows its response.
    pub(crate) fn claim_of(&self, env: Value) -> Option<Claim> {
        self.running.get().filter(|_| self.env.get() == env)
    }

    /// The request that `claim` stands for.
    ///
    /// # Errors
    /// Its response has ended.
    pub(crate) fn job_of(&self, claim: Claim) -> Result<Job, Refused> {
        let job = self.job.get().filter(|job| job.claim == claim);
        job.ok_or(match self.gone.get() && self.running.get() == Some(claim) {
            true => Refused::ClientGone,
            false => Refused::ResponseOver,
        })
    }

    /// Whether a head may be written: nothing was said yet.
    pub(crate) fn open(&self, claim: Claim) -> bool {
        self.claim() == Some(claim) && !self.begun.get() && !self.hijacked.get()
    }

    /// Tries to put a frame of the response to `claim` into the ring: `None` when it is full.
    pub(crate) fn try_frame(
        &self,
        claim: Claim,
        kind: Kind,
        payload: &[u8],
    ) -> Option<Result<(), Refused>> {
        let mut job = match self.job_of(claim) {
            Ok(job) => job,
            Err(refused) => return Some(Err(refused)),
        };
        let written = self.thread.try_frame(&mut job, kind, &[payload]);
        self.job.set(Some(job));
        match written {
            Ok(()) => {
                self.begun.set(self.begun.get() || kind == Kind::Head);
                Some(Ok(()))
            }
            Err(WriteError::Full) => None,
            Err(WriteError::TooLarge(limit)) => Some(Err(Refused::TooLarge(limit))),
            Err(WriteError::Abandoned) => {
                self.gone.set(true);
                self.hand_back();
                Some(Err(Refused::ClientGone))
            }
            Err(WriteError::NotClaimed) => {
                self.hand_back();
                Some(Err(Refused::ResponseOver))
            }
        }
    }

    /// The longest payload of a frame.
    pub(crate) fn longest(&self) -> usize {
        self.thread.longest()
    }

    /// Makes what is in the ring visible.
    pub(crate) fn flush(&self) {
        if let Some(job) = self.job.get() {
            self.thread.flush(&job);
        }
    }

    /// Hands the request back to the front, with the response as it is in the ring.
    pub(crate) fn hand_back(&self) {
        if let Some(job) = self.job.take() {
            self.thread.finish(&job);
        }
    }

    /// Ends the request, where one is held, with an error, without waiting. False where none is, or where the ring has no
    /// room for the text.
    fn fail(&self, text: &[u8]) -> bool {
        let Some(mut job) = self.job.get() else {
            return false;
        };
        let text = &text[..text.len().min(self.thread.longest())];
        let sent = self.thread.try_frame(&mut job, Kind::Error, &[text]) != Err(WriteError::Full);
        // Where even this has no room, a response without its end says the same.
        let told = sent || self.thread.try_frame(&mut job, Kind::Abort, &[]).is_ok();
        // What it cost. Without room the front does not learn that; and where it was not told of the failure, an end would
        // make the response look whole.
        let _ = self.meter.with_payload(|payload| match payload {
            payload if told && !payload.is_empty() => {
                self.thread.try_frame(&mut job, Kind::End, &[payload])
            }
            _ => Ok(()),
        });
        self.job.set(Some(job));
        self.hand_back();
        sent
    }
}

/// Makes what is in the ring visible and waits until it has room for more of the response to `claim`. Returns at once
/// where that has ended.
///
/// # Safety
/// The rules of [`crate::ruby`]; `this` is a worker thread. Raises what was thrown at this thread.
pub(crate) unsafe fn wait_for_room(this: Value, claim: Claim) {
    // SAFETY: the caller keeps the rules; the worker thread outlives the call as `this` is on the stack.
    unsafe {
        let own = state(this);
        own.flush();
        if let Ok(job) = own.job_of(claim) {
            blocked(&raw const own.thread, Some(job));
        }
    }
}
