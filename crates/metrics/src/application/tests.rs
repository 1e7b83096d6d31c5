//! Routes, classes and costs of an application, over threads and servers.

use std::thread;
use std::time::Duration;

use super::*;
use crate::{Cost, Counts, Ended, MAX_ROUTES, RESTARTS, Route};

const ENDED: Ended<'_> = Ended {
    method: "GET",
    route: Route::Named(b"/books/:id"),
    status: Some(200),
    failed: false,
    whole: Some(Duration::from_millis(12)),
    queue: Some(Duration::from_millis(2)),
    app: Some(Duration::from_millis(10)),
    cost: Some(Cost {
        overlapped: false,
        cpu_ns: 5,
        gc_ns: 4,
        allocations: 3,
        db_ns: 2,
        view_ns: 1,
        lock_wait_ns: None,
        queries: 6,
    }),
};

fn named(route: Route<'_>, method: &str) -> String {
    let metrics = ApplicationMetrics::default();
    metrics.recorder().record(&Ended {
        route,
        method,
        ..ENDED
    });
    metrics.totals().routes.into_keys().next().expect("a route")
}

#[test]
fn routes_are_named_by_method_and_pattern_or_by_action() {
    for (route, method, expected) in [
        (Route::Named(b"/books/:id"), "GET", "GET /books/:id"),
        (Route::Named(b"books#show"), "GET", "books#show"),
        (Route::Path(b"/books/12"), "POST", "POST /books/:id"),
        (Route::Path(b"/books/12"), "BREW", "OTHER /books/:id"),
        (Route::None, "GET", "(none)"),
    ] {
        assert_eq!(named(route, method), expected);
    }
}

#[test]
fn requests_are_counted_by_route_class_and_cost() {
    let metrics = ApplicationMetrics::default();
    let recorder = metrics.recorder();
    recorder.record(&ENDED);
    recorder.record(&Ended {
        status: Some(500),
        failed: true,
        cost: ENDED.cost.map(|cost| Cost {
            overlapped: true,
            lock_wait_ns: Some(7),
            ..cost
        }),
        ..ENDED
    });
    recorder.record(&Ended {
        status: None,
        cost: None,
        ..ENDED
    });
    let totals = metrics.totals();
    let route = &totals.routes["GET /books/:id"];
    let classes = route
        .whole
        .iter()
        .map(|(class, one)| (&**class, one.count()));
    let classes: Vec<_> = classes.collect();
    assert_eq!(classes, [("2xx", 1), ("5xx", 1), ("none", 1)]);
    assert_eq!((route.count(), route.failed), (3, 1));
    assert_eq!((route.cost.requests, route.cost.queries), (2, 12));
    assert_eq!((route.cost.db_ns, route.cost.cpu_ns), (4, 10));
    let alone = (route.cost.alone, route.cost.alone_app_ns);
    assert_eq!((alone, route.cost.alone_cpu_ns), ((1, 10_000_000), 5));
    let lock = (route.cost.lock_known, route.cost.lock_known_app_ns);
    assert_eq!((lock, route.cost.lock_wait_ns), ((1, 10_000_000), 7));
    assert_eq!(route.cost.lock_known_cpu_ns, 5);
    assert_eq!(route.cost.app_ns, 20_000_000);
    assert_eq!(totals.queue.count(), 3);
    assert_eq!(totals.time(), Duration::from_millis(30));
    let ranges: Vec<_> = metrics.latency().ranges().collect();
    let [(above_s, up_to_s, 3)] = ranges[..] else {
        panic!("{ranges:?}");
    };
    assert!(above_s < 0.012 && up_to_s >= 0.012 && up_to_s / above_s < 1.1);
}

#[test]
fn ten_thousand_paths_are_at_most_201_routes() {
    let metrics = ApplicationMetrics::default();
    let recorder = metrics.recorder();
    for number in 0..10_000 {
        let path = format!("/page-{number}x");
        let route = Route::Path(path.as_bytes());
        recorder.record(&Ended { route, ..ENDED });
        let route = Route::Named(path.as_bytes());
        recorder.record(&Ended { route, ..ENDED });
    }
    let routes = metrics.totals().routes;
    assert!(routes.len() <= MAX_ROUTES + 1, "{}", routes.len());
    let all: u64 = routes.values().map(crate::RouteTotals::count).sum();
    assert_eq!(all, 20_000);
}

