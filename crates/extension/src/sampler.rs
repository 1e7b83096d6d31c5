//! `Highball::Sampler`: where the threads that run requests are, as a tree of stacks, for `gem/lib/highball/profiler.rb`.
//!
//! It takes stacks that Ruby code has read. Between `start` and `stop` it also reads stacks itself, 99 for each second of
//! CPU time of a thread: its [`ticker`] looks at CPU clocks, and a job of Ruby's reads the stack of the thread that holds
//! the GVL, at its next safe point. The job makes no Ruby object. Without a profile none of this is there.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use rb_sys::{
    RTYPEDDATA_GET_DATA, rb_check_typeddata, rb_data_type_struct__bindgen_ty_1, rb_data_type_t,
    rb_data_typed_object_wrap, rb_eArgError, rb_eRuntimeError, rb_gc_mark,
    rb_profile_frame_full_label, rb_profile_frame_label, rb_profile_frame_method_name,
    rb_profile_frame_path, rb_profile_frames, rb_thread_current, rb_ull2inum, ruby_value_type,
};

use self::stacks::{Frame, MAX_FRAME_BYTES, Stacks};
use self::threads::{Threads, own_cpu_ns};
use self::ticker::Ticker;
use self::trigger::Trigger;
use crate::arguments::{self, raise_io};
use crate::children::{is_child, refuse_children};
use crate::ruby::{self, DataType, Message, NIL, Value, array, fixnum, list, unsigned};

mod stacks;
mod threads;
mod ticker;
mod trigger;

/// The most frames of a stack, innermost first.
const MAX_FRAMES: usize = 400;

/// What a sampler holds. Only the holder of the GVL touches it, and nothing of Ruby's is called while a cell is borrowed to be
/// written: Ruby's collector reads it.
struct State {
    threads: Arc<Threads>,
    /// The threads, as Ruby's objects.
    objects: RefCell<Vec<Value>>,
    stacks: RefCell<Stacks>,
    frames: RefCell<Box<Frames>>,
    ticker: Cell<Option<Ticker>>,
    /// How many stacks were read.
    taken: Cell<u32>,
    /// CPU time of the jobs, in nanoseconds.
    jobs_ns: Cell<i64>,
}

/// Where Ruby writes a stack.
struct Frames {
    objects: [Value; MAX_FRAMES],
    lines: [c_int; MAX_FRAMES],
}

/// The sampler whose ticker runs. The job gets it here and not as its argument: it may be called when there is none any more.
static ACTIVE: AtomicPtr<State> = AtomicPtr::new(ptr::null_mut());

static DATA_TYPE: DataType = DataType(rb_data_type_t {
    wrap_struct_name: c"Highball::Sampler".as_ptr(),
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
    // SAFETY: Ruby passes what `new` wrapped. What is marked so is not moved either.
    unsafe {
        let state = &*data.cast::<State>();
        for object in state.objects.borrow().iter() {
            rb_gc_mark(*object);
        }
        for object in state.stacks.borrow().objects() {
            rb_gc_mark(object);
        }
    }
}

unsafe extern "C" fn free(data: *mut c_void) {
    // In a process that the application has forked there is no ticker to be ended, and nothing of its thread is valid: leak.
    if !is_child() {
        // SAFETY: Ruby passes what `new` wrapped, once.
        let state = unsafe { Box::from_raw(data.cast::<State>()) };
        state.stop();
    }
}

/// The sampler of an object.
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises TypeError for another object, and NotTheWorker in a process that the application
/// forked from the worker.
unsafe fn state<'a>(this: Value) -> &'a State {
    // SAFETY: the caller keeps the rules; checked to be of this type, whose data `new` made.
    unsafe {
        refuse_children();
        rb_check_typeddata(this, &raw const DATA_TYPE.0);
        &*RTYPEDDATA_GET_DATA(this).cast::<State>()
    }
}

/// `Sampler.new(threads)`: for so many threads at most.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn new(class: Value, threads: Value) -> Value {
    // SAFETY: Ruby calls with the GVL. The state belongs to the new object once that exists; should making it raise, the
    // state is leaked.
    unsafe {
        refuse_children();
        let threads = arguments::number::<u16>(threads).into();
        let state = Box::into_raw(Box::new(State {
            threads: Arc::new(Threads::new(threads)),
            objects: RefCell::new(vec![NIL; threads]),
            stacks: RefCell::default(),
            frames: RefCell::new(Box::new(Frames {
                objects: [NIL; MAX_FRAMES],
                lines: [0; MAX_FRAMES],
            })),
            ticker: Cell::new(None),
            taken: Cell::new(0),
            jobs_ns: Cell::new(0),
        }));
        rb_data_typed_object_wrap(class, state.cast(), &raw const DATA_TYPE.0)
    }
}

