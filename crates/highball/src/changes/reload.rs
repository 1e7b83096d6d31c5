//! A reload: reads the settings again, and applies each change in place or with a new generation of workers. A wrong file,
//! or a new generation that does not come up, changes nothing.

use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result};
use config::Reload;
use front::log::Level;
use front::slot_bytes;

use crate::changes::restart::Generations;
use crate::control::messages::{Answer, ChangedSetting};
use crate::control::queue::Change;

/// Reads the settings again and applies them.
pub(crate) async fn reload(generations: &mut Generations) -> Answer {
    let server = Rc::clone(&generations.server);
    server.manager.reloading().await;
    let answer = try_reload(generations).await.unwrap_or_else(|error| {
        let reason = format!("{error:#}");
        let text = format!("the settings are unchanged: {reason}");
        server.log.event(Level::Warn, &text, &[]);
        Answer::NotReloaded { reason }
    });
    server.manager.ready(&generations.status()).await;
    answer
}

async fn try_reload(generations: &mut Generations) -> Result<Answer> {
    let began = Instant::now();
    let server = Rc::clone(&generations.server);
    let application = &generations.application;
    let old = Rc::clone(&application.settings);
    let what = format!("{} or its file of settings", application.named.display());
    let look = server
        .housekeeping
        .look(what, old.boot_timeout, application.again());
    let mut new = look.await?.share();
    new.child_environment = application.child_environment.clone();
    let changes = old.changes(&new.settings);
    new.settings = Rc::new(old.reloaded(&new.settings));
    // Larger requests need larger slots, which only a new exchange has.
    let grows = slot_bytes(&new.settings) > slot_bytes(&old);
    let needs_generation = grows || changes.iter().any(|one| one.reload == Reload::Generation);
    let generation = match needs_generation {
        true => {
            generations.wait_for_previous(&Change::Reload).await;
            let launched = generations.launch(&new).await;
            launched.with_context(|| {
                let (failed, serving) = (generations.latest, generations.serving);
                format!("generation {failed} failed, generation {serving} keeps serving")
            })?;
            Some(generations.latest)
        }
        false => None,
    };
    server.front.apply(Rc::clone(&new.settings));
    server
        .supervisor
        .apply_settings(new.settings.boot_timeout, new.drain_timeout());
    generations.application = new;
    let changes: Vec<ChangedSetting> = changes.into_iter().map(Into::into).collect();
    let lines: Vec<String> = changes.iter().map(ToString::to_string).collect();
    let text = match lines.is_empty() {
        true => "read the settings again: nothing has changed".to_owned(),
        false => format!("read the settings again: {}", lines.join("; ")),
    };
    server.log.event(Level::Info, &text, &[]);
    Ok(Answer::Reloaded {
        changes,
        generation,
        seconds: began.elapsed().as_secs_f64(),
    })
}
