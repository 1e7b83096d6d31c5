//! Restarts: what asks for one (a command, a signal, a file that is touched), and one after the other. What a
//! generation must be like to take over is the supervisor's business.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use front::Front;
use front::access_log::{AccessLog, Level};
use supervisor::Supervisor;
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use crate::application::{Application, FIRST_GENERATION};
use crate::control_socket::Answer;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Who asks for a restart.
#[derive(Debug)]
pub(crate) enum Ask {
    /// `highball restart`, which waits for the answer.
    Command(oneshot::Sender<Answer>),
    /// USR1.
    Signal,
    /// The file was touched.
    File,
}

/// What a restart needs.
pub(crate) struct Restarts {
    pub(crate) application: Application,
    pub(crate) front: Rc<Front>,
    pub(crate) supervisor: Rc<Supervisor>,
    pub(crate) log: Rc<AccessLog>,
    /// The files of UNIX sockets, for templates.
    pub(crate) sockets: Vec<PathBuf>,
    pub(crate) asks: mpsc::UnboundedReceiver<Ask>,
}

impl Restarts {
    /// Restarts whenever somebody asks, one at a time and for ever. Whoever asks while a restart is under way gets
    /// another one after it, with the code as it is then; all who ask meanwhile get the same one.
    pub(crate) async fn run(mut self) {
        let mut serving = FIRST_GENERATION;
        let mut latest = FIRST_GENERATION;
        while let Some(first) = self.asks.recv().await {
            self.supervisor.settled().await;
            let mut asked = vec![first];
            while let Ok(more) = self.asks.try_recv() {
                asked.push(more);
            }
            latest += 1;
            for ask in &asked {
                self.say(ask, latest);
            }
            let began = Instant::now();
            let launched = self.launch(latest).await;
            let answer = match launched {
                Ok(load_seconds) => {
                    let before = std::mem::replace(&mut serving, latest);
                    Answer::Restarted {
                        generation: latest,
                        before,
                        load_seconds,
                        seconds: began.elapsed().as_secs_f64(),
                    }
                }
                Err(error) => Answer::NotRestarted {
                    generation: latest,
                    serving,
                    reason: format!("{error:#}"),
                },
            };
            for ask in asked {
                if let Ask::Command(client) = ask {
                    // A client that has left learns it from the log.
                    let _ = client.send(answer.clone());
                }
            }
        }
    }

    fn say(&self, ask: &Ask, generation: u32) {
        let who = match ask {
            Ask::Command(_) => "highball restart",
            Ask::Signal => "signal USR1",
            Ask::File => "its file was touched",
        };
        let text = format!("a restart was asked for ({who})");
        let generation: [(&str, &dyn std::fmt::Display); 1] = [("generation", &generation)];
        self.log.event(Level::Info, &text, &generation);
    }

    /// Brings a generation up and says how long its application took to load.
    async fn launch(&self, generation: u32) -> Result<f64> {
        let no_exchange = "cannot make the exchange";
        self.front
            .open_generation(generation)
            .context(no_exchange)?;
        let load = self.front.exchange_files().context(no_exchange);
        let load = load.and_then(|(memory, doorbell)| {
            let exchange = [memory, doorbell];
            self.application
                .generation(generation, exchange, &self.sockets)
        });
        match load {
            Ok(load) => Ok(self.supervisor.launch(load).await?.seconds),
            Err(error) => {
                self.front.close_generation(generation);
                Err(error)
            }
        }
    }
}

/// Asks for a restart whenever the file was touched since `before`. A look at the clock of the file and no watch of
/// the kernel's: it works on every file system, and for a folder that is not there yet.
pub(crate) async fn watch(
    path: PathBuf,
    mut before: Option<SystemTime>,
    ask: mpsc::UnboundedSender<Ask>,
) {
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        // Off this thread: a disk may take its time.
        let touched = tokio::fs::metadata(&path).await;
        let touched = touched.and_then(|file| file.modified()).ok();
        if touched.is_some() && touched != before && ask.send(Ask::File).is_err() {
            return;
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
