//! Who asks for a change of the running server, and the line in which they wait: a bounded one, in which signals and
//! touches of one kind stand once. Whoever comes is in the log, and hears at once what it waits for. It decides nothing
//! about what follows.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::control::messages::Answer;

/// The most that wait, those included whose clients have left.
const MAX_ASKS: usize = 128;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    /// To load the application's code anew.
    Restart,
    /// To read the settings anew.
    Reload,
    /// To have a program take over, by default the one that was started.
    Upgrade(Option<PathBuf>),
}

impl Change {
    /// What it is called, and the command that asks for it.
    pub(crate) fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Restart => ("a restart", "highball restart"),
            Self::Reload => ("a reload of the settings", "highball reload"),
            Self::Upgrade(_) => ("an upgrade", "highball upgrade"),
        }
    }
}

/// Who asks.
#[derive(Debug)]
pub(crate) enum Asker {
    /// A command, which is shown what comes: the latest alone, and its end where none will.
    Command(watch::Sender<Answer>),
    /// A signal, by its name.
    Signal(&'static str),
    /// A file was touched.
    File,
    /// The server that this one took over from, which was asked and has no more time for it.
    Predecessor,
}

/// Somebody asks for something.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) change: Change,
    pub(crate) asker: Asker,
}

impl Ask {
    /// Answers, where somebody waits for it. A client that has left learns it from the log.
    pub(crate) fn reply(&self, answer: &Answer) {
        if let Asker::Command(client) = &self.asker {
            client.send_replace(answer.clone());
        }
    }

    /// Tells what it waits for, where that is anything.
    fn tell(&self, reason: &str) {
        if !reason.is_empty() {
            let reason = reason.to_owned();
            self.reply(&Answer::Waits { reason });
        }
    }

    /// Whether nobody waits for an answer.
    pub(crate) fn is_silent(&self) -> bool {
        match &self.asker {
            Asker::Command(client) => client.is_closed(),
            Asker::Signal(_) | Asker::File | Asker::Predecessor => true,
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, command) = self.change.names();
        write!(f, "{what} was asked for (")?;
        match self.asker {
            Asker::Command(_) => f.write_str(command)?,
            Asker::Signal(name) => write!(f, "signal {name}")?,
            Asker::File => f.write_str("its file was touched")?,
            Asker::Predecessor => f.write_str("of the server before this one")?,
        }
        f.write_str(")")
    }
}

/// The line, and who has left it because what they asked for is under way.
pub(crate) struct Asks {
    waiting: RefCell<Vec<Ask>>,
    begun: RefCell<Vec<Ask>>,
    came: Notify,
    closed: Cell<bool>,
    /// What is under way, in words for the line; empty where nothing is.
    under_way: RefCell<String>,
    /// What all of them wait for just now; empty where it is for each other alone.
    awaited: RefCell<String>,
    log: Box<dyn Fn(&str)>,
}

impl fmt::Debug for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asks")
            .field("waiting", &self.waiting)
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}

impl Asks {
    /// An empty line, which tells `log` who comes.
    pub(crate) fn new(log: impl Fn(&str) + 'static) -> Self {
        Self {
            waiting: RefCell::default(),
            begun: RefCell::default(),
            came: Notify::new(),
            closed: Cell::default(),
            under_way: RefCell::default(),
            awaited: RefCell::default(),
            log: Box::new(log),
        }
    }

    /// Puts somebody at the end of the line. Who waits for no answer is not needed where another one of that kind asks for
    /// the same; where the line is closed, nobody is.
    pub(crate) fn push(&self, ask: Ask) {
        if self.closed.get() {
            return (self.log)(&format!("{ask}, too late: the server stops"));
        }
        let mut waiting = self.waiting.borrow_mut();
        let mut one_is_there = false;
        waiting.retain(|one| {
            one.change != ask.change
                || !one.is_silent()
                || !std::mem::replace(&mut one_is_there, true)
        });
        if one_is_there && ask.is_silent() {
            return;
        }
        if waiting.len() >= MAX_ASKS {
            let text = format!("{MAX_ASKS} others wait for changes of this server");
            (self.log)(&format!("{ask}, in vain: {text}"));
            return ask.reply(&Answer::Error(text));
        }
        let reason = self.reason();
        match reason.is_empty() {
            true => (self.log)(&ask.to_string()),
            false => (self.log)(&format!("{ask}, and waits: {reason}")),
        }
        ask.tell(&reason);
        waiting.push(ask);
        self.came.notify_one();
    }

    /// Waits until something is asked for, and says what was first.
    pub(crate) async fn first(&self) -> Change {
        loop {
            let first = self.waiting.borrow().first().map(|ask| ask.change.clone());
            match first {
                Some(change) => return change,
                None => self.came.notified().await,
            }
        }
    }

    /// Takes all out who ask for this.
    pub(crate) fn take(&self, change: &Change) -> Vec<Ask> {
        let mut waiting = self.waiting.borrow_mut();
        waiting
            .extract_if(.., |ask| ask.change == *change)
            .collect()
    }

    /// What was first is under way, for all who ask for the same so far. The others, and who comes later, are told so.
    pub(crate) fn begin(&self, change: &Change, under_way: &str) {
        *self.begun.borrow_mut() = self.take(change);
        under_way.clone_into(&mut self.under_way.borrow_mut());
        self.waiting
            .borrow()
            .iter()
            .for_each(|ask| ask.tell(under_way));
    }

    /// What was under way is done, with this answer.
    pub(crate) fn finish(&self, answer: &Answer) {
        self.under_way.borrow_mut().clear();
        self.begun.take().iter().for_each(|ask| ask.reply(answer));
    }

    /// Tells all, and who comes later, what everybody waits for; nothing, where that is empty.
    pub(crate) fn tell(&self, awaited: &str) {
        awaited.clone_into(&mut self.awaited.borrow_mut());
        for asks in [&self.begun, &self.waiting] {
            asks.borrow().iter().for_each(|ask| ask.tell(awaited));
        }
    }

    fn reason(&self) -> String {
        let awaited = self.awaited.borrow();
        match awaited.is_empty() {
            true => self.under_way.borrow().clone(),
            false => awaited.clone(),
        }
    }

    /// From now on nobody is told anything any more, and nobody waits.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        drop((self.begun.take(), self.waiting.take()));
    }
}

#[cfg(test)]
mod tests;
