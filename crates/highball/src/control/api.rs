//! The routes of the operators' API and what they do: they read the status, and pass on what is asked for. It makes no change
//! itself.

use std::future::ready;
use std::rc::Rc;

use admin::{Answer, Call, Problem, Routes, json, lines, text};
use http::StatusCode;
use tokio::sync::mpsc;
use tokio::task::spawn_local;

use crate::control::change_answer::change;
use crate::control::experiment_routes;
use crate::control::health::{self, Health};
use crate::control::inspection_routes;
use crate::control::inspections::InspectionRequest;
use crate::control::messages::{
    HEARTBEAT, Progress, Purge, Refork, Restart, Scale, StopServer, Upgrade, WantedWorkers,
};
use crate::control::parts;
use crate::control::purges::PurgeRequest;
use crate::control::queue::{Change, ChangeQueue, ScaleTo};
use crate::control::report::{Report, ReportSource};
use crate::system::program::own_pid;
use crate::system::signals::Stop;

/// The description of the API, for programs: OpenAPI 3.1.
const OPENAPI: &str = include_str!("../../../../docs/openapi.json");

/// Where requests go that ask for something to be done.
#[derive(Clone, Debug)]
pub(crate) struct CommandSinks {
    pub(crate) stops: mpsc::Sender<Stop>,
    pub(crate) changes: Rc<ChangeQueue>,
    pub(crate) purges: mpsc::Sender<PurgeRequest>,
    pub(crate) inspections: mpsc::Sender<InspectionRequest>,
}

/// Returns the table of routes: each line is a path of the API.
pub(crate) fn routes(report: Rc<ReportSource>, health: Rc<Health>, sinks: CommandSinks) -> Routes {
    let CommandSinks {
        stops,
        changes,
        purges,
        inspections,
    } = sinks;
    let [restarts, reloads, scales, reforks, upgrades, experiments] =
        [(); 6].map(|()| Rc::clone(&changes));
    let whole = Rc::clone(&report);
    let routes = Routes::default()
        .open("/live", |_| ready(Ok(health::live())))
        .open("/ready", move |_| ready(Ok(health.ready())))
        .get("/v1/openapi.json", |_| {
            ready(Ok(text("application/json", OPENAPI)))
        })
        .get("/v1/status", move |_| status(whole()))
        .post("/v1/restart", move |call| {
            restart(call, Rc::clone(&restarts))
        })
        .post("/v1/reload", move |call| reload(call, Rc::clone(&reloads)))
        .post("/v1/scale", move |call| scale(call, Rc::clone(&scales)))
        .post("/v1/refork", move |call| refork(call, Rc::clone(&reforks)))
        .post("/v1/upgrade", move |call| {
            upgrade(call, Rc::clone(&upgrades))
        })
        .post("/v1/purge", move |call| purge(call, purges.clone()))
        .post("/v1/stop", move |call| stop(call, stops.clone()));
    let routes = experiment_routes::add(routes, &experiments);
    inspection_routes::add(parts::add(routes, &report), &inspections)
}

async fn status(report: impl Future<Output = Report>) -> Result<Answer, Problem> {
    Ok(json(&report.await))
}

async fn restart(call: Call, queue: Rc<ChangeQueue>) -> Result<Answer, Problem> {
    let Restart { application } = call.json()?;
    Ok(change(Change::Restart(application), &queue))
}

async fn reload(call: Call, queue: Rc<ChangeQueue>) -> Result<Answer, Problem> {
    takes_nothing(&call)?;
    Ok(change(Change::Reload, &queue))
}

async fn scale(call: Call, queue: Rc<ChangeQueue>) -> Result<Answer, Problem> {
    let Scale {
        workers,
        application,
    } = call.json()?;
    let to = match workers {
        WantedWorkers::Number(workers) => ScaleTo::Workers(workers),
        WantedWorkers::Word(word) if word == "default" => ScaleTo::Setting,
        WantedWorkers::Word(_) | WantedWorkers::Missing => {
            let text =
                r#"say how many workers there shall be: {"workers":6}, or {"workers":"default"}"#;
            return Err(Problem::bad_request(text));
        }
    };
    Ok(change(Change::Scale { application, to }, &queue))
}

