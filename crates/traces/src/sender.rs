//! One export over HTTP: a POST of protobuf within a time limit (OTLP 1, section OTLP/HTTP). Follows no redirect, and makes one
//! attempt.

use std::io;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use http_client::{AGENT, Client, chain, retry_after, roots_for};
use tokio::runtime::{Builder, Runtime};

use crate::encoding::rejected;
use crate::plan::Plan;

/// How long a connection to the receiver may take to be opened, its name looked up included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an export may take, with its whole answer.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// A longer answer is not read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Why an export was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Undelivered {
    /// In words.
    pub(crate) reason: String,
    /// Whether another attempt may succeed.
    pub(crate) again: bool,
    /// How long the receiver wants to be left alone.
    pub(crate) pause: Option<Duration>,
}

/// Sends exports to a receiver.
pub(crate) struct Sender {
    plan: Plan,
    /// Names are looked up on a thread of this runtime.
    runtime: Runtime,
    client: Option<Client<Full<Bytes>>>,
}

impl Sender {
    /// A sender to the receiver of this plan.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn new(plan: Plan) -> io::Result<Self> {
        Ok(Self {
            plan,
            runtime: Builder::new_current_thread().enable_all().build()?,
            client: None,
        })
    }

    /// Sends an export. Returns how many spans the receiver has rejected, and why, if it took the others.
    pub(crate) fn send(&mut self, export: Bytes) -> Result<Option<(u64, String)>, Undelivered> {
        let again = |reason: String| Undelivered {
            reason,
            again: true,
            pause: None,
        };
        let mut request = Request::new(Full::from(export));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.plan.address.clone();
        let fields = request.headers_mut();
        fields.insert(USER_AGENT, AGENT);
        fields.extend(self.plan.headers.clone());
        fields.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-protobuf"),
        );
        let address = &self.plan.address;
        let client = self.client.get_or_insert_with(|| client(address));
        let exchange = async {
            let response = client.request(request).await;
            let (head, body) = response.map_err(|error| again(chain(&error)))?.into_parts();
            judge(head.status, &head.headers)?;
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
            // It has the export, whatever else it says.
            Ok(body.ok().and_then(|body| rejected(&body.to_bytes())))
        };
        let limited = async { tokio::time::timeout(EXPORT_TIMEOUT, exchange).await };
        match self.runtime.block_on(limited) {
            Ok(result) => result,
            Err(_) => Err(again(format!("no answer within {EXPORT_TIMEOUT:?}"))),
        }
    }
}

fn client(address: &Uri) -> Client<Full<Bytes>> {
    let plan = http_client::Plan {
        roots: roots_for(address),
        plain_too: true,
        connect_timeout: CONNECT_TIMEOUT,
        keep_alive: true,
    };
    plan.client()
}

/// What a status means (OTLP 1, section Failures).
fn judge(status: StatusCode, fields: &HeaderMap) -> Result<(), Undelivered> {
    if status.is_success() {
        return Ok(());
    }
    let now = SystemTime::now();
    let until = retry_after(fields, now);
    Err(Undelivered {
        reason: format!("it answered {status}"),
        again: matches!(status.as_u16(), 429 | 502 | 503 | 504),
        pause: until.map(|until| until.duration_since(now).unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use http::header::RETRY_AFTER;

    use super::*;

    #[test]
    fn only_what_may_pass_is_sent_again() {
        let none = HeaderMap::new();
        assert_eq!(judge(StatusCode::OK, &none), Ok(()));
        assert_eq!(judge(StatusCode::ACCEPTED, &none), Ok(()));
        for (status, again) in [
            (301, false),
            (400, false),
            (401, false),
            (404, false),
            (408, false),
            (429, true),
            (500, false),
            (502, true),
            (503, true),
            (504, true),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(judge(status, &none).unwrap_err().again, again, "{status}");
        }
    }

    #[test]
    fn a_receiver_says_how_long_to_wait() {
        let wait = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("7"))]);
        let error = judge(StatusCode::TOO_MANY_REQUESTS, &wait).unwrap_err();
        assert_eq!(error.pause, Some(Duration::from_secs(7)));
    }
}
