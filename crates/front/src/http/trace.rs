//! The trace of a request (W3C Trace Context): continued or begun when its head has come, and named in the log. It sends no
//! span.

use std::borrow::Cow;
use std::sync::Arc;

use exchange::scheduling::monotonic_ns;
use http::header::{HeaderMap, HeaderName};
use traces::{Context, Parent, Ratio, SpanId, TraceId, is_sound_tracestate};

use crate::http::request::Request;
use crate::http::request_trace::RequestTrace;
use crate::http::transaction::Transaction;
use crate::random::random;

/// The field that names the client's span.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The field with what else systems of tracing say of it.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Continues or begins the trace of a request that has only just come, where its application's requests are traced.
pub fn begin(transaction: &mut Transaction) {
    let Some(tracer) = transaction.application.tracer.get() else {
        return;
    };
    let settings = transaction.application.settings.get();
    // Nobody else has it yet.
    let Some(request) = Arc::get_mut(&mut transaction.request) else {
        return;
    };
    let parent = parent(&request.headers);
    // A client that nobody trusts may be in a trace, but decides nothing.
    let trusted = parent.filter(|_| request.peer.trusted);
    let ratio = Ratio::millionths(settings.trace_sample);
    let (now_ns, random) = (monotonic_ns(), random());
    // As OpenTelemetry's own samplers do, by the id of a trace that begins here.
    let number = u64::from_ne_bytes(std::array::from_fn(|at| random[at]));
    let sampled = tracer.sampler.at_head(trusted, ratio, number, now_ns);
    request.trace = Some(Box::new(RequestTrace {
        context: Context::new(parent, sampled, random),
        began_ns: now_ns,
    }));
}

/// What the client says of its trace; none where the field is missing, wrong, or there twice.
fn parent(fields: &HeaderMap) -> Option<Parent> {
    let mut all = fields.get_all(TRACEPARENT).iter();
    match (all.next(), all.next()) {
        (Some(only), None) => Parent::parse(only.as_bytes()),
        _ => None,
    }
}

/// What the client says in `tracestate`, where it is in a trace and that is sound; else empty.
pub fn tracestate(request: &Request) -> Cow<'_, [u8]> {
    let trace = request.trace.as_ref();
    let continued = trace.is_some_and(|trace| trace.context.parent.is_some());
    if !continued {
        return Cow::Borrowed(b"");
    }
    let mut all = request.headers.get_all(TRACESTATE).iter();
    let Some(first) = all.next() else {
        return Cow::Borrowed(b"");
    };
    let mut joined = Cow::Borrowed(first.as_bytes());
    for more in all {
        joined.to_mut().push(b',');
        joined.to_mut().extend_from_slice(more.as_bytes());
    }
    match is_sound_tracestate(&joined) {
        true => joined,
        false => Cow::Borrowed(b""),
    }
}

/// The trace of a request and its span there, by which logs name it: where it is not traced here, those of the client.
pub fn ids(request: &Request) -> Option<(TraceId, SpanId)> {
    if let Some(trace) = &request.trace {
        return Some((trace.context.trace_id, trace.context.span_id));
    }
    let parent = parent(&request.headers)?;
    Some((parent.trace_id, parent.span_id))
}

/// Whether the front says a field itself, for a request that has a trace.
pub fn is_replaced(name: &HeaderName) -> bool {
    *name == TRACEPARENT || *name == TRACESTATE
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_that_is_there_twice_is_none() {
        let mut fields = HeaderMap::new();
        assert!(parent(&fields).is_none());
        fields.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert!(parent(&fields).is_some());
        fields.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert!(parent(&fields).is_none());
    }
}
