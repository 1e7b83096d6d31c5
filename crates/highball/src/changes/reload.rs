//! A reload: reads the settings again, and applies each change in place or with a new generation of workers. A wrong file
//! changes no setting; an application whose new generation does not come up keeps its settings.

use std::rc::Rc;
use std::time::Instant;

use anyhow::Result;
use config::{ApplicationTable, Reload, SETTINGS, Scope, Settings};
use front::log::Level;
use front::slot_bytes;
use supervisor::{Scale, scale_of, set_scale};

use crate::application::Application;
use crate::changes::{Changes, wait_for_previous};
use crate::control::messages::Progress;
use crate::control::queue::Change;
use crate::hosted::Hosted;
use crate::setup::Setup;

/// Reads the settings again and applies them.
pub(crate) async fn reload(changes: &mut Changes) -> Progress {
    let server = Rc::clone(&changes.server);
    server.manager.reloading().await;
    let answer = try_reload(changes).await.unwrap_or_else(|error| {
        let text = format!("the settings are unchanged: {error:#}");
        server.log.event(Level::Warn, &text, &[]);
        Progress::failed(text)
    });
    server.manager.ready(&server.status()).await;
    answer
}

/// What a reload has done so far.
#[derive(Default)]
struct Outcome {
    /// Changed settings.
    lines: Vec<String>,
    /// New generations.
    generations: Vec<String>,
    /// Applications that keep their settings, and why.
    failed: Vec<String>,
}

async fn try_reload(changes: &mut Changes) -> Result<Progress> {
    let began = Instant::now();
    let server = Rc::clone(&changes.server);
    let setup = &changes.setup;
    let what = format!("{} or its file of settings", setup.named.display());
    let limit = setup.settings.boot_timeout;
    let look = server.housekeeping.look(what, limit, setup.again());
    let mut new = look.await?.share();
    new.keep_child_environment(setup);
    let mut outcome = Outcome::default();
    let alone = setup.applications[0].table.is_none();
    if !alone {
        let own = setup.settings.changes(&new.settings);
        let own = own.iter().filter(|one| is_of_the_server(one.name));
        outcome.lines.extend(own.map(shown));
    }
    outcome.lines.extend(other_applications(setup, &new));
    outcome.lines.extend(other_users(setup, &new));
    new.settings = Rc::new(setup.settings.reloaded(&new.settings));
    for hosted in &server.hosted {
        let mut all = new.applications.iter();
        let Some(read) = all.find(|one| one.name() == hosted.name().as_deref()) else {
            continue;
        };
        if let Err(error) = apply(changes, hosted, read, began, &mut outcome).await {
            let error = error.context(hosted.kept());
            if alone {
                return Err(error);
            }
            let text = format!("{error:#}");
            let text = hosted.named(&format!("the settings are unchanged: {text}"));
            server.log.event(Level::Warn, &text, &[]);
            outcome.failed.push(text);
        }
    }
    if alone {
        new.settings = Rc::clone(&server.hosted[0].application.borrow().settings);
    }
    let hosted = server.hosted.iter();
    let settings: Vec<_> = hosted
        .map(|one| Rc::clone(&one.application.borrow().settings))
        .collect();
    let applied = server.front.apply(Rc::clone(&new.settings), &settings);
    applied.await;
    if let Err(error) = server.operators.apply(&new.settings, &new.dir) {
        let text = format!("the earlier tokens stay: {error:#}");
        server.log.event(Level::Warn, &text, &[]);
        outcome.failed.push(text);
    }
    // Applications come and go with an upgrade.
    new.applications = std::mem::take(&mut changes.setup.applications);
    changes.setup = new;
    let text = match outcome.lines.is_empty() {
        true => "read the settings again: nothing has changed".to_owned(),
        false => format!("read the settings again: {}", outcome.lines.join("; ")),
    };
    server.log.event(Level::Info, &text, &[]);
    Ok(outcome.answer())
}