/// `sampler.add(lines, times)`: adds a backtrace, innermost line first, which was seen so many times.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn add(this: Value, lines: Value, times: Value) -> Value {
    // SAFETY: Ruby calls with the GVL; the types are checked, and nothing of Ruby's is called meanwhile.
    unsafe {
        let own = state(this);
        let times = arguments::number::<u32>(times);
        let mut stacks = own.stacks.borrow_mut();
        let lines = list(lines).iter().take(MAX_FRAMES).rev();
        let lines = lines.filter(|line| ruby::is(**line, ruby_value_type::RUBY_T_STRING));
        let frames: Vec<Frame> = lines
            .map(|line| stacks.text_frame(ruby::bytes(*line)))
            .collect();
        stacks.add(frames.into_iter(), times);
        own.taken.set(own.taken.get().saturating_add(1));
    }
    NIL
}

/// `sampler.start`: samples from now on. Raises where another one does.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn start(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL; errors are plain data.
    unsafe {
        let own = state(this);
        if !ACTIVE.load(Relaxed).is_null() {
            let text = format_args!("this process is being profiled already");
            ruby::raise(rb_eRuntimeError, &Message::new(text))
        }
        let Some(trigger) = Trigger::new(job) else {
            let text = format_args!("Ruby has no room for a postponed job");
            ruby::raise(rb_eRuntimeError, &Message::new(text))
        };
        ACTIVE.store((&raw const *own).cast_mut(), Relaxed);
        match Ticker::start(Arc::clone(&own.threads), trigger) {
            Ok(ticker) => own.ticker.set(Some(ticker)),
            Err(error) => {
                ACTIVE.store(ptr::null_mut(), Relaxed);
                raise_io("starting a thread", &error)
            }
        }
    }
    NIL
}

/// `sampler.stop`: ends what `start` began, and has no thread left when it returns.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn stop(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL, which the ticker never waits for.
    unsafe { state(this) }.stop();
    NIL
}

/// `sampler.watch(number, thread, tid)`: that thread is the one of this number from now on; nil and 0 are none.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn watch(
    this: Value,
    number: Value,
    thread: Value,
    tid: Value,
) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let own = state(this);
        let (number, tid) = (own.number(number), arguments::number::<i32>(tid));
        own.objects.borrow_mut()[number] = thread;
        own.threads.watch(number, tid);
    }
    NIL
}

/// `sampler.overdue(number)`: how many samples the next backtrace of this thread stands for, where it has computed for a
/// while and no job ran in it, because it computes without the GVL; else 0. They count as taken.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn overdue(this: Value, number: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let own = state(this);
        unsigned(own.threads.take_overdue(own.number(number)))
    }
}

/// `sampler.node(number)`: a node of the tree, from 1; nil where there is none. `[parent, samples, line of a backtrace]`, or
/// `[parent, samples, label, qualified label, path, line]`, where the path of a method that is written in C is nil.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn node(this: Value, number: Value) -> Value {
    // SAFETY: Ruby calls with the GVL. Where Ruby may raise, there is plain data only.
    unsafe {
        let own = state(this);
        let node = own.stacks.borrow().node(arguments::number(number));
        let Some(node) = node else { return NIL };
        let (parent, times) = (unsigned(node.parent), unsigned(node.own));
        match node.frame {
            Frame::Text(number) => {
                let (text, length) = own.text(number);
                array(&[parent, times, ruby::utf8(&text[..length])])
            }
            Frame::Object(frame, line) => {
                let label = match rb_profile_frame_label(frame) {
                    NIL => rb_profile_frame_method_name(frame),
                    label => label,
                };
                let (full, path) = (
                    rb_profile_frame_full_label(frame),
                    rb_profile_frame_path(frame),
                );
                array(&[parent, times, label, full, path, fixnum(line)])
            }
        }
    }
}

