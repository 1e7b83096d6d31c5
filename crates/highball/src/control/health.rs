//! Whether the server works and whether it can serve, for probes. No application and no database is asked.

use std::cell::Cell;
use std::rc::Rc;

use admin::{Answer, json};
use http::StatusCode;
use serde::Serialize;

use crate::control::agent_check::{AgentSource, AgentState};
use crate::hosted::Hosted;

/// What is known of the server's health.
pub(crate) struct Health {
    /// `booting`, `serving`, `replaced` or `stopping`.
    pub(crate) state: Rc<Cell<&'static str>>,
    pub(crate) hosted: Vec<Rc<Hosted>>,
}

/// Whether the server can serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Readiness {
    /// Whether clients should send requests here.
    pub(crate) ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
}

impl Health {
    /// Whether the server can serve: it is not to stop, and workers of one application at least can take requests, or would
    /// start with the first one.
    pub(crate) fn readiness(&self) -> Readiness {
        let reason = match self.state.get() {
            // The server that has replaced it serves, and gets the next connection.
            "replaced" => None,
            "serving" if self.hosted.iter().any(|one| can_serve(one)) => None,
            "serving" => Some("no worker can serve"),
            "booting" => Some("the server is starting"),
            _ => Some("the server is stopping"),
        };
        let ready = reason.is_none();
        Readiness { ready, reason }
    }

    /// What agent checks tell.
    pub(crate) fn agent_source(self: &Rc<Self>) -> Rc<AgentSource> {
        let [state, saturation] = [(); 2].map(|()| Rc::clone(self));
        Rc::new(AgentSource {
            state: Box::new(move || state.agent_state()),
            saturation: Box::new(move || saturation.saturation()),
        })
    }

    fn agent_state(&self) -> AgentState {
        match self.readiness().reason {
            None => AgentState::Up,
            // It still serves (`stop_delay`, `drain_timeout`).
            Some(_) if self.state.get() == "stopping" => AgentState::Leaving,
            Some(reason) => AgentState::Down(reason),
        }
    }

    /// How much of the threads is in use, of the application that has the least left.
    fn saturation(&self) -> f64 {
        let all = self.hosted.iter().filter(|one| one.serves());
        let ratios = all.map(|one| one.front.dispatcher().status().saturation.ratio());
        ratios.fold(0.0, f64::max)
    }

    /// The answer to a probe: 200, or 503 if the server cannot serve.
    pub(crate) fn ready(&self) -> Answer {
        let readiness = self.readiness();
        let mut answer = json(&readiness);
        if !readiness.ready {
            *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        answer
    }
}

fn can_serve(hosted: &Hosted) -> bool {
    if hosted.is_stopped.get() {
        return true;
    }
    hosted.serving.get().is_some() && hosted.front.snapshot().next_start_s.is_none()
}

/// The answer to a probe that asks whether the front works: there is one.
pub(crate) fn live() -> Answer {
    json(&serde_json::json!({ "live": true }))
}
