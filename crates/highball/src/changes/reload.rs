//! A reload: opens the file of the log and reads the settings again, and applies each change in place or with a new generation
//! of workers. A wrong file, or a new generation that does not come up, changes no setting.

use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, Result};
use config::Reload;
use front::log::Level;
use front::slot_bytes;

use crate::changes::restart::Restarts;
use crate::control::messages::Answer;
use crate::control::queue::Change;

/// Reads the settings again and applies them.
pub(crate) async fn reload(restarts: &mut Restarts) -> Answer {
    let server = Rc::clone(&restarts.server);
    server.manager.reloading().await;
    server.log.reopen();
    let answer = try_reload(restarts).await.unwrap_or_else(|error| {
        let text = format!("the settings are unchanged: {error:#}");
        server.log.event(Level::Warn, &text, &[]);
        Answer::Failed(text)
    });
    server.manager.ready(&restarts.status()).await;
    answer
}

async fn try_reload(restarts: &mut Restarts) -> Result<Answer> {
    let began = Instant::now();
    let server = Rc::clone(&restarts.server);
    let application = &restarts.application;
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
            restarts.wait_for_previous(&Change::Reload).await;
            let launched = restarts.launch(&new).await;
            launched.with_context(|| restarts.kept())?;
            Some(restarts.latest)
        }
        false => None,
    };
    server.front.apply(Rc::clone(&new.settings));
    server
        .supervisor
        .apply_settings(new.settings.boot_timeout, new.drain_timeout());
    restarts.application = new;
    let lines: Vec<String> = changes.iter().map(shown).collect();
    let text = match lines.is_empty() {
        true => "read the settings again: nothing has changed".to_owned(),
        false => format!("read the settings again: {}", lines.join("; ")),
    };
    server.log.event(Level::Info, &text, &[]);
    let mut done = match lines.is_empty() {
        true => "no setting has changed\n".to_owned(),
        false => lines.join("\n") + "\n",
    };
    if let Some(generation) = generation {
        let seconds = began.elapsed().as_secs_f64();
        done += &format!("generation {generation} serves with them after {seconds:.2} s\n");
    }
    Ok(Answer::Done(done))
}

/// A changed setting, and whether the server uses the new value.
fn shown(change: &config::Change) -> String {
    let config::Change { name, from, to, .. } = change;
    let hint = match change.reload {
        Reload::Start => " (not applied: needs highball upgrade or a new start)",
        Reload::AtOnce | Reload::Generation => "",
    };
    format!("{name}: {from} -> {to}{hint}")
}
