//! From the status to what the dashboard shows. Every figure of the moment is the one of `status --json`. Pure.

use dashboard::{Application, Cache, Certificate, Model, Queue, Server, Thread, Worker};
use supervisor::{Process, Role};

use crate::control::report::{ApplicationReport, NamedReport, Report};
use crate::dashboard::applications::applications;
use crate::dashboard::history::History;
use crate::dashboard::routes::routes;

/// What the dashboard shows of this status.
pub(super) fn model(report: &Report, history: &History) -> Model {
    let several = &report.applications;
    let applications = applications(report).into_iter();
    Model {
        server: server(report),
        applications: applications
            .map(|(name, own)| {
                let named = several.iter().find(|one| one.name == name);
                Application {
                    hosts: named.map(hosts).unwrap_or_default(),
                    dir: named.map_or(&report.dir, |named| &named.dir).clone(),
                    measured: history.of(name),
                    routes: routes(&own.totals, |route| history.rate(name, route)),
                    ..application(name, own)
                }
            })
            .collect(),
        measured: history.all(),
        marks: history.marks(),
        certificates: certificates(report),
        outcomes: report.all.counters.clone(),
        responses: report.all.responses.clone(),
        ..Model::default()
    }
}

/// The server of this status.
pub(super) fn server(report: &Report) -> Server {
    let mut processes = report.all.processes.iter();
    let front = processes.find(|one| one.role == Role::Front);
    Server {
        version: report.version.clone(),
        pid: report.pid,
        state: report.state.clone(),
        dir: report.dir.clone(),
        now: report.now,
        started: front.map_or(report.now, |front| front.started),
        listeners: report.listeners.clone(),
        connections: report.connections as u64,
    }
}

/// The hosts of an application, each with its prefix.
fn hosts(named: &NamedReport) -> Vec<String> {
    let prefix = &named.prefix;
    let hosts = named.hosts.iter();
    match named.hosts.is_empty() && !prefix.is_empty() {
        true => vec![format!("any host{prefix}")],
        false => hosts.map(|host| format!("{host}{prefix}")).collect(),
    }
}

fn application(name: &str, report: &ApplicationReport) -> Application {
    let processes = report.processes.iter();
    Application {
        name: name.to_owned(),
        environment: report.environment.clone(),
        queue: Queue {
            length: report.queue.length as u64,
            longest: report.queue.longest as u64,
            limit: report.queue.limit as u64,
            oldest_ms: None,
        },
        workers: processes
            .filter_map(|process| worker(process, report))
            .collect(),
        next_start_s: report.next_start_s,
        cache: report.cache.as_ref().map(|cache| Cache {
            targets: cache.targets as u64,
            bytes: cache.bytes,
            limit_bytes: cache.limit_bytes,
            hits: cache.hits + cache.stale + cache.validated,
            misses: cache.misses,
        }),
        outcomes: report.counters.clone(),
        responses: report.responses.clone(),
        ..Application::default()
    }
}

fn worker(process: &Process, report: &ApplicationReport) -> Option<Worker> {
    let (number, generation) = (process.worker?, process.generation?);
    let threads = report.threads.iter();
    let own = threads.filter(|one| (one.worker, one.generation) == (number, generation));
    let thread = |one: &crate::control::report::Thread| Thread {
        number: one.thread,
        state: one.state.clone(),
        request: one
            .method
            .iter()
            .zip(&one.path)
            .map(|(method, path)| format!("{method} {path}"))
            .next(),
        since_ms: one.since_ms,
    };
    Some(Worker {
        number,
        generation,
        pid: process.pid,
        state: process.state.clone(),
        started: process.started,
        requests: process.requests.unwrap_or_default(),
        pss_bytes: process.memory.map(|memory| memory.pss_bytes),
        private_bytes: process.memory_bytes,
        threads: own.map(thread).collect(),
    })
}

/// The certificates in use, and those that the server orders and does not have.
fn certificates(report: &Report) -> Vec<Certificate> {
    let in_use = report.certificates.iter().map(|one| Certificate {
        names: one.names.clone(),
        ends: one.ends.clone(),
        warning: one.warning.clone(),
    });
    let ordered = report.acme.iter().filter_map(|one| {
        let warning = Some(one.warning.clone()?);
        Some(Certificate {
            names: one.names.clone(),
            ends: "ordered".to_owned(),
            warning,
        })
    });
    in_use.chain(ordered).collect()
}
