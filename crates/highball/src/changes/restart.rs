//! A restart: a new generation of workers, with the code as it is now, next to the one that serves. Code that does not come
//! up changes nothing.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use exchange::Dispatcher;
use front::log::{Level, Value};
use supervisor::{GenerationNote, Load};

use crate::application::{Application, folder, ready_line};
use crate::control::directory::ControlDirectory;
use crate::control::messages::Answer;
use crate::control::places::is_of_folder;
use crate::control::queue::Change;
use crate::server::Server;
use crate::system::privileges::User;

/// Makes restarts, and holds the application as it serves now.
pub(crate) struct Restarts {
    pub(crate) server: Rc<Server>,
    /// The application, with the settings that the server uses.
    pub(crate) application: Application,
    /// The files of UNIX sockets, for templates.
    pub(crate) socket_files: Vec<PathBuf>,
    /// The generation that serves.
    pub(crate) serving: u32,
    /// The latest that was launched.
    pub(crate) latest: u32,
}

impl Restarts {
    /// Replaces the generation that serves by one with the code as it is now.
    pub(crate) async fn restart(&mut self) -> Answer {
        let (began, before) = (Instant::now(), self.serving);
        // With the settings that the server uses: its folder and file may have others by now.
        let application = self.application.clone();
        match self.launch(&application).await {
            Ok(load_seconds) => Answer::Done(format!(
                "generation {} serves after {:.2} s ({load_seconds:.2} s to load); generation {before} finishes its \
                 requests\n",
                self.latest,
                began.elapsed().as_secs_f64()
            )),
            Err(error) => Answer::Failed(format!("{}: {error:#}", self.kept())),
        }
    }

    /// The message about a generation that did not come up.
    pub(crate) fn kept(&self) -> String {
        let (failed, serving) = (self.latest, self.serving);
        format!("generation {failed} failed, generation {serving} keeps serving")
    }

    /// Waits until the previous generation or server is gone, for at most `drain_timeout`: there are never more than two
    /// at once. Tells the requesters of changes what they wait for.
    pub(crate) async fn wait_for_previous(&self, change: &Change) {
        let server = &self.server;
        let block = |who: &str, rest: Duration| {
            let seconds = rest.as_secs_f64().ceil();
            let text = format!("{who} finishes its requests, for at most {seconds} s");
            server.queue.block(text.clone());
            text
        };
        if server.predecessor.is_awaited() {
            let limit = self.application.drain_timeout();
            let text = block("the previous server", limit);
            let text = format!("{change} waiting: {text}");
            server.log.event(Level::Info, &text, &[]);
            server.predecessor.wait(limit).await;
        }
        if let Some((generation, rest)) = server.supervisor.unsettled() {
            block(&format!("generation {generation}"), rest);
            server.supervisor.settled().await;
        }
        server.queue.unblock();
    }

    /// Launches a generation of this application, with its settings. Returns how many seconds it took to load.
    ///
    /// # Errors
    /// It did not come up; the generation that serves is still the same.
    pub(crate) async fn launch(&mut self, application: &Application) -> Result<f64> {
        self.latest += 1;
        let generation = self.latest;
        let server = Rc::clone(&self.server);
        server
            .front
            .open_generation(generation, &application.settings)
            .context("cannot make the exchange")?;
        match self.load(application, generation).await {
            Ok(load) => {
                let booted = server.supervisor.launch(load).await?;
                server.front.filter_parameters(&booted.filter_parameters);
                self.serving = generation;
                self.move_control_sockets().await;
                Ok(booted.seconds)
            }
            Err(error) => {
                server.front.dispatcher().close(generation);
                let reason = format!("{error:#}");
                let text = GenerationNote::GivenUp { reason }.to_string();
                server.log.event(
                    Level::Warn,
                    &text,
                    &[("generation", Value::Number(generation.into()))],
                );
                Err(error)
            }
        }
    }

    /// Finds what the generation is loaded from, in the folder as it is now.
    async fn load(&self, application: &Application, generation: u32) -> Result<Load> {
        let files = self.server.front.dispatcher().files(None);
        let exchange = files.context("cannot make the exchange")?;
        let limit = application.settings.boot_timeout;
        let code =
            self.server
                .housekeeping
                .look(application.named.display(), limit, application.code());
        application.generation(code.await?, generation, exchange, &self.socket_files)
    }

    /// Moves the control sockets into the application's present folder, if they are in an earlier one: deploy tools remove
    /// old releases.
    async fn move_control_sockets(&self) {
        let control = &self.server.control;
        let Some(directory) = control.directory() else {
            return;
        };
        let moved = match self.other_directory(directory).await {
            Ok(Some(other)) => control.move_to(other).await.map_err(Into::into),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = moved {
            let text = "the control sockets stay in the folder of an earlier release; commands may not find this server \
                        once that is removed";
            self.server
                .log
                .event(Level::Warn, text, &[("reason", Value::Text(&error))]);
        }
    }

    /// The directory in which the control sockets should be instead, if that is another one.
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
        self.server.housekeeping.look(what, limit, find).await
    }

    /// The state of the server in a line, for the service manager.
    pub(crate) fn status(&self) -> String {
        ready_line(&self.server.front.settings(), self.serving)
    }
}
