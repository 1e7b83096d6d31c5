//! The spans of one request that has ended, as data. It decides nothing about which requests have
//! any.

use std::sync::Arc;

use crate::context::Context;
use crate::resource::Resource;
use crate::value::Attribute;

/// A part of a request's time: its start and its end, nanoseconds of the monotonic clock.
pub type Interval = (u64, u64);

/// The spans of one request that has ended.
#[derive(Clone, Debug)]
pub struct RequestSpans {
    /// Whose spans they are.
    pub context: Context,
    /// What the client said in `tracestate`.
    pub tracestate: String,
    /// Of what application.
    pub resource: Arc<Resource>,
    /// The span's name.
    pub name: String,
    /// The time of the UNIX epoch at which the monotonic clock was 0, in nanoseconds.
    pub epoch_ns: u64,
    /// From its head to the end of its response.
    pub whole: Interval,
    /// From its whole arrival until a worker had it.
    pub queue: Option<Interval>,
    /// From then until the application had finished.
    pub app: Option<Interval>,
    /// Attributes of the whole.
    pub attributes: Vec<Attribute>,
    /// Attributes of the application's part.
    pub app_attributes: Vec<Attribute>,
    /// Whether the server or the application failed.
    pub failed: bool,
}

impl RequestSpans {
    /// How many spans there are.
    pub fn count(&self) -> u64 {
        1 + u64::from(self.queue.is_some()) + u64::from(self.app.is_some())
    }

    /// How much memory they take, in bytes, without what the allocator adds.
    pub(crate) fn bytes(&self) -> usize {
        let attributes = self.attributes.iter().chain(&self.app_attributes);
        let attributes = attributes.map(|(_, value)| size_of::<Attribute>() + value.bytes());
        let texts = self.tracestate.capacity() + self.name.capacity();
        size_of::<Self>() + texts + attributes.sum::<usize>()
    }
}
