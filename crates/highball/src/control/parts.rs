//! The routes of the operators' API that show a part of the status: workers, routes of the applications, and what was recorded
//! of these. They only read.

use std::rc::Rc;
use std::time::Instant;

use admin::{Answer, Call, Problem, Routes, json};
use http::StatusCode;
use serde::Serialize;
use supervisor::{Generation, Process, Role};

use crate::control::recordings::recording;
use crate::control::report::{ApplicationReport, Report, ReportSource, Thread, Workers};
use crate::control::routes::RouteReport;
use crate::experiments::ExperimentReport;

/// A part of the status of each application.
#[derive(Serialize)]
struct Parts<T> {
    applications: Vec<Part<T>>,
}

/// A part of the status of one application.
#[derive(Serialize)]
struct Part<T> {
    /// Its name; empty for the only one.
    application: String,
    #[serde(flatten)]
    part: T,
}

/// The workers of an application.
#[derive(Serialize)]
struct WorkersPart {
    workers: Workers,
    saturation: f64,
    generations: Vec<Generation>,
    processes: Vec<Process>,
    threads: Vec<Thread>,
}

/// The routes of an application.
#[derive(Serialize)]
struct RoutesPart {
    routes: Vec<RouteReport>,
}

/// The experiment of an application, if there is or was one.
#[derive(Serialize)]
struct ExperimentPart {
    experiment: Option<ExperimentReport>,
}

/// Adds the routes.
pub(crate) fn add(routes: Routes, report: &Rc<ReportSource>) -> Routes {
    let [of_workers, of_routes, of_recordings, of_experiments] =
        [(); 4].map(|()| Rc::clone(report));
    // The server records from now on.
    let since = Instant::now();
    routes
        .get("/v1/workers", move |call| {
            show(call, Rc::clone(&of_workers), workers)
        })
        .get("/v1/routes", move |call| {
            show(call, Rc::clone(&of_routes), |report| RoutesPart {
                routes: report.routes,
            })
        })
        .get("/v1/experiment", move |call| {
            show(call, Rc::clone(&of_experiments), |report| ExperimentPart {
                experiment: report.experiment,
            })
        })
        .get("/v1/recording", move |call| {
            show(call, Rc::clone(&of_recordings), move |report| {
                recording(&report, since.elapsed())
            })
        })
}

async fn show<T: Serialize>(
    call: Call,
    report: Rc<ReportSource>,
    part: impl Fn(ApplicationReport) -> T,
) -> Result<Answer, Problem> {
    let wanted = call.parameter("application").map(str::to_owned);
    let applications = applications(report().await, wanted.as_deref())?;
    let parts = applications.into_iter().map(|(application, report)| Part {
        application,
        part: part(report),
    });
    let applications = parts.collect();
    Ok(json(&Parts { applications }))
}

/// The applications of a report with their names, or the one of this name.
fn applications(
    report: Report,
    wanted: Option<&str>,
) -> Result<Vec<(String, ApplicationReport)>, Problem> {
    let mut all: Vec<_> = match report.applications.is_empty() {
        true => vec![(String::new(), report.all)],
        false => {
            let all = report.applications.into_iter();
            all.map(|one| (one.name, one.own)).collect()
        }
    };
    if let Some(wanted) = wanted {
        all.retain(|(name, _)| name == wanted);
        if all.is_empty() {
            let text = "there is no application of this name: GET /v1/status has them";
            return Err(Problem::new(StatusCode::NOT_FOUND, text));
        }
    }
    Ok(all)
}

fn workers(report: ApplicationReport) -> WorkersPart {
    let mut processes = report.processes;
    processes.retain(|one| one.role == Role::Worker);
    WorkersPart {
        workers: report.workers,
        saturation: report.saturation,
        generations: report.generations,
        processes,
        threads: report.threads,
    }
}
