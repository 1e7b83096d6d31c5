//! From spans of requests to the bytes of an export, and what its answer says. It sends nothing.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use crate::context::SpanId;
use crate::messages::{
    Any, AnyValue, ExportRequest, ExportResponse, KeyValue, ResourceMessage, ResourceSpans, Scope,
    ScopeSpans, Span, Status,
};
use crate::resource::Resource;
use crate::span::{Interval, RequestSpans};
use crate::value::{Attribute, Value};

/// Kinds of spans.
const INTERNAL: i32 = 1;
const SERVER: i32 = 2;
/// The code of a status that is an error.
const ERROR: i32 = 2;
/// The sender knows whether the parent is remote; and it is.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
/// The flag `sampled` of the trace.
const SAMPLED: u32 = 1;

/// The bytes of an export of these spans.
pub(crate) fn encode(requests: &[RequestSpans]) -> Bytes {
    let mut resources: Vec<(&Arc<Resource>, Vec<Span>)> = Vec::new();
    for request in requests {
        let same = |(known, _): &(&Arc<Resource>, _)| Arc::ptr_eq(known, &request.resource);
        let at = resources.iter().position(same).unwrap_or_else(|| {
            resources.push((&request.resource, Vec::new()));
            resources.len() - 1
        });
        resources[at].1.extend(spans(request));
    }
    let resource_spans = resources.into_iter().map(|(resource, spans)| {
        let attributes = resource.attributes.iter();
        let attributes = attributes.map(|(name, value)| key_value(name, value));
        ResourceSpans {
            resource: Some(ResourceMessage {
                attributes: attributes.collect(),
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(Scope {
                    name: "highball".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                }),
                spans,
            }],
        }
    });
    let export = ExportRequest {
        resource_spans: resource_spans.collect(),
    };
    export.encode_to_vec().into()
}

/// How many spans a receiver has rejected, and why, by the body of an answer that says that it took the export.
pub(crate) fn rejected(body: &[u8]) -> Option<(u64, String)> {
    let partial = ExportResponse::decode(body).ok()?.partial_success?;
    let spans = u64::try_from(partial.rejected_spans).ok()?;
    (spans > 0).then_some((spans, partial.error_message))
}

fn spans(request: &RequestSpans) -> impl Iterator<Item = Span> {
    let context = &request.context;
    let own = (context.span_id, context.parent);
    let mut server = span(request, own, &request.name, SERVER, request.whole);
    server.flags |= match context.parent {
        Some(_) => IS_REMOTE,
        None => 0,
    };
    server.attributes = attributes(&request.attributes);
    server.status = request.failed.then_some(Status { code: ERROR });
    let parent = Some(context.span_id);
    let queue = request.queue.map(|queue| {
        // It needs no random id: nothing else has this one.
        let id = derived(context.span_id, context.app_span_id);
        span(request, (id, parent), "queue", INTERNAL, queue)
    });
    let app = request.app.map(|app| {
        let own = (context.app_span_id, parent);
        let mut app = span(request, own, "app", INTERNAL, app);
        app.attributes = attributes(&request.app_attributes);
        app
    });
    [Some(server), queue, app].into_iter().flatten()
}

fn span(
    request: &RequestSpans,
    (id, parent): (SpanId, Option<SpanId>),
    name: &str,
    kind: i32,
    (start, end): Interval,
) -> Span {
    let sampled = match request.context.sampled {
        true => SAMPLED,
        false => 0,
    };
    Span {
        trace_id: request.context.trace_id.bytes().to_vec(),
        span_id: id.bytes().to_vec(),
        trace_state: request.tracestate.clone(),
        parent_span_id: parent.map_or_else(Vec::new, |parent| parent.bytes().to_vec()),
        name: name.to_owned(),
        kind,
        start_time_unix_nano: request.epoch_ns.saturating_add(start),
        end_time_unix_nano: request.epoch_ns.saturating_add(end.max(start)),
        attributes: Vec::new(),
        status: None,
        flags: sampled | HAS_IS_REMOTE,
    }
}

/// An id that two random ones make.
fn derived(one: SpanId, other: SpanId) -> SpanId {
    let (one, other) = (one.bytes(), other.bytes());
    SpanId::of(std::array::from_fn(|at| one[at].wrapping_add(other[at])))
}

fn attributes(attributes: &[Attribute]) -> Vec<KeyValue> {
    let all = attributes.iter();
    all.map(|(name, value)| key_value(name, value)).collect()
}

fn key_value(name: &str, value: &Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => Any::Text(text.clone()),
        Value::Number(number) => Any::Number(*number),
        Value::Decimal(number) => Any::Decimal(*number),
    };
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
    }
}

#[cfg(test)]
mod tests;