/// Gives an application its settings as they were read, with a new generation where that is needed.
///
/// # Errors
/// The new generation did not come up; nothing has changed.
async fn apply(
    changes: &Changes,
    hosted: &Hosted,
    read: &Application,
    began: Instant,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut new = read.clone();
    let application = hosted.application.borrow().clone();
    // What only an upgrade changes.
    new.table.clone_from(&application.table);
    new.named.clone_from(&application.named);
    let old = &application.settings;
    let mut changed = old.changes(&read.settings);
    if new.table.is_some() {
        changed.retain(|one| !is_of_the_server(one.name));
    }
    new.settings = Rc::new(old.reloaded(&read.settings));
    // Larger requests need larger slots, which only a new exchange has.
    let grows = slot_bytes(&new.settings) > slot_bytes(old);
    let needs_generation = grows || changed.iter().any(|one| one.reload == Reload::Generation);
    // The file has the last word.
    let is_resized = changed
        .iter()
        .any(|one| matches!(one.name, "workers" | "max_workers"));
    if needs_generation {
        changes.wait_for_predecessor(&Change::Reload).await;
        wait_for_previous(&changes.server, hosted).await;
        let _turn = hosted.turn.lock().await;
        // A stopped one has them when it starts.
        if !hosted.is_stopped.get() {
            let before = scale_of(&hosted.supervisor);
            if is_resized {
                forget_operator(hosted, &new.settings);
            }
            let launched = hosted.launch(&new).await;
            hosted.count_restart(launched.is_ok());
            launched.inspect_err(|_| set_scale(&hosted.supervisor, before))?;
            let (generation, seconds) = (hosted.latest.get(), began.elapsed().as_secs_f64());
            let text = format!("generation {generation} serves with them after {seconds:.2} s");
            outcome.generations.push(hosted.named(&text));
        }
    }
    if is_resized {
        forget_operator(hosted, &new.settings);
    }
    hosted
        .supervisor
        .apply_settings(new.settings.boot_timeout, new.drain_timeout());
    let lines = changed.iter().map(|one| hosted.named(&shown(one)));
    outcome.lines.extend(lines);
    *hosted.application.borrow_mut() = new;
    Ok(())
}

/// The number of workers is that of these settings, or within their range that by load.
fn forget_operator(hosted: &Hosted, settings: &Settings) {
    let range = settings.workers;
    let load = scale_of(&hosted.supervisor).load;
    let load = load.filter(|_| range.is_range());
    let scale = Scale {
        operator: None,
        load: load.map(|load| load.clamp(range.least(), range.most())),
    };
    set_scale(&hosted.supervisor, scale);
}

/// What has changed in the tables of applications beside settings.
fn other_applications(old: &Setup, new: &Setup) -> Option<String> {
    let tables = |setup: &Setup| -> Vec<_> {
        let all = setup.applications.iter();
        let all = all.map(|one| {
            // They have lines of their own.
            one.table.clone().map(|table| ApplicationTable {
                user: None,
                group: None,
                ..table
            })
        });
        all.collect()
    };
    let hint = "the applications, their folders, hosts, prefixes or variables have changed (not applied: needs highball \
                upgrade or a new start)";
    (tables(old) != tables(new)).then(|| hint.to_owned())
}

/// The users of applications that have changed, a line each. Only root can start processes of another user.
fn other_users(old: &Setup, new: &Setup) -> Vec<String> {
    let mut lines = Vec::new();
    for before in old.applications.iter().filter_map(|one| one.table.as_ref()) {
        let mut all = new.applications.iter().filter_map(|one| one.table.as_ref());
        let Some(now) = all.find(|one| one.name == before.name) else {
            continue;
        };
        let name = &before.name;
        for (key, from, to) in [
            ("user", &before.user, &now.user),
            ("group", &before.group, &now.group),
        ] {
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
            if from != to {
                let (from, to) = (shown(from), shown(to));
                lines.push(format!(
                    "{name}: {key}: {from} -> {to} (not applied: stop the server and start it again as root)"
                ));
            }
        }
    }
    lines
}

fn is_of_the_server(name: &str) -> bool {
    let setting = SETTINGS.iter().find(|setting| setting.name == name);
    setting.is_some_and(|setting| setting.scope == Scope::Server)
}

impl Outcome {
    fn answer(self) -> Progress {
        let mut lines = match self.lines.is_empty() {
            true => vec!["no setting has changed".to_owned()],
            false => self.lines,
        };
        lines.extend(self.generations);
        match self.failed.is_empty() {
            true => Progress::done(lines.join("\n") + "\n"),
            false => Progress::failed([self.failed, lines].concat().join("\n")),
        }
    }
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
