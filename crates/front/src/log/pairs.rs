//! What lines for machines say of a request and of an event: the pairs in their order. It writes no byte itself.

use std::time::Duration;

use config::LogField;

use super::entry::{Entry, Value};
use super::line::Line;
use super::{Level, MAX_FIELD_BYTES, MAX_PATH_BYTES, MAX_TEXT_BYTES};

/// The pairs of a request.
pub(super) fn request(line: &mut Line<'_>, entry: &Entry<'_>) {
    let has = |field| entry.fields.contains(field);
    line.token("method", entry.method);
    line.text("path", entry.path, MAX_PATH_BYTES);
    line.number("status", entry.status.map(u64::from));
    if has(LogField::Bytes) {
        line.number("bytes", Some(entry.bytes));
    }
    if has(LogField::Encoding) {
        match entry.encoding {
            Some(encoding) => line.word("encoding", encoding),
            None => line.number("encoding", None),
        }
    }
    if has(LogField::BytesIn) {
        line.number("bytes_in", entry.bytes_in);
    }
    if has(LogField::QueueMs) {
        line.milliseconds("queue_ms", entry.queue);
    }
    if has(LogField::AppMs) {
        line.milliseconds("app_ms", entry.app);
    }
    line.number("worker", entry.worker.map(u64::from));
    line.number("generation", entry.generation.map(u64::from));
    measures(line, entry);
    if has(LogField::RequestId) {
        line.id(entry.request_id);
    }
    for (field, key, id) in trace_ids(entry) {
        match id {
            Some(id) if has(field) => line.word(key, &id),
            None if has(field) => line.number(key, None),
            _ => {}
        }
    }
    if has(LogField::Client) {
        line.maybe_text("client", entry.client.map(str::as_bytes), MAX_FIELD_BYTES);
    }
    if has(LogField::Host) {
        line.maybe_text("host", entry.host, MAX_FIELD_BYTES);
    }
    if has(LogField::Protocol) {
        line.maybe_text(
            "protocol",
            entry.protocol.map(str::as_bytes),
            MAX_FIELD_BYTES,
        );
    }
    if has(LogField::UserAgent) {
        line.maybe_text("user_agent", entry.user_agent, MAX_FIELD_BYTES);
    }
    if has(LogField::Referer) {
        line.maybe_text("referer", entry.referer, MAX_PATH_BYTES);
    }
    line.word("outcome", entry.outcome);
}

/// The trace of a request and its span there.
pub(super) fn trace_ids(entry: &Entry<'_>) -> [(LogField, &'static str, Option<String>); 2] {
    let trace = entry.trace.map(|(trace, _)| trace.to_string());
    let span = entry.trace.map(|(_, span)| span.to_string());
    [
        (LogField::TraceId, "trace_id", trace),
        (LogField::SpanId, "span_id", span),
    ]
}

/// The pairs of what a request cost its worker.
fn measures(line: &mut Line<'_>, entry: &Entry<'_>) {
    let has = |field| entry.fields.contains(field);
    let known = entry.measures;
    if has(LogField::Route) {
        let route = known.map(|known| known.route);
        let route = route.filter(|route| !route.is_empty());
        line.maybe_text("route", route, MAX_FIELD_BYTES);
    }
    for (field, key, time_ns) in [
        (LogField::DbMs, "db_ms", known.and_then(|known| known.db_ns)),
        (
            LogField::ViewMs,
            "view_ms",
            known.and_then(|known| known.view_ns),
        ),
        (LogField::GcMs, "gc_ms", known.map(|known| known.gc_ns)),
        (LogField::CpuMs, "cpu_ms", known.map(|known| known.cpu_ns)),
        (
            LogField::LockMs,
            "lock_ms",
            known.and_then(|known| known.lock_wait_ns),
        ),
    ] {
        if has(field) {
            line.milliseconds(key, time_ns.map(Duration::from_nanos));
        }
    }
    if has(LogField::Allocations) {
        line.number("allocations", known.map(|known| known.allocations));
    }
    if has(LogField::Queries) {
        let queries = known.and_then(|known| known.queries);
        line.number("queries", queries.map(u64::from));
    }
}

/// The pairs of an event.
pub(super) fn event(line: &mut Line<'_>, level: Level, message: &str, pairs: &[(&str, Value<'_>)]) {
    line.word("level", level.as_str());
    line.text("message", message.as_bytes(), MAX_TEXT_BYTES);
    for (key, value) in pairs {
        match value {
            Value::Number(number) => line.number(key, Some(*number)),
            Value::Text(text) => line.text(key, text.to_string().as_bytes(), MAX_TEXT_BYTES),
        }
    }
}
