//! A reload: the settings read anew, what is different, and how each change takes effect. A file that is broken, or a
//! new generation that does not come up with what it says, changes nothing.

use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result};
use config::Reload;
use front::log::Level;
use front::slot_bytes;

use crate::changes::Changes;
use crate::control::messages::{Answer, ChangedSetting};
use crate::control::queue;

impl Changes {
    /// Reads the settings anew and goes by them.
    pub(crate) async fn reload(&mut self) -> Answer {
        self.manager.reloading().await;
        let answer = self.try_reload().await.unwrap_or_else(|error| {
            let reason = format!("{error:#}");
            let text = format!("the settings are unchanged: {reason}");
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
                    let (failed, serving) = (self.latest, self.serving);
                    format!("generation {failed} failed, generation {serving} keeps serving")
                })?;
                Some(self.latest)
            }
            false => None,
        };
        self.front.apply(Rc::clone(&new.settings));
        self.supervisor
            .apply_settings(new.settings.boot_timeout, new.drain_timeout());
        self.application = new;
        let changes: Vec<ChangedSetting> = changes.into_iter().map(Into::into).collect();
        let told: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let text = match told.is_empty() {
            true => "read the settings again: nothing has changed".to_owned(),
            false => format!("read the settings again: {}", told.join("; ")),
        };
        self.log.event(Level::Info, &text, &[]);
        Ok(Answer::Reloaded {
            changes,
            generation,
            seconds: began.elapsed().as_secs_f64(),
        })
    }
}
