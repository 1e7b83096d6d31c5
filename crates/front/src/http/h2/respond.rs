//! Sends a response on a stream: its head, then its body as fast as the client's window lets it. It never changes what the
//! application says but for the fields that belong to connections of HTTP/1.1.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response};
use http_body::Body;

use super::stream::ClientStream;
use super::streams::Streams;
use crate::http::client_side::ClientSide;
use crate::http::request_id::X_REQUEST_ID;
use crate::http::response_body::ResponseBody;
use crate::http::response_head::is_bodyless;

/// Bytes of a response that the crate h2 gets at once.
const SEND_PIECE_BYTES: usize = 64 * 1024;

/// Fields that say something about a connection of HTTP/1.1 (RFC 9113 section 8.2.2).
const CONNECTION_FIELDS: [HeaderName; 5] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Fields whose value is another one in each response. Kept among those that the connection repeats by their number (RFC 7541
/// section 2.3.2) they would only fill that table, at both ends, for as long as the connection is open.
const UNIQUE_FIELDS: [HeaderName; 3] = [
    X_REQUEST_ID,
    HeaderName::from_static("x-runtime"),
    HeaderName::from_static("server-timing"),
];

thread_local! {
    /// The second of the last response, and its date.
    static DATE: RefCell<(u64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
}

/// The stream has ended before its response.
pub(super) struct StreamGone;

/// Makes a head one of HTTP/2.
pub(super) fn complete(headers: &mut HeaderMap) {
    for name in &CONNECTION_FIELDS {
        headers.remove(name);
    }
    headers.remove(header::TE);
    for name in &UNIQUE_FIELDS {
        if let Some(value) = headers.get_mut(name) {
            value.set_sensitive(true);
        }
    }
    let date = headers.entry(header::DATE).or_insert_with(date);
    date.set_sensitive(true);
}

/// The time as a field, made once a second.
fn date() -> HeaderValue {
    let now = SystemTime::now();
    let second = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    DATE.with_borrow_mut(|(of, date)| {
        if *of != second {
            let text = httpdate::fmt_http_date(now);
            *of = second;
            *date = HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""));
        }
        date.clone()
    })
}

/// Sends a response whole, or resets the stream where it ends before its time.
pub(super) async fn send(
    streams: &Streams,
    stream: &ClientStream,
    method: &Method,
    response: Response<ResponseBody>,
) {
    let (parts, mut body) = response.into_parts();
    let mut head = Response::new(());
    *head.status_mut() = parts.status;
    *head.headers_mut() = parts.headers;
    let headers = head.headers_mut();
    complete(headers);
    let ends = is_bodyless(method, parts.status) || body.is_end_stream();
    let length = body.size_hint().exact();
    if let Some(length) = length.filter(|_| !is_bodyless(method, parts.status)) {
        headers
            .entry(header::CONTENT_LENGTH)
            .or_insert(length.into());
    }
    let sent = stream.respond.borrow_mut().send_response(head, ends);
    let Ok(mut to) = sent else {
        return stream.note_reset();
    };
    if ends {
        return streams.reading.budget.note_answered();
    }
    if send_body(streams, stream, &mut body, &mut to).await.is_ok() {
        streams.reading.budget.note_answered();
    } else if stream.is_gone() {
        to.send_reset(Reason::CANCEL);
    } else {
        to.send_reset(Reason::INTERNAL_ERROR);
    }
}

/// Sends the body. An error says that its end was not sent.
async fn send_body(
    streams: &Streams,
    stream: &ClientStream,
    body: &mut ResponseBody,
    to: &mut SendStream<Bytes>,
) -> Result<(), StreamGone> {
    loop {
        let frame = poll_fn(|cx| {
            if is_over(stream, to, cx) {
                return Poll::Ready(Some(Err(StreamGone)));
            }
            let frame = Pin::new(&mut *body).poll_frame(cx);
            frame.map(|frame| frame.map(|frame| frame.map_err(|_| StreamGone)))
        });
        let data = match frame.await {
            Some(frame) => frame?.into_data().unwrap_or_default(),
            None => return to.send_data(Bytes::new(), true).map_err(|_| StreamGone),
        };
        let last = body.is_end_stream();
        send_data(streams, stream, to, data, last).await?;
        if last {
            return Ok(());
        }
    }
}

/// Sends bytes as the client's window has room for them. An error says that the stream has ended.
pub(super) async fn send_data(
    streams: &Streams,
    stream: &ClientStream,
    to: &mut SendStream<Bytes>,
    mut data: Bytes,
    last: bool,
) -> Result<(), StreamGone> {
    while !data.is_empty() {
        to.reserve_capacity(data.len().min(SEND_PIECE_BYTES));
        let room = poll_fn(|cx| {
            if is_over(stream, to, cx) {
                return Poll::Ready(Err(StreamGone));
            }
            // It announces only what is new.
            if to.capacity() > 0 {
                return Poll::Ready(Ok(to.capacity()));
            }
            match to.poll_capacity(cx) {
                Poll::Ready(Some(Ok(room))) => Poll::Ready(Ok(room)),
                Poll::Ready(_) => Poll::Ready(Err(StreamGone)),
                Poll::Pending => {
                    stream.download.note_blocked(true);
                    Poll::Pending
                }
            }
        });
        let room = room.await?;
        stream.download.note_blocked(false);
        let piece = data.split_to(room.min(data.len()));
        let bytes = piece.len();
        let ends = last && data.is_empty();
        to.send_data(piece, ends).map_err(|_| StreamGone)?;
        stream.download.note_sent(bytes);
        streams.note_sent(bytes);
    }
    Ok(())
}

/// Whether the stream has ended before its time.
fn is_over(stream: &ClientStream, to: &mut SendStream<Bytes>, cx: &mut Context<'_>) -> bool {
    stream.remember(cx);
    if !stream.is_gone() && to.poll_reset(cx).is_ready() {
        stream.note_reset();
    }
    stream.is_gone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_each_response_fills_no_table_of_the_connection() {
        let mut headers = HeaderMap::new();
        for name in [&UNIQUE_FIELDS[..], &[header::CONTENT_TYPE]].concat() {
            headers.insert(name, HeaderValue::from_static("value"));
        }
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        complete(&mut headers);
        assert_eq!(headers.len(), UNIQUE_FIELDS.len() + 2, "{headers:?}");
        for (name, value) in &headers {
            assert_eq!(value.is_sensitive(), name != header::CONTENT_TYPE, "{name}");
        }
    }
}
