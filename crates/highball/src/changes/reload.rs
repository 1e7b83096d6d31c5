//! A reload: the settings read anew, what is different, and how each change takes effect. A file that is broken, or a
//! new generation that does not come up with what it says, changes nothing.

use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result};
use config::{Change, Reload};
use front::access_log::Level;
use front::slot_bytes;
use serde::{Deserialize, Serialize};

use crate::changes::Changes;
use crate::control::messages::Answer;
use crate::control::queue;

/// A setting that is different, for whoever asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Changed {
    pub(crate) setting: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// Whether it is in force. Otherwise it takes an upgrade or a new start.
    pub(crate) applied: bool,
}

impl From<Change> for Changed {
    fn from(change: Change) -> Self {
        Self {
            setting: change.name.to_owned(),
            from: change.from,
            to: change.to,
            applied: change.reload != Reload::Start,
        }
    }
}

impl std::fmt::Display for Changed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} -> {}", self.setting, self.from, self.to)?;
        match self.applied {
            true => Ok(()),
            false => f.write_str(" (not in force: it takes `highball upgrade` or a new start)"),
        }
    }
}

impl Changes {
    /// Reads the settings anew and goes by them.
    pub(crate) async fn reload(&mut self) -> Answer {
        self.manager.reloading().await;
        let answer = self.try_reload().await.unwrap_or_else(|error| {
            let reason = format!("{error:#}");
            let text = format!("the settings stay as they are: {reason}");
            self.log.event(Level::Warn, &text, &[]);
            Answer::NotReloaded { reason }
        });
        self.manager.ready(&self.status()).await;
        answer
    }

    async fn try_reload(&mut self) -> Result<Answer> {
        let began = Instant::now();
        let old = Rc::clone(&self.application.settings);
        let (named, again) = (self.application.named.display(), self.application.again());
        let what = format!("{named} or its file of settings");
        let look = self.housekeeping.look(what, old.boot_timeout, again);
        let mut new = look.await?.share();
        new.given = self.application.given.clone();
        let changes = old.changes(&new.settings);
        new.settings = Rc::new(old.reloaded(&new.settings));
        // What lets larger requests in takes larger slots, and those are made with their generation.
        let grows = slot_bytes(&new.settings) > slot_bytes(&old);
        let generation = grows || changes.iter().any(|one| one.reload == Reload::Generation);
        let generation = match generation {
            true => {
                self.settle(&queue::Change::Reload).await;
                let launched = self.launch(&new).await;
                launched.with_context(|| {
                    let (given_up, serving) = (self.latest, self.serving);
                    format!("generation {given_up} is given up, generation {serving} serves on")
                })?;
                Some(self.latest)
            }
            false => None,
        };
        self.front.apply(Rc::clone(&new.settings));
        self.supervisor
            .keep_to(new.settings.boot_timeout, new.drain_timeout());
        self.application = new;
        let changes: Vec<Changed> = changes.into_iter().map(Into::into).collect();
        let told: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let text = match told.is_empty() {
            true => "the settings were read anew, and none has changed".to_owned(),
            false => format!("the settings were read anew: {}", told.join("; ")),
        };
        self.log.event(Level::Info, &text, &[]);
        Ok(Answer::Reloaded {
            changes,
            generation,
            seconds: began.elapsed().as_secs_f64(),
        })
    }
}
