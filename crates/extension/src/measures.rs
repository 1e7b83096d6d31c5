//! What a request costs, measured in the thread that runs it: CPU, garbage collection, allocations, waits for Ruby's lock, and what the
//! subscribers of `gem/lib/highball/measures.rb` note here. It never raises of itself, and it decides nothing.
//!
//! The payload is made before the last frame of a response is tried, for only then may Ruby code run.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use exchange::measures::{MAX_BYTES, MAX_ROUTE_BYTES, Measures};
use exchange::scheduling::{monotonic_ns, thread_cpu_ns};
use rb_sys::{
    ID, rb_float_value, rb_funcallv, rb_gc_stat, rb_hash_size_num, rb_intern2, rb_mGC, rb_num2ull,
    rb_respond_to, ruby_value_type, size_t,
};

use crate::lock_wait::{Events, LockWait};
use crate::messages::symbol;
use crate::ruby::{NIL, Value, is, truthy};
use route::Routes;

mod route;

/// What measuring needs, made once in the template.
struct Setup {
    /// Whether the process has several threads that run requests.
    shared: bool,
    /// Whether queries are counted.
    queries: bool,
    routes: Routes,
    /// `GC.total_time`, where this Ruby has it.
    total_time: Option<ID>,
    /// The name of the objects allocated among the figures of GC.
    allocated: Value,
    /// Waits for Ruby's lock, where this Ruby tells of them.
    events: Option<Events>,
}

static SETUP: OnceLock<Setup> = OnceLock::new();

/// Threads of this process that run a request or what follows its response, and requests that were begun. All writers hold
/// the GVL.
static RUNNING: AtomicU64 = AtomicU64::new(0);
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// What the subscribers have noted for the request that this thread runs.
#[derive(Clone, Copy, Default)]
struct Noted {
    queries: u32,
    query_ns: u64,
    /// When the query began that runs.
    query_began: u64,
    action_db_ns: Option<u64>,
    view_ns: Option<u64>,
}

thread_local! {
    static NOTED: Cell<Noted> = const {
        Cell::new(Noted {
            queries: 0,
            query_ns: 0,
            query_began: 0,
            action_db_ns: None,
            view_ns: None,
        })
    };
}

/// What the thread and the process had used when a request began.
#[derive(Clone, Copy)]
struct Start {
    cpu_ns: u64,
    gc_ns: u64,
    allocations: u64,
    lock_wait_ns: u64,
}

/// The measures of one thread's request.
pub(crate) struct Meter {
    start: Cell<Option<Start>>,
    /// What the thread and the process had used when the latest request was measured.
    latest: Cell<Option<Start>>,
    /// The same, where the thread goes on to its next request: that one begins there.
    ended: Cell<Option<Start>>,
    /// Whether the thread has waited for its next request since then.
    waited: Cell<bool>,
    /// Where the thread runs a request: the number of that request in its process, 0 where another one ran already.
    place: Cell<Option<u64>>,
    /// Number of the env's keys at the start of the request.
    keys: Cell<size_t>,
    payload: RefCell<[u8; MAX_BYTES]>,
    length: Cell<usize>,
    /// Waits for Ruby's lock of the thread that has this meter.
    lock_wait: OnceCell<&'static LockWait>,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            start: Cell::new(None),
            latest: Cell::new(None),
            ended: Cell::new(None),
            waited: Cell::new(false),
            place: Cell::new(None),
            keys: Cell::new(0),
            payload: RefCell::new([0; MAX_BYTES]),
            length: Cell::new(0),
            lock_wait: OnceCell::new(),
        }
    }
}

/// A thread that was killed while it ran a request leaves its object to the collector.
impl Drop for Meter {
    fn drop(&mut self) {
        self.end();
    }
}

impl Meter {
    /// Forgets the request before.
    pub(crate) fn reset(&self) {
        self.start.set(None);
        self.length.set(0);
    }

    /// Has the next request begin where this one was measured, because nothing else comes between: reading the thread's CPU
    /// clock is a system call, and the most that measuring costs.
    pub(crate) fn continue_from_end(&self) {
        self.ended.set(self.latest.take());
        self.waited.set(false);
    }

