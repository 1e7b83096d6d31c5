//! Exports for other tools: HdrHistogram's interval log, the summary of k6, and the CSV of JMeter. It makes text of what was
//! measured; it measures nothing and opens no file.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use loadgen::outcome::Outcome;

mod jmeter;
mod k6;

pub use jmeter::jmeter;
pub use k6::k6;

/// A format of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The interval log of HdrHistogram, one histogram a load, in microseconds.
    Hdr,
    /// What `k6 run --summary-export` writes.
    K6,
    /// What JMeter writes as CSV (JTL): one line a request.
    Jmeter,
}

/// Where an export goes: `hdr=FILE`, `k6=FILE` or `jmeter=FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its format.
    pub kind: Kind,
    /// Its file.
    pub file: PathBuf,
}

impl FromStr for Export {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, file) = text.split_once('=').unwrap_or((text, ""));
        let kind = match kind {
            "hdr" => Kind::Hdr,
            "k6" => Kind::K6,
            "jmeter" => Kind::Jmeter,
            _ => return Err("expected hdr=FILE, k6=FILE or jmeter=FILE".to_owned()),
        };
        match file {
            "" => Err("the file is missing: write, for example, hdr=load.hlog".to_owned()),
            file => Ok(Self {
                kind,
                file: file.into(),
            }),
        }
    }
}

/// One load of an export.
#[derive(Debug, Clone)]
pub struct Load<'a> {
    /// Names and values that tell it from the other loads of the same export; empty for a single one.
    pub tags: Vec<(&'static str, String)>,
    /// When it began.
    pub started: SystemTime,
    /// What came of it.
    pub outcome: &'a Outcome,
}

/// The latencies of each load as HdrHistogram's interval log, with the values of its tags as tag.
pub fn hdr(loads: &[Load<'_>]) -> String {
    let first = loads.iter().map(|load| load.started).min();
    let first = first.unwrap_or(SystemTime::UNIX_EPOCH);
    let (mut text, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .add_comment(
            "[Latencies in microseconds, measured by highball; Interval_Max in milliseconds]",
        )
        .add_comment("[Histogram log format version 1.3]")
        .with_start_time(first)
        .with_max_value_divisor(1000.0);
    let mut log = builder
        .begin_log_with(&mut text, &mut serializer)
        .expect("writing to memory cannot fail");
    for load in loads {
        let values = load.tags.iter().map(|(_, value)| value.as_str());
        let tag = values.collect::<Vec<_>>().join(":");
        // Commas and blanks separate the fields of a line.
        let tag = tag.replace([',', ' ', '\r', '\n'], "_");
        let tag = Tag::new(&tag).filter(|tag| !tag.is_empty());
        let since = load.started.duration_since(first).unwrap_or_default();
        let length = std::time::Duration::from_secs_f64(load.outcome.elapsed_s.max(0.0));
        log.write_histogram(load.outcome.latency.histogram(), since, length, tag)
            .expect("writing to memory cannot fail, and no count is beyond 63 bits");
    }
    String::from_utf8(text).expect("the log is ASCII, and tags are UTF-8")
}

#[cfg(test)]
mod tests;
