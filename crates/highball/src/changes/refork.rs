//! A new template in place, forked from a worker that has served requests, and workers that are forked from that. It loads no
//! code.

use std::rc::Rc;

use crate::changes::no_application;
use crate::control::messages::Progress;
use crate::hosted::Hosted;
use crate::server::Server;

/// Has a worker of the application with this name fork a new template, by default of each application, one after the other.
pub(super) async fn refork(server: &Server, name: Option<&str>) -> Progress {
    let all = server.hosted.iter();
    let concerned: Vec<_> = all
        .filter(|one| name.is_none() || one.name().as_deref() == name)
        .collect();
    if let ([], Some(name)) = (&*concerned, name) {
        return Progress::failed(no_application(server, name));
    }
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for hosted in concerned {
        match hosted.refork().await {
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
    /// Has a worker of this application fork a new template. Returns what was done; the error says why not.
    async fn refork(self: &Rc<Self>) -> Result<String, String> {
        if !self.serves() {
            return Err("the application does not serve".to_owned());
        }
        let _turn = self.turn.lock().await;
        let reforked = supervisor::refork(&self.supervisor).await;
        let reforked = reforked.map_err(|error| error.to_string())?;
        let (pid, origin) = (reforked.pid, reforked.origin);
        Ok(format!(
            "template (pid {pid}) forked from worker {} after {} requests; all workers are forked from it",
            origin.worker, origin.requests
        ))
    }
}
