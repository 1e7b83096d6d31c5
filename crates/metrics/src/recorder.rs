//! What one thread records of one application's requests, while others read. It allocates only for routes that are new.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::histogram::{Distribution, Histogram, add, read};
use crate::names::{MAX_ROUTES, Names, OTHER_NUMBER, UNROUTED};
use crate::path::Text;
use crate::totals::{CLASSES, CostTotals, RouteTotals};

/// Methods that have a route of their own; others are one.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT",
];

/// Where a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// The framework's name of it: a pattern, or controller and action.
    Named(&'a [u8]),
    /// The framework names none: this is the path.
    Path(&'a [u8]),
    /// Nowhere: the server answered itself, or the application found nothing.
    None,
}

/// What a request cost its worker; times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Whether another request ran in its worker meanwhile.
    pub overlapped: bool,
    /// CPU time of the thread.
    pub cpu_ns: u64,
    /// Garbage collection.
    pub gc_ns: u64,
    /// Objects allocated.
    pub allocations: u64,
    /// In the database.
    pub db_ns: u64,
    /// In views.
    pub view_ns: u64,
    /// Waiting for Ruby's lock; none where this Ruby does not tell.
    pub lock_wait_ns: Option<u64>,
    /// Queries of the database.
    pub queries: u64,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its route.
    pub route: Route<'a>,
    /// The status of its response, if one was sent.
    pub status: Option<u16>,
    /// Whether it went wrong.
    pub failed: bool,
    /// From its arrival to the end of its response.
    pub whole: Option<Duration>,
    /// In the queue.
    pub queue: Option<Duration>,
    /// In the application.
    pub app: Option<Duration>,
    /// What it cost.
    pub cost: Option<Cost>,
}

/// What was recorded of one route by one thread.
#[derive(Default)]
struct RouteRecord {
    /// From arrival to end, by the class of the status.
    whole: [OnceLock<Box<Histogram>>; CLASSES.len()],
    app: OnceLock<Box<Histogram>>,
    /// CPU times in the application, and the rest of those times.
    cpu: OnceLock<Box<Histogram>>,
    wait: OnceLock<Box<Histogram>>,
    failed: AtomicU64,
    measured: AtomicU64,
    app_ns: AtomicU64,
    cpu_ns: AtomicU64,
    alone: AtomicU64,
    alone_app_ns: AtomicU64,
    alone_cpu_ns: AtomicU64,
    lock_known: AtomicU64,
    lock_known_app_ns: AtomicU64,
    lock_known_cpu_ns: AtomicU64,
    lock_wait_ns: AtomicU64,
    gc_ns: AtomicU64,
    allocations: AtomicU64,
    db_ns: AtomicU64,
    view_ns: AtomicU64,
    queries: AtomicU64,
}

/// What was recorded of one application by one thread.
pub(crate) struct Record {
    /// By the numbers of routes; the last one but one is that of the rest, the last one of those that have no route.
    routes: [OnceLock<Box<RouteRecord>>; MAX_ROUTES + 2],
    queue: Histogram,
}

/// The place of requests without a route.
const UNROUTED_PLACE: usize = MAX_ROUTES + 1;

impl Default for Record {
    fn default() -> Self {
        Self {
            routes: [const { OnceLock::new() }; MAX_ROUTES + 2],
            queue: Histogram::default(),
        }
    }
}

/// Records the requests of one application in one thread.
pub struct Recorder {
    record: Arc<Record>,
    names: Arc<Names>,
    /// Numbers of routes that this thread has asked for.
    numbers: RefCell<HashMap<Box<[u8]>, usize>>,
}

impl Recorder {
    pub(crate) fn new(record: Arc<Record>, names: Arc<Names>) -> Self {
        Self {
            record,
            names,
            numbers: RefCell::default(),
        }
    }

