//! Changes of a running server, made one after the other: a restart loads an application's code again, a reload the
//! settings, an upgrade the program. Whether a new generation may take over is the supervisor's decision.

pub(crate) mod active_threads;
pub(crate) mod autoscale;
pub(crate) mod boot;
pub(crate) mod control_folder;
pub(crate) mod experiment;
pub(crate) mod handover;
pub(crate) mod idle;
pub(crate) mod predecessor;
pub(crate) mod refork;
pub(crate) mod reload;
pub(crate) mod restart;
pub(crate) mod restart_file;
pub(crate) mod saved_state;
pub(crate) mod scale;
pub(crate) mod successor;
pub(crate) mod upgrade;

use std::rc::Rc;
use std::time::Duration;

use front::log::Level;

use crate::changes::successor::Successor;
use crate::changes::upgrade::Upgrades;
use crate::control::messages::Progress;
use crate::control::queue::{Change, ChangeQueue};
use crate::hosted::Hosted;
use crate::server::Server;
use crate::setup::Setup;

/// Makes the changes that are requested.
pub(crate) struct Changes {
    pub(crate) server: Rc<Server>,
    /// What the server was started with, and its settings as they are now.
    pub(crate) setup: Setup,
    pub(crate) upgrades: Upgrades,
}

impl Changes {
    /// Makes the requested changes, one at a time, until another program has taken over; requests that wait then are for
    /// that one.
    ///
    /// All requests for the change that begins are answered by it. A request that comes while a change is being made gets
    /// another one after it, with code and settings as they are then.
    pub(crate) async fn run(mut self, queue: &ChangeQueue) -> Successor {
        loop {
            queue.unblock();
            let first = queue.first().await;
            experiment::end_because_of(&first, &self.concerned(&first));
            // A reload waits only if it needs a new generation.
            if first != Change::Reload && !self.is_about_experiment(&first) {
                self.wait_for_predecessor(&first).await;
                // One that is loaded for the first time may hang, and the others need not wait for it.
                for hosted in self
                    .concerned(&first)
                    .into_iter()
                    .filter(|one| one.serves())
                {
                    wait_for_previous(&self.server, hosted).await;
                }
            }
            let change = queue.first().await;
            queue.begin(&change, self.progress(&change));
            let (answer, successor) = match &change {
                Change::Restart(_) => (self.restart(&change).await, None),
                Change::Reload => (reload::reload(&mut self).await, None),
                Change::Scale { application, to } => (
                    scale::scale(&self.server, application.as_deref(), *to).await,
                    None,
                ),
                Change::Experiment(request) => {
                    (experiment::start(&self.server, request).await, None)
                }
                Change::EndExperiment(name) => {
                    (experiment::stop(&self.server, name.as_deref()).await, None)
                }
                Change::Refork(name) => (refork::refork(&self.server, name.as_deref()).await, None),
                Change::Upgrade(binary) => {
                    let limit = self.boot_timeouts();
                    let descriptors = self.setup.child_environment().descriptors;
                    let upgrade = self.upgrades.upgrade(limit, descriptors, binary.as_deref());
                    upgrade.await
                }
            };
            queue.finish(&answer);
            if let Some(successor) = successor {
                return successor;
            }
        }
    }

    /// Whether a change ends an experiment that runs, or is refused because of it: neither waits for its end.
    fn is_about_experiment(&self, change: &Change) -> bool {
        let concerned = self.concerned(change);
        let mut runs = concerned
            .iter()
            .map(|one| supervisor::is_experimenting(&one.supervisor));
        matches!(change, Change::Experiment(_) | Change::EndExperiment(_)) && runs.any(|runs| runs)
    }

    /// The applications that a change is for; those that serve come first.
    fn concerned(&self, change: &Change) -> Vec<&Rc<Hosted>> {
        let all = self.server.hosted.iter();
        let mut concerned: Vec<_> = all.filter(|one| concerns(change, one)).collect();
        concerned.sort_by_key(|one| !one.serves());
        concerned
    }

