//! The front: listeners, connections, requests, the queue and its dispatch, responses.
//!
//! It runs on one thread, on the runtime of [`runtime::build`]. It never runs Ruby, never blocks, and never
//! starts or ends a process: the supervisor tells it which workers there are.

#![forbid(unsafe_code)]

pub mod clock;
pub mod dispatch;
pub mod failure;
mod handover;
pub mod http;
pub mod log;
pub mod net;
pub mod runtime;
pub mod serve;
mod shared_bytes;
mod shutdown;
pub mod snapshot;
pub mod spool;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use config::Settings;
use tokio::sync::Notify;

use crate::http::h1::connection::Connection;
use crate::http::service;
use clock::Clock;
use dispatch::{Bounds, Dispatcher, Lanes};
use exchange::Alarm;
pub use failure::{Failure, Fault, Outcome};
pub use handover::Kept;
use log::AccessLog;
use net::accept::Accepting;
use net::addresses::Addresses;
use net::descriptors;
pub use net::listener::{AdoptError, BindError, FileAccess, Listener};
use runtime::Doorbell;
pub use serve::file_threads::FileThreads;
use serve::files::ApplicationFiles;
use service::{InForce, Service};
pub use snapshot::Snapshot;
use spool::SpoolPlace;

/// Room in a slot beside the head's limits: the fixed part, the addresses, the front's own fields.
const RECORD_MARGIN_BYTES: usize = 16 * 1024;
/// How often deadlines are looked at and the log is handed over.
const TICK: Duration = Duration::from_millis(100);
/// How long the last answers may take to go out when the server ends at once.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// A slot's response ring; a longer response goes through it in turns.
const RESPONSE_RING_BYTES: u32 = 256 * 1024;

/// The front of one server.
pub struct Front {
    service: Rc<Service>,
    clock: Rc<Clock>,
    connections: Rc<RefCell<BTreeMap<u64, Rc<Connection>>>>,
    next_connection: Cell<u64>,
    accepting: RefCell<Vec<Accepting>>,
    /// When it was last told that accepting pauses, by the clock; 0 before.
    told_short_ms: Cell<u64>,
    /// When it was last told that an address has too many connections, by the clock; 0 before.
    told_address_ms: Cell<u64>,
    addresses: Rc<Addresses>,
    /// Told when a connection has ended.
    ended: Rc<Notify>,
    /// Who hears of late requests, and of workers that stand still.
    alarmed: OnceCell<Box<dyn Fn(Alarm)>>,
    _doorbell: Doorbell,
}

impl Front {
    /// Makes the exchange of the first generation and everything over it. Call it on the runtime of [`runtime::build`].
    ///
    /// # Errors
    /// No memory or descriptors for the exchange.
    pub fn new(
        settings: Rc<Settings>,
        log: Rc<AccessLog>,
        generation: u32,
    ) -> io::Result<Rc<Self>> {
        let dispatcher = Dispatcher::new(
            exchange::Front::new(geometry(&settings))?,
            generation,
            bounds(&settings),
            Lanes::new(&settings),
            SpoolPlace::new(settings.spool_dir.as_deref(), settings.spool_limit),
            Rc::clone(&log),
        );
        let doorbell = runtime::watch(&dispatcher)?;
        let service = Rc::new(Service {
            settings: InForce::new(settings),
            dispatcher,
            log,
            files: ApplicationFiles::new()?,
            counts: Default::default(),
            connections: Cell::new(0),
            awake: RefCell::default(),
            idle: Default::default(),
            is_crowded: Cell::new(false),
            rested: Notify::new(),
        });
        descriptors::look(service.settings.get().workers);
        warn_of_memory(&service);
        let front = Rc::new(Self {
            service,
            clock: Rc::new(Clock::new()),
            connections: Rc::default(),
            next_connection: Cell::new(0),
            accepting: RefCell::default(),
            told_short_ms: Cell::new(0),
            told_address_ms: Cell::new(0),
            addresses: Rc::default(),
            ended: Rc::new(Notify::new()),
            alarmed: OnceCell::new(),
            _doorbell: doorbell,
        });
        tokio::task::spawn_local(Rc::clone(&front).sweep());
        Ok(front)
    }

    /// Its dispatcher, for the supervisor.
    pub fn dispatcher(&self) -> &Rc<Dispatcher> {
        &self.service.dispatcher
    }

    /// Has `tell` hear of requests past their deadline and of workers that stall. The first one that is given stays.
    pub fn on_alarm(&self, tell: impl Fn(Alarm) + 'static) {
        let _ = self.alarmed.set(Box::new(tell));
    }

    /// Makes the exchange of a new generation, as large as these settings want it. No request goes to it before
    /// [`exchange::Dispatcher::route_to`] says so.
    ///
    /// # Errors
    /// No memory or descriptors for it.
    pub fn open_generation(&self, generation: u32, settings: &Settings) -> io::Result<()> {
        self.dispatcher().open(generation, geometry(settings))
    }

    /// The settings in force.
    pub fn settings(&self) -> Rc<Settings> {
        self.service.settings.get()
    }

    /// Goes by these settings from now on: requests and connections that begin, and the clocks of all. Listeners and
    /// generations that are there stay as they are.
    pub fn apply(&self, settings: Rc<Settings>) {
        let dispatcher = &self.service.dispatcher;
        dispatcher.keep_to(bounds(&settings), Lanes::new(&settings));
        self.service.log.set_format(settings.log_format.into());
        self.service.settings.replace(settings);
        // There may be room for more connections.
        self.ended.notify_waiters();
    }

