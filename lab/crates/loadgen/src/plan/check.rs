//! What a plan must be before anything is sent.

use anyhow::{Result, ensure};

use super::{ConnectionUse, End, Mode, Plan, Request};

/// The most streams of one connection; servers allow 100 to 250 by default.
const MAX_STREAMS: usize = 1000;

impl Plan {
    /// Refuses what can't be carried out.
    ///
    /// # Errors
    /// Names the part of the plan that is wrong and what it may be.
    pub fn check(&self) -> Result<()> {
        ensure!(
            !self.requests.is_empty(),
            "a load needs at least one request"
        );
        for request in self.requests.iter().chain(&self.login) {
            request.check()?;
        }
        ensure!(
            is_value(&self.host),
            "the host {:?} can't stand in a field",
            self.host
        );
        ensure!(
            !self.timeout.is_zero(),
            "the time-out must be longer than nothing"
        );
        ensure!(self.threads > 0, "a load needs at least one thread");
        ensure!(
            self.connections_at_most() > 0,
            "a load needs at least one connection"
        );
        ensure!(
            self.connections != ConnectionUse::Calls(0),
            "a connection must carry at least one request"
        );
        self.check_streams()?;
        ensure!(
            self.length().is_none_or(|length| !length.is_zero()),
            "a load must be longer than nothing"
        );
        match self.mode {
            Mode::Open { rate, .. } => ensure!(
                rate.is_finite() && rate > 0.0,
                "the rate {rate} must be a number above zero"
            ),
            Mode::Closed { end, .. } => {
                ensure!(end != End::Requests(0), "a load needs at least one request")
            }
        }
        Ok(())
    }

    fn check_streams(&self) -> Result<()> {
        let Some(streams) = self.streams else {
            return Ok(());
        };
        ensure!(
            (1..=MAX_STREAMS).contains(&streams),
            "{streams} streams of a connection: give 1 to {MAX_STREAMS}"
        );
        ensure!(
            streams == 1 || self.connections == ConnectionUse::KeepAlive,
            "connections that carry a certain number of requests have one stream each, not {streams}"
        );
        ensure!(
            self.login.is_none(),
            "a login is sent by HTTP/1.1 only; leave HTTP/2 out"
        );
        Ok(())
    }
}

impl Request {
    fn check(&self) -> Result<()> {
        let Self { method, path, .. } = self;
        ensure!(
            !method.is_empty()
                && method
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            "{method:?} is no method"
        );
        ensure!(
            path.starts_with(['/', '*']) && path.bytes().all(|byte| byte.is_ascii_graphic()),
            "the path {path:?} must begin with / and hold no spaces (write %20)"
        );
        ensure!(
            self.weight.is_finite() && self.weight > 0.0,
            "the weight {} of {method} {path} must be a number above zero",
            self.weight
        );
        for (name, value) in &self.headers {
            let is_name = !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && byte != b':');
            ensure!(
                is_name && is_value(value),
                "the field {name:?}: {value:?} of {method} {path} can't be sent"
            );
        }
        Ok(())
    }
}

/// No control characters, so that nothing can add a line to a head.
fn is_value(text: &str) -> bool {
    !text.chars().any(char::is_control)
}
