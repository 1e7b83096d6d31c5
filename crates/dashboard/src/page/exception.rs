//! The page of one group of exceptions: figures, hours, samples. It parses nothing.

use serde::Serialize;

use crate::chart::{Chart, hours};
use crate::model::Model;
use crate::model::opened::{ExceptionCause, ExceptionSample, OpenedException, TraceLine};
use crate::text::{ago, counted, moment};
use crate::view::View;

/// What the template is given.
#[derive(Debug, Serialize)]
pub(super) struct ExceptionPage<'a> {
    back: String,
    class: &'a str,
    message: &'a str,
    list: Vec<(&'static str, String)>,
    chart: Chart,
    samples: Vec<SampleView<'a>>,
}

#[derive(Debug, Serialize)]
struct SampleView<'a> {
    anchor: String,
    when: String,
    request: &'a str,
    message: &'a str,
    facts: Vec<(&'a str, &'a str)>,
    values: &'a [(String, Vec<(String, String)>)],
    backtrace: &'a [TraceLine],
    causes: Vec<CauseView<'a>>,
}

#[derive(Debug, Serialize)]
struct CauseView<'a> {
    class: &'a str,
    message: &'a str,
    backtrace: &'a [TraceLine],
}

impl<'a> ExceptionPage<'a> {
    pub(super) fn of(opened: &'a OpenedException, model: &Model, view: &View) -> Self {
        let group = &opened.group;
        Self {
            back: view.of_all().link(),
            class: &group.class,
            message: &group.message,
            list: list(opened, model.server.now),
            chart: hours::chart("chart-hours", "Exceptions", &group.hours),
            samples: opened.samples.iter().map(sample).collect(),
        }
    }
}

fn list(opened: &OpenedException, now: u64) -> Vec<(&'static str, String)> {
    let group = &opened.group;
    let time = |at| format!("{} ({})", moment(at), ago(at, now));
    let cause = opened.cause.as_ref();
    let cause = cause.map(|(class, place)| match place.is_empty() {
        true => class.clone(),
        false => format!("{class} in {place}"),
    });
    let handled = opened.is_handled.then(|| "by the application".to_owned());
    let this_hour = group.hours.first().copied().unwrap_or_default();
    let day: u64 = group.hours.iter().sum();
    let known = [
        ("Where", Some(group.location.clone())),
        ("Caused by", cause),
        ("Count", Some(counted(group.count, "time"))),
        (
            "Of these",
            Some(format!("{this_hour} in this hour, {day} in 24 hours")),
        ),
        ("First", Some(time(group.first))),
        ("Last", Some(time(group.last))),
        ("Rescued", handled),
        ("Route", opened.route.clone()),
        ("Release", group.release.clone()),
        ("Application", opened.application.clone()),
        ("Command", Some(format!("highball exceptions {}", group.id))),
    ];
    let known = known
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)));
    known.filter(|(_, text)| !text.is_empty()).collect()
}

fn sample(sample: &ExceptionSample) -> SampleView<'_> {
    let id = [("Request id", sample.request_id.as_str())].into_iter();
    let others = sample.facts.iter().map(|(name, text)| (&**name, &**text));
    let facts = id.chain(others).filter(|(_, text)| !text.is_empty());
    let plain = sample.request_id.chars();
    let plain = plain.filter(char::is_ascii_alphanumeric).take(40);
    SampleView {
        anchor: format!("sample-{}-{}", sample.at, plain.collect::<String>()),
        when: moment(sample.at),
        request: &sample.request,
        message: &sample.message,
        facts: facts.collect(),
        values: &sample.values,
        backtrace: &sample.backtrace,
        causes: sample.causes.iter().map(cause).collect(),
    }
}

fn cause(cause: &ExceptionCause) -> CauseView<'_> {
    CauseView {
        class: &cause.class,
        message: &cause.message,
        backtrace: &cause.backtrace,
    }
}
