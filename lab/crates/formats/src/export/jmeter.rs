//! JMeter's CSV (JTL) with the columns that it writes by default: one line a request, which its listeners, its HTML
//! report and many plug-ins of CI servers read.

use std::io::{self, Write};
use std::time::SystemTime;

use loadgen::Single;
use loadgen::outcome::Outcome;
use loadgen::plan::Plan;

use crate::words;

/// The columns, in JMeter's order.
const COLUMNS: [&str; 17] = [
    "timeStamp",
    "elapsed",
    "label",
    "responseCode",
    "responseMessage",
    "threadName",
    "dataType",
    "success",
    "failureMessage",
    "bytes",
    "sentBytes",
    "grpThreads",
    "allThreads",
    "URL",
    "Latency",
    "IdleTime",
    "Connect",
];

/// Writes every request. `elapsed` and `Latency` begin when a request was due, so that a stalled server does not hide the
/// requests that waited for it. Per request the lab knows neither the bytes sent, which are the mean of all, nor the time
/// to connect, which is part of the others.
///
/// # Errors
/// `output` can't be written.
pub fn jmeter(
    output: impl Write,
    plan: &Plan,
    (started, outcome, singles): (SystemTime, &Outcome, &[Single]),
) -> io::Result<()> {
    let mut lines = csv::Writer::from_writer(output);
    lines.write_record(COLUMNS)?;
    let began = started
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let requests = plan.requests.iter().map(|request| {
        let label = format!("{} {}", request.method, request.path);
        (label, words::url(plan, request))
    });
    let requests: Vec<(String, String)> = requests.collect();
    let sent = (outcome.bytes.sent / outcome.sent.max(1)).to_string();
    let threads = words::concurrency(plan, outcome).to_string();
    for single in singles {
        let (code, message, failure) = described(single);
        let (label, url) = requests
            .get(single.request)
            .map_or(("", ""), |(label, url)| (label.as_str(), url.as_str()));
        lines.write_record([
            (began + single.due).as_millis().to_string().as_str(),
            &single.latency.as_millis().to_string(),
            label,
            &code,
            message,
            "highball 1-1",
            "text",
            if single.good { "true" } else { "false" },
            failure,
            &single.received.to_string(),
            &sent,
            &threads,
            &threads,
            url,
            &single.first_byte.as_millis().to_string(),
            "0",
            "0",
        ])?;
    }
    lines.flush()
}

/// Response code, message and reason of the failure.
fn described(single: &Single) -> (String, &'static str, &'static str) {
    match single.status {
        None => (
            // JMeter's own words where there is no response.
            "Non HTTP response code".to_owned(),
            "Non HTTP response message",
            "no whole response",
        ),
        Some(status) if single.good => (status.to_string(), "OK", ""),
        Some(status) => (status.to_string(), "", "not the expected status or length"),
    }
}
