//! The front of one server: its edge, its dispatcher, and what runs with each tick. It starts and ends no process.

use std::cell::{Cell, OnceCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use config::Settings;
use exchange::Alarm;

use crate::clock::Clock;
use crate::dispatch::{Bounds, Dispatcher, Lanes};
use crate::edge::{Edge, LiveSettings};
use crate::http::incoming::ResponseStore;
use crate::http::service::INLINE_BODY_BYTES;
use crate::log::{AccessLog, Level};
use crate::messages::Dispatch;
use crate::net::accept::Acceptors;
use crate::net::connections::Connections;
use crate::net::descriptors;
use crate::runtime::{self, Doorbell};
use crate::serve::files::ApplicationFiles;
use crate::snapshot::Snapshot;
use crate::spool;

/// Room in a slot beside the head's limits: the fixed part, the addresses, the front's own fields.
const RECORD_MARGIN_BYTES: usize = 16 * 1024;
/// How often deadlines are checked and the log is handed over.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// A slot's response ring; a longer response goes through it in turns.
const RESPONSE_RING_BYTES: u32 = 256 * 1024;

/// The front of one server.
pub struct Front {
    pub(crate) edge: Rc<Edge>,
    dispatcher: Rc<Dispatcher>,
    acceptors: Rc<Acceptors>,
    /// Who hears of late requests, and of workers that stall.
    on_alarm: OnceCell<Box<dyn Fn(Alarm)>>,
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
        let responses = Rc::new(ResponseStore::new(&settings));
        let dispatcher = Dispatcher::new(
            exchange::Front::new(geometry(&settings))?,
            generation,
            bounds(&settings),
            Lanes::new(&settings),
            Rc::clone(&log),
            Rc::clone(&responses),
        );
        let intake: Rc<dyn Dispatch> = Rc::clone(dispatcher.intake()) as _;
        responses.set_dispatcher(&intake);
        let [_, bell] = dispatcher.files(None)?;
        let doorbell = runtime::watch(dispatcher.turns(), bell)?;
        let edge = Rc::new(Edge {
            settings: LiveSettings::new(settings),
            dispatcher: intake,
            log,
            files: ApplicationFiles::new()?,
            responses,
            connections: Rc::new(Connections::default()),
            clock: Rc::new(Clock::new()),
            counts: std::array::from_fn(|_| Cell::new(0)),
        });
        descriptors::look(edge.settings.get().workers);
        warn_of_memory(&edge);
        let front = Rc::new(Self {
            acceptors: Acceptors::new(&edge),
            edge,
            dispatcher,
            on_alarm: OnceCell::new(),
            _doorbell: doorbell,
        });
        tokio::task::spawn_local(Rc::clone(&front).run_ticks());
        Ok(front)
    }

    /// Its dispatcher, for the supervisor.
    pub fn dispatcher(&self) -> &Rc<Dispatcher> {
        &self.dispatcher
    }

    /// What accepts connections.
    pub fn acceptors(&self) -> &Rc<Acceptors> {
        &self.acceptors
    }

    /// Calls `tell` for requests past their deadline and for workers that stall. The first one that is given stays.
    pub fn on_alarm(&self, tell: impl Fn(Alarm) + 'static) {
        let _ = self.on_alarm.set(Box::new(tell));
    }

    /// Makes the exchange of a new generation, as large as these settings want it. No request goes to it before
    /// [`exchange::Dispatcher::route_to`] says so.
    ///
    /// # Errors
    /// No memory or descriptors for it.
    pub fn open_generation(&self, generation: u32, settings: &Settings) -> io::Result<()> {
        self.dispatcher.open(generation, geometry(settings))
    }

    /// The settings in force.
    pub fn settings(&self) -> Rc<Settings> {
        self.edge.settings.get()
    }

    /// Puts these settings in force: for requests and connections that begin, and the clocks of all. Listeners and
    /// generations that are there stay as they are.
    pub fn apply(&self, settings: Rc<Settings>) {
        self.dispatcher
            .apply(bounds(&settings), Lanes::new(&settings));
        self.edge.responses.apply(&settings);
        self.edge.log.set_format(settings.log_format.into());
        self.edge.settings.replace(settings);
        // There may be room for more connections.
        self.edge.connections.ended.notify_waiters();
    }

    /// The front at this moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.edge, self.dispatcher.status())
    }

    /// Moves the coarse clock on, ends what is over time, and hands the log over.
    async fn run_ticks(self: Rc<Self>) {
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
                let Edge {
                    clock, connections, ..
                } = &*self.edge;
                clock.tick();
                descriptors::look(settings.workers);
                connections.check_clocks(clock.now_ms(), &settings, ticks_in_period);
                let alarms = self.dispatcher.turns().check_deadlines();
                if let Some(tell) = self.on_alarm.get() {
                    alarms.into_iter().for_each(tell);
                }
                self.edge.log.flush();
            }
        }
    }
}

/// Says where bodies that outgrow memory go to memory all the same, unless that was asked for.
fn warn_of_memory(edge: &Edge) {
    let directory = &edge.responses.spools.directory;
    if edge.settings.get().spool_dir.is_none() && spool::place::is_in_memory(directory) {
        let text = "bodies that outgrow memory go to a file system in memory, for no folder on a disk was found; set spool_dir";
        let directory = directory.display();
        edge.log
            .event(Level::Warn, text, &[("directory", &directory)]);
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
        + INLINE_BODY_BYTES
}

fn bounds(settings: &Settings) -> Bounds {
    Bounds {
        queue_limit: settings.queue_limit,
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