    /// Restarts one application or all, one after the other. One that does not come up keeps no other from it.
    async fn restart(&self, change: &Change) -> Progress {
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for hosted in self.concerned(change) {
            // Another one of them may have been begun since.
            wait_for_previous(&self.server, hosted).await;
            match hosted.restart().await {
                Ok(text) => done.push(text),
                Err(text) => failed.push(text),
            }
        }
        if !done.is_empty() {
            control_folder::follow(&self.server, &self.setup).await;
        }
        if let (Change::Restart(Some(name)), true) = (change, done.is_empty() && failed.is_empty())
        {
            return Progress::failed(no_application(&self.server, name));
        }
        match failed.is_empty() {
            true => Progress::done(done.join("\n") + "\n"),
            false => Progress::failed([failed, done].concat().join("\n")),
        }
    }

    /// Waits until the previous server is gone, for at most `drain_timeout`: there are never more than two at once. Tells the
    /// requesters of changes what they wait for.
    pub(crate) async fn wait_for_predecessor(&self, change: &Change) {
        let server = &self.server;
        if server.predecessor.is_awaited() {
            let limit = self.server.drain_timeout();
            let text = block(
                &server.queue,
                "the previous server finishes its requests",
                limit,
            );
            let text = format!("{change} waiting: {text}");
            server.log.event(Level::Info, &text, &[]);
            server.predecessor.wait(limit).await;
        }
        server.queue.unblock();
    }

    /// The time that all applications have to load, one after the other.
    fn boot_timeouts(&self) -> Duration {
        let all = self.server.hosted.iter();
        all.map(|one| one.front.settings().boot_timeout).sum()
    }

    /// The reason that requesters get who wait while a change is being made.
    fn progress(&self, change: &Change) -> String {
        let limit = self.boot_timeouts();
        format!("{change} in progress, at most {limit:?} (boot_timeout) for each of its steps")
    }
}

/// Whether a change is one of this application.
fn concerns(change: &Change, hosted: &Hosted) -> bool {
    match change {
        Change::Restart(Some(name))
        | Change::Refork(Some(name))
        | Change::EndExperiment(Some(name))
        | Change::Scale {
            application: Some(name),
            ..
        } => hosted.name().as_ref() == Some(name),
        Change::Experiment(request) => {
            let name = request.application.as_ref();
            name.is_none_or(|name| hosted.name().as_ref() == Some(name))
        }
        Change::Restart(None)
        | Change::Refork(None)
        | Change::EndExperiment(None)
        | Change::Reload
        | Change::Scale { .. }
        | Change::Upgrade(_) => true,
    }
}

/// The message about an application that is not there.
fn no_application(server: &Server, name: &str) -> String {
    let name = name.escape_debug();
    let names = server.hosted.iter().filter_map(|one| one.name());
    let names: Vec<_> = names.collect();
    match names.is_empty() {
        true => {
            format!("there is no application {name}: this server has a single one, without a name")
        }
        false => format!(
            "there is no application {name}; there are {}",
            names.join(", ")
        ),
    }
}

/// Waits until the previous generation of an application is gone: there are never more than two at once. Tells the requesters
/// of changes what they wait for.
pub(crate) async fn wait_for_previous(server: &Server, hosted: &Hosted) {
    if let Some((generation, rest)) = hosted.supervisor.unsettled() {
        let all = hosted.supervisor.generations();
        let own = all.iter().find(|one| one.number == generation);
        let does = match own.is_some_and(|own| own.state == "draining") {
            true => "finishes its requests",
            false => "is starting",
        };
        let what = hosted.named(&format!("generation {generation} {does}"));
        block(&server.queue, &what, rest);
        hosted.supervisor.settled().await;
    }
    server.queue.unblock();
}

/// Tells the requesters of changes what they wait for.
fn block(queue: &ChangeQueue, what: &str, rest: Duration) -> String {
    let seconds = rest.as_secs_f64().ceil();
    let text = format!("{what}, for at most {seconds} s");
    queue.block(text.clone());
    text
}