#[test]
fn threads_record_for_themselves_and_readers_see_their_sum() {
    let metrics = ApplicationMetrics::default();
    thread::scope(|scope| {
        for _ in 0..4 {
            let metrics = metrics.clone();
            scope.spawn(move || {
                let recorder = metrics.recorder();
                (0..1_000).for_each(|_| recorder.record(&ENDED));
            });
        }
    });
    let totals = metrics.totals();
    assert_eq!(totals.routes["GET /books/:id"].count(), 4_000);
}

#[test]
fn what_an_earlier_server_recorded_is_added() {
    let old = ApplicationMetrics::default();
    let recorder = old.recorder();
    recorder.record(&ENDED);
    let first = old.totals();
    let new = ApplicationMetrics::default();
    new.add_before(&first);
    new.recorder().record(&ENDED);
    recorder.record(&ENDED);
    let mut rest = old.totals();
    rest.since(&first);
    new.add_before(&rest);
    let totals = new.totals();
    let route = &totals.routes["GET /books/:id"];
    assert_eq!((route.count(), route.cost.queries), (3, 18));
    assert_eq!(totals.queue.count(), 3);
}

#[test]
fn an_earlier_server_cannot_bring_more_routes_than_there_is_room_for() {
    let mut totals = ApplicationTotals::default();
    for number in 0..1_000 {
        let route = crate::RouteTotals {
            failed: 1,
            ..Default::default()
        };
        totals.routes.insert(format!("action{number}"), route);
    }
    let metrics = ApplicationMetrics::default();
    metrics.add_before(&totals);
    let routes = metrics.totals().routes;
    assert_eq!(routes.len(), MAX_ROUTES + 1);
    assert_eq!(routes[OTHER].failed, 800);
}

#[test]
fn routes_of_an_earlier_server_keep_their_places() {
    let old = ApplicationMetrics::default();
    let recorder = old.recorder();
    for number in 0..MAX_ROUTES {
        let path = format!("/page-{number}x");
        let route = Route::Path(path.as_bytes());
        recorder.record(&Ended { route, ..ENDED });
        // A pattern without a parameter looks like a path.
        let name = format!("/named-{number}x");
        let route = Route::Named(name.as_bytes());
        recorder.record(&Ended { route, ..ENDED });
    }
    let totals = old.totals();
    let new = ApplicationMetrics::default();
    new.add_before(&totals);
    assert_eq!(new.totals(), totals);
}

#[test]
fn what_no_server_records_is_left_out() {
    let hostile = r#"{
        "routes": {
            "a\u001b[31m": { "failed": 1, "whole": { "2xx": { "counts": [[0, 18446744073709551615], [1, 5]], "sum_ns": 1 },
                                                    "9xx": { "counts": [[0, 1]], "sum_ns": 1 } } },
            "LONG": { "failed": 1 }
        },
        "events": { "highball_restarts_total": { "ok": 2, "invented": 3 }, "x": { "y": 1 } },
        "outcomes": { "invented": 3 }, "unknown": 7
    }"#;
    let hostile = hostile.replace("LONG", &"x".repeat(10_000));
    let totals: ApplicationTotals = serde_json::from_str(&hostile).expect("JSON");
    let metrics = ApplicationMetrics::default();
    metrics.add_before(&totals);
    metrics.add_before(&totals);
    let totals = metrics.totals();
    let names: Vec<_> = totals.routes.keys().map(|name| &**name).collect();
    assert_eq!(names, ["a\u{fffd}[31m", OTHER]);
    let route = &totals.routes[names[0]];
    assert_eq!((route.whole.len(), route.count()), (1, u64::MAX));
    assert!(route.times().percentile(0.99).is_some());
    assert_eq!(totals.outcomes, Counts::default());
    let restarts = &totals.events[RESTARTS.metric];
    assert_eq!((totals.events.len(), restarts["ok"]), (3, 4));
    assert!(!restarts.contains_key("invented"));
}
