//! A restart: a new generation of workers, with the code as it is now, next to the one that serves. Code that does not come
//! up changes nothing.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use exchange::Dispatcher;
use front::frequent_paths;
use front::log::{Level, Value};
use metrics::RESTARTS;
use supervisor::{Booted, GenerationNote, Load};

use crate::application::{Application, published};
use crate::hosted::Hosted;

/// The most pages that a new generation requests because clients ask for them.
pub(crate) const MAX_WARM_UP_FREQUENT: usize = 20;

impl Hosted {
    /// Replaces the generation that serves by one with the code as it is now.
    ///
    /// # Errors
    /// The message about one that did not come up.
    pub(crate) async fn restart(&self) -> Result<String, String> {
        let _turn = self.turn.lock().await;
        if self.is_stopped.get() {
            let text = "it is stopped (idle_timeout), and its next request starts it with the code as it is then";
            return Ok(self.named(text));
        }
        let (began, before) = (Instant::now(), self.serving.get());
        // With the settings that the server uses: its folder and file may have others by now.
        let application = self.application.borrow().clone();
        let launched = self.launch(&application).await;
        self.count_restart(launched.is_ok());
        match launched {
            Ok(booted) => {
                let text = format!(
                    "generation {} serves after {:.2} s ({:.2} s to load)",
                    self.latest.get(),
                    began.elapsed().as_secs_f64(),
                    booted.seconds
                );
                let text = match before {
                    Some(before) => format!("{text}; generation {before} finishes its requests"),
                    None => text,
                };
                Ok(self.named(&text))
            }
            Err(error) => Err(self.named(&format!("{}: {error:#}", self.kept()))),
        }
    }

    /// Counts a restart; a reload can be one too.
    pub(crate) fn count_restart(&self, ok: bool) {
        self.front
            .count(&RESTARTS, if ok { "ok" } else { "failed" });
    }

    /// The message about a generation that did not come up.
    pub(crate) fn kept(&self) -> String {
        let failed = self.latest.get();
        match self.serving.get() {
            Some(serving) => {
                format!("generation {failed} failed, generation {serving} keeps serving")
            }
            None => format!("generation {failed} failed, and no other serves"),
        }
    }

    /// Launches a generation of this application, with its settings. The caller has the turn.
    ///
    /// # Errors
    /// It did not come up; the generation that serves is still the same.
    pub(crate) async fn launch(&self, application: &Application) -> Result<Booted> {
        self.latest.set(self.latest.get() + 1);
        let generation = self.latest.get();
        self.front
            .open_generation(generation, &application.settings)
            .context("cannot make the exchange")?;
        match self.load(application, generation).await {
            Ok(load) => {
                let dir = PathBuf::from(&load.start.app);
                let booted = self.supervisor.launch(load).await?;
                self.front.cache().outdate();
                published::apply(&self.front, application, &dir, &booted).await;
                self.set_serving(generation);
                Ok(booted)
            }
            Err(error) => {
                self.front.dispatcher().close(generation);
                if self.serving.get().is_some() {
                    let reason = format!("{error:#}");
                    let text = GenerationNote::GivenUp { reason }.to_string();
                    let fields = [("generation", Value::Number(generation.into()))];
                    self.log().event(Level::Warn, &text, &fields);
                }
                Err(error)
            }
        }
    }

    /// Finds what a generation is loaded from, in the folder as it is now.
    ///
    /// # Errors
    /// It is not there, or cannot be looked at in time.
    pub(crate) async fn load(&self, application: &Application, generation: u32) -> Result<Load> {
        let files = self.front.dispatcher().files(None);
        let exchange = files.context("cannot make the exchange")?;
        let limit = application.settings.boot_timeout;
        let folder = application.named.display();
        let code = self.housekeeping.look(folder, limit, application.code());
        let mut load =
            application.generation(code.await?, generation, exchange, &self.socket_files)?;
        if let Some(paths) = &mut load.start.frequent_paths {
            let frequent = frequent_paths(&self.front).list(MAX_WARM_UP_FREQUENT);
            let frequent = frequent.into_iter().map(|one| one.path);
            paths.extend(frequent.filter(|path| !load.start.warm_up.contains(path)));
        }
        Ok(load)
    }
}
