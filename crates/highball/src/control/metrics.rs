//! `GET /metrics`: the status and the measures of requests as Prometheus reads them. It only reads.
//!
//! Names are those that Prometheus' rules ask for; where OpenTelemetry has another one, the help says it.

use std::collections::BTreeMap;
use std::rc::Rc;

use admin::{Answer, Call, Problem, Routes, text};
use http::header::ACCEPT;
use metrics::{
    ApplicationTotals, CostTotals, EventCounter, EventTotals, Exposition, Format, Kind,
    OF_APPLICATION, OF_SERVER, RouteTotals,
};
use supervisor::{Process, Role};

use crate::control::custom_metrics;
use crate::control::process_memory;
use crate::control::recent::Recent;
use crate::control::report::{ApplicationReport, Report};
use crate::control::reporter::Reporter;
use crate::control::worker_metrics;
use crate::totals::ServerTotals;

/// The label of the only application.
const ONLY: &str = "default";

/// Adds the route, for everybody who reaches `metrics_listen`.
pub(crate) fn add(routes: Routes, reporter: &Rc<Reporter>) -> Routes {
    let (reporter, recent) = (Rc::clone(reporter), Rc::new(Recent::default()));
    routes.open("/metrics", move |call| {
        answer(Rc::clone(&reporter), Rc::clone(&recent), call)
    })
}

async fn answer(reporter: Rc<Reporter>, recent: Rc<Recent>, call: Call) -> Result<Answer, Problem> {
    let accept = call.head().headers.get(ACCEPT);
    let format = Format::of_accept(accept.and_then(|accept| accept.to_str().ok()));
    let make = async || {
        let report = reporter.report().await;
        exposed(&report, &reporter.totals(), format)
    };
    let body = recent.get(format.content_type(), make).await;
    Ok(text(format.content_type(), body))
}

/// The text.
fn exposed(report: &Report, totals: &ServerTotals, format: Format) -> String {
    let mut out = Exposition::new(format);
    let named: Vec<_> = totals
        .applications
        .iter()
        .map(|(name, one)| (label(name), one))
        .collect();
    requests(&mut out, &named);
    costs(&mut out, &named);
    let of_applications = named.iter().map(|(name, one)| (Some(*name), &one.events));
    events(&mut out, &OF_APPLICATION, of_applications.collect());
    events(&mut out, &OF_SERVER, vec![(None, &totals.events)]);
    let only = [(ONLY, &report.all)];
    let several = report.applications.iter();
    let several: Vec<_> = several.map(|one| (&*one.name, &one.own)).collect();
    let applications = if several.is_empty() {
        &only[..]
    } else {
        &several
    };
    gauges(&mut out, applications);
    worker_metrics::expose(&mut out, applications);
    process_memory::expose(&mut out, report, applications);
    caches(&mut out, applications, &named);
    server(&mut out, report);
    custom_metrics::expose(&mut out, &named);
    out.finish()
}

fn label(name: &str) -> &str {
    if name.is_empty() { ONLY } else { name }
}

/// How many requests there were, and how long they took.
fn requests(out: &mut Exposition, applications: &[(&str, &ApplicationTotals)]) {
    out.metric(
        "highball_requests_total",
        Kind::Counter,
        "Requests that have ended, by outcome; each is one line of the access log.",
    );
    for (name, totals) in applications {
        for (outcome, count) in &totals.outcomes {
            out.count(&[("application", name), ("outcome", outcome)], *count);
        }
    }
    out.metric(
        "highball_request_duration_seconds",
        Kind::Histogram,
        "From the arrival of a request to the end of its response, by route and class of the status \
         (OpenTelemetry: http.server.request.duration).",
    );
    for (name, route, totals) in routes(applications) {
        for (class, times) in &totals.whole {
            let labels = [("application", name), ("route", route), ("class", class)];
            out.histogram(&labels, times);
        }
    }
    out.metric(
        "highball_app_duration_seconds",
        Kind::Histogram,
        "The time of a request in the application, by route.",
    );
    for (name, route, totals) in routes(applications) {
        if totals.app.count() > 0 {
            out.histogram(&[("application", name), ("route", route)], &totals.app);
        }
    }
    out.metric(
        "highball_queue_duration_seconds",
        Kind::Histogram,
        "How long requests waited for a thread: the best sign of too little capacity.",
    );
    for (name, totals) in applications {
        out.histogram(&[("application", name)], &totals.queue);
    }
    out.metric(
        "highball_route_errors_total",
        Kind::Counter,
        "Requests that went wrong: their status was 5xx, or they did not end.",
    );
    for (name, route, totals) in routes(applications) {
        out.count(&[("application", name), ("route", route)], totals.failed);
    }
}

