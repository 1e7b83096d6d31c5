//! The encoders of an edge: one for whole bodies on its own thread, and a bounded number for bodies that are encoded on
//! their way, on a few threads. Where there is no place for one more, there is none; no body waits.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::available_parallelism;

use bytes::Bytes;

use super::accept::Coding;
use super::encoder::{Padding, STREAM_ENCODER_BYTES, StreamEncoder, WholeEncoder};
use super::stream::EncodedStream;
use crate::serve::file_threads::FileThreads;
use crate::shared_bytes::{Share, SharedBytes};

/// The most bodies that are encoded on their way at the same time.
const MAX_STREAMS: usize = 64;
/// The most threads that encode them; one on two cores.
const MAX_THREADS: usize = 4;

/// What compresses the responses of an edge. It takes no memory before the first one.
pub struct Encoders {
    whole: RefCell<WholeEncoder>,
    padding: RefCell<Padding>,
    threads: OnceCell<Option<Rc<FileThreads>>>,
    /// The memory of encoders of streams.
    streams: Arc<SharedBytes>,
}

impl Default for Encoders {
    fn default() -> Self {
        Self {
            whole: RefCell::default(),
            padding: RefCell::default(),
            threads: OnceCell::new(),
            streams: SharedBytes::new(MAX_STREAMS * STREAM_ENCODER_BYTES),
        }
    }
}

impl Encoders {
    /// Returns a whole body in this coding; none where it would be no shorter.
    pub fn encode(&self, coding: Coding, plain: &[u8]) -> Option<Bytes> {
        let padding = self.padding.borrow_mut().draw();
        self.whole.borrow_mut().encode(coding, plain, padding)
    }

    /// Returns what encodes a body on its way; none where too many are encoded already, or memory for responses is short.
    pub fn begin(&self, coding: Coding, responses: &SharedBytes) -> Option<EncodedStream> {
        let mut share = Share::default();
        if responses.is_short() || !share.grow(&self.streams, STREAM_ENCODER_BYTES) {
            return None;
        }
        let threads = self.threads.get_or_init(|| {
            let cores = available_parallelism().map_or(1, usize::from);
            let count = (cores / 2).clamp(1, MAX_THREADS);
            FileThreads::new("compression", count).ok().map(Rc::new)
        });
        let padding = self.padding.borrow_mut().draw();
        let encoder = StreamEncoder::new(coding, padding).ok()?;
        Some(EncodedStream::new(
            Rc::clone(threads.as_ref()?),
            encoder,
            share,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_beyond_the_bound_are_left_alone_until_another_ends() {
        let (encoders, responses) = (Encoders::default(), SharedBytes::new(1));
        let begin = || encoders.begin(Coding::Gzip, &responses);
        let mut all: Vec<_> = (0..MAX_STREAMS).map(|_| begin().unwrap()).collect();
        assert!(begin().is_none());
        all.pop();
        assert!(begin().is_some());
    }

    #[test]
    fn no_body_is_encoded_on_its_way_while_memory_is_short() {
        let short = SharedBytes::new(0);
        assert!(Encoders::default().begin(Coding::Gzip, &short).is_none());
    }
}
