//! Exceptions and slow requests, newest and slowest first. It sorts nothing but what comes of several applications.

use serde::Serialize;

use super::Scope;
use crate::model::{ExceptionGroup, ExceptionSample, SlowRequest};
use crate::text::{ago, counted, milliseconds, moment};

/// A page shows at most so many groups of exceptions, and so many slow requests.
const MOST: usize = 50;

/// A group of exceptions.
#[derive(Debug, Serialize)]
pub(super) struct ExceptionView<'a> {
    anchor: String,
    class: &'a str,
    message: &'a str,
    count: String,
    facts: Vec<(&'static str, String)>,
    samples: Vec<SampleView<'a>>,
}

/// One exception.
#[derive(Debug, Serialize)]
struct SampleView<'a> {
    request: &'a str,
    when: String,
    message: &'a str,
    facts: Vec<(&'a str, &'a str)>,
    backtrace: String,
}

/// A slow request.
#[derive(Debug, Serialize)]
pub(super) struct SlowView<'a> {
    anchor: String,
    request: &'a str,
    duration: String,
    facts: Vec<(&'static str, String)>,
    stack: &'a str,
    flame: Option<&'a str>,
}

pub(super) fn exceptions<'a>(scope: &Scope<'a>) -> Vec<ExceptionView<'a>> {
    let applications = scope.applications.iter();
    let mut groups: Vec<(Option<&str>, &ExceptionGroup)> = applications
        .flat_map(|one| one.exceptions.iter().map(|group| (scope.name(one), group)))
        .collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.last));
    let now = scope.model.server.now;
    let view = |(index, (application, group)): (usize, (Option<&str>, &'a ExceptionGroup))| {
        let mut facts = vec![
            ("Where", group.location.clone()),
            ("Last", ago(group.last, now)),
            (
                "First",
                format!("{} ({})", moment(group.first), ago(group.first, now)),
            ),
            ("In the last hour", group.last_hour.to_string()),
        ];
        facts.extend(group.release.clone().map(|release| ("Release", release)));
        facts.extend(application.map(|name| ("Application", name.to_owned())));
        facts.push(("Command", format!("highball exceptions {}", group.id)));
        ExceptionView {
            anchor: anchor("exception", application, &group.id, index),
            class: &group.class,
            message: &group.message,
            count: counted(group.count, "time"),
            facts,
            samples: group.samples.iter().map(sample).collect(),
        }
    };
    groups
        .into_iter()
        .take(MOST)
        .enumerate()
        .map(view)
        .collect()
}

fn sample(sample: &ExceptionSample) -> SampleView<'_> {
    let route = sample.route.iter().map(|route| ("Route", route.as_str()));
    let id = [("Request id", sample.request_id.as_str())];
    let other = sample
        .facts
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    SampleView {
        request: &sample.request,
        when: moment(sample.at),
        message: &sample.message,
        facts: id.into_iter().chain(route).chain(other).collect(),
        backtrace: sample.backtrace.join("\n"),
    }
}

pub(super) fn slow<'a>(scope: &Scope<'a>) -> Vec<SlowView<'a>> {
    let applications = scope.applications.iter();
    let mut requests: Vec<(Option<&str>, &SlowRequest)> = applications
        .flat_map(|one| one.slow.iter().map(|request| (scope.name(one), request)))
        .collect();
    requests.sort_by_key(|(_, request)| std::cmp::Reverse(request.duration_ms));
    let now = scope.model.server.now;
    let view = |(index, (application, request)): (usize, (Option<&str>, &'a SlowRequest))| {
        let mut facts = vec![
            ("Ended", ago(request.at, now)),
            ("Waited in the queue", milliseconds(request.queue_ms)),
        ];
        facts.extend(request.database_ms.map(|ms| ("Database", milliseconds(ms))));
        facts.extend(request.route.clone().map(|route| ("Route", route)));
        facts.extend(request.status.map(|status| ("Status", status.to_string())));
        facts.push(("Outcome", request.outcome.clone()));
        facts.extend(request.worker.map(|worker| ("Worker", worker.to_string())));
        facts.push(("Samples of its thread", request.samples.to_string()));
        facts.extend(application.map(|name| ("Application", name.to_owned())));
        facts.push(("Request id", request.id.clone()));
        SlowView {
            anchor: anchor("slow", application, &request.id, index),
            request: &request.request,
            duration: milliseconds(request.duration_ms),
            facts,
            stack: &request.stack,
            flame: request.flame.as_deref().filter(|address| is_own(address)),
        }
    };
    requests
        .into_iter()
        .take(MOST)
        .enumerate()
        .map(view)
        .collect()
}

/// Whether an address is a path of this server. The policy of contents refuses all others too.
fn is_own(address: &str) -> bool {
    let mut characters = address.chars();
    characters.next() == Some('/') && !matches!(characters.next(), Some('/' | '\\'))
}

/// The id of an element, by which an update of the page finds what is open: letters, digits and hyphens.
fn anchor(kind: &str, application: Option<&str>, id: &str, index: usize) -> String {
    let plain = |text: &str| {
        text.chars()
            .filter(char::is_ascii_alphanumeric)
            .take(40)
            .collect::<String>()
    };
    let id = match plain(id) {
        id if id.is_empty() => index.to_string(),
        id => id,
    };
    match application {
        Some(name) => format!("{kind}-{}-{id}", plain(name)),
        None => format!("{kind}-{id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_elements_are_plain() {
        assert_eq!(anchor("slow", None, "4f\" onclick=x", 7), "slow-4fonclickx");
        assert_eq!(anchor("slow", Some("my shop"), "", 7), "slow-myshop-7");
    }

    #[test]
    fn pictures_come_from_this_server_alone() {
        assert!(is_own("/dashboard/slow/4.svg"));
        for address in [
            "",
            "//evil.test/x",
            "/\\evil.test",
            "https://evil.test",
            "data:x",
            "x.svg",
        ] {
            assert!(!is_own(address), "{address}");
        }
    }
}
