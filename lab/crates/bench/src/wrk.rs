//! Runs wrk, the closed-loop generator, and reads what it prints. Known to fit Debian's wrk 4.1.0; it
//! never reads numbers it does not find.
//!
//! wrk back-fills its latencies for coordinated omission (`stats_correct`), so a stall of one connection
//! shows in the percentiles more often than it was measured.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// How wrk is to load a server.
#[derive(Debug, Clone)]
pub struct Load {
    /// Keep-alive connections, each with one request in flight.
    pub connections: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// How long to load, in whole seconds.
    pub duration: Duration,
    /// When an answer counts as timed out, in whole seconds.
    pub timeout: Duration,
}

/// What one run of wrk found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Median latency in milliseconds.
    pub p50_ms: f64,
    /// 90th percentile in milliseconds.
    pub p90_ms: f64,
    /// 99th percentile in milliseconds.
    pub p99_ms: f64,
    /// Slowest answer in milliseconds.
    pub max_ms: f64,
    /// Complete responses of any status.
    pub requests: u64,
    /// How long wrk says it ran, in seconds.
    pub seconds: f64,
    /// Responses with a status outside 200 to 399.
    pub non_2xx: u64,
    /// Connections that failed to open.
    pub connect_errors: u64,
    /// Failed reads.
    pub read_errors: u64,
    /// Failed writes.
    pub write_errors: u64,
    /// Answers that came later than the time-out.
    pub timeouts: u64,
}

impl Report {
    /// Successful responses a second: a refusal is quick and must not count as speed.
    pub fn good_per_second(&self) -> f64 {
        self.requests.saturating_sub(self.non_2xx) as f64 / self.seconds
    }

    /// Everything that was not a good response.
    pub fn errors(&self) -> u64 {
        self.non_2xx + self.connect_errors + self.read_errors + self.write_errors + self.timeouts
    }
}

impl Load {
    /// The arguments for wrk, as they stand in the report.
    pub fn arguments(&self, url: &str) -> Vec<String> {
        vec![
            format!("-t{}", self.threads),
            format!("-c{}", self.connections),
            format!("-d{}s", self.duration.as_secs()),
            "--latency".into(),
            "--timeout".into(),
            format!("{}s", self.timeout.as_secs()),
            url.into(),
        ]
    }

    /// Loads `http://address/path`; gives the figures and wrk's own words.
    ///
    /// # Errors
    /// When wrk cannot run, fails, or prints something else than expected.
    pub fn run(&self, address: SocketAddr, path: &str) -> Result<(Report, String)> {
        let url = format!("http://{address}{path}");
        let output = Command::new("wrk")
            .args(self.arguments(&url))
            .output()
            .context("cannot run wrk: is it installed?")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!(
                "wrk failed ({}): {}{}",
                output.status,
                text,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let report =
            parse(&text).with_context(|| format!("cannot read what wrk printed:\n{text}"))?;
        Ok((report, text))
    }
}

/// Reads wrk's output.
///
/// # Errors
/// When the latency distribution or the totals are missing.
pub fn parse(text: &str) -> Result<Report> {
    let mut report = Report::default();
    let mut seen_percentiles = 0;
    let mut seen_totals = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["50%", value] => seen_percentiles += set(&mut report.p50_ms, milliseconds(value)?),
            ["90%", value] => seen_percentiles += set(&mut report.p90_ms, milliseconds(value)?),
            ["99%", value] => seen_percentiles += set(&mut report.p99_ms, milliseconds(value)?),
            ["Latency", _average, _deviation, maximum, _] => report.max_ms = milliseconds(maximum)?,
            [requests, "requests", "in", time, _size, "read"] => {
                report.requests = number(requests)?;
                report.seconds = milliseconds(time.trim_end_matches(','))? / 1000.0;
                seen_totals = true;
            }
            [
                "Socket",
                "errors:",
                "connect",
                connect,
                "read",
                read,
                "write",
                write,
                "timeout",
                timeout,
            ] => {
                report.connect_errors = number(connect)?;
                report.read_errors = number(read)?;
                report.write_errors = number(write)?;
                report.timeouts = number(timeout)?;
            }
            ["Non-2xx", "or", "3xx", "responses:", count] => report.non_2xx = number(count)?,
            _ => {}
        }
    }
    if seen_percentiles != 3 {
        bail!("no latency distribution");
    }
    if !seen_totals || report.seconds <= 0.0 {
        bail!("no totals");
    }
    Ok(report)
}

fn set(target: &mut f64, value: f64) -> usize {
    *target = value;
    1
}

fn number(text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(',');
    digits.parse().with_context(|| format!("number {text:?}"))
}

/// wrk's times carry one of the units us, ms, s, m, h.
fn milliseconds(text: &str) -> Result<f64> {
    let split = text
        .find(|character: char| character.is_ascii_alphabetic())
        .with_context(|| format!("time {text:?}"))?;
    let (digits, unit) = text.split_at(split);
    let value: f64 = digits.parse().with_context(|| format!("time {text:?}"))?;
    let factor = match unit {
        "us" => return Ok(value / 1000.0),
        "ms" => 1.0,
        "s" => 1000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        _ => bail!("unit of {text:?}"),
    };
    Ok(value * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "\
Running 30s test @ http://localhost:3000/
  2 threads and 100 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   237.09ms    9.11ms   1.20s    78.66%
    Req/Sec   210.46     16.08   242.00     55.36%
  Latency Distribution
     50%  236.10ms
     75%  240.00ms
     90%  245.50ms
     99%  950us
  12622 requests in 30.01s, 436.10MB read
Requests/sec:    420.65
Transfer/sec:     14.53MB
";

    #[test]
    fn percentiles_totals_and_units_are_read() {
        let report = parse(PLAIN).unwrap();
        assert_eq!(
            (report.p50_ms, report.p90_ms, report.p99_ms, report.max_ms),
            (236.10, 245.50, 0.95, 1200.0)
        );
        assert_eq!(
            (report.requests, report.seconds, report.errors()),
            (12622, 30.01, 0)
        );
        assert!((report.good_per_second() - 420.59).abs() < 0.01);
    }

    #[test]
    fn errors_are_counted_and_do_not_count_as_speed() {
        let failing = PLAIN.replace(
            "Requests/sec",
            "  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 12000\nRequests/sec",
        );
        let report = parse(&failing).unwrap();
        assert_eq!(report.errors(), 12_010);
        assert_eq!(
            (
                report.connect_errors,
                report.read_errors,
                report.write_errors,
                report.timeouts
            ),
            (1, 2, 3, 4)
        );
        assert!((report.good_per_second() - 622.0 / 30.01).abs() < 0.01);
    }

    #[test]
    fn output_without_figures_is_an_error() {
        assert!(parse("").is_err());
        assert!(parse("unable to connect to localhost:1 Connection refused").is_err());
        assert!(parse(&PLAIN.replace("99%", "98%")).is_err());
        assert!(parse(&PLAIN.replace("requests in", "things in")).is_err());
        assert!(parse(&PLAIN.replace("950us", "950parsecs")).is_err());
    }

    #[test]
    fn minutes_and_seconds_become_milliseconds() {
        assert_eq!(milliseconds("1.50m").unwrap(), 90_000.0);
        assert_eq!(milliseconds("2.00s").unwrap(), 2_000.0);
        assert!(milliseconds("12").is_err());
    }
}
