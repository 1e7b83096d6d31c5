//! The lists of exceptions and slow requests, newest and slowest first; each leads to a page of its own. It sorts nothing but
//! what comes of several applications.

use super::Scope;
use super::table::{Cell, Row, Table};
use crate::model::{ExceptionGroup, SlowRequest};
use crate::text::{NOTHING, ago, milliseconds, shortened};
use crate::view::Alone;

/// A page lists at most so many groups of exceptions, and so many slow requests.
const MOST: usize = 50;
/// So many characters of a message or a target are listed; the page of its own has all.
const MOST_CHARACTERS: usize = 200;

pub(super) fn exceptions(scope: &Scope<'_>) -> Table {
    let applications = scope.applications.iter();
    let mut groups: Vec<(Option<&str>, &ExceptionGroup)> = applications
        .flat_map(|one| one.exceptions.iter().map(|group| (scope.name(one), group)))
        .collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.last));
    let now = scope.model.server.now;
    let row = |(application, group): (Option<&str>, &ExceptionGroup)| Row {
        name: group.class.clone(),
        detail: Some(named(application, &group.message)),
        link: Some(link(scope, application, Alone::Exception(group.id.clone()))),
        cells: vec![
            Cell::number(group.count),
            Cell::number(group.hours.first().copied().unwrap_or_default()),
            Cell::number(ago(group.last, now)),
            Cell::words(shortened(&group.location, MOST_CHARACTERS)),
        ],
    };
    Table {
        id: "exceptions",
        caption: "Exceptions".to_owned(),
        heads: Table::heads(["Exception", "Times", "This hour", "Last", "Where"]),
        rows: groups.into_iter().take(MOST).map(row).collect(),
        empty: "No exception has been recorded.",
        more: None,
    }
}

pub(super) fn slow(scope: &Scope<'_>) -> Table {
    let applications = scope.applications.iter();
    let mut requests: Vec<(Option<&str>, &SlowRequest)> = applications
        .flat_map(|one| one.slow.iter().map(|request| (scope.name(one), request)))
        .collect();
    requests.sort_by_key(|(_, request)| std::cmp::Reverse(request.duration_ms));
    let now = scope.model.server.now;
    let row = |(application, request): (Option<&str>, &SlowRequest)| Row {
        name: shortened(&request.request, MOST_CHARACTERS),
        detail: Some(named(
            application,
            request.route.as_deref().unwrap_or("no route"),
        )),
        link: Some(link(scope, application, Alone::Slow(request.key.clone()))),
        cells: vec![
            Cell::number(milliseconds(request.duration_ms)),
            Cell::number(milliseconds(request.queue_ms)),
            Cell::number(
                request
                    .database_ms
                    .map_or_else(|| NOTHING.to_owned(), milliseconds),
            ),
            Cell::number(
                request
                    .status
                    .map_or_else(|| request.outcome.clone(), |status| status.to_string()),
            ),
            Cell::number(ago(request.at, now)),
        ],
    };
    Table {
        id: "slow",
        caption: "Slow requests".to_owned(),
        heads: Table::heads(["Request", "Took", "Queue", "Database", "Status", "Ended"]),
        rows: requests.into_iter().take(MOST).map(row).collect(),
        empty: "No slow request has been recorded.",
        more: None,
    }
}

fn link(scope: &Scope<'_>, application: Option<&str>, alone: Alone) -> String {
    scope.view.of_one(application, alone).link()
}

/// The text with its application before it, where there are several.
fn named(application: Option<&str>, text: &str) -> String {
    let text = shortened(text, MOST_CHARACTERS);
    match application {
        Some(name) => format!("{name}: {text}"),
        None => text,
    }
}
