//! A request's body on a stream, as the service reads it. It opens the client's window again for what was read, and keeps the
//! limit of bodies.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame};

use super::stream::ClientStream;
use crate::http::client_side::ClientSide;
use crate::http::screen::Refusal;

/// The body ended before its time: the client reset its stream, or it was refused.
#[derive(Debug, thiserror::Error)]
#[error("the body was cut")]
pub(super) struct BodyCut;

/// A request's body.
pub(super) struct RequestBody {
    receive: RecvStream,
    stream: Rc<ClientStream>,
    /// Bytes that may still come.
    left: u64,
}

impl RequestBody {
    /// Returns the body of a stream, of which at most `limit` bytes are read.
    pub(super) fn new(receive: RecvStream, stream: Rc<ClientStream>, limit: u64) -> Self {
        Self {
            receive,
            stream,
            left: limit,
        }
    }

    fn take(&mut self, bytes: Bytes) -> Result<Frame<Bytes>, BodyCut> {
        self.stream.upload.note_received(bytes.len());
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            self.stream.refuse(Refusal {
                status: 413,
                reason: "the body is too large",
            });
            return Err(BodyCut);
        };
        self.left = left;
        // An error says that the stream is gone: the next read says so too.
        let _ = self.receive.flow_control().release_capacity(bytes.len());
        Ok(Frame::data(bytes))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        self.stream.begin_reading();
        if self.stream.refusal().is_some() {
            return Poll::Ready(Some(Err(BodyCut)));
        }
        let read = match ready!(self.receive.poll_data(cx)) {
            Some(Ok(bytes)) => Some(self.take(bytes)),
            Some(Err(_)) => Some(Err(BodyCut)),
            None => None,
        };
        if !matches!(read, Some(Ok(_))) {
            self.stream.upload.set_reading(false);
        }
        Poll::Ready(read)
    }

    fn is_end_stream(&self) -> bool {
        self.receive.is_end_stream()
    }
}
