//! The spans of a request that has ended, by the semantic conventions of OpenTelemetry (HTTP, stable), for those that are
//! traced. It sends nothing: the crate `traces` does, on a thread of its own.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use exchange::measures::Measures;
use exchange::scheduling::monotonic_ns;
use http::header::{self, HeaderValue};
use traces::{Attribute, RequestSpans, Tracer, Value};

use crate::failure::Outcome;
use crate::http::ended::Ended;
use crate::http::forwarded;
use crate::http::request::Request;
use crate::http::request_trace::RequestTrace;
use crate::http::trace;

/// The methods that are named as they are; clients can invent as many others as they like.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];
/// What Rails adds to the patterns of its routes.
const FORMAT: &[u8] = b"(.:format)";

/// Has the spans of a request be sent, if it is traced: as decided at its head, or because it failed or was slow. `target`
/// returns its target without secrets.
pub(super) fn record<'a>(ended: &Ended<'a>, target: impl FnOnce() -> Cow<'a, [u8]>) {
    let transaction = ended.transaction;
    let Some(request_trace) = &transaction.request.trace else {
        return;
    };
    let Some(tracer) = transaction.application.tracer.get() else {
        return;
    };
    // The request that it is part of has a span.
    if transaction.client.is_front() {
        return;
    }
    let failed = has_failed(ended);
    if !request_trace.context.sampled {
        if !failed && !is_slow(ended) {
            return;
        }
        if !tracer.sampler.at_end(monotonic_ns()) {
            return tracer.queue.counts().add_rate_limited();
        }
    }
    let spans = spans(ended, request_trace, tracer, &target(), failed);
    tracer.queue.push(spans);
}

/// Whether the server or the application failed.
fn has_failed(ended: &Ended<'_>) -> bool {
    let status = ended.sent.status.map_or(0, |status| status.as_u16());
    let lost = matches!(
        ended.outcome,
        Outcome::AppError
            | Outcome::Stopped
            | Outcome::NoWorker
            | Outcome::Expired
            | Outcome::WorkerDied
            | Outcome::Aborted
    );
    lost || status >= 500
}

/// Whether it waited and ran for as long as `slow_request` says.
fn is_slow(ended: &Ended<'_>) -> bool {
    let limit = ended.transaction.application.settings.get().slow_request;
    let took = ended.queue.unwrap_or_default() + ended.app.unwrap_or_default();
    limit.is_some_and(|limit| took >= limit)
}

fn spans(
    ended: &Ended<'_>,
    request_trace: &RequestTrace,
    tracer: &Tracer,
    target: &[u8],
    failed: bool,
) -> RequestSpans {
    let request = &ended.transaction.request;
    let now_ns = monotonic_ns();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_ns = unix.map_or(0, |since| since.as_nanos() as u64);
    let end_ns = match ended.sent.at_ns {
        0 => now_ns,
        at => at,
    };
    let (_, times) = ended.transaction.response.run();
    let claimed = Some(times.claimed_ns).filter(|&at| at != 0);
    let finished = match times.finished_ns {
        0 => end_ns,
        finished => finished,
    };
    // Where no worker had it, it may still have waited for one.
    let submitted = ended.transaction.response.id().and(request.arrived_ns());
    let state = trace::tracestate(request);
    RequestSpans {
        context: request_trace.context.clone(),
        tracestate: String::from_utf8_lossy(&state).into_owned(),
        resource: tracer.resource.clone(),
        name: name(request, route(ended)),
        epoch_ns: unix_ns.saturating_sub(now_ns),
        whole: (request_trace.began_ns, end_ns.max(finished)),
        queue: submitted.map(|arrived| (arrived, claimed.unwrap_or(end_ns))),
        app: claimed.map(|claimed| (claimed, finished)),
        attributes: attributes(ended, target, failed),
        app_attributes: app_attributes(ended),
        failed,
    }
}

/// The route as the framework names it, without what Rails adds to all of them.
fn route<'a>(ended: &Ended<'a>) -> &'a [u8] {
    let route = ended.measures.map_or(&b""[..], |measures| measures.route);
    route.strip_suffix(FORMAT).unwrap_or(route)
}

/// The method and the route, where there is one.
fn name(request: &Request, route: &[u8]) -> String {
    let method = known_method(request).unwrap_or("HTTP");
    match String::from_utf8_lossy(route) {
        route if route.is_empty() => method.to_owned(),
        route => format!("{method} {route}"),
    }
}