/// A sum of what requests cost: its metric, what that says, the figure, and how many of it are one.
type Cost = (&'static str, &'static str, fn(&CostTotals) -> u64, f64);

const COSTS: [Cost; 7] = [
    (
        "highball_measured_requests_total",
        "Requests whose worker said what they cost.",
        |cost| cost.requests,
        1.0,
    ),
    (
        "highball_cpu_seconds_total",
        "CPU time of the threads that ran the requests.",
        |cost| cost.cpu_ns,
        1e9,
    ),
    (
        "highball_gc_seconds_total",
        "Garbage collection during the requests; with several threads to a worker it is that of the process.",
        |cost| cost.gc_ns,
        1e9,
    ),
    (
        "highball_allocations_total",
        "Objects allocated during the requests; with several threads to a worker they are those of the process.",
        |cost| cost.allocations,
        1.0,
    ),
    (
        "highball_db_seconds_total",
        "Time in the database.",
        |cost| cost.db_ns,
        1e9,
    ),
    (
        "highball_view_seconds_total",
        "Time in views.",
        |cost| cost.view_ns,
        1e9,
    ),
    (
        "highball_queries_total",
        "Queries of the database.",
        |cost| cost.queries,
        1.0,
    ),
];

/// What requests cost. Rubies before 3.3 do not tell how long threads wait for their lock.
fn costs(out: &mut Exposition, applications: &[(&str, &ApplicationTotals)]) {
    for (metric, help, figure, unit) in COSTS {
        out.metric(metric, Kind::Counter, help);
        for (name, route, totals) in routes(applications) {
            if totals.cost.requests > 0 {
                let labels = [("application", name), ("route", route)];
                out.sample(&labels, figure(&totals.cost) as f64 / unit);
            }
        }
    }
    let known = |totals: &RouteTotals| totals.cost.lock_known > 0;
    if routes(applications).any(|(.., totals)| known(totals)) {
        out.metric(
            "highball_lock_wait_seconds_total",
            Kind::Counter,
            "Time in which the threads that ran the requests waited for Ruby's lock.",
        );
    }
    for (name, route, totals) in routes(applications).filter(|(.., totals)| known(totals)) {
        let labels = [("application", name), ("route", route)];
        out.sample(&labels, totals.cost.lock_wait_ns as f64 / 1e9);
    }
}

/// What happened beside requests, of applications or of the server.
fn events(
    out: &mut Exposition,
    counters: &[&EventCounter],
    counted: Vec<(Option<&str>, &EventTotals)>,
) {
    for counter in counters {
        out.metric(counter.metric, Kind::Counter, counter.help);
        for (application, totals) in &counted {
            let application = application.map(|name| ("application", name));
            for (values, count) in totals.get(counter.metric).into_iter().flatten() {
                let own = counter.labels.iter().copied().zip(values.split('/'));
                let labels: Vec<_> = application.into_iter().chain(own).collect();
                out.count(&labels, *count);
            }
        }
    }
}

fn routes<'a>(
    applications: &'a [(&'a str, &'a ApplicationTotals)],
) -> impl Iterator<Item = (&'a str, &'a str, &'a RouteTotals)> {
    applications.iter().flat_map(|(name, totals)| {
        let routes = totals.routes.iter();
        routes.map(move |(route, totals)| (*name, &**route, totals))
    })
}

