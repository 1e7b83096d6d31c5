//! Who asks for a change of the running server, and the line in which they wait: a bounded one, in which signals and
//! touches of one kind stand once. It decides nothing about what follows.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use tokio::sync::{Notify, oneshot, watch};

use crate::question::Answer;

/// The most that wait, those included whose clients have left.
const MAX_ASKS: usize = 128;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// To load the application's code anew.
    Restart,
    /// To read the settings anew.
    Reload,
    /// To have a program take over, by default the one that was started.
    Upgrade(Option<PathBuf>),
}

/// Who asks.
#[derive(Debug)]
pub(crate) enum Asker {
    /// A command, which waits for the answer.
    Command(oneshot::Sender<Answer>),
    /// A signal, by its name.
    Signal(&'static str),
    /// A file was touched.
    File,
}

/// Somebody asks for something.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) change: Change,
    pub(crate) asker: Asker,
}

impl Ask {
    /// Answers, where somebody waits for it. A client that has left learns it from the log.
    pub(crate) fn reply(self, answer: &Answer) {
        if let Asker::Command(client) = self.asker {
            let _ = client.send(answer.clone());
        }
    }

    fn is_silent(&self) -> bool {
        match &self.asker {
            Asker::Command(client) => client.is_closed(),
            Asker::Signal(_) | Asker::File => true,
        }
    }
}

/// The line.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    waiting: RefCell<Vec<Ask>>,
    came: Notify,
    closed: Cell<bool>,
    /// What all of them wait for just now; empty where they wait for each other alone.
    told: watch::Sender<String>,
}

impl Asks {
    /// Puts somebody at the end of the line. Who waits for no answer is not needed where another one of that kind asks for
    /// the same; where the line is closed, nobody is.
    pub(crate) fn push(&self, ask: Ask) {
        let mut waiting = self.waiting.borrow_mut();
        let mut one_is_there = false;
        waiting.retain(|one| {
            one.change != ask.change
                || !one.is_silent()
                || !std::mem::replace(&mut one_is_there, true)
        });
        if self.closed.get() || one_is_there && ask.is_silent() {
            return;
        }
        if waiting.len() >= MAX_ASKS {
            let text = format!("{MAX_ASKS} others wait for changes of this server");
            return ask.reply(&Answer::Error(text));
        }
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

    /// Tells who waits, and who comes, what for.
    pub(crate) fn tell(&self, what_for: &str) {
        self.told.send_replace(what_for.to_owned());
    }

    /// What is told, now and from now on.
    pub(crate) fn told(&self) -> watch::Receiver<String> {
        let mut told = self.told.subscribe();
        told.mark_changed();
        told
    }

    /// From now on nobody waits any more. Takes out who did.
    pub(crate) fn close(&self) -> Vec<Ask> {
        self.closed.set(true);
        self.waiting.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(change: Change) -> Ask {
        let asker = Asker::Signal("USR1");
        Ask { change, asker }
    }

    fn command(change: Change) -> (Ask, oneshot::Receiver<Answer>) {
        let (client, answer) = oneshot::channel();
        let asker = Asker::Command(client);
        (Ask { change, asker }, answer)
    }

    #[test]
    fn any_number_of_signals_is_one_of_each_kind_and_commands_are_all_answered() {
        let asks = Asks::default();
        let mut clients = Vec::new();
        for _ in 0..1000 {
            asks.push(signal(Change::Restart));
            asks.push(signal(Change::Upgrade(None)));
            // Its client leaves at once.
            asks.push(command(Change::Restart).0);
        }
        for _ in 0..3 {
            let (ask, client) = command(Change::Restart);
            asks.push(ask);
            clients.push(client);
        }
        let restarts = asks.take(&Change::Restart);
        assert_eq!(restarts.len(), 1 + clients.len());
        assert_eq!(asks.take(&Change::Upgrade(None)).len(), 1);
        for ask in restarts {
            ask.reply(&Answer::Error("told".to_owned()));
        }
        for mut client in clients {
            assert!(matches!(client.try_recv(), Ok(Answer::Error(text)) if text == "told"));
        }
    }

    #[test]
    fn whoever_asks_beyond_the_most_is_told_and_a_line_that_is_closed_stays_empty() {
        let asks = Asks::default();
        let upgrade = |number: usize| Change::Upgrade(Some(number.to_string().into()));
        for number in 0..MAX_ASKS {
            // Something else each time, and nobody waits for it.
            asks.push(command(upgrade(number)).0);
        }
        let (ask, mut client) = command(Change::Restart);
        asks.push(ask);
        assert!(matches!(client.try_recv(), Ok(Answer::Error(text)) if text.contains("128")));
        assert_eq!(asks.close().len(), MAX_ASKS);
        let (ask, mut client) = command(Change::Restart);
        asks.push(ask);
        assert_eq!(
            client.try_recv().unwrap_err(),
            oneshot::error::TryRecvError::Closed
        );
        assert!(asks.close().is_empty());
    }
}
