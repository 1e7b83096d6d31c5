//! What a request costs, measured in the thread that runs it: CPU, garbage collection, allocations, and what the
//! subscribers of `gem/lib/highball/measures.rb` note here. It never raises of itself, and it decides nothing.
//!
//! The payload is made before the last frame of a response is tried, for only then may Ruby code run.

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use exchange::measures::{MAX_BYTES, MAX_ROUTE_BYTES, Measures};
use exchange::scheduling::{monotonic_ns, thread_cpu_ns};
use rb_sys::{
    ID, rb_float_value, rb_funcallv, rb_gc_stat, rb_hash_lookup2, rb_hash_size_num, rb_intern2,
    rb_mGC, rb_num2ull, rb_respond_to, rb_sym2str, ruby_value_type, size_t,
};

use crate::messages::symbol;
use crate::ruby::{NIL, Value, bytes, interned, is, keep, truthy};

/// What measuring needs, made once in the template.
struct Setup {
    /// Whether the process has several threads that run requests.
    shared: bool,
    /// Whether queries are counted.
    queries: bool,
    /// Who knows the patterns of Rails' routes: `Highball::Measures`.
    routes: Value,
    keys: Keys,
}

/// Objects and names, which live for ever.
struct Keys {
    /// Where this Ruby has it.
    total_time: Option<ID>,
    allocated: Value,
    pattern: ID,
    rails_pattern: Value,
    rails_route: Value,
    rails_parameters: Value,
    sinatra_route: Value,
    controller: Value,
    action: Value,
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
}

/// The measures of one thread's request.
pub(crate) struct Meter {
    start: Cell<Option<Start>>,
    /// What the thread and the process had used when the latest request was measured.
    latest: Cell<Option<Start>>,
    /// The same, where the thread goes on to its next request at once: that one begins there.
    ended: Cell<Option<Start>>,
    /// Where the thread runs a request: the number of that request in its process, 0 where another one ran already.
    place: Cell<Option<u64>>,
    /// Number of the env's keys at the start of the request.
    keys: Cell<size_t>,
    payload: RefCell<[u8; MAX_BYTES]>,
    length: Cell<usize>,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            start: Cell::new(None),
            latest: Cell::new(None),
            ended: Cell::new(None),
            place: Cell::new(None),
            keys: Cell::new(0),
            payload: RefCell::new([0; MAX_BYTES]),
            length: Cell::new(0),
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
    }

    /// Has the next request measured from its own start: the thread has waited, or has worked for no request.
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
            let start = match self.ended.take() {
                Some(ended) => ended,
                // SAFETY: the caller keeps the rules.
                None => unsafe { used(setup) },
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
        let (length, now) = unsafe { (self.route(setup, env, &mut route), used(setup)) };
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
                true => setup.route(env, into),
                false => 0,
            }
        }
    }

    /// Calls `with` with the payload of the request's end; empty where it was not measured. `with` must not call Ruby.
    pub(crate) fn with_payload<T>(&self, with: impl FnOnce(&[u8]) -> T) -> T {
        with(&self.payload.borrow()[..self.length.get()])
    }
}

/// What the thread and the process have used so far.
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises what is thrown at this thread.
unsafe fn used(setup: &Setup) -> Start {
    // SAFETY: the caller keeps the rules. Neither call allocates.
    unsafe {
        let gc_ns = match setup.keys.total_time {
            Some(total_time) => rb_num2ull(rb_funcallv(rb_mGC, total_time, 0, std::ptr::null())),
            None => 0,
        };
        Start {
            gc_ns,
            allocations: rb_gc_stat(setup.keys.allocated) as u64,
            cpu_ns: thread_cpu_ns(),
        }
    }
}

impl Setup {
    /// Writes the route of the request of `env`, a Hash, as its framework names it, and returns its length; 0 where none does.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`]. Raises what is thrown at this thread.
    unsafe fn route(&self, env: Value, into: &mut [u8; MAX_ROUTE_BYTES]) -> usize {
        let keys = &self.keys;
        // SAFETY: the caller keeps the rules; each value's type is checked before it is used.
        unsafe {
            let value = |key: Value| rb_hash_lookup2(env, key, NIL);
            let pattern = value(keys.rails_pattern);
            if is(pattern, ruby_value_type::RUBY_T_STRING) {
                return copy(into, &[without_format(bytes(pattern))]);
            }
            let route = value(keys.rails_route);
            if route != NIL {
                let pattern = rb_funcallv(self.routes, keys.pattern, 1, &raw const route);
                if is(pattern, ruby_value_type::RUBY_T_STRING) {
                    return copy(into, &[without_format(bytes(pattern))]);
                }
            }
            let parameters = value(keys.rails_parameters);
            if is(parameters, ruby_value_type::RUBY_T_HASH) {
                let word = |key: Value| name(rb_hash_lookup2(parameters, key, NIL));
                if let (Some(controller), Some(action)) = (word(keys.controller), word(keys.action))
                {
                    return copy(into, &[controller, b"#", action]);
                }
            }
            let route = value(keys.sinatra_route);
            if is(route, ruby_value_type::RUBY_T_STRING) {
                return copy(into, &[without_method(bytes(route))]);
            }
        }
        0
    }
}

/// The bytes of a string or a symbol.
///
/// # Safety
/// The rules of [`crate::ruby`].
unsafe fn name<'a>(value: Value) -> Option<&'a [u8]> {
    // SAFETY: the caller keeps the rules; the types are checked. A symbol's string lives as long as the symbol.
    unsafe {
        if is(value, ruby_value_type::RUBY_T_STRING) {
            Some(bytes(value))
        } else if is(value, ruby_value_type::RUBY_T_SYMBOL) {
            Some(bytes(rb_sym2str(value)))
        } else {
            None
        }
    }
}

/// A pattern of Rails without its optional format, which nearly each has.
fn without_format(pattern: &[u8]) -> &[u8] {
    pattern.strip_suffix(b"(.:format)").unwrap_or(pattern)
}

/// A route of Sinatra, `GET /books/:id`, without its method: the front knows that.
fn without_method(route: &[u8]) -> &[u8] {
    match route.iter().position(|&byte| byte == b' ') {
        Some(space) => &route[space + 1..],
        None => route,
    }
}

/// Copies as much of these parts as there is room for, and returns how much that was.
fn copy(into: &mut [u8; MAX_ROUTE_BYTES], parts: &[&[u8]]) -> usize {
    let mut length = 0;
    for part in parts {
        let taken = part.len().min(into.len() - length);
        into[length..length + taken].copy_from_slice(&part[..taken]);
        length += taken;
    }
    length
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
    // SAFETY: Ruby calls with the GVL; what is stored in the static is kept alive by `keep`.
    unsafe {
        let id = |name: &str| rb_intern2(name.as_ptr().cast(), name.len() as _);
        let key = |name: &str| keep(interned(name.as_bytes()));
        let total_time = id("total_time");
        let setup = Setup {
            shared: truthy(multithread),
            queries: truthy(queries),
            routes: keep(routes),
            keys: Keys {
                total_time: (rb_respond_to(rb_mGC, total_time) != 0).then_some(total_time),
                allocated: symbol("total_allocated_objects"),
                pattern: id("pattern"),
                rails_pattern: key("action_dispatch.route_uri_pattern"),
                rails_route: key("action_dispatch.route"),
                rails_parameters: key("action_dispatch.request.path_parameters"),
                sinatra_route: key("sinatra.route"),
                controller: symbol("controller"),
                action: symbol("action"),
            },
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
