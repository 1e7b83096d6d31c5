//! The front of one server: its edge, its dispatcher, and what runs with each tick. It starts and ends no process.

use std::cell::OnceCell;
use std::io;
use std::rc::Rc;

use config::Settings;
use exchange::Alarm;

use crate::dispatch::Dispatcher;
use crate::edge::Edge;
use crate::http::incoming::ResponseStore;
use crate::http::service::INLINE_BODY_BYTES;
use crate::log::AccessLog;
use crate::messages::Dispatch;
use crate::net::accept::Acceptors;
use crate::runtime::{self, Doorbell};
use crate::snapshot::Snapshot;

/// Bytes of a slot in addition to the limits of a head: the fixed part, the addresses, the front's own fields.
const RECORD_MARGIN_BYTES: usize = 16 * 1024;
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
            Rc::clone(&settings),
            Rc::clone(&log),
            Rc::clone(&responses),
        );
        let intake: Rc<dyn Dispatch> = Rc::clone(dispatcher.intake()) as _;
        responses.set_dispatcher(&intake);
        let [_, bell] = dispatcher.files(None)?;
        let doorbell = runtime::watch(dispatcher.turns(), bell)?;
        let edge = Edge::new(settings, log, intake, responses)?;
        let front = Rc::new(Self {
            acceptors: Acceptors::new(&edge),
            edge,
            dispatcher,
            on_alarm: OnceCell::new(),
            _doorbell: doorbell,
        });
        let ticks = Rc::clone(&front);
        tokio::task::spawn_local(async move {
            let edge = Rc::clone(&ticks.edge);
            edge.run_ticks(|| ticks.check_deadlines()).await;
        });
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

    /// Calls `hear` for requests past their deadline and for workers that stall. Only the first call counts.
    pub fn on_alarm(&self, hear: impl Fn(Alarm) + 'static) {
        let _ = self.on_alarm.set(Box::new(hear));
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
        self.dispatcher.apply(Rc::clone(&settings));
        self.edge.responses.apply(&settings);
        self.edge.log.apply(&settings);
        self.edge.apply(settings);
        // There may be room for more connections.
        self.edge.connections.ended.notify_waiters();
    }

    /// Hides the values of these parameters too in the log, in place of those that an earlier generation named.
    pub fn filter_parameters(&self, names: &[String]) {
        self.edge.filter_parameters(names);
    }

    /// Ends requests whose deadline has passed and hijacked connections of workers that leave, and hands on what the
    /// supervisor must hear.
    fn check_deadlines(&self) {
        let leaving = self
            .dispatcher
            .leaving_for(self.settings().websocket_drain_timeout);
        if !leaving.is_empty() {
            self.close_hijacked(|by| by.is_some_and(|by| leaving.contains(&by)));
        }
        let alarms = self.dispatcher.turns().check_deadlines();
        if let Some(hear) = self.on_alarm.get() {
            alarms.into_iter().for_each(hear);
        }
    }

    /// The front at this moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.edge, self.dispatcher.status())
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
