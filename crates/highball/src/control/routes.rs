//! The routes of an application in its status: how often, how long, and where the time went. It only computes.

use metrics::{ApplicationTotals, RouteTotals};
use serde::{Deserialize, Serialize};

/// A route of an application, since the server started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RouteReport {
    /// Method and pattern, or controller and action; `other` for all that have no place in the table, `(none)` for requests
    /// that the server answered itself or that the application has no route for.
    pub(crate) route: String,
    /// Requests.
    pub(crate) requests: u64,
    /// Those of them that went wrong: their status was 5xx, or they did not end.
    pub(crate) errors: u64,
    /// Half of them took at most so long in the application, in milliseconds.
    pub(crate) p50_ms: f64,
    /// 95 % of them.
    pub(crate) p95_ms: f64,
    /// 99 % of them.
    pub(crate) p99_ms: f64,
    /// The mean time in the application, in milliseconds.
    pub(crate) mean_ms: f64,
    /// Their part of the time of all requests in the application, from 0 to 1.
    pub(crate) time_share: f64,
    /// The part of their time that went to the database.
    pub(crate) db_share: f64,
    /// The part of their time that went to views.
    pub(crate) view_share: f64,
    /// The part of their time in which the process collected garbage.
    pub(crate) gc_share: f64,
    /// The part of their time that the thread computed.
    pub(crate) cpu_share: f64,
    /// The part of their time in which they waited for Ruby's lock; none where this Ruby does not tell.
    pub(crate) lock_share: Option<f64>,
    /// Queries of the database for each request.
    pub(crate) queries: f64,
    /// Objects allocated for each request.
    pub(crate) allocations: f64,
}

/// Returns the routes of an application: those first that took the most time.
pub(crate) fn rows(totals: &ApplicationTotals) -> Vec<RouteReport> {
    let all_ns = totals.time().as_nanos() as f64;
    let mut rows: Vec<_> = totals
        .routes
        .iter()
        .map(|(name, route)| row(name, route, all_ns))
        .collect();
    rows.sort_by(|one, other| other.time_share.total_cmp(&one.time_share));
    rows
}

fn row(name: &str, route: &RouteTotals, all_ns: f64) -> RouteReport {
    let times = route.times();
    let app_ns = route.app.sum_ns() as f64;
    let percentile = |share: f64| {
        let time = times.percentile(share).unwrap_or_default();
        rounded(time.as_secs_f64() * 1e3)
    };
    let cost = &route.cost;
    let share = |part_ns: u64| rounded(ratio(part_ns as f64, app_ns).min(1.0));
    let each = |number: u64| rounded(ratio(number as f64, cost.requests as f64));
    RouteReport {
        route: name.to_owned(),
        requests: route.count(),
        errors: route.failed,
        p50_ms: percentile(0.5),
        p95_ms: percentile(0.95),
        p99_ms: percentile(0.99),
        mean_ms: rounded(ratio(times.sum_s() * 1e3, times.count() as f64)),
        time_share: rounded(ratio(app_ns, all_ns)),
        db_share: share(cost.db_ns),
        view_share: share(cost.view_ns),
        gc_share: share(cost.gc_ns),
        cpu_share: share(cost.cpu_ns),
        lock_share: (cost.lock_known > 0).then(|| {
            let known_ns = cost.lock_known_app_ns as f64;
            rounded(ratio(cost.lock_wait_ns as f64, known_ns).min(1.0))
        }),
        queries: each(cost.queries),
        allocations: each(cost.allocations),
    }
}

/// A part of a whole; 0 of nothing.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// With four decimal places.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metrics::{ApplicationMetrics, Cost, Ended, Route};

    use super::*;

    #[test]
    fn routes_say_where_the_time_went_the_longest_first() {
        let metrics = ApplicationMetrics::default();
        let recorder = metrics.recorder();
        let quick = Ended {
            method: "GET",
            route: Route::Named(b"/quick"),
            status: Some(200),
            failed: false,
            whole: Some(Duration::from_millis(10)),
            queue: None,
            app: Some(Duration::from_millis(10)),
            cost: None,
        };
        recorder.record(&quick);
        let cost = Cost {
            db_ns: 60_000_000,
            lock_wait_ns: Some(45_000_000),
            queries: 12,
            ..Cost::default()
        };
        recorder.record(&Ended {
            route: Route::Named(b"/slow"),
            failed: true,
            app: Some(Duration::from_millis(90)),
            cost: Some(cost),
            ..quick
        });
        let rows = rows(&metrics.totals());
        let slow = &rows[0];
        assert_eq!((&*slow.route, &*rows[1].route), ("GET /slow", "GET /quick"));
        assert_eq!((slow.requests, slow.errors, slow.mean_ms), (1, 1, 90.0));
        assert_eq!((slow.time_share, slow.db_share), (0.9, 0.6667));
        assert_eq!((slow.lock_share, rows[1].lock_share), (Some(0.5), None));
        assert_eq!(slow.queries, 12.0);
        assert!((slow.p99_ms / 90.0 - 1.0).abs() < 0.09, "{}", slow.p99_ms);
        assert_eq!((rows[1].queries, rows[1].db_share), (0.0, 0.0));
    }
}