async fn refork(call: Call, queue: Rc<ChangeQueue>) -> Result<Answer, Problem> {
    let Refork { application } = call.json()?;
    Ok(change(Change::Refork(application), &queue))
}

async fn upgrade(call: Call, queue: Rc<ChangeQueue>) -> Result<Answer, Problem> {
    let Upgrade { binary } = call.json()?;
    if binary.is_some() && !call.is_local() {
        let text = "another program is named on the server's machine alone: highball upgrade --binary FILE";
        return Err(Problem::new(StatusCode::FORBIDDEN, text));
    }
    if binary.as_ref().is_some_and(|path| !path.is_absolute()) {
        return Err(Problem::bad_request("binary must be an absolute path"));
    }
    Ok(change(Change::Upgrade(binary), &queue))
}

async fn purge(call: Call, sink: mpsc::Sender<PurgeRequest>) -> Result<Answer, Problem> {
    let what: Option<Purge> = call.json()?;
    let what = what.filter(|what| *what != Purge::All(false));
    let Some(what) = what else {
        let text = r#"say what is to be forgotten: {"all":true}, {"url":...}, {"prefix":...} or {"tag":...}"#;
        return Err(Problem::bad_request(text));
    };
    let (lines, answer) = lines();
    spawn_local(async move {
        let progress = PurgeRequest::send(what, &sink).await;
        // A client that has left misses only the answer.
        let _ = lines.send(&progress).await;
    });
    Ok(answer)
}

async fn stop(call: Call, stops: mpsc::Sender<Stop>) -> Result<Answer, Problem> {
    let StopServer { now } = call.json()?;
    let (lines, answer) = lines();
    spawn_local(async move {
        let stop = if now { Stop::Now } else { Stop::Drain };
        // It fails when the server has ended meanwhile, which is what the client wanted.
        let _ = stops.send(stop).await;
        let pid = own_pid();
        let mut sent = lines.send(&Progress::Stopping { pid }).await;
        while sent.is_ok() {
            tokio::time::sleep(HEARTBEAT).await;
            sent = lines.send(&Progress::Working).await;
        }
    });
    Ok(answer)
}

fn takes_nothing(call: &Call) -> Result<(), Problem> {
    call.json::<serde_json::Map<_, _>>().and_then(|fields| {
        let text = "this path takes no fields";
        fields
            .is_empty()
            .then_some(())
            .ok_or_else(|| Problem::bad_request(text))
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use front::log::{AccessLog, Format};

    use super::*;

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let (stops, _) = mpsc::channel(1);
        let (purges, _) = mpsc::channel(1);
        let sinks = CommandSinks {
            stops,
            changes: Rc::new(ChangeQueue::new(|_| {}, || {})),
            purges,
            inspections: mpsc::channel(1).0,
        };
        let health = Health {
            state: Rc::new(Cell::new("serving")),
            hosted: Vec::new(),
        };
        let report = Rc::new(|| Box::pin(ready(Report::default())) as _);
        let routes = routes(report, Rc::new(health), sinks);
        let routes = crate::control::exceptions::add_routes(routes, &[]);
        let log = AccessLog::new(Format::Logfmt, std::io::sink()).unwrap();
        let routes = crate::control::log_level::add_route(routes, &Rc::new(log));
        let there = routes.iter();
        let mut there: BTreeSet<String> = there
            .map(|route| format!("{} {}", route.method, route.path))
            .collect();
        // Their handlers need a running server. The pages of the dashboard are for people, and no part of the API.
        there.extend(["GET /metrics", "POST /v1/dashboard"].map(str::to_owned));
        let description: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let paths = description["paths"].as_object().unwrap().iter();
        let described: BTreeSet<String> = paths
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().unwrap().keys();
                methods.map(move |method| format!("{} {path}", method.to_uppercase()))
            })
            .collect();
        assert_eq!(there, described);
    }
}
