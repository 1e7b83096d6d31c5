//! What a request's line for people has after its columns: what is unusual, and the fields that somebody asked for.
//! It never breaks lines.

use std::time::Duration;

use config::LogField;

use super::words::{duration, escaped, split};
use crate::log::MAX_FIELD_BYTES;
use crate::log::entry::Entry;
use crate::log::pairs::trace_ids;

/// A request that waited for less is not said to have waited, in milliseconds.
const LEAST_QUEUE: u128 = 10;

/// What is unusual about a request, and the fields that somebody asked for.
pub(super) fn notes(entry: &Entry<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(queue) = entry.queue.filter(|queue| queue.as_millis() >= LEAST_QUEUE) {
        notes.push(format!(" queue={}", duration(queue)));
    }
    // An error of the application has lines of its own.
    if !matches!(entry.outcome, "ok" | "app_error") {
        notes.push(format!(" {}", entry.outcome));
    }
    let texts = [
        (LogField::Client, "client", entry.client.map(str::as_bytes)),
        (LogField::Host, "host", entry.host),
        (
            LogField::Protocol,
            "protocol",
            entry.protocol.map(str::as_bytes),
        ),
        (LogField::UserAgent, "user_agent", entry.user_agent),
        (LogField::Referer, "referer", entry.referer),
    ];
    for (field, key, value) in texts {
        if entry.fields.contains(field) {
            let value = value.map_or("-".to_owned(), |value| escaped(value, MAX_FIELD_BYTES));
            let mut words = split(format!("{key}={value}").as_bytes());
            if let Some(first) = words.first_mut() {
                first.insert(0, ' ');
            }
            notes.extend(words);
        }
    }
    for (field, key, id) in trace_ids(entry) {
        if entry.fields.contains(field) {
            notes.push(format!(" {key}={}", id.as_deref().unwrap_or("-")));
        }
    }
    if entry.fields.contains(LogField::Encoding) {
        notes.push(format!(" encoding={}", entry.encoding.unwrap_or("-")));
    }
    if entry.fields.contains(LogField::BytesIn) {
        let bytes = entry
            .bytes_in
            .map_or("-".to_owned(), |bytes| bytes.to_string());
        notes.push(format!(" bytes_in={bytes}"));
    }
    notes.extend(measures(entry));
    notes
}

/// What the request cost its worker, as far as somebody asked for it.
fn measures(entry: &Entry<'_>) -> impl Iterator<Item = String> {
    let known = entry.measures.unwrap_or_default();
    let time = |time_ns: u64| duration(Duration::from_nanos(time_ns));
    let route = Some(escaped(known.route, MAX_FIELD_BYTES)).filter(|route| !route.is_empty());
    let [gc, cpu] = [known.gc_ns, known.cpu_ns].map(|ns| entry.measures.map(|_| time(ns)));
    let allocations = entry.measures.map(|_| known.allocations.to_string());
    let notes = [
        (LogField::Route, "route", route),
        (LogField::DbMs, "db", known.db_ns.map(time)),
        (LogField::ViewMs, "view", known.view_ns.map(time)),
        (LogField::GcMs, "gc", gc),
        (LogField::CpuMs, "cpu", cpu),
        (LogField::LockMs, "lock", known.lock_wait_ns.map(time)),
        (LogField::Allocations, "allocations", allocations),
        (
            LogField::Queries,
            "queries",
            known.queries.map(|queries| queries.to_string()),
        ),
    ];
    let fields = entry.fields;
    let wanted = notes
        .into_iter()
        .filter(move |(field, ..)| fields.contains(*field));
    wanted.map(|(_, key, value)| format!(" {key}={}", value.as_deref().unwrap_or("-")))
}
