//! What has come back for one request and was not sent yet: in memory, and beyond that in a file. It knows no worker and
//! no connection.

pub mod chunks;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Method;

use self::chunks::Chunks;
use crate::failure::Failure;
use crate::http::chunked;
use crate::http::response_head::{self, ResponseHead};
use crate::messages::ResponseEnd;
use crate::shared_bytes::{ALWAYS_HELD, Share, SharedBytes};
use crate::spool::{Spool, SpoolError};

/// The most early hints that wait to be sent.
const MAX_HINTS: usize = 16;

/// A response on its way.
#[derive(Default)]
pub struct ResponseBuffer {
    /// Early hints, each ready to be sent.
    pub hints: VecDeque<Vec<u8>>,
    /// The head, until taken.
    pub head: Option<ResponseHead>,
    /// Whether there was one.
    pub had_head: bool,
    /// Whether the application waits for the client.
    pub unbuffered: bool,
    /// Whether the connection took it.
    pub head_taken: bool,
    /// Whether it is a page for everybody, as far as its head says; known where frequent paths are counted.
    pub is_public: bool,
    /// Chunks of the body.
    pub chunks: Chunks,
    /// What outgrew memory; chunks that come after it go there too.
    pub spool: Option<Spool>,
    /// The memory that the spool holds.
    pub spool_share: Share,
    /// The file that is the body.
    pub file: Option<PathBuf>,
    /// The end, once it is known.
    pub end: Option<ResponseEnd>,
    /// What an error of the application said, with its backtrace.
    pub error: Option<String>,
    /// What the request cost its worker, see [`exchange::measures`]; empty where that is not known.
    pub measures: Vec<u8>,
}

impl ResponseBuffer {
    /// Takes early hints. Those that come after the head are dropped, and so are those that come faster than they
    /// are sent.
    pub fn hint(&mut self, hints: impl IntoIterator<Item = Vec<u8>>) {
        if !self.had_head {
            let room = MAX_HINTS.saturating_sub(self.hints.len());
            self.hints.extend(hints.into_iter().take(room));
        }
    }

    /// Keeps the head.
    pub fn put_head(&mut self, head: ResponseHead) {
        self.had_head = true;
        self.unbuffered = head.unbuffered;
        self.head = Some(head);
    }

    /// Takes the head, if it can be sent: where the application codes the body itself, not before the body has begun
    /// (what it promises could be false, which can still be answered then).
    pub fn take_head(&mut self, method: &Method) -> Option<ResponseHead> {
        let head = self.head.as_ref()?;
        let bodyless = response_head::is_bodyless(method, head.status);
        let coded = head.chunked_by_app && self.file.is_none() && !bodyless;
        if coded && self.begins_with_chunk().is_none() {
            return None;
        }
        self.head_taken = true;
        self.head.take()
    }

    /// Whether the body begins with a chunk of the application's own coding; `None` while that is open.
    pub fn begins_with_chunk(&self) -> Option<bool> {
        if self.spool.is_some() {
            // Its beginning may be in the file already; then decoding it shows what it is.
            return Some(true);
        }
        let begins = chunked::begins(self.chunks.pieces());
        begins.or(self.end.map(|_| false))
    }

    /// The next bytes of the spool, as [`Spool::poll_read`]; none where nothing outgrew memory.
    pub fn read_spool(
        &mut self,
        memory: &Arc<SharedBytes>,
        cx: &mut Context<'_>,
    ) -> Option<Poll<Result<Option<Bytes>, SpoolError>>> {
        let spool = self.spool.as_mut()?;
        spool.read_pieces_of(if memory.is_short() {
            ALWAYS_HELD
        } else {
            usize::MAX
        });
        let read = spool.poll_read(cx);
        self.weigh_spool(memory);
        Some(read)
    }

    /// Counts what the spool holds in memory.
    pub fn weigh_spool(&mut self, memory: &Arc<SharedBytes>) {
        let held = self.spool.as_ref().map_or(0, Spool::held);
        self.spool_share.set(memory, held);
    }

    /// Ends it without the rest of the application's answer, unless it has ended already: with the failure, or visibly cut
    /// where the connection has the head.
    pub fn fail(&mut self, failure: Failure) {
        if self.end.is_some() {
            return;
        }
        if self.head_taken {
            let late = failure == Failure::ExpiredInWorker;
            self.end = Some(ResponseEnd::Aborted { late });
        } else {
            let (hints, had_head) = (std::mem::take(&mut self.hints), self.had_head);
            self.reset();
            (self.hints, self.had_head) = (hints, had_head);
            self.end = Some(ResponseEnd::Failed(failure));
        }
    }

    /// Empties it for another response.
    pub fn reset(&mut self) {
        let Self {
            hints,
            head,
            had_head,
            unbuffered,
            head_taken,
            chunks,
            spool,
            spool_share,
            file,
            end,
            error,
            measures,
            is_public,
        } = self;
        chunks.clear();
        (*hints, *measures) = (VecDeque::new(), Vec::new());
        (*had_head, *unbuffered, *head_taken) = (false, false, false);
        *is_public = false;
        (*head, *spool, *file, *end, *error) = (None, None, None, None, None);
        *spool_share = Share::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_hints_are_kept_for_their_sender_only_and_within_a_bound() {
        let mut buffer = ResponseBuffer::default();
        for _ in 0..MAX_HINTS {
            buffer.hint([b"first".to_vec(), b"second".to_vec()]);
        }
        assert_eq!(buffer.hints.len(), MAX_HINTS);
        buffer.hints.clear();
        buffer.hint([b"third".to_vec()]);
        assert_eq!(buffer.hints, [b"third"]);
        buffer.hints.clear();
        buffer.had_head = true;
        buffer.hint([b"late".to_vec()]);
        assert!(buffer.hints.is_empty());
    }
}
