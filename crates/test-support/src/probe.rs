//! A server and its application's events, for requests that must be refused before they reach it, or answered by it once.

use std::time::Duration;

use crate::application::reflect;
use crate::client::IntoBytes;
use crate::client::response::Response;
use crate::fifo::Events;
use crate::server::Server;
use crate::server::builder::ServerBuilder;

/// Shorter than every time-out of the server, so that a connection that it only closes by a time-out counts as left open.
const PROMPT: Duration = Duration::from_secs(10);

/// A server with the reflecting application, and what that application tells.
#[derive(Debug)]
pub struct Probe {
    /// The server: one worker with one thread, so that calls come in order.
    pub server: Server,
    /// The application's calls, as `METHOD path`.
    pub events: Events,
}

impl Default for Probe {
    fn default() -> Self {
        Self::with(|builder| builder)
    }
}

impl Probe {
    /// Starts one with settings of its own.
    #[track_caller]
    pub fn with(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let builder = settings(Server::app(reflect()));
        let events = builder.application().events();
        Self {
            server: builder.start(),
            events,
        }
    }

    /// Asserts that these bytes are refused with one of `statuses`, that the connection is closed afterwards, and that
    /// the application never hears of them.
    #[track_caller]
    pub fn refuse(&mut self, bytes: impl IntoBytes, statuses: &[u16]) -> Response {
        let mut client = self.server.connect().patience(PROMPT);
        // The server may close before it has taken all.
        let _ = client.try_send(bytes.bytes());
        let response = self.check_refusal(bytes.bytes(), client.try_response("GET"), statuses);
        client.expect_end();
        self.assert_untouched(bytes.bytes());
        response
    }

    /// The same where the connection may stay open: the request's end is beyond doubt.
    #[track_caller]
    pub fn refuse_only(&mut self, bytes: impl IntoBytes, statuses: &[u16]) -> Response {
        let mut client = self.server.connect().patience(PROMPT);
        let _ = client.try_send(bytes.bytes());
        let response = self.check_refusal(bytes.bytes(), client.try_response("GET"), statuses);
        self.assert_untouched(bytes.bytes());
        response
    }

    #[track_caller]
    fn check_refusal(
        &self,
        bytes: &[u8],
        response: Result<Response, crate::Fault>,
        statuses: &[u16],
    ) -> Response {
        let sent = excerpt(bytes);
        let response = match response {
            Ok(response) => response,
            Err(fault) => panic!("{sent} got no refusal: {fault}"),
        };
        let status = response.status();
        assert!(
            statuses.contains(&status) && response.field("x-app").is_none(),
            "{sent} got {status} instead of {statuses:?}: {:?}",
            response.text()
        );
        response
    }

    /// Asserts that these bytes are one request that the application answers.
    #[track_caller]
    pub fn answer(&mut self, bytes: impl IntoBytes) -> Response {
        let mut client = self.server.connect();
        client.send(bytes.bytes());
        let sent = excerpt(bytes.bytes());
        let response = match client.try_response("GET") {
            Ok(response) => response,
            Err(fault) => panic!("{sent} got no answer: {fault}"),
        };
        assert!(
            response.status() == 200 && response.field("x-app").is_some(),
            "{sent} got {} {:?}",
            response.status(),
            response.text()
        );
        self.events.wait();
        self.assert_untouched(bytes.bytes());
        response
    }

    /// Asserts that the application was not called since the last look. A request of its own comes after whatever might
    /// have been dispatched, since the queue is FIFO and there is one thread.
    #[track_caller]
    pub fn assert_untouched(&mut self, cause: impl IntoBytes) {
        self.server.get("/after").expect(200);
        let events = self.events.rest();
        assert_eq!(
            events,
            ["GET /after"],
            "{} reached the application",
            excerpt(cause.bytes())
        );
    }
}

fn excerpt(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(300)];
    format!("{:?}", String::from_utf8_lossy(shown))
}
