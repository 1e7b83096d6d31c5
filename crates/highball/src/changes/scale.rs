//! Another number of workers while the server runs: more or fewer in place, with the code that is loaded. It restarts no
//! worker. The number holds for later generations and for the server of an upgrade, until the settings have another one; where
//! they have a range, `scale default` has the number follow the load again.

use std::rc::Rc;

use front::log::Level;
use supervisor::{Scale, WorkerCount, scale_of};

use crate::application::counted;
use crate::changes::no_application;
use crate::control::messages::Progress;
use crate::control::queue::ScaleTo;
use crate::hosted::Hosted;
use crate::server::Server;

/// Gives the application of this name, or the only one, another number of workers; by the settings all if none is named.
pub(super) async fn scale(server: &Server, name: Option<&str>, to: ScaleTo) -> Progress {
    let all = server.hosted.iter();
    let concerned: Vec<_> = all
        .filter(|one| name.is_none() || one.name().as_deref() == name)
        .collect();
    match (&*concerned, name) {
        ([], Some(name)) => Progress::failed(no_application(server, name)),
        ([_, _, ..], _) if to != ScaleTo::Setting => {
            let text = "this server has several applications: name one with --application";
            server
                .log
                .event(Level::Warn, &format!("scale {to}: {text}"), &[]);
            Progress::failed(text)
        }
        (concerned, _) => scale_each(concerned, to).await,
    }
}

async fn scale_each(concerned: &[&Rc<Hosted>], to: ScaleTo) -> Progress {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for hosted in concerned {
        match hosted.scale(to).await {
            Ok(text) => done.push(hosted.named(&text)),
            Err(text) => failed.push(hosted.named(&text)),
        }
    }
    match failed.is_empty() {
        true => Progress::done(done.join("\n") + "\n"),
        false => Progress::failed([failed, done].concat().join("\n")),
    }
}

impl Hosted {
    /// Gives this application another number of workers. Returns what was done; the error says why not.
    async fn scale(&self, to: ScaleTo) -> Result<String, String> {
        let _turn = self.turn.lock().await;
        let settings = Rc::clone(&self.application.borrow().settings);
        let (before, most) = (self.wanted_workers(), settings.most_workers());
        let wanted = match to {
            ScaleTo::Workers(workers) if !(1..=most).contains(&workers) => {
                return Err(format!(
                    "there may be 1 to {most} workers here (setting max_workers), and not {workers}"
                ));
            }
            ScaleTo::Workers(workers) => workers,
            ScaleTo::By(more) => before.saturating_add_signed(more).clamp(1, most),
            // By load it goes on from what there is.
            ScaleTo::Setting => before.clamp(settings.workers.least(), settings.workers.most()),
        };
        let range = settings.workers;
        let scale = match to {
            ScaleTo::Setting => Scale {
                operator: None,
                load: range.is_range().then_some(wanted),
            },
            ScaleTo::Workers(_) | ScaleTo::By(_) => Scale {
                operator: (range.is_range() || wanted != range.least()).then_some(wanted),
                ..scale_of(&self.supervisor)
            },
        };
        let limit = settings.boot_timeout;
        let count = supervisor::scale(&self.supervisor, scale, limit).await;
        let count = count.map_err(|error| error.to_string())?;
        let text = match wanted == before {
            true => format!(
                "{} wanted as before (1 to {most} are possible)",
                are(wanted)
            ),
            false => format!(
                "{} wanted, {before} before (setting workers: {range})",
                are(wanted)
            ),
        };
        self.log().event(Level::Info, &text, &[]);
        if !self.serves() {
            return Ok(format!("{text}; the application starts with them"));
        }
        answer(&text, count).map_err(|rest| {
            format!("{text}; {rest} within {limit:?} (boot_timeout), and the server keeps trying")
        })
    }
}

/// What has come of it so far; the error says what is missing.
fn answer(text: &str, count: WorkerCount) -> Result<String, String> {
    let WorkerCount {
        wanted,
        allowed,
        ready,
    } = count;
    if ready < allowed {
        return Err(format!("{ready} of {allowed} serve"));
    }
    Ok(match allowed < wanted {
        true => format!(
            "{text}; {ready} of {wanted} serve now, the rest start one by one as memory_budget allows"
        ),
        false => format!("{text}; {wanted} serve"),
    })
}

/// So many workers, as the subject of a sentence with its verb.
pub(super) fn are(workers: u16) -> String {
    let verb = if workers == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(workers.into(), "worker"))
}