/// `sampler.figures`: `[dropped samples, stacks read, CPU time of the threads, CPU time of sampling]`, in microseconds; the
/// time of Ruby code is not in the last one.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn figures(this: Value) -> Value {
    // SAFETY: Ruby calls with the GVL.
    unsafe {
        let own = state(this);
        let dropped = own.stacks.borrow().dropped;
        let sampling = own.threads.ticker_ns.load(Relaxed) + own.jobs_ns.get().max(0) as u64;
        array(&[
            unsigned(dropped),
            unsigned(own.taken.get()),
            rb_ull2inum(own.threads.used_ns() / 1000),
            rb_ull2inum(sampling / 1000),
        ])
    }
}

/// Reads the stack of the thread that holds the GVL, where it is watched and due. Ruby calls it at a safe point; it may also
/// come late, twice, or in a process that was forked, and its argument may be another job's.
unsafe extern "C" fn job(_: *mut c_void) {
    if is_child() {
        return;
    }
    let began = own_cpu_ns();
    // SAFETY: `start` sets it, and `stop` resets it before the state is freed, both with the GVL, which Ruby holds here too.
    let Some(own) = (unsafe { ACTIVE.load(Relaxed).as_ref() }) else {
        return;
    };
    // SAFETY: a safe point of Ruby's.
    unsafe { own.sample() };
    own.jobs_ns.set(own.jobs_ns.get() + (own_cpu_ns() - began));
}

/// Forgets the ticker of the worker that this process was forked from: its thread is not here, and nothing of it may be waited
/// for.
pub(crate) fn forget_ticker() {
    let active = ACTIVE.swap(ptr::null_mut(), Relaxed);
    // SAFETY: as in `job`; the caller holds the GVL.
    if let Some(own) = unsafe { active.as_ref() } {
        mem::forget(own.ticker.take());
    }
}

impl State {
    fn stop(&self) {
        if let Some(ticker) = self.ticker.take() {
            ticker.stop();
            ACTIVE.store(ptr::null_mut(), Relaxed);
        }
    }

    /// # Safety
    /// The rules of [`crate::ruby`].
    unsafe fn sample(&self) {
        // SAFETY: the caller keeps the rules.
        let current = unsafe { rb_thread_current() };
        let number = self.objects.borrow().iter().position(|one| *one == current);
        let times = number.map_or(0, |number| self.threads.take_due(number));
        if times == 0 {
            return;
        }
        let mut frames = self.frames.borrow_mut();
        let (objects, lines) = (frames.objects.as_mut_ptr(), frames.lines.as_mut_ptr());
        // SAFETY: the caller keeps the rules; both arrays have that length. No object is made.
        let depth = unsafe { rb_profile_frames(0, MAX_FRAMES as c_int, objects, lines) };
        let stack = (0..usize::try_from(depth).unwrap_or(0)).rev();
        let stack = stack.map(|at| Frame::Object(frames.objects[at], frames.lines[at]));
        self.stacks.borrow_mut().add(stack, times);
        self.taken.set(self.taken.get().saturating_add(1));
    }

    /// A thread's number.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]. Raises where there is no such thread.
    unsafe fn number(&self, number: Value) -> usize {
        // SAFETY: the caller keeps the rules.
        unsafe {
            let number = arguments::number::<u16>(number).into();
            if number >= self.threads.len() {
                let text = format_args!("there is no thread {number}");
                ruby::raise(rb_eArgError, &Message::new(text))
            }
            number
        }
    }

    /// A copy of a frame's text, and its length.
    fn text(&self, number: u32) -> ([u8; MAX_FRAME_BYTES], usize) {
        let mut copy = [0; MAX_FRAME_BYTES];
        let stacks = self.stacks.borrow();
        let text = stacks.text(number);
        copy[..text.len()].copy_from_slice(text);
        (copy, text.len())
    }
}
