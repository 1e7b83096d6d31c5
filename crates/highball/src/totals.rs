//! Counts of a server on their way to the one that replaces it: each is given away once, and what was given is still shown
//! here, so that no reader sees a count fall. It counts nothing itself.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Result, ensure};
use front::{Front, ServerCounts};
use metrics::{ApplicationTotals, EventTotals, events_since};
use serde::{Deserialize, Serialize};

use crate::hosted::Hosted;

/// The format of [`ServerTotals`] between servers. Another one is not understood.
const TOTALS_FORMAT: u32 = 1;

/// The name of what is no application's, where there are several.
const OF_NO_APPLICATION: &str = "(none)";

/// What a server has counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ServerTotals {
    /// [`TOTALS_FORMAT`].
    format: u32,
    /// By the names of applications; the name of an only one is empty.
    pub(crate) applications: BTreeMap<String, ApplicationTotals>,
    /// What is no application's.
    pub(crate) events: EventTotals,
}

impl ServerTotals {
    /// Takes away what had been counted `earlier`.
    fn since(&mut self, earlier: &Self) {
        for (name, earlier) in &earlier.applications {
            if let Some(own) = self.applications.get_mut(name) {
                own.since(earlier);
            }
        }
        events_since(&mut self.events, &earlier.events);
    }
}

/// Reads the counts of a server, and gives them away.
pub(crate) struct Totals {
    front: Rc<Front>,
    hosted: Vec<Rc<Hosted>>,
    /// What servers before this one have counted.
    before: RefCell<ServerTotals>,
    /// What the next server has of them.
    given: RefCell<ServerTotals>,
    /// What is shown: what the next server had when it began to serve.
    shown: RefCell<Option<Rc<ServerTotals>>>,
}

impl Totals {
    /// Those of this server.
    pub(crate) fn new(front: &Rc<Front>, hosted: &[Rc<Hosted>]) -> Self {
        Self {
            front: Rc::clone(front),
            hosted: hosted.to_vec(),
            before: RefCell::default(),
            given: RefCell::default(),
            shown: RefCell::default(),
        }
    }

    /// The counts that readers are to see.
    pub(crate) fn shown(&self) -> Rc<ServerTotals> {
        let shown = self.shown.borrow().clone();
        shown.unwrap_or_else(|| Rc::new(self.read()))
    }

    /// What this server has counted itself.
    pub(crate) fn own(&self) -> ServerTotals {
        let mut own = self.read();
        own.since(&self.before.borrow());
        own
    }

    fn read(&self) -> ServerTotals {
        let named = |one: &Rc<Hosted>| (one.name().unwrap_or_default(), one.front.totals());
        let mut applications: BTreeMap<_, _> = self.hosted.iter().map(named).collect();
        let own = ServerCounts::of(&self.front);
        let nobody = own.totals();
        applications.extend(nobody.map(|totals| (OF_NO_APPLICATION.to_owned(), totals)));
        ServerTotals {
            format: TOTALS_FORMAT,
            applications,
            events: own.events().read(),
        }
    }

    /// From now on the counts as they are now are shown. The next server begins with no less.
    pub(crate) fn freeze(&self) {
        let now = Rc::new(self.read());
        self.shown.replace(Some(now));
    }

    /// The next server does not serve: it takes its counts with it, and this one shows its own again.
    pub(crate) fn keep(&self) {
        self.given.take();
        self.shown.take();
    }

    /// What was counted and not given away; none where that is nothing. Passes as given from now on.
    pub(crate) fn give(&self) -> Option<ServerTotals> {
        let now = self.read();
        let given = self.given.replace(now.clone());
        let mut rest = now;
        if rest == given {
            return None;
        }
        rest.since(&given);
        Some(rest)
    }

    /// What was to be given away has not arrived.
    pub(crate) fn take_back(&self, rest: &ServerTotals) {
        self.given.borrow_mut().since(rest);
    }

    /// Adds what a server before this one has counted. That of applications which are not there is left out.
    ///
    /// # Errors
    /// It has another format.
    pub(crate) fn add(&self, before: &ServerTotals) -> Result<()> {
        let format = before.format;
        ensure!(
            format == TOTALS_FORMAT,
            "they have format {format}, and this server reads only {TOTALS_FORMAT}"
        );
        let counted = self.own();
        let own = ServerCounts::of(&self.front);
        let of = |name: &str| before.applications.get(name);
        for hosted in &self.hosted {
            if let Some(own) = of(&hosted.name().unwrap_or_default()) {
                hosted.front.add_before(own);
            }
        }
        if let Some(nobody) = of(OF_NO_APPLICATION) {
            own.add_before(nobody);
        }
        own.events().add(&before.events);
        let mut before = self.read();
        before.since(&counted);
        self.before.replace(before);
        Ok(())
    }
}
