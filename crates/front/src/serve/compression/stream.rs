//! A body that is encoded on its way, piece by piece, on a thread of the pool. It holds one piece at a time, and makes
//! readable for the client what has come whenever no more comes at once. A body that was cut gets no valid end.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::encoder::StreamEncoder;
use crate::serve::file_threads::FileThreads;
use crate::shared_bytes::Share;

/// The most of a body that a thread encodes at once, in bytes: the bodies take turns.
const PIECE_BYTES: usize = 64 * 1024;

/// The body was cut, or could not be encoded.
#[derive(Debug)]
pub struct Broken;

/// An encoded body.
pub struct EncodedStream {
    threads: Rc<FileThreads>,
    state: State,
    /// What has come and waits for its turn.
    waiting: Bytes,
    /// Whether the encoder has taken what it has not made readable.
    unflushed: bool,
    /// Whether the plain body has ended, and whole.
    end: Option<Result<(), Broken>>,
    /// The memory of the encoder.
    _share: Share,
}

type Work = Pin<Box<dyn Future<Output = io::Result<(Box<StreamEncoder>, Vec<u8>)>>>>;

enum State {
    Idle(Box<StreamEncoder>),
    Working(Work),
    /// All of it was given out.
    Ended,
}

/// What follows the pieces that the encoder gets.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    More,
    Flush,
    Finish,
}

impl EncodedStream {
    /// Returns the body that this encoder makes, on these threads; `share` is the memory that it counts for.
    pub fn new(threads: Rc<FileThreads>, encoder: StreamEncoder, share: Share) -> Self {
        Self {
            threads,
            state: State::Idle(Box::new(encoder)),
            waiting: Bytes::new(),
            unflushed: false,
            end: None,
            _share: share,
        }
    }

    /// Waits for the next piece of the encoded body, and polls the plain one for it. None: it has ended, and whole.
    pub fn poll<E>(
        &mut self,
        cx: &mut Context<'_>,
        mut plain: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<Bytes, E>>>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            match &mut self.state {
                State::Ended => return Poll::Ready(self.end.take().and_then(Result::err).map(Err)),
                State::Working(work) => match ready!(work.as_mut().poll(cx)) {
                    Ok((encoder, encoded)) => {
                        self.state = match self.is_done() {
                            true => State::Ended,
                            false => State::Idle(encoder),
                        };
                        if !encoded.is_empty() {
                            return Poll::Ready(Some(Ok(encoded.into())));
                        }
                    }
                    Err(_) => {
                        self.state = State::Ended;
                        self.end = Some(Err(Broken));
                    }
                },
                State::Idle(_) => {
                    let (pieces, then) = ready!(self.gather(cx, &mut plain));
                    self.begin(pieces, then);
                }
            }
        }
    }

    /// Whether nothing is left to encode.
    fn is_done(&self) -> bool {
        self.end.is_some() && self.waiting.is_empty() && !self.unflushed
    }

    /// Collects what has come, up to the most that is encoded at once.
    fn gather<E>(
        &mut self,
        cx: &mut Context<'_>,
        plain: &mut impl FnMut(&mut Context<'_>) -> Poll<Option<Result<Bytes, E>>>,
    ) -> Poll<(Vec<Bytes>, Then)> {
        let mut pieces = Vec::new();
        let mut room = PIECE_BYTES;
        loop {
            if self.waiting.is_empty() {
                match &self.end {
                    Some(Ok(())) => return Poll::Ready((pieces, Then::Finish)),
                    Some(Err(_)) => return Poll::Ready((pieces, Then::Flush)),
                    None => {}
                }
                match plain(cx) {
                    Poll::Ready(Some(Ok(piece))) => self.waiting = piece,
                    Poll::Ready(Some(Err(_))) => self.end = Some(Err(Broken)),
                    Poll::Ready(None) => self.end = Some(Ok(())),
                    Poll::Pending if pieces.is_empty() && !self.unflushed => return Poll::Pending,
                    Poll::Pending => return Poll::Ready((pieces, Then::Flush)),
                }
                continue;
            }
            let piece = self.waiting.split_to(self.waiting.len().min(room));
            room -= piece.len();
            pieces.push(piece);
            if room == 0 {
                return Poll::Ready((pieces, Then::More));
            }
        }
    }

    /// Has a thread encode these pieces.
    fn begin(&mut self, pieces: Vec<Bytes>, then: Then) {
        let State::Idle(mut encoder) = std::mem::replace(&mut self.state, State::Ended) else {
            return;
        };
        self.unflushed = then == Then::More;
        let threads = Rc::clone(&self.threads);
        self.state = State::Working(Box::pin(async move {
            let encode = move || {
                pieces.iter().try_for_each(|piece| encoder.push(piece))?;
                match then {
                    Then::More => {}
                    Then::Flush => encoder.flush()?,
                    Then::Finish => encoder.finish()?,
                }
                let encoded = encoder.take();
                Ok((encoder, encoded))
            };
            threads.run(encode).await?
        }));
    }
}

#[cfg(test)]
mod tests;
