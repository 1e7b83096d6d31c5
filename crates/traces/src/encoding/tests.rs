//! Exports are read with the types of the OpenTelemetry project.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;

use super::*;
use crate::context::{Context, Parent};

const PARENT: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn resource(name: &str) -> Arc<Resource> {
    Arc::new(Resource::new(Some(name), None, None, "web1", &|_| None).unwrap())
}

fn request(resource: &Arc<Resource>) -> RequestSpans {
    let random = std::array::from_fn(|at| at as u8);
    RequestSpans {
        context: Context::new(Parent::parse(PARENT), true, random),
        tracestate: "rojo=1".to_owned(),
        resource: Arc::clone(resource),
        name: "GET /books/:id".to_owned(),
        epoch_ns: 1_000_000,
        whole: (100, 900),
        queue: Some((200, 300)),
        app: Some((300, 800)),
        attributes: vec![
            ("http.response.status_code", Value::Number(500)),
            ("url.path", Value::text(b"/books/7")),
        ],
        app_attributes: vec![("highball.db.duration", Value::Decimal(0.25))],
        failed: true,
    }
}

fn decoded(requests: &[RequestSpans]) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest::decode(encode(requests)).unwrap()
}

fn value(attributes: &[KeyValue], name: &str) -> Option<any_value::Value> {
    let found = attributes.iter().find(|one| one.key == name)?;
    found.value.clone().and_then(|AnyValue { value }| value)
}

fn times(span: &Span) -> (u64, u64) {
    (span.start_time_unix_nano, span.end_time_unix_nano)
}

#[test]
fn a_request_is_a_server_span_with_its_queue_and_its_application() {
    let export = decoded(&[request(&resource("shop"))]);
    let [only] = &export.resource_spans[..] else {
        panic!("{export:?}");
    };
    let name = value(&only.resource.as_ref().unwrap().attributes, "service.name");
    assert_eq!(name, Some(any_value::Value::StringValue("shop".to_owned())));
    assert_eq!(only.scope_spans[0].scope.as_ref().unwrap().name, "highball");
    let [server, queue, app] = &only.scope_spans[0].spans[..] else {
        panic!("{export:?}");
    };
    assert_eq!(server.kind, SpanKind::Server as i32);
    assert_eq!(server.name, "GET /books/:id");
    assert_eq!(server.trace_state, "rojo=1");
    assert_eq!(
        server.parent_span_id,
        [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]
    );
    assert_eq!(server.flags, 0x301);
    assert_eq!(
        server.status.as_ref().unwrap().code,
        StatusCode::Error as i32
    );
    assert_eq!(times(server), (1_000_100, 1_000_900));
    let status = value(&server.attributes, "http.response.status_code");
    assert_eq!(status, Some(any_value::Value::IntValue(500)));
    for (child, name) in [(queue, "queue"), (app, "app")] {
        assert_eq!(child.name, name);
        assert_eq!(child.kind, SpanKind::Internal as i32);
        assert_eq!(child.parent_span_id, server.span_id);
        assert_eq!(child.trace_id, server.trace_id);
        assert_eq!(child.flags, 0x101);
        assert!(child.status.is_none());
    }
    assert_eq!(times(queue), (1_000_200, 1_000_300));
    assert_eq!(times(app), (1_000_300, 1_000_800));
    let db = value(&app.attributes, "highball.db.duration");
    assert_eq!(db, Some(any_value::Value::DoubleValue(0.25)));
    let ids = [server, queue, app].map(|span| span.span_id.clone());
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
}

#[test]
fn spans_of_one_application_share_its_resource() {
    let (shop, wiki) = (resource("shop"), resource("wiki"));
    let export = decoded(&[request(&shop), request(&wiki), request(&shop)]);
    let counts = export.resource_spans.iter();
    let counts: Vec<_> = counts.map(|one| one.scope_spans[0].spans.len()).collect();
    assert_eq!(counts, [6, 3]);
}

#[test]
fn a_span_never_ends_before_it_begins() {
    let mut odd = request(&resource("shop"));
    odd.whole = (900, 100);
    odd.context.parent = None;
    let export = decoded(&[odd]);
    let server = &export.resource_spans[0].scope_spans[0].spans[0];
    assert_eq!(times(server), (1_000_900, 1_000_900));
    assert_eq!((server.flags, server.parent_span_id.len()), (0x101, 0));
}

#[test]
fn an_answer_says_how_many_spans_were_rejected() {
    let answer = |rejected_spans| {
        let partial = ExportTracePartialSuccess {
            rejected_spans,
            error_message: "no room".to_owned(),
        };
        let answer = ExportTraceServiceResponse {
            partial_success: Some(partial),
        };
        rejected(&answer.encode_to_vec())
    };
    assert_eq!(answer(3), Some((3, "no room".to_owned())));
    assert_eq!(answer(0), None);
    assert_eq!(answer(-1), None);
    assert_eq!(rejected(b""), None);
    assert_eq!(rejected(b"<html>"), None);
}
