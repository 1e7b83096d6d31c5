//! Traces of requests, as OpenTelemetry defines them: the context that a request brings and hands on, which requests are
//! traced, their spans, and the thread that sends these to a receiver. It knows no connection and no worker.

#![forbid(unsafe_code)]

mod context;
mod counts;
mod encoding;
mod exporter;
mod headers;
mod messages;
mod plan;
mod queue;
mod resource;
mod sampling;
mod sender;
mod span;
mod tracer;
mod tracestate;
mod value;
mod variables;

pub use context::{Context, Parent, SpanId, TraceId};
pub use counts::Counts;
pub use exporter::Exporter;
pub use plan::{Plan, PlanError};
pub use queue::Queue;
pub use resource::{Resource, ResourceError};
pub use sampling::{Ratio, Sampler};
pub use span::{Interval, RequestSpans};
pub use tracer::Tracer;
pub use tracestate::{MAX_TRACESTATE_BYTES, is_sound_tracestate};
pub use value::{Attribute, Value};
pub use variables::Variables;
