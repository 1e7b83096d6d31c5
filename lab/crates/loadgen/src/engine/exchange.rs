//! One request of HTTP/2 on its stream, until its response is whole. It knows no connection.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use h2::client::ResponseFuture;
use h2::{Reason, RecvStream};

use super::tally::Failure;
use crate::framing::Response;
use crate::outcome::Sample;

/// A request that was sent on a stream.
#[derive(Debug)]
pub(super) struct Exchange {
    head: Option<ResponseFuture>,
    body: Option<RecvStream>,
    response: Response,
    /// The `Server` field.
    server: String,
}

/// What became of an exchange.
pub(super) enum Step {
    More,
    Whole(Response),
    /// The server did not look at it: it may be sent once more (RFC 9113 section 6.8).
    Refused,
    Failed(Failure),
}

impl Exchange {
    pub(super) fn new(head: ResponseFuture) -> Self {
        Self {
            head: Some(head),
            body: None,
            response: Response {
                status: 0,
                keep_alive: true,
                head: 0,
                body: 0,
            },
            server: String::new(),
        }
    }

    /// Whether the head of the response has come.
    pub(super) fn begun(&self) -> bool {
        self.head.is_none()
    }

    /// What the first good response of a thread tells of the server.
    pub(super) fn sample(&self, length: u64) -> Sample {
        Sample {
            server: self.server.clone(),
            length,
        }
    }

    /// Takes what came.
    pub(super) fn step(&mut self, context: &mut Context<'_>) -> Step {
        match self.advance(context) {
            Ok(true) => Step::Whole(self.response),
            Ok(false) => Step::More,
            Err(error) if error.is_go_away() && error.reason() == Some(Reason::NO_ERROR) => {
                Step::Refused
            }
            Err(error) if error.is_reset() => Step::Failed(Failure::Reset),
            Err(error) if error.is_io() || error.is_go_away() => {
                Step::Failed(match self.response.status {
                    0 => Failure::Closed,
                    _ => Failure::ShortBody,
                })
            }
            Err(_) => Step::Failed(Failure::Invalid),
        }
    }

    /// Takes what came; says whether the response is whole.
    fn advance(&mut self, context: &mut Context<'_>) -> Result<bool, h2::Error> {
        if let Some(head) = &mut self.head {
            let Poll::Ready(response) = Pin::new(head).poll(context) else {
                return Ok(false);
            };
            let (head, body) = response?.into_parts();
            self.head = None;
            self.response.status = head.status.as_u16();
            if let Some(server) = head.headers.get(http::header::SERVER) {
                self.server
                    .push_str(&String::from_utf8_lossy(server.as_bytes()));
            }
            self.body = Some(body);
        }
        let Some(body) = &mut self.body else {
            return Ok(true);
        };
        while let Poll::Ready(data) = body.poll_data(context) {
            let Some(data) = data else {
                return Ok(true);
            };
            let count = data?.len();
            self.response.body += count as u64;
            // The stream may have ended meanwhile, and then needs no room any more.
            let _ = body.flow_control().release_capacity(count);
        }
        Ok(body.is_end_stream())
    }
}
