//! Exports as their readers see them: HdrHistogram's log by the crate's own reader, k6's summary by its documented keys,
//! JMeter's lines by its documented columns.

use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use loadgen::Single;
use loadgen::outcome::{Errors, Latency};
use serde_json::Value;

use super::*;
use crate::tests::{outcome, plan};
use loadgen::plan::ConnectionUse;

fn load<'a>(tags: &[(&'static str, &str)], seconds: u64, outcome: &'a Outcome) -> Load<'a> {
    let tags = tags.iter().map(|(tag, value)| (*tag, (*value).to_owned()));
    Load {
        tags: tags.collect(),
        started: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
        outcome,
    }
}

#[test]
fn a_destination_names_its_kind_and_file() {
    let export = "k6=out/summary.json".parse::<Export>().unwrap();
    assert_eq!(export.kind, Kind::K6);
    assert_eq!(export.file, PathBuf::from("out/summary.json"));
    assert!(
        "hdr"
            .parse::<Export>()
            .unwrap_err()
            .contains("hdr=load.hlog")
    );
    assert!(
        "wrk=file"
            .parse::<Export>()
            .unwrap_err()
            .contains("expected hdr=FILE")
    );
}

#[test]
fn the_interval_log_gives_back_every_histogram_with_its_tag_and_time() {
    let (one, mut other) = (outcome(), outcome());
    other.latency = Latency::default();
    other.latency.record(Duration::from_millis(70));
    let tags = [("stack", "nginx + puma, 2"), ("load", "c12")];
    let text = hdr(&[load(&[], 1_000, &one), load(&tags, 1_030, &other)]);
    let entries: Vec<LogEntry<'_>> = IntervalLogIterator::new(text.as_bytes())
        .map(|entry| entry.expect("a line of the log"))
        .collect();
    let [
        LogEntry::StartTime(start),
        LogEntry::Interval(first),
        LogEntry::Interval(second),
    ] = entries.as_slice()
    else {
        panic!("{text}");
    };
    assert_eq!(*start, Duration::from_secs(1_000));
    assert_eq!(
        (first.tag(), first.duration()),
        (None, Duration::from_secs(12))
    );
    assert_eq!(second.tag().unwrap().as_str(), "nginx_+_puma__2:c12");
    assert_eq!(second.start_timestamp(), Duration::from_secs(30));
    let bytes = base64(second.encoded_histogram());
    let read: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .expect("a histogram of version 2");
    assert_eq!(&read, other.latency.histogram());
}

/// The bytes of a text in base64 (RFC 4648).
fn base64(text: &str) -> Vec<u8> {
    let digit = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|letter| *letter != b'=').collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, letter| {
            (bits << 6) | u32::from(digit(*letter))
        });
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

#[test]
fn the_k6_summary_has_the_metrics_that_k6_documents() {
    let mut outcome = outcome();
    outcome.good = 1_150;
    outcome.errors = Errors {
        timeout: 10,
        unanswered: 3,
        ..Errors::default()
    };
    let summary: Value = serde_json::from_str(&k6(&[load(&[], 0, &outcome)])).unwrap();
    let metrics = &summary["metrics"];
    assert_eq!(metrics["http_reqs"]["count"], 1_210);
    assert_eq!(metrics["http_req_failed"]["passes"], 60);
    assert_eq!(metrics["http_req_failed"]["fails"], 1_150);
    assert_eq!(metrics["data_received"]["count"], 1_282_800);
    assert_eq!(metrics["vus_max"]["value"], 4);
    for key in ["avg", "min", "med", "max", "p(90)", "p(95)"] {
        for metric in [
            "http_req_duration",
            "http_req_waiting",
            "iteration_duration",
        ] {
            assert!(metrics[metric][key].is_f64(), "{metric} {key}: {metrics:#}");
        }
    }
    assert_eq!(summary["root_group"]["groups"], serde_json::json!({}));
}

#[test]
fn loads_with_equal_tags_are_one_submetric_of_k6() {
    let outcome = outcome();
    let puma = [("stack", "puma"), ("load", "c12")];
    let loads = [
        load(&puma, 0, &outcome),
        load(&puma, 60, &outcome),
        load(&[("stack", "thin"), ("load", "c12")], 30, &outcome),
    ];
    let summary: Value = serde_json::from_str(&k6(&loads)).unwrap();
    let metrics = &summary["metrics"];
    let puma = &metrics["http_reqs{stack:puma,load:c12}"];
    assert_eq!(puma["count"], 2_400);
    assert_eq!(puma["rate"], 100.0);
    assert_eq!(metrics["http_reqs{stack:thin,load:c12}"]["count"], 1_200);
}

#[test]
fn jmeter_gets_a_line_with_its_columns_for_each_request() {
    let mut plan = plan(ConnectionUse::KeepAlive);
    plan.requests[0].path = "/search?q=\"a,b\"".into();
    let good = Single {
        due: Duration::from_millis(1_500),
        latency: Duration::from_millis(25),
        good: true,
        first_byte: Duration::from_millis(20),
        request: 0,
        status: Some(200),
        received: 1_069,
    };
    let lost = Single {
        good: false,
        status: None,
        ..good
    };
    let refused = Single {
        good: false,
        status: Some(503),
        ..good
    };
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut text = Vec::new();
    let outcome = outcome();
    let singles = [good, lost, refused];
    jmeter(&mut text, &plan, (started, &outcome, &singles)).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines();
    // As in the manual of JMeter 5.6, "CSV Log format", with the default of jmeter.properties.
    assert_eq!(
        lines.next(),
        Some(
            "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,\
             sentBytes,grpThreads,allThreads,URL,Latency,IdleTime,Connect"
        )
    );
    let label = r#""GET /search?q=""a,b""""#;
    let url = r#""http://127.0.0.1:8080/search?q=""a,b""""#;
    let line = |code: &str, message: &str, success: &str, failure: &str| {
        format!(
            "1700000001500,25,{label},{code},{message},highball 1-1,text,{success},{failure},1069,62,4,4,{url},20,0,0"
        )
    };
    let expected = [
        line("200", "OK", "true", ""),
        line(
            "Non HTTP response code",
            "Non HTTP response message",
            "false",
            "no whole response",
        ),
        line("503", "", "false", "not the expected status or length"),
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}