    /// Notes that the thread waits for its next request. That it sleeps and wakes once is CPU time of that request, which is
    /// cheaper than reading the clock again; where it waits again, something else has woken it.
    pub(crate) fn note_wait(&self) {
        if self.waited.replace(true) {
            self.forget_end();
        }
    }

    /// Has the next request measured from its own start: the thread has worked for no request.
    pub(crate) fn forget_end(&self) {
        self.ended.set(None);
    }

    /// Notes that the thread runs no request any more, nor what follows its response.
    pub(crate) fn end(&self) {
        if self.place.take().is_some() {
            RUNNING.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Begins to measure the request of `env`, which is a Hash, where requests are measured.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]. Raises what is thrown at this thread.
    pub(crate) unsafe fn begin(&self, env: Value) {
        if let Some(setup) = SETUP.get() {
            // SAFETY: the caller passes a Hash.
            self.keys.set(unsafe { rb_hash_size_num(env) });
            NOTED.set(Noted::default());
            let number = BEGUN.fetch_add(1, Ordering::Relaxed) + 1;
            let is_first = RUNNING.fetch_add(1, Ordering::Relaxed) == 0;
            self.place.set(Some(if is_first { number } else { 0 }));
            if let Some(events) = &setup.events {
                let own = self.lock_wait.get_or_init(|| Box::leak(Box::default()));
                // SAFETY: the caller keeps the rules.
                unsafe { events.follow(own) }
            }
            let start = match self.ended.take() {
                Some(ended) if !self.waited.get() => ended,
                // Meanwhile the process may have worked for other threads.
                // SAFETY: the caller keeps the rules.
                ended => unsafe { self.used(setup, ended.map(|ended| ended.cpu_ns)) },
            };
            self.start.set(Some(start));
        }
    }

    /// Takes the measures of the request of `env`, up to now.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]. Raises what is thrown at this thread.
    pub(crate) unsafe fn measure(&self, env: Value) {
        let (Some(setup), Some(start)) = (SETUP.get(), self.start.get()) else {
            return;
        };
        let mut route = [0; MAX_ROUTE_BYTES];
        // SAFETY: the caller keeps the rules.
        let (length, now) = unsafe { (self.route(setup, env, &mut route), self.used(setup, None)) };
        self.latest.set(Some(now));
        let noted = NOTED.get();
        let measures = Measures {
            shared: setup.shared,
            overlapped: self.place.get() != Some(BEGUN.load(Ordering::Relaxed)),
            cpu_ns: now.cpu_ns.saturating_sub(start.cpu_ns),
            gc_ns: now.gc_ns.saturating_sub(start.gc_ns),
            allocations: now.allocations.saturating_sub(start.allocations),
            db_ns: noted
                .action_db_ns
                .or(setup.queries.then_some(noted.query_ns)),
            view_ns: noted.view_ns,
            lock_wait_ns: setup
                .events
                .is_some()
                .then(|| now.lock_wait_ns.saturating_sub(start.lock_wait_ns)),
            queries: setup.queries.then_some(noted.queries),
            route: &route[..length],
        };
        // No call into Ruby while it is borrowed.
        self.length
            .set(measures.write(&mut self.payload.borrow_mut()));
    }

    /// Writes the route of the request of `env`, and returns its length; 0 where it has none.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]. Raises what is thrown at this thread.
    unsafe fn route(&self, setup: &Setup, env: Value, into: &mut [u8; MAX_ROUTE_BYTES]) -> usize {
        // SAFETY: the caller keeps the rules; the type is checked.
        unsafe {
            let is_env = is(env, ruby_value_type::RUBY_T_HASH);
            // What names a route adds to the env.
            match is_env && rb_hash_size_num(env) != self.keys.get() {
                true => setup.routes.write(env, into),
                false => 0,
            }
        }
    }

    /// Calls `with` with the payload of the request's end; empty where it was not measured. `with` must not call Ruby.
    pub(crate) fn with_payload<T>(&self, with: impl FnOnce(&[u8]) -> T) -> T {
        with(&self.payload.borrow()[..self.length.get()])
    }

    /// What the thread and the process have used so far. `cpu_ns`: the thread's CPU time, where that is known.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]. Raises what is thrown at this thread.
    unsafe fn used(&self, setup: &Setup, cpu_ns: Option<u64>) -> Start {
        // SAFETY: the caller keeps the rules. Neither call allocates.
        unsafe {
            let gc_ns = match setup.total_time {
                Some(total_time) => {
                    rb_num2ull(rb_funcallv(rb_mGC, total_time, 0, std::ptr::null()))
                }
                None => 0,
            };
            Start {
                gc_ns,
                allocations: rb_gc_stat(setup.allocated) as u64,
                cpu_ns: cpu_ns.unwrap_or_else(thread_cpu_ns),
                lock_wait_ns: self.lock_wait.get().map_or(0, |own| own.waited_ns()),
            }
        }
    }
}

/// `Native.measure(routes, multithread, queries)`: has requests measured. `routes` is `Highball::Measures`; `queries`: whether
/// it counts them. Only the first call counts.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn measure(
    _: Value,
    routes: Value,
    multithread: Value,
    queries: Value,
) -> Value {
    if SETUP.get().is_some() {
        return NIL;
    }
    // SAFETY: Ruby calls with the GVL; what is stored in the static lives for ever.
    unsafe {
        let total_time = rb_intern2(c"total_time".as_ptr(), 10);
        let setup = Setup {
            shared: truthy(multithread),
            queries: truthy(queries),
            routes: Routes::new(routes),
            total_time: (rb_respond_to(rb_mGC, total_time) != 0).then_some(total_time),
            allocated: symbol("total_allocated_objects"),
            events: Events::register(),
        };
        let _ = SETUP.set(setup);
    }
    NIL
}

