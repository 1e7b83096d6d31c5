//! Changes of a running server, one after the other, and the file that asks for one when it is touched. Restarts are
//! here; `reload.rs` and `upgrade.rs` have the others. What a generation must be like to take over is the supervisor's
//! business.

pub(crate) mod handover;
pub(crate) mod reload;
pub(crate) mod upgrade;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use exchange::Dispatcher as _;
use front::Front;
use front::log::{AccessLog, Level};
use supervisor::{Load, Note, Supervisor};
use tokio::time::MissedTickBehavior;

use crate::application::{Application, folder};
use crate::changes::handover::PredecessorExit;
use crate::changes::upgrade::Heir;
use crate::control::directory::{ControlDirectory, is_of_folder};
use crate::control::messages::Answer;
use crate::control::queue::{Change, ChangeQueue, ChangeRequest, Requester};
use crate::control::socket::ControlSocket;
use crate::housekeeping::Housekeeping;
use crate::sockets::Origin;
use crate::startup::ready_line;
use crate::system::privileges::User;
use crate::system::program::Program;
use crate::system::systemd::Manager;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What changes need.
pub(crate) struct Changes {
    pub(crate) application: Application,
    pub(crate) program: Program,
    pub(crate) front: Rc<Front>,
    pub(crate) supervisor: Rc<Supervisor>,
    pub(crate) control: Rc<ControlSocket>,
    pub(crate) manager: Rc<Manager>,
    pub(crate) log: Rc<AccessLog>,
    /// Where the sockets came from that the front accepts from, in its order.
    pub(crate) origins: Vec<Origin>,
    /// The files of UNIX sockets, for templates.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) queue: Rc<ChangeQueue>,
    pub(crate) housekeeping: Rc<Housekeeping>,
    /// The server that this one took over from.
    pub(crate) predecessor: PredecessorExit,
    /// The generation that serves.
    pub(crate) serving: u32,
    /// The latest that was launched.
    pub(crate) latest: u32,
}

impl Changes {
    /// Makes whatever changes are asked for, one at a time, until another program has taken over, and says which: who waits
    /// then is for that one. Whoever
    /// asks while one is under way gets another one after it, with code and settings as they are then; all who ask for the
    /// same meanwhile get the same one.
    pub(crate) async fn run(mut self) -> Heir {
        loop {
            self.queue.unblock();
            let first = self.queue.first().await;
            // A reload finds out what it takes. Whoever asks for the same meanwhile gets the same.
            if first != Change::Reload {
                self.settle(&first).await;
            }
            let change = self.queue.first().await;
            self.queue.begin(&change, self.progress(&change));
            let (answer, heir) = match &change {
                Change::Restart => (self.restart().await, None),
                Change::Reload => (self.reload().await, None),
                Change::Upgrade(binary) => self.upgrade(binary.as_deref()).await,
            };
            self.queue.finish(&answer);
            if let Some(heir) = heir {
                return heir;
            }
        }
    }

    /// For those who wait until it is done.
    fn progress(&self, change: &Change) -> String {
        let limit = self.application.settings.boot_timeout;
        format!("{change} in progress, at most {limit:?} (boot_timeout) for each of its steps")
    }

    async fn restart(&mut self) -> Answer {
        let (began, before) = (Instant::now(), self.serving);
        // As it is, for what it was found by may lead to other settings by now.
        let application = self.application.clone();
        match self.launch(&application).await {
            Ok(load_seconds) => Answer::Restarted {
                generation: self.latest,
                before,
                load_seconds,
                seconds: began.elapsed().as_secs_f64(),
            },
            Err(error) => Answer::NotRestarted {
                generation: self.latest,
                serving: before,
                reason: format!("{error:#}"),
            },
        }
    }

