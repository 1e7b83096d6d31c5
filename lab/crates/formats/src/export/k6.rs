//! The summary that `k6 run --summary-export` writes: metrics by name, without thresholds. What k6 measures and the
//! lab does not, such as the time for sending, is left out.

use serde_json::{Map, Value, json};

use super::Load;
use loadgen::outcome::{Latency, Outcome};

/// Sums over all loads with the same tags.
#[derive(Default)]
struct Sums {
    elapsed_s: f64,
    requests: u64,
    failed: u64,
    sent: u64,
    received: u64,
    most_in_flight: u64,
    latency: Latency,
    service: Latency,
    first_byte: Latency,
    connect: Latency,
}

impl Sums {
    fn add(&mut self, outcome: &Outcome) {
        let errors = &outcome.errors;
        let not_good = outcome.completed.saturating_sub(outcome.good);
        let wrong = not_good.max(errors.unexpected);
        // What the end of the load interrupted is no failure, in k6 neither.
        let lost = errors.total() - errors.unexpected - errors.unanswered;
        self.elapsed_s += outcome.elapsed_s;
        self.requests += outcome.completed + outcome.late + lost;
        self.failed += wrong + lost;
        self.sent += outcome.bytes.sent;
        self.received += outcome.bytes.received;
        self.most_in_flight = self.most_in_flight.max(outcome.peak_in_flight);
        self.latency.merge(&outcome.latency);
        self.service.merge(&outcome.service);
        self.first_byte.merge(&outcome.first_byte);
        self.connect.merge(&outcome.connect);
    }

    /// The metrics as k6 names them. Its `http_req_duration` runs from the first byte sent to the last byte received, and
    /// its iterations begin when a request was due.
    fn metrics(&self) -> [(&'static str, Value); 11] {
        let rate = |count: u64| match self.elapsed_s > 0.0 {
            true => count as f64 / self.elapsed_s,
            false => 0.0,
        };
        let counter = |count: u64| json!({ "count": count, "rate": rate(count) });
        let gauge = |value: u64| json!({ "value": value, "min": value, "max": value });
        let share = self.failed as f64 / self.requests.max(1) as f64;
        let failed = json!({
            "passes": self.failed,
            "fails": self.requests.saturating_sub(self.failed),
            "value": share,
        });
        [
            ("data_received", counter(self.received)),
            ("data_sent", counter(self.sent)),
            ("http_req_connecting", trend(&self.connect)),
            ("http_req_duration", trend(&self.service)),
            ("http_req_failed", failed),
            ("http_req_waiting", trend(&self.first_byte)),
            ("http_reqs", counter(self.requests)),
            ("iteration_duration", trend(&self.latency)),
            ("iterations", counter(self.requests)),
            ("vus", gauge(self.most_in_flight)),
            ("vus_max", gauge(self.most_in_flight)),
        ]
    }
}

/// Times in milliseconds, as k6 has them.
fn trend(times: &Latency) -> Value {
    json!({
        "avg": times.mean_ms(),
        "min": times.min_ms(),
        "med": times.at(50.0),
        "max": times.max_ms(),
        "p(90)": times.at(90.0),
        "p(95)": times.at(95.0),
    })
}

/// The loads as one summary. Loads with equal tags are one; with tags the metrics have the names that k6 gives to submetrics:
/// `http_req_duration{stack:highball,load:c12}`.
pub fn k6(loads: &[Load<'_>]) -> String {
    let mut groups: Vec<(String, Sums)> = Vec::new();
    for load in loads {
        let tags = load
            .tags
            .iter()
            .map(|(tag, value)| format!("{tag}:{value}"));
        let tags = tags.collect::<Vec<_>>().join(",");
        let name = if tags.is_empty() {
            tags
        } else {
            format!("{{{tags}}}")
        };
        let place = groups.iter().position(|(known, _)| *known == name);
        let place = place.unwrap_or_else(|| {
            groups.push((name, Sums::default()));
            groups.len() - 1
        });
        groups[place].1.add(load.outcome);
    }
    let mut metrics = Map::new();
    for (name, sums) in &groups {
        for (metric, value) in sums.metrics() {
            metrics.insert(format!("{metric}{name}"), value);
        }
    }
    let root = json!({
        "name": "",
        "path": "",
        // The MD5 sum of the empty path, as k6 has it.
        "id": "d41d8cd98f00b204e9800998ecf8427e",
        "groups": {},
        "checks": {},
    });
    format!("{:#}\n", json!({ "root_group": root, "metrics": metrics }))
}