/// `Native.query_began`: this thread asks a database.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn query_began(_: Value) -> Value {
    let mut noted = NOTED.get();
    noted.query_began = monotonic_ns();
    NOTED.set(noted);
    NIL
}

/// `Native.query_ended(counts)`: it has its answer; `counts` says whether the application asked, and asked the database.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn query_ended(_: Value, counts: Value) -> Value {
    let mut noted = NOTED.get();
    // One within another ends both: the time of neither is counted twice.
    if noted.query_began != 0 {
        noted.query_ns += monotonic_ns().saturating_sub(noted.query_began);
        noted.query_began = 0;
    }
    noted.queries = noted.queries.saturating_add(truthy(counts).into());
    NOTED.set(noted);
    NIL
}

/// `Native.action_ended(database_ms, view_ms)`: an action of Rails is done; the times are floats, or anything else where they
/// are not known.
///
/// # Safety
/// Called by Ruby.
pub(crate) unsafe extern "C" fn action_ended(
    _: Value,
    database_ms: Value,
    view_ms: Value,
) -> Value {
    let mut noted = NOTED.get();
    // SAFETY: Ruby calls with the GVL.
    let (database, view) = unsafe { (nanoseconds(database_ms), nanoseconds(view_ms)) };
    // An action may call another one.
    let add = |known: Option<u64>, more: Option<u64>| match (known, more) {
        (Some(known), Some(more)) => Some(known.saturating_add(more)),
        (known, more) => known.or(more),
    };
    noted.action_db_ns = add(noted.action_db_ns, database);
    noted.view_ns = add(noted.view_ns, view);
    NOTED.set(noted);
    NIL
}

/// Milliseconds as nanoseconds, where it is a float.
///
/// # Safety
/// The rules of [`crate::ruby`].
unsafe fn nanoseconds(milliseconds: Value) -> Option<u64> {
    // SAFETY: the caller keeps the rules; the type is checked.
    unsafe {
        // One that is not a number, or below zero, becomes 0.
        let known = is(milliseconds, ruby_value_type::RUBY_T_FLOAT);
        known.then(|| (rb_float_value(milliseconds) * 1e6) as u64)
    }
}