/// Queue, threads and workers of each application.
fn gauges(out: &mut Exposition, applications: &[(&str, &ApplicationReport)]) {
    let mut gauge = |metric: &str, help: &str, of: fn(&ApplicationReport) -> f64| {
        out.metric(metric, Kind::Gauge, help);
        for (name, one) in applications {
            out.sample(&[("application", name)], of(one));
        }
    };
    gauge(
        "highball_queue_length",
        "Requests that wait for a thread now.",
        |one| one.queue.length as f64,
    );
    gauge(
        "highball_queue_limit",
        "Requests that may wait; more get 503.",
        |one| one.queue.limit as f64,
    );
    gauge(
        "highball_queue_age_seconds",
        "How long the oldest of the waiting requests has waited; 0 where none waits.",
        |one| one.queue.age_s,
    );
    gauge("highball_threads", "Threads of ready workers.", |one| {
        one.threads.len() as f64
    });
    gauge(
        "highball_busy_threads",
        "Threads that run a request, or what follows one.",
        busy,
    );
    gauge(
        "highball_saturation_ratio",
        "Busy threads as a part of all; above 1 by requests that wait.",
        |one| one.saturation,
    );
    gauge(
        "highball_generation",
        "The generation that was started last: it counts restarts.",
        |one| {
            let numbers = one.generations.iter().map(|generation| generation.number);
            numbers.max().unwrap_or(0).into()
        },
    );
    gauge(
        "highball_ready_workers",
        "Workers that serve requests.",
        |one| {
            let ready =
                |process: &&Process| process.role == Role::Worker && process.state == "ready";
            one.processes.iter().filter(ready).count() as f64
        },
    );
}

fn busy(application: &ApplicationReport) -> f64 {
    let busy = application.threads.iter();
    busy.filter(|thread| thread.state != "idle").count() as f64
}

/// The response caches.
fn caches(
    out: &mut Exposition,
    applications: &[(&str, &ApplicationReport)],
    counted: &[(&str, &ApplicationTotals)],
) {
    let cached = applications.iter();
    let cached: Vec<_> = cached
        .filter_map(|(name, one)| Some((*name, one.cache.as_ref()?)))
        .collect();
    if cached.is_empty() {
        return;
    }
    out.metric(
        "highball_cache_bytes",
        Kind::Gauge,
        "Bytes of stored responses.",
    );
    for (name, cache) in &cached {
        out.count(&[("application", name)], cache.bytes);
    }
    out.metric(
        "highball_cache_responses_total",
        Kind::Counter,
        "Requests that the response cache has looked at, by what became of them.",
    );
    for (name, totals) in counted {
        for (result, count) in &totals.cache {
            out.count(&[("application", name), ("result", result)], *count);
        }
    }
}

/// The server as a whole.
fn server(out: &mut Exposition, report: &Report) {
    out.metric(
        "highball_connections",
        Kind::Gauge,
        "Open connections of clients.",
    );
    out.count(&[], report.connections as u64);
    out.metric(
        "highball_info",
        Kind::Gauge,
        "The version of the server, as a label.",
    );
    out.count(&[("version", &report.version)], 1);
    if !report.spans.is_empty() {
        out.metric(
            "highball_spans_total",
            Kind::Counter,
            "Spans of requests, by what became of them: sent, or lost for one of the other reasons.",
        );
        for (result, count) in &report.spans {
            out.count(&[("result", result)], *count);
        }
    }
    if report.certificates.is_empty() {
        return;
    }
    out.metric(
        "highball_certificate_end_timestamp_seconds",
        Kind::Gauge,
        "When a certificate of TLS ends, by its first name.",
    );
    let mut ends: BTreeMap<&str, i64> = BTreeMap::new();
    for certificate in &report.certificates {
        let name = certificate.names.first().map_or("", |name| name);
        ends.insert(name, certificate.ends_s);
    }
    for (name, end) in ends {
        out.sample(&[("name", name)], end as f64);
    }
}