    /// Waits until `reached`, asked again after each connection's end.
    async fn until(&self, reached: impl Fn() -> bool) {
        loop {
            // Before the question, so that an end between the two is not missed.
            let ended = self.ended.notified();
            if reached() {
                return;
            }
            ended.await;
        }
    }

    /// Moves the coarse clock on, ends what is over time, and hands the log over.
    async fn sweep(self: Rc<Self>) {
        let mut next = 0;
        loop {
            let settings = self.settings();
            let mut timeouts = vec![
                settings.header_timeout,
                settings.body_timeout,
                settings.send_timeout,
                settings.keep_alive_timeout,
                settings.request_timeout,
            ];
            timeouts.extend(settings.request_timeouts.iter().map(|(_, timeout)| timeout));
            let period = Clock::period(&timeouts);
            let tick = period.min(TICK);
            let ticks_in_period = period.div_duration_f64(tick).ceil() as usize;
            let mut ticker = tokio::time::interval(tick);
            ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while Rc::ptr_eq(&settings, &self.settings()) {
                ticker.tick().await;
                self.clock.tick();
                descriptors::look(settings.workers);
                next = self.sweep_connections(next, ticks_in_period);
                let alarms = self.service.dispatcher.expire();
                if let Some(tell) = self.alarmed.get() {
                    alarms.into_iter().for_each(tell);
                }
                self.service.log.flush();
            }
        }
    }

    /// Checks the clocks of the connections that are awake and of a share of the others, from number `next`
    /// on, and returns where to go on. A share and not all: ten thousand idle ones at once would hold the
    /// busy ones up for milliseconds.
    fn sweep_connections(&self, next: u64, ticks_in_period: usize) -> u64 {
        let now = self.clock.now_ms();
        self.service.awake.borrow_mut().retain(|connection| {
            connection.upgrade().is_some_and(|connection| {
                connection.sweep(now);
                !connection.is_asleep()
            })
        });
        let connections = self.connections.borrow();
        let share = connections.len().div_ceil(ticks_in_period);
        let mut swept = connections.range(next..).take(share + 1);
        swept
            .by_ref()
            .take(share)
            .for_each(|(_, connection)| connection.sweep(now));
        swept.next().map_or(0, |(&number, _)| number)
    }

    /// The front at this moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.service)
    }

    // ===== the end =====

    /// Accepts nothing more, closes what is idle, lets what was begun end, and returns when all connections are closed
    /// or `limit` is over. True when all ended on their own.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.stop_accepting();
        for connection in self.connections.borrow().values() {
            connection.stop();
        }
        let ended = self.until(|| self.connections.borrow().is_empty());
        let clean = tokio::time::timeout(limit, ended).await.is_ok();
        self.service.dispatcher.stop();
        if !clean {
            self.end().await;
        }
        self.service.log.flush();
        clean
    }

    fn stop_accepting(&self) {
        for accepting in self.accepting.borrow_mut().drain(..) {
            accepting.task.abort();
        }
    }

    /// Ends everything now: what runs is answered with a failure where that can still be written.
    pub async fn end(&self) {
        self.stop_accepting();
        self.service.dispatcher.stop();
        let cut = self.service.dispatcher.fail_all();
        if cut > 0 {
            let text = "requests are cut before their deadline, for the server ends now";
            let log = &self.service.log;
            log.event(log::Level::Warn, text, &[("requests", &cut)]);
        }
        let ended = self.until(|| self.connections.borrow().is_empty());
        let _ = tokio::time::timeout(LAST_WORDS, ended).await;
        for connection in self.connections.borrow().values() {
            connection.kill(Outcome::Aborted);
        }
        tokio::task::yield_now().await;
        self.service.log.flush();
    }
}

/// Says where bodies that outgrow memory go to memory all the same, unless that was asked for.
fn warn_of_memory(service: &Service) {
    let directory = &service.dispatcher.spools().directory;
    if service.settings.get().spool_dir.is_none() && spool::place::is_in_memory(directory) {
        let text = "bodies that outgrow memory go to a file system in memory, for no folder on a disk was found; set spool_dir";
        let directory = directory.display();
        let level = log::Level::Warn;
        service.log.event(level, text, &[("directory", &directory)]);
    }
}

/// The sizes of an exchange.
fn geometry(settings: &Settings) -> exchange::Geometry {
    let (workers, threads) = (settings.workers, settings.threads);
    let request_bytes = slot_bytes(settings) as u32;
    exchange::Geometry::new(workers, threads, request_bytes, RESPONSE_RING_BYTES)
}

/// The largest request that these settings let in, in bytes of a slot.
pub fn slot_bytes(settings: &Settings) -> usize {
    settings.max_header_bytes
        + settings.max_target_bytes
        // A field's place in the record is a little larger than on the wire.
        + settings.max_header_count * 16
        + RECORD_MARGIN_BYTES
        + service::INLINE_BODY_BYTES
}

fn bounds(settings: &Settings) -> Bounds {
    Bounds {
        queue_limit: settings.queue_limit,
        response_memory: settings.response_memory,
        response_memory_total: settings.response_memory_total,
        response_limit: settings.response_limit,
        spool_limit: settings.spool_limit,
        max_retries: settings.max_retries,
        grace: settings.request_grace,
        between: settings.request_timeout + settings.request_grace,
        check_timeout: check_timeout(settings),
        batch: settings.batch_scheduling,
    }
}

/// How long the answer to `ready_check` may take: as long as any request for its path.
fn check_timeout(settings: &Settings) -> Duration {
    let path = settings.ready_check.as_deref().unwrap_or("/");
    let path = path.split('?').next().unwrap_or(path);
    let own = settings.request_timeouts.find(path.as_bytes());
    own.copied().unwrap_or(settings.request_timeout)
}