    /// Waits until what was there before is gone, for two generations or servers at once are enough, but no longer than
    /// `drain_timeout`; and tells who asks.
    pub(crate) async fn settle(&self, change: &Change) {
        let tell = |who: &str, rest: Duration| {
            let seconds = rest.as_secs_f64().ceil();
            let text = format!("{who} finishes its requests, for at most {seconds} s");
            self.queue.block(text.clone());
            text
        };
        if self.predecessor.is_awaited() {
            let limit = self.application.drain_timeout();
            let text = tell("the previous server", limit);
            let text = format!("{change} waiting: {text}");
            self.log.event(Level::Info, &text, &[]);
            self.predecessor.wait(limit).await;
        }
        if let Some((generation, rest)) = self.supervisor.unsettled() {
            tell(&format!("generation {generation}"), rest);
            self.supervisor.settled().await;
        }
        self.queue.unblock();
    }

    /// Has the control sockets follow the application into another folder, if they are in the one before: deploy tools
    /// remove old releases.
    async fn move_control_sockets(&self) {
        let Some(directory) = self.control.directory() else {
            return;
        };
        let moved = self.other_directory(directory).await;
        let moved = match moved {
            Ok(Some(other)) => self.control.move_to(other).await.map_err(Into::into),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = moved {
            let text = "the control sockets stay in the folder of an earlier release";
            self.log.event(Level::Warn, text, &[("reason", &error)]);
        }
    }

    /// Where the control sockets are to be instead, if anywhere else.
    async fn other_directory(
        &self,
        directory: Rc<ControlDirectory>,
    ) -> Result<Option<ControlDirectory>> {
        let named = self.application.named.clone();
        let present = directory.path().to_owned();
        if !directory.is_in_folder() {
            return Ok(None);
        }
        let limit = self.application.settings.boot_timeout;
        let find = move || {
            let folder = folder(&named)?;
            if is_of_folder(&present, &folder) {
                return Ok(None);
            }
            let (other, _) = ControlDirectory::open(User::of_this_process(), Some(&folder));
            Ok(other.filter(|other| other.path() != present))
        };
        let what = self.application.named.display();
        self.housekeeping.look(what, limit, find).await
    }

    /// Brings a generation of this application up, with its settings, and says how long it took to load.
    pub(crate) async fn launch(&mut self, application: &Application) -> Result<f64> {
        self.latest += 1;
        let generation = self.latest;
        let no_exchange = "cannot make the exchange";
        self.front
            .open_generation(generation, &application.settings)
            .context(no_exchange)?;
        match self.load(application, generation).await {
            Ok(load) => {
                let booted = self.supervisor.launch(load).await?;
                self.serving = generation;
                self.move_control_sockets().await;
                Ok(booted.seconds)
            }
            Err(error) => {
                self.front.dispatcher().close(generation);
                let reason = format!("{error:#}");
                let text = Note::GivenUp { reason }.to_string();
                self.log
                    .event(Level::Warn, &text, &[("generation", &generation)]);
                Err(error)
            }
        }
    }

    /// What the generation is loaded from, as the folder is now.
    async fn load(&self, application: &Application, generation: u32) -> Result<Load> {
        let exchange = self.front.dispatcher().files(None);
        let exchange = exchange.context("cannot make the exchange")?;
        let limit = application.settings.boot_timeout;
        let look = self
            .housekeeping
            .look(application.named.display(), limit, application.code());
        application.generation(look.await?, generation, exchange, &self.files)
    }

    /// What serves, for the service manager.
    pub(crate) fn status(&self) -> String {
        ready_line(&self.front.settings(), self.serving)
    }
}

/// ChangeQueue for a restart whenever the file was touched since the start. A look at the clock of the file and no watch of
/// the kernel's: it works on every file system, and for a folder that is not there yet. `file` says which one it is,
/// for that is a setting.
pub(crate) async fn watch(
    file: impl Fn() -> PathBuf,
    mut before: Option<SystemTime>,
    queue: Rc<ChangeQueue>,
    housekeeping: Rc<Housekeeping>,
) {
    let mut path = file();
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let now = file();
        let is_other = now != path;
        path = now.clone();
        let touched = housekeeping.run(move || touched(&now)).await.ok().flatten();
        if is_other {
            before = touched;
        }
        if touched.is_some() && touched != before {
            let (change, requester) = (Change::Restart, Requester::File);
            queue.push(ChangeRequest { change, requester });
        }
        before = touched.or(before);
    }
}

/// When the file was touched last.
pub(crate) fn touched(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path)
        .and_then(|file| file.modified())
        .ok()
}