fn known_method(request: &Request) -> Option<&str> {
    let method = request.method.as_str();
    METHODS.contains(&method).then_some(method)
}

fn attributes(ended: &Ended<'_>, target: &[u8], failed: bool) -> Vec<Attribute> {
    let transaction = ended.transaction;
    let request = &transaction.request;
    let settings = transaction.application.settings.get();
    let mut parts = target.splitn(2, |&byte| byte == b'?');
    let (path, query) = (parts.next().unwrap_or_default(), parts.next());
    let method = known_method(request).unwrap_or("_OTHER");
    let client = forwarded::client_address(request, &settings.trusted_proxies);
    let client = client.map_or_else(|| request.peer.address.clone(), |one| one.to_string());
    let protocol = request.protocol().trim_start_matches("HTTP/");
    let scheme = forwarded::scheme(&request.headers, &request.peer);
    let number = |number: u64| Value::Number(number.try_into().unwrap_or(i64::MAX));
    let field = |name| request.headers.get(name).map(HeaderValue::as_bytes);
    let status = ended.sent.status.map(|status| status.as_u16());
    let (host, port) = split_host(request.host().unwrap_or_default());
    let route = route(ended);
    let body = request.arrival().map(|arrival| arrival.body.bytes());
    let id = request.id.as_ref().map(HeaderValue::as_bytes);
    let all = [
        ("http.request.method", Some(Value::text(method.as_bytes()))),
        ("url.path", Some(Value::text(path))),
        ("url.query", query.map(Value::text)),
        ("url.scheme", Some(Value::text(scheme.as_bytes()))),
        (
            "http.route",
            route.starts_with(b"/").then(|| Value::text(route)),
        ),
        (
            "http.response.status_code",
            status.map(|status| Value::Number(status.into())),
        ),
        ("error.type", failed.then(|| error_type(ended, status))),
        (
            "server.address",
            (!host.is_empty()).then(|| Value::text(host.as_bytes())),
        ),
        ("server.port", port.map(|port| Value::Number(port.into()))),
        ("client.address", Some(Value::text(client.as_bytes()))),
        (
            "network.protocol.version",
            Some(Value::text(protocol.as_bytes())),
        ),
        (
            "user_agent.original",
            field(header::USER_AGENT).map(Value::text),
        ),
        ("http.request.body.size", body.map(number)),
        ("http.response.body.size", Some(number(ended.sent.bytes))),
        (
            "highball.outcome",
            Some(Value::text(ended.outcome.name().as_bytes())),
        ),
        ("highball.request_id", id.map(Value::text)),
    ];
    let known = all
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    known.chain(ended.measures.iter().flat_map(costs)).collect()
}

/// The host without its port, and that.
fn split_host(authority: &str) -> (&str, Option<u16>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
        _ => (authority, None),
    }
}

/// A status, or how the request ended where that says more.
fn error_type(ended: &Ended<'_>, status: Option<u16>) -> Value {
    match (ended.outcome, status) {
        (Outcome::Ok | Outcome::AppError, Some(status)) => Value::Text(status.to_string()),
        (outcome, _) => Value::text(outcome.name().as_bytes()),
    }
}

/// What the request cost its worker; times in seconds.
fn costs(measures: &Measures<'_>) -> impl Iterator<Item = Attribute> + use<> {
    let seconds = |ns: u64| Value::Decimal(Duration::from_nanos(ns).as_secs_f64());
    let number = |number: u64| Value::Number(number.try_into().unwrap_or(i64::MAX));
    let all = [
        ("highball.db.duration", measures.db_ns.map(seconds)),
        ("highball.view.duration", measures.view_ns.map(seconds)),
        ("highball.gc.duration", Some(seconds(measures.gc_ns))),
        ("highball.cpu.duration", Some(seconds(measures.cpu_ns))),
        (
            "highball.lock_wait.duration",
            measures.lock_wait_ns.map(seconds),
        ),
        ("highball.allocations", Some(number(measures.allocations))),
        (
            "highball.queries",
            measures.queries.map(|queries| number(queries.into())),
        ),
    ];
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
}

/// Who ran it.
fn app_attributes(ended: &Ended<'_>) -> Vec<Attribute> {
    let worker = ended.worker.iter();
    let of = worker.flat_map(|by| {
        [
            ("highball.worker", Value::Number(by.worker.into())),
            ("highball.generation", Value::Number(by.generation.into())),
        ]
    });
    of.collect()
}
