//! From the groups of exceptions as the front tells them, in JSON, to what the dashboard shows of them. Pure. A key that is
//! missing or of another kind is an empty text.

use dashboard::{ExceptionGroup, ExceptionSample};
use front::exceptions::Exceptions;
use serde_json::{Map, Value};

/// The newest groups are shown with samples, at most so many.
const GROUPS_WITH_SAMPLES: usize = 20;
/// So many samples of each are shown; the command shows all.
const SAMPLES: usize = 2;
/// Lines of a backtrace.
const LINES: usize = 40;

/// The groups of an application, the newest first.
pub(super) fn groups(exceptions: &Exceptions) -> Vec<ExceptionGroup> {
    let list = exceptions.list();
    let groups = list["groups"].as_array().map_or(&[][..], Vec::as_slice);
    let groups = groups.iter().enumerate();
    groups
        .map(|(index, summary)| {
            let id = text(summary, "group");
            let whole = match index < GROUPS_WITH_SAMPLES {
                true => exceptions.group(&id),
                false => None,
            };
            group(whole.as_ref().unwrap_or(summary), id)
        })
        .collect()
}

fn group(group: &Value, id: String) -> ExceptionGroup {
    let samples = group["samples"].as_array().map_or(&[][..], Vec::as_slice);
    ExceptionGroup {
        id,
        class: text(group, "class"),
        message: text(group, "message"),
        location: text(group, "frame"),
        count: number(group, "count"),
        last_hour: group["hours"][0].as_u64().unwrap_or_default(),
        first: number(group, "first_at"),
        last: number(group, "last_at"),
        release: Some(text(group, "release")).filter(|text| !text.is_empty()),
        samples: samples.iter().take(SAMPLES).map(sample).collect(),
    }
}

fn sample(sample: &Value) -> ExceptionSample {
    let mut facts = Vec::new();
    for (key, name) in [
        ("parameters", "Parameters"),
        ("headers", "Header fields"),
        ("context", "Context"),
    ] {
        let found = sample[key].as_object().filter(|found| !found.is_empty());
        facts.extend(found.map(|found| (name.to_owned(), pairs(found))));
    }
    let release = Some(text(sample, "release")).filter(|text| !text.is_empty());
    facts.extend(release.map(|release| ("Release".to_owned(), release)));
    ExceptionSample {
        at: number(sample, "at"),
        message: text(sample, "message"),
        request: format!("{} {}", text(sample, "method"), text(sample, "path")),
        request_id: text(sample, "request_id"),
        route: Some(text(sample, "route")).filter(|text| !text.is_empty()),
        facts,
        backtrace: backtrace(sample),
    }
}

/// The backtrace, then each cause with its own.
fn backtrace(sample: &Value) -> Vec<String> {
    let lines = |value: &Value| -> Vec<String> {
        let lines = value["backtrace"].as_array().map_or(&[][..], Vec::as_slice);
        let lines = lines.iter().filter_map(Value::as_str).take(LINES);
        lines.map(str::to_owned).collect()
    };
    let mut all = lines(sample);
    let causes = sample["causes"].as_array().map_or(&[][..], Vec::as_slice);
    for cause in causes {
        let (class, message) = (text(cause, "class"), text(cause, "message"));
        all.push(format!("caused by {class}: {message}"));
        all.extend(lines(cause));
    }
    all
}

fn pairs(object: &Map<String, Value>) -> String {
    let pairs = object.iter().map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}: {text}"),
        None => format!("{name}: {value}"),
    });
    pairs.collect::<Vec<_>>().join(", ")
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_group_has_its_samples_with_causes() {
        let value = json!({
            "class": "KeyError", "message": "key not found", "frame": "app.rb:call", "count": 7, "hours": [3, 4],
            "first_at": 5, "last_at": 9, "release": "",
            "samples": [{
                "at": 9, "method": "GET", "path": "/a", "request_id": "id", "message": "key not found",
                "parameters": {"q": "x", "n": 1}, "headers": {}, "backtrace": ["app.rb:3"],
                "causes": [{"class": "E", "message": "m", "backtrace": ["lib.rb:1"]}],
            }, {}, {}],
        });
        let group = group(&value, "0a".into());
        assert_eq!((group.count, group.last_hour, group.release), (7, 3, None));
        assert_eq!(group.samples.len(), SAMPLES);
        let sample = &group.samples[0];
        assert_eq!(sample.request, "GET /a");
        assert_eq!(
            sample.facts,
            [("Parameters".to_owned(), "n: 1, q: x".to_owned())]
        );
        assert_eq!(sample.backtrace, ["app.rb:3", "caused by E: m", "lib.rb:1"]);
    }
}
