//! The fields of httperf 0.9 (`src/stat/basic.c` and `src/stat/print_reply.c`).

use std::fmt::Write as _;

use super::number::{deviation, ratio};
use crate::measured::Measured;
use crate::words::{self, footnotes};
use loadgen::outcome::Outcome;
use loadgen::plan::ConnectionUse;

/// Seconds of one sample of the reply rate.
const SAMPLE: usize = 5;

pub(super) fn render(measured: &Measured<'_>) -> String {
    let mut out = "Maximum connect burst length: n/a\n\n".to_owned();
    connections(&mut out, measured);
    requests_and_replies(&mut out, measured.outcome);
    resources(&mut out, measured.outcome);
    errors(&mut out, measured.outcome);
    out.push('\n');
    footnotes(&mut out, &notes(measured));
    out
}

/// Connections that were tried.
fn tried(outcome: &Outcome) -> u64 {
    let errors = &outcome.errors;
    outcome.connections + errors.connect_refused + errors.connect_timeout + errors.no_address
}

fn connections(out: &mut String, Measured { plan, outcome, .. }: &Measured<'_>) {
    let (tried, elapsed) = (tried(outcome), outcome.elapsed_s);
    let _ = write!(
        out,
        "Total: connections {tried} requests {} replies {} test-duration {elapsed:.3} s\n\n\
         Connection rate: {:.1} conn/s ({:.1} ms/conn, <={} concurrent connections)\n",
        outcome.sent,
        outcome.completed,
        ratio(tried as f64, elapsed),
        ratio(elapsed * 1000.0, tried as f64),
        words::concurrency(plan, outcome)
    );
    if plan.connections == ConnectionUse::PerRequest {
        let life = &outcome.latency;
        let _ = writeln!(
            out,
            "Connection time [ms]: min {:.1} avg {:.1} max {:.1} median {:.1} stddev {:.1}",
            life.min_ms(),
            life.mean_ms(),
            life.max_ms(),
            life.at(50.0),
            life.deviation_ms()
        );
    } else {
        out.push_str("Connection time [ms]: min n/a avg n/a max n/a median n/a stddev n/a\n");
    }
    let _ = write!(
        out,
        "Connection time [ms]: connect {:.1}\nConnection length [replies/conn]: {:.3}\n\n",
        outcome.connect.mean_ms(),
        ratio(outcome.completed as f64, outcome.connections as f64)
    );
}

fn requests_and_replies(out: &mut String, outcome: &Outcome) {
    let (elapsed, sent, replies) = (
        outcome.elapsed_s,
        outcome.sent as f64,
        outcome.completed as f64,
    );
    let _ = write!(
        out,
        "Request rate: {:.1} req/s ({:.1} ms/req)\nRequest size [B]: {:.1}\n\n",
        ratio(sent, elapsed),
        ratio(elapsed * 1000.0, sent),
        ratio(outcome.bytes.sent as f64, sent)
    );
    let rates = reply_rates(outcome);
    let count = rates.len() as f64;
    let mean = ratio(rates.iter().sum(), count);
    let min = rates.iter().copied().reduce(f64::min).unwrap_or(0.0);
    let max = rates.iter().copied().fold(0.0, f64::max);
    let _ = writeln!(
        out,
        "Reply rate [replies/s]: min {min:.1} avg {mean:.1} max {max:.1} stddev {:.1} ({} samples)",
        deviation(&rates, mean),
        rates.len()
    );
    let (response, service) = (outcome.first_byte.mean_ms(), outcome.service.mean_ms());
    let bytes = outcome.bytes;
    let footer = bytes.received.saturating_sub(bytes.heads + bytes.bodies);
    let class = |first: u16| words::statuses(outcome, first, first + 99);
    let _ = write!(
        out,
        "Reply time [ms]: response {response:.1} transfer {:.1}\n\
         Reply size [B]: header {:.1} content {:.1} footer {:.1} (total {:.1})\n\
         Reply status: 1xx={} 2xx={} 3xx={} 4xx={} 5xx={}\n\n",
        (service - response).max(0.0),
        ratio(bytes.heads as f64, replies),
        ratio(bytes.bodies as f64, replies),
        ratio(footer as f64, replies),
        ratio(bytes.received as f64, replies),
        class(100),
        class(200),
        class(300),
        class(400),
        class(500)
    );
}

fn resources(out: &mut String, outcome: &Outcome) {
    let bytes = (outcome.bytes.sent + outcome.bytes.received) as f64;
    let _ = write!(
        out,
        "CPU time [s]: user n/a system n/a (user n/a system n/a total {:.1}%)\n\
         Net I/O: {:.1} KB/s ({:.1}*10^6 bps)\n\n",
        outcome.generator.cores * 100.0,
        ratio(bytes, outcome.elapsed_s) / 1024.0,
        ratio(bytes * 8e-6, outcome.elapsed_s)
    );
}

fn errors(out: &mut String, outcome: &Outcome) {
    let errors = &outcome.errors;
    let timeout = errors.timeout + errors.connect_timeout;
    let reset = errors.reset + errors.closed + errors.short_body;
    let other = errors.invalid + errors.unanswered;
    let total =
        timeout + errors.connect_refused + reset + errors.no_descriptor + errors.no_address + other;
    let _ = write!(
        out,
        "Errors: total {total} client-timo {timeout} socket-timo 0 connrefused {} connreset {reset}\n\
         Errors: fd-unavail {} addrunavail {} ftab-full 0 other {other}\n",
        errors.connect_refused, errors.no_descriptor, errors.no_address
    );
}

/// Replies a second in each whole sample of five seconds.
fn reply_rates(outcome: &Outcome) -> Vec<f64> {
    let whole = (outcome.elapsed_s.floor() as usize).min(outcome.seconds.len());
    outcome.seconds[..whole]
        .chunks_exact(SAMPLE)
        .map(|seconds| {
            let replies: u64 = seconds.iter().map(|second| second.completed).sum();
            replies as f64 / SAMPLE as f64
        })
        .collect()
}

fn notes(measured: &Measured<'_>) -> Vec<String> {
    let Measured { plan, outcome, .. } = measured;
    let mut notes = vec![
        "Fields as httperf prints them, measured by highball load. n/a: the length of connect bursts and the generator's \
         user and system time apart are not known."
            .to_owned(),
        format!(
            "Means hide slow requests, and httperf leaves out those that failed. {}",
            words::latency_note(outcome)
        ),
    ];
    if plan.connections != ConnectionUse::PerRequest {
        notes.push(
            "n/a: the lifetime of a connection is known where each carries one request (--connections per-request)."
                .to_owned(),
        );
    }
    let samples = reply_rates(outcome).len();
    if samples < 30 {
        notes.push(format!(
            "The reply rate has {samples} samples of 5 s; httperf's manual asks for 30 (150 s). Over the whole load: {:.1} replies/s.",
            words::completed_per_second(outcome)
        ));
    }
    notes.push(
        "The total of CPU time is what the load took; httperf spins and always shows about 100 %."
            .to_owned(),
    );
    notes.extend(words::good_note(outcome));
    if outcome.errors.invalid + outcome.errors.unanswered > 0 {
        notes.push(format!(
            "other: {} answers were no HTTP, {} requests were unanswered at the end.",
            outcome.errors.invalid, outcome.errors.unanswered
        ));
    }
    notes.extend(words::last_notes(measured));
    notes
}
