//! The body that a worker writes: whole in memory, or a stream, and without the coding that the application gave it. It
//! never looks at what the head declares as its length, but for a whole body's.

use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::failure::Failure;
use crate::http::chunked::{self, Decoder};
use crate::http::incoming::{IncomingResponse, Piece};
use crate::http::transaction::Transaction;
use crate::messages::ResponseEnd;

/// What is wrong with a body that the application did not code as it said.
const NOT_CHUNKED: &str = "it says transfer-encoding: chunked, and its body is not chunked";

/// A response that ends before its time; hyper then cuts the connection.
#[derive(Debug, thiserror::Error)]
#[error("the response was cut")]
pub struct Cut;

/// A whole body in several pieces is put into one up to so many bytes; the pieces of a longer one are sent as they are.
const JOINED_BYTES: usize = 64 * 1024;

/// Returns the whole body, where all of it has come and it is neither in a file nor to be: none inside where it is empty. A
/// long one of a declared length that is in pieces is a stream all the same, which saves a copy of it.
///
/// # Errors
/// It is not what its head says.
pub(super) fn take_whole(
    response: &IncomingResponse,
    declared: Option<u64>,
    coded: bool,
) -> Result<Option<Option<Bytes>>, Failure> {
    let mut buffer = response.buffer();
    if coded && buffer.begins_with_chunk() == Some(false) {
        return Err(Failure::BadResponse(NOT_CHUNKED));
    }
    if buffer.end != Some(ResponseEnd::Complete) || buffer.spool.is_some() {
        return Ok(None);
    }
    if coded {
        let whole = chunked::decode_whole(buffer.chunks.pieces())
            .map_err(|_| Failure::BadResponse(NOT_CHUNKED))?;
        return Ok(Some((!whole.is_empty()).then(|| whole.into())));
    }
    if declared.is_some_and(|declared| declared != buffer.chunks.bytes() as u64) {
        return Err(Failure::BadResponse("its length is not its content-length"));
    }
    let long = buffer.chunks.is_in_pieces() && buffer.chunks.bytes() > JOINED_BYTES;
    if long && declared.is_some() {
        return Ok(None);
    }
    Ok(Some(buffer.chunks.pop_all()))
}

/// A body that comes while it is sent.
pub(super) struct WorkerStream {
    decoder: Option<Decoder>,
}

impl WorkerStream {
    /// Returns the body; `coded` says that the application codes it as chunked itself.
    pub(super) fn new(coded: bool) -> Self {
        Self {
            decoder: coded.then(Decoder::default),
        }
    }

    /// Waits for its next piece. None: it has ended, and whole.
    pub(super) fn poll(
        &mut self,
        transaction: &Transaction,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Cut>>> {
        let Transaction { edge, response, .. } = transaction;
        let not_chunked = || {
            transaction.log_invalid_response(NOT_CHUNKED);
            Poll::Ready(Some(Err(Cut)))
        };
        loop {
            let chunk = match ready!(response.poll_piece(&*edge.dispatcher, cx)) {
                Piece::Data(chunk) => chunk,
                Piece::Unreadable => return Poll::Ready(Some(Err(Cut))),
                Piece::End(ResponseEnd::Complete)
                    if self.decoder.as_ref().is_none_or(Decoder::is_complete) =>
                {
                    return Poll::Ready(None);
                }
                Piece::End(ResponseEnd::Complete) => return not_chunked(),
                Piece::End(_) => return Poll::Ready(Some(Err(Cut))),
            };
            match &mut self.decoder {
                None => return Poll::Ready(Some(Ok(chunk))),
                Some(decoder) => match decoder.decode(&chunk) {
                    Ok(decoded) if decoded.is_empty() => {}
                    Ok(decoded) => return Poll::Ready(Some(Ok(Bytes::from(decoded)))),
                    Err(_) => return not_chunked(),
                },
            }
        }
    }
}
