//! One load of a comparison as LAB.toml has it, with its name, its title and what the generator makes of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Lab;
use crate::results;
use loadgen::duration;
use loadgen::plan::{self, Arrivals, ConnectionUse, End, Mode};

/// A closed loop of so many connections, or an open one at a rate: one of the two is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// Its name in the results, `c12` or `r200` where it is empty.
    pub id: String,
    /// For people; made from the rest where it is empty.
    pub title: String,
    /// Connections of a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    /// Requests a second of an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// How the requests of an open loop are spread.
    pub arrivals: Arrivals,
    /// A closed loop ends after so many requests and not after a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Its length, where it is another than the comparison's.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// Requests that a connection carries; as many as the server allows where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// Speaks HTTP/2 with so many requests at a time on each connection; HTTP/1.1 where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<usize>,
    /// Warms up with so many requests and not until the rate is steady.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up_requests: Option<u64>,
    /// Measures a closed loop three times: the second time with so many idle connections open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<usize>,
    /// After a closed loop has measured how much a stack can do, restarts it under an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
}

/// A restart under load. The stack's file says how it is restarted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// The open loop's rate, as a share of what the closed loop reached.
    pub share: f64,
    /// How long it lasts before the restart begins.
    #[serde(with = "duration")]
    pub before: Duration,
    /// How long it lasts from then on; the restart must be over by then.
    #[serde(with = "duration")]
    pub after: Duration,
}

impl Load {
    /// A closed loop.
    pub fn closed(connections: usize) -> Self {
        Self {
            connections: Some(connections),
            ..Self::default()
        }
    }

    /// An open loop.
    pub fn open(rate: f64) -> Self {
        Self {
            rate: Some(rate),
            ..Self::default()
        }
    }

    /// Its name in results and files.
    pub fn id(&self) -> String {
        match (self.id.is_empty(), self.rate, self.connections) {
            (false, ..) => self.id.clone(),
            (true, Some(rate), _) => format!("r{rate}"),
            (true, None, connections) => format!("c{}", connections.unwrap_or(0)),
        }
    }

    /// Its title.
    pub fn title(&self) -> String {
        if !self.title.is_empty() {
            return self.title.clone();
        }
        let mut parts = Vec::new();
        match (self.rate, self.connections) {
            (Some(rate), _) => {
                parts.push(format!("{rate} requests/s"));
                if self.arrivals == Arrivals::Constant {
                    parts.push("at equal distances".to_owned());
                }
                parts.push("open loop".to_owned());
            }
            (None, connections) => {
                let connections = connections.unwrap_or(0);
                let s = if connections == 1 { "" } else { "s" };
                parts.push(format!("{connections} connection{s}"));
                parts.extend(self.requests.map(|count| format!("{count} requests")));
                parts.push("closed loop".to_owned());
            }
        }
        parts.extend(
            self.streams
                .map(|count| format!("HTTP/2 with {count} requests at a time on each")),
        );
        match self.calls {
            Some(1) => parts.push("a connection for each request".to_owned()),
            Some(calls) => parts.push(format!("{calls} requests on a connection")),
            None => {}
        }
        parts.extend(
            self.idle
                .map(|count| format!("with {count} idle connections")),
        );
        parts.extend(
            self.restart
                .as_ref()
                .map(|restart| format!("then a restart at {:.0} % of that", restart.share * 100.0)),
        );
        parts.join(", ")
    }

    /// How long it lasts; `None` where it ends after a number of requests.
    pub fn length(&self, lab: &Lab) -> Option<Duration> {
        match self.requests {
            Some(_) => None,
            None => Some(self.duration.unwrap_or(lab.duration)),
        }
    }

    /// As results describe it. `requests` is what is sent.
    pub fn describe(&self, lab: &Lab, requests: &[plan::Request]) -> results::Load {
        results::Load {
            id: self.id(),
            title: self.title(),
            open: self.rate.is_some(),
            size: self
                .rate
                .unwrap_or_else(|| self.connections.unwrap_or(0) as f64),
            duration_s: self
                .length(lab)
                .map_or(0.0, |duration| duration.as_secs_f64()),
            count: self.requests,
            arrivals: self.arrivals,
            calls: self.calls,
            requests: requests
                .iter()
                .map(|request| {
                    (
                        format!("{} {}", request.method, request.path),
                        request.weight,
                    )
                })
                .collect(),
            ceiling: None,
        }
    }

    /// When requests leave.
    pub fn mode(&self, lab: &Lab) -> Mode {
        let duration = self.duration.unwrap_or(lab.duration);
        match self.rate {
            Some(rate) => Mode::Open {
                rate,
                arrivals: self.arrivals,
                duration,
                max_connections: MAX_CONNECTIONS,
            },
            None => Mode::Closed {
                connections: self.connections.unwrap_or(1),
                end: self.requests.map_or(End::After(duration), End::Requests),
            },
        }
    }

    /// How many requests a connection carries.
    pub fn connection_use(&self) -> ConnectionUse {
        match self.calls {
            None => ConnectionUse::KeepAlive,
            Some(1) => ConnectionUse::PerRequest,
            Some(calls) => ConnectionUse::Calls(calls),
        }
    }
}

/// An open loop opens connections as it needs them; with more than these it would measure the limits of the machine.
pub(crate) const MAX_CONNECTIONS: usize = 10_000;
