//! A webhook: a POST of JSON within a time limit. Follows no redirect, and reads nothing of the response but its status.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use exceptions::Notice;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::Full;
use http_client::{AGENT, Client, Plan, chain};
use tokio::runtime::{Builder, Runtime};

use crate::queue::{Receiver, Undelivered};

/// How long a connection to the webhook may take to be opened, its name looked up included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a whole request to the webhook may take.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// A webhook.
pub(crate) struct Webhook {
    address: Uri,
    /// Names are looked up on a thread of this runtime.
    runtime: Runtime,
    client: Option<Client<Full<Bytes>>>,
}

impl Webhook {
    /// The webhook at this address.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn new(address: Uri) -> io::Result<Self> {
        Ok(Self {
            address,
            runtime: Builder::new_current_thread().enable_all().build()?,
            client: None,
        })
    }
}

fn client(address: &Uri) -> Client<Full<Bytes>> {
    let plan = Plan {
        roots: http_client::roots_for(address),
        plain_too: true,
        connect_timeout: CONNECT_TIMEOUT,
        // A notice is rare.
        keep_alive: false,
    };
    plan.client()
}

impl Receiver for Webhook {
    fn name(&self) -> String {
        // What follows the host is the secret of many webhooks.
        let authority = self.address.host().unwrap_or_default();
        format!("the webhook at {authority}")
    }

    fn deliver(&mut self, notice: &Notice) -> Result<(), Undelivered> {
        let again = |reason: String| Undelivered {
            reason,
            again: true,
        };
        let body = serde_json::to_vec(notice).map_err(|error| again(error.to_string()))?;
        let request = Request::post(&self.address)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, AGENT)
            .body(Full::from(body))
            .map_err(|error| again(error.to_string()))?;
        let address = &self.address;
        let client = self.client.get_or_insert_with(|| client(address));
        let response = self.runtime.block_on(async {
            tokio::time::timeout(WEBHOOK_TIMEOUT, client.request(request)).await
        });
        match response {
            Ok(Ok(response)) => judge(response.status()),
            Ok(Err(error)) => Err(again(chain(&error))),
            Err(_) => Err(again(format!("no answer within {WEBHOOK_TIMEOUT:?}"))),
        }
    }
}

fn judge(status: StatusCode) -> Result<(), Undelivered> {
    if status.is_success() {
        return Ok(());
    }
    let passes = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    Err(Undelivered {
        reason: format!("it answered {status}"),
        again: status.is_server_error() || passes.contains(&status),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_tried_again() {
        assert_eq!(judge(StatusCode::NO_CONTENT), Ok(()));
        for (status, again) in [
            (301, false),
            (400, false),
            (404, false),
            (408, true),
            (429, true),
            (503, true),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(
                judge(status).expect_err("no success").again,
                again,
                "{status}"
            );
        }
    }

    #[test]
    fn the_name_of_a_webhook_has_no_secret() {
        let webhook = Webhook::new(
            "https://hooks.example.com/T0/secret"
                .parse()
                .expect("an address"),
        );
        assert_eq!(
            webhook.expect("a runtime").name(),
            "the webhook at hooks.example.com"
        );
    }
}