    /// Records a request that has ended.
    pub fn record(&self, ended: &Ended<'_>) {
        let route = self.record.routes[self.place(ended)].get_or_init(Box::default);
        if let Some(whole) = ended.whole {
            let class = class_of(ended.status);
            route.whole[class].get_or_init(Box::default).record(whole);
        }
        if let Some(queue) = ended.queue {
            self.record.queue.record(queue);
        }
        if let Some(app) = ended.app {
            route.app.get_or_init(Box::default).record(app);
        }
        add(&route.failed, ended.failed.into());
        if let Some(cost) = &ended.cost {
            let app_ns = ended.app.map_or(0, |app| app.as_nanos() as u64);
            add(&route.measured, 1);
            add(&route.app_ns, app_ns);
            add(&route.cpu_ns, cost.cpu_ns);
            if !cost.overlapped {
                add(&route.alone, 1);
                add(&route.alone_app_ns, app_ns);
                add(&route.alone_cpu_ns, cost.cpu_ns);
            }
            if let Some(lock_wait_ns) = cost.lock_wait_ns {
                add(&route.lock_known, 1);
                add(&route.lock_known_app_ns, app_ns);
                add(&route.lock_known_cpu_ns, cost.cpu_ns);
                add(&route.lock_wait_ns, lock_wait_ns);
            }
            add(&route.gc_ns, cost.gc_ns);
            add(&route.allocations, cost.allocations);
            add(&route.db_ns, cost.db_ns);
            add(&route.view_ns, cost.view_ns);
            add(&route.queries, cost.queries);
        }
        if let (Some(cost), Some(app)) = (&ended.cost, ended.app) {
            let cpu = Duration::from_nanos(cost.cpu_ns);
            route.cpu.get_or_init(Box::default).record(cpu);
            let wait = app.saturating_sub(cpu);
            route.wait.get_or_init(Box::default).record(wait);
        }
    }

    fn place(&self, ended: &Ended<'_>) -> usize {
        let mut text = Text::new();
        // The name of an action says it already.
        let has_method = !matches!(ended.route, Route::Named(name) if !name.starts_with(b"/"));
        if has_method {
            let method = METHODS.iter().find(|known| **known == ended.method);
            text.push(method.map_or("OTHER", |method| method).as_bytes());
            text.push(b" ");
        }
        let path = match ended.route {
            Route::Named(name) => {
                text.push(name);
                false
            }
            Route::Path(path) => {
                text.push_path(path);
                true
            }
            Route::None => return UNROUTED_PLACE,
        };
        let mut numbers = self.numbers.borrow_mut();
        if let Some(&number) = numbers.get(text.bytes()) {
            return number;
        }
        let number = self.names.number(text.bytes(), path);
        if number != OTHER_NUMBER && numbers.len() < MAX_ROUTES {
            numbers.insert(text.bytes().into(), number);
        }
        number
    }
}

/// The place of a status's class in [`CLASSES`].
fn class_of(status: Option<u16>) -> usize {
    let class = status.map_or(0, |status| usize::from(status / 100));
    if class < CLASSES.len() { class } else { 0 }
}

impl Record {
    /// The times in the queue so far.
    pub(crate) fn queue(&self) -> Distribution {
        self.queue.read()
    }

    /// Adds the times from arrival to end of all requests so far.
    pub(crate) fn add_latency(&self, all: &mut Distribution) {
        let routes = self.routes.iter().filter_map(OnceLock::get);
        let classes = routes.flat_map(|route| &route.whole);
        for histogram in classes.filter_map(OnceLock::get) {
            histogram.add_to(all);
        }
    }

    /// What was recorded so far of each route, by its name.
    pub(crate) fn routes(&self, names: &Names) -> impl Iterator<Item = (String, RouteTotals)> {
        let routes = self.routes.iter().enumerate();
        routes.filter_map(|(at, route)| {
            let (name, is_path) = match at {
                UNROUTED_PLACE => (UNROUTED.to_owned(), false),
                at => names.name(at),
            };
            let totals = route.get()?.read();
            Some((name, RouteTotals { is_path, ..totals }))
        })
    }
}

impl RouteRecord {
    fn read(&self) -> RouteTotals {
        let known = |histogram: &OnceLock<Box<Histogram>>| histogram.get().map(|one| one.read());
        let classes = CLASSES.iter().zip(&self.whole);
        let classes = classes.filter_map(|(name, one)| Some(((*name).to_owned(), known(one)?)));
        RouteTotals {
            is_path: false,
            whole: classes.collect(),
            app: known(&self.app).unwrap_or_default(),
            cpu: known(&self.cpu).unwrap_or_default(),
            wait: known(&self.wait).unwrap_or_default(),
            failed: read(&self.failed),
            cost: CostTotals {
                requests: read(&self.measured),
                app_ns: read(&self.app_ns),
                cpu_ns: read(&self.cpu_ns),
                alone: read(&self.alone),
                alone_app_ns: read(&self.alone_app_ns),
                alone_cpu_ns: read(&self.alone_cpu_ns),
                lock_known: read(&self.lock_known),
                lock_known_app_ns: read(&self.lock_known_app_ns),
                lock_known_cpu_ns: read(&self.lock_known_cpu_ns),
                lock_wait_ns: read(&self.lock_wait_ns),
                gc_ns: read(&self.gc_ns),
                allocations: read(&self.allocations),
                db_ns: read(&self.db_ns),
                view_ns: read(&self.view_ns),
                queries: read(&self.queries),
            },
        }
    }
}
