//! From the groups of exceptions as the front tells them, in JSON, to what the dashboard shows of them. Pure. A key that is
//! missing or of another kind is an empty text. Samples are read only of the group whose page is opened.

use dashboard::{
    ExceptionCause, ExceptionGroup, ExceptionSample, Opened, OpenedException, TraceLine,
};
use front::exceptions::Exceptions;
use profiles::{Frame, Origin};
use serde_json::{Map, Value};

/// The groups of an application, the newest first, without samples.
pub(super) fn groups(exceptions: &Exceptions) -> Vec<ExceptionGroup> {
    let list = exceptions.list();
    list_of(&list, "groups").iter().map(group).collect()
}

/// The group with this id, with its samples. `application` is named where there are several.
pub(super) fn opened(
    exceptions: &Exceptions,
    id: &str,
    application: Option<String>,
) -> Option<Opened> {
    let found = exceptions.group(id)?;
    // An address names a group by its whole id, not by how that begins.
    (found["group"] == id).then(|| {
        let opened = whole(&found);
        Opened::Exception(OpenedException {
            application,
            ..opened
        })
    })
}

fn group(group: &Value) -> ExceptionGroup {
    let hours = list_of(group, "hours").iter();
    ExceptionGroup {
        id: text(group, "group"),
        class: text(group, "class"),
        message: text(group, "message"),
        location: text(group, "frame"),
        count: number(group, "count"),
        hours: hours
            .map(|count| count.as_u64().unwrap_or_default())
            .collect(),
        first: number(group, "first_at"),
        last: number(group, "last_at"),
        release: maybe(group, "release"),
    }
}

fn whole(found: &Value) -> OpenedException {
    let cause = &found["cause"];
    OpenedException {
        group: group(found),
        application: None,
        cause: maybe(cause, "class").map(|class| (class, text(cause, "frame"))),
        route: maybe(found, "route"),
        is_handled: found["handled"] == true,
        samples: list_of(found, "samples").iter().map(sample).collect(),
    }
}

fn sample(sample: &Value) -> ExceptionSample {
    let values = [
        ("parameters", "Parameters"),
        ("headers", "Header fields"),
        ("context", "Context"),
    ];
    let values = values.into_iter().filter_map(|(key, name)| {
        let found = sample[key].as_object().filter(|found| !found.is_empty())?;
        Some((name.to_owned(), pairs(found)))
    });
    let whole = |key: &str| sample[key].as_u64().map(|number| number.to_string());
    let facts = [
        ("Route", maybe(sample, "route")),
        ("Release", maybe(sample, "release")),
        ("Worker", whole("worker")),
        ("Generation", whole("generation")),
        (
            "Rescued",
            (sample["handled"] == true).then(|| "by the application".to_owned()),
        ),
    ];
    let causes = list_of(sample, "causes").iter();
    ExceptionSample {
        at: number(sample, "at"),
        message: text(sample, "message"),
        request: format!("{} {}", text(sample, "method"), text(sample, "path")),
        request_id: text(sample, "request_id"),
        facts: facts
            .into_iter()
            .filter_map(|(name, text)| Some((name.to_owned(), text?)))
            .collect(),
        values: values.collect(),
        backtrace: backtrace(sample),
        causes: causes
            .map(|cause| ExceptionCause {
                class: text(cause, "class"),
                message: text(cause, "message"),
                backtrace: backtrace(cause),
            })
            .collect(),
    }
}

fn backtrace(value: &Value) -> Vec<TraceLine> {
    let lines = list_of(value, "backtrace").iter();
    let line = |line: &str| TraceLine {
        is_own: Frame::parse(line).origin() == Origin::Application,
        text: line.to_owned(),
    };
    lines.filter_map(Value::as_str).map(line).collect()
}

fn pairs(object: &Map<String, Value>) -> Vec<(String, String)> {
    let pairs = object.iter().map(|(name, value)| match value.as_str() {
        Some(text) => (name.clone(), text.to_owned()),
        None => (name.clone(), value.to_string()),
    });
    pairs.collect()
}

fn list_of<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn maybe(value: &Value, key: &str) -> Option<String> {
    Some(text(value, key)).filter(|text| !text.is_empty())
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
    fn an_opened_group_has_its_samples_with_causes() {
        let value = json!({
            "group": "0a", "class": "KeyError", "message": "key not found", "frame": "app.rb:call", "count": 7,
            "hours": [3, 4], "first_at": 5, "last_at": 9, "release": "",
            "cause": {"class": "E", "frame": "lib.rb:m"},
            "samples": [{
                "at": 9, "method": "GET", "path": "/a", "request_id": "id", "message": "key not found", "worker": 2,
                "parameters": {"q": "x", "n": 1}, "headers": {},
                "backtrace": ["app.rb:3:in `call'", "/usr/lib/ruby/set.rb:1:in `add'", "/x/gems/rack-3/r.rb:1:in `r'"],
                "causes": [{"class": "E", "message": "m", "backtrace": ["lib.rb:1"]}],
            }, {}],
        });
        let opened = whole(&value);
        let group = &opened.group;
        assert_eq!((group.count, &*group.hours), (7, &[3, 4][..]));
        assert_eq!(group.release, None);
        assert_eq!(opened.cause, Some(("E".into(), "lib.rb:m".into())));
        let sample = &opened.samples[0];
        assert_eq!(sample.request, "GET /a");
        assert_eq!(sample.facts, [("Worker".to_owned(), "2".to_owned())]);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let values = vec![pair("n", "1"), pair("q", "x")];
        assert_eq!(sample.values, [("Parameters".to_owned(), values)]);
        let own: Vec<bool> = sample.backtrace.iter().map(|line| line.is_own).collect();
        assert_eq!(own, [true, false, false]);
        assert_eq!(sample.causes[0].backtrace[0].text, "lib.rb:1");
        assert_eq!(opened.samples.len(), 2, "an empty one is shown as such");
    }
}
