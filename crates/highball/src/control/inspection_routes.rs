//! The routes of the API that say where time goes: slow requests, profiles, backtraces, garbage collectors. They change
//! nothing.

use std::pin::pin;

use admin::{Answer, Call, Problem, Routes, json, lines};
use exchange::control::ProfileMode;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use supervisor::MAX_PROFILE;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::control::inspections::{Inspected, Inspection, InspectionRequest, Wanted};
use crate::control::messages::HEARTBEAT;

/// The body of `POST /v1/profile`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProfileRequest {
    /// How long to sample.
    pub(crate) seconds: u32,
    /// Which time counts.
    pub(crate) mode: ProfileMode,
    /// The application's name; by default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) application: Option<String>,
    /// The worker's number; by default the worker that has finished most requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<u16>,
}

impl Default for ProfileRequest {
    fn default() -> Self {
        Self {
            seconds: 10,
            mode: ProfileMode::Cpu,
            application: None,
            worker: None,
        }
    }
}

/// A line of the answer to `POST /v1/profile`. The last line says how it ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum ProfileProgress<P> {
    /// A sign of life; the end is still to come.
    Working,
    /// There is none.
    Failed {
        /// Why.
        message: String,
    },
    /// It was taken.
    Done {
        /// The profile.
        profile: P,
    },
}

type Sink = mpsc::Sender<InspectionRequest>;

/// Adds them to the table of routes.
pub(crate) fn add(routes: Routes, sink: &Sink) -> Routes {
    let [list, one, profiles, backtraces, gc] = [(); 5].map(|()| sink.clone());
    routes
        .get("/v1/slow", move |call| {
            read(call, Wanted::Slow { number: None }, list.clone())
        })
        .get("/v1/slow/{number}", move |call| slow(call, one.clone()))
        .post("/v1/profile", move |call| profile(call, profiles.clone()))
        .get("/v1/backtraces", move |call| {
            read(call, Wanted::Backtraces, backtraces.clone())
        })
        .get("/v1/gc", move |call| read(call, Wanted::Gc, gc.clone()))
}

async fn slow(call: Call, sink: Sink) -> Result<Answer, Problem> {
    let number = call.part().parse().map_err(|_| {
        Problem::bad_request("name a slow request by its number in the list: /v1/slow/1")
    })?;
    let number = Some(number);
    read(call, Wanted::Slow { number }, sink).await
}

/// Answers a question. The query may name an application and a worker.
async fn read(call: Call, what: Wanted, sink: Sink) -> Result<Answer, Problem> {
    let worker = call.parameter("worker").map(str::parse).transpose();
    let question = Inspection {
        what,
        application: call.parameter("application").map(str::to_owned),
        worker: worker.map_err(|_| Problem::bad_request("worker must be a worker's number"))?,
    };
    let inspected = InspectionRequest::send(question, &sink).await;
    let problem = |reason| Problem::new(StatusCode::NOT_FOUND, reason);
    inspected.map(|answer| json(&answer)).map_err(problem)
}

async fn profile(call: Call, sink: Sink) -> Result<Answer, Problem> {
    let ProfileRequest {
        seconds,
        mode,
        application,
        worker,
    } = call.json()?;
    let most = MAX_PROFILE.as_secs();
    if !(1..=most).contains(&seconds.into()) {
        let text = format!("seconds must be 1 to {most}");
        return Err(Problem::bad_request(text));
    }
    let milliseconds = seconds * 1000;
    let question = Inspection {
        what: Wanted::Profile { milliseconds, mode },
        application,
        worker,
    };
    let (lines, answer) = lines();
    spawn_local(async move {
        let mut asked = pin!(InspectionRequest::send(question, &sink));
        let inspected = loop {
            tokio::select! {
                inspected = &mut asked => break inspected,
                () = tokio::time::sleep(HEARTBEAT) => {}
            }
            let sign: ProfileProgress<Inspected> = ProfileProgress::Working;
            if lines.send(&sign).await.is_err() {
                return;
            }
        };
        let last = match inspected {
            Ok(profile) => ProfileProgress::Done { profile },
            Err(message) => ProfileProgress::Failed { message },
        };
        // A client that has left misses only the answer.
        let _ = lines.send(&last).await;
    });
    Ok(answer)
}
