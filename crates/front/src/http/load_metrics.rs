//! The field `endpoint-load-metrics` of responses (ORCA, Open Request Cost Aggregation): a trusted proxy that asks for it
//! learns how busy the application is. It tells nobody else anything.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::transaction::Transaction;

/// The field of a request that asks for it, with a format.
const ASKED: HeaderName = HeaderName::from_static("endpoint-load-metrics-format");
/// The field of a response.
const TOLD: HeaderName = HeaderName::from_static("endpoint-load-metrics");

/// Adds the field to a response where the settings want it and a trusted proxy has asked. One of the application's own stays.
pub fn tell(transaction: &Transaction, headers: &mut HeaderMap) {
    let application = &transaction.application;
    let request = &transaction.request;
    if !application.settings.get().endpoint_load_metrics || !request.peer.trusted {
        return;
    }
    let asked = request.headers.get(ASKED);
    let value = asked.and_then(|format| report(format.as_bytes(), application.saturation.ratio()));
    if let Some(value) = value {
        headers.entry(TOLD).or_insert(value);
    }
}

/// The report in one of the two formats that are text; none for another one.
fn report(format: &[u8], ratio: f64) -> Option<HeaderValue> {
    let text = match format.trim_ascii() {
        format if format.eq_ignore_ascii_case(b"JSON") => {
            format!("JSON {{\"application_utilization\":{ratio}}}")
        }
        format if format.eq_ignore_ascii_case(b"TEXT") => {
            format!("TEXT application_utilization={ratio}")
        }
        _ => return None,
    };
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_in_the_format_that_was_asked_for() {
        let check = |format: &str, expect: Option<&str>| {
            let report = report(format.as_bytes(), 0.25);
            let shown = report.as_ref().map(|value| value.to_str().unwrap());
            assert_eq!(shown, expect, "{format}");
        };
        check("TEXT", Some("TEXT application_utilization=0.25"));
        check("json ", Some("JSON {\"application_utilization\":0.25}"));
        for other in ["", "BIN", "TEXT,JSON", "TEXT\u{e9}"] {
            check(other, None);
        }
    }
}
