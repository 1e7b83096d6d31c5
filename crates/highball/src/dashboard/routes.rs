//! The routes of an application as the dashboard shows them, and how often each is asked for. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use dashboard::Route;
use metrics::{ApplicationTotals, RouteTotals};

use crate::control::report::ApplicationReport;

/// How far back a rate looks: what was a minute ago weighs a third of what is now.
const RATE_WINDOW_S: f64 = 60.0;

/// How many requests a second the routes of an application get, as moving averages that forget exponentially.
#[derive(Default)]
pub(super) struct RouteRates {
    began: Option<Duration>,
    last: Duration,
    /// All requests of the application at the last reading.
    requests: u64,
    routes: BTreeMap<String, RouteRate>,
}

#[derive(Clone, Copy, Default)]
struct RouteRate {
    count: u64,
    average: f64,
}

impl RouteRates {
    /// Takes a reading. `elapsed` is the time on a clock that nobody sets.
    pub(super) fn take(&mut self, report: &ApplicationReport, elapsed: Duration) {
        let counts = report.totals.routes.iter();
        self.count(
            report.own_requests,
            counts.map(|(name, route)| (name, route.count())),
            elapsed,
        );
    }

    fn count<'a>(
        &mut self,
        requests: u64,
        counts: impl Iterator<Item = (&'a String, u64)>,
        elapsed: Duration,
    ) {
        let passed = elapsed.saturating_sub(self.last).as_secs_f64();
        let is_first = self.began.is_none();
        let most = requests.saturating_sub(self.requests);
        let kept = (-passed / RATE_WINDOW_S).exp();
        for (name, count) in counts {
            let known = self.routes.get(name).copied().unwrap_or_default();
            let more = count.saturating_sub(known.count);
            // What exceeds all requests of this server was counted by the server before it.
            let now = match is_first || more > most || passed <= 0.0 {
                true => 0.0,
                false => more as f64 / passed,
            };
            let average = known.average * kept + now * (1.0 - kept);
            self.routes
                .insert(name.clone(), RouteRate { count, average });
        }
        self.began.get_or_insert(elapsed);
        (self.last, self.requests) = (elapsed, requests);
    }

    /// Requests a second of this route.
    pub(super) fn of(&self, route: &str) -> f64 {
        let known = self.routes.get(route).map_or(0.0, |one| one.average);
        let began = self.began.unwrap_or_default();
        let seen_s = self.last.saturating_sub(began).as_secs_f64();
        // The share of the window that has been seen.
        let seen = 1.0 - (-seen_s / RATE_WINDOW_S).exp();
        if seen > 0.0 { known / seen } else { 0.0 }
    }
}

/// The routes of an application, in the order of their names; `rate` says how many requests a second one gets.
pub(super) fn routes(totals: &ApplicationTotals, rate: impl Fn(&str) -> f64) -> Vec<Route> {
    let routes = totals.routes.iter();
    routes
        .map(|(name, route)| Route {
            rate: rate(name),
            ..shown(name, route)
        })
        .collect()
}

fn shown(name: &str, route: &RouteTotals) -> Route {
    let times = route.times();
    let percentile = |share| times.percentile(share).map(|time| time.as_secs_f64());
    let cost = &route.cost;
    // Zero is what a route has whose framework tells nothing.
    let told = |ns: u64| (ns > 0).then_some(ns as f64 / 1e9);
    let measured = cost.requests as f64;
    Route {
        name: name.to_owned(),
        count: route.count(),
        rate: 0.0,
        p50_s: percentile(0.5),
        p95_s: percentile(0.95),
        p99_s: percentile(0.99),
        total_s: route.app.sum_s(),
        database_s: told(cost.db_ns),
        view_s: told(cost.view_ns),
        queries: (cost.queries > 0).then(|| cost.queries as f64 / measured.max(1.0)),
        cpu_s: (cost.requests > 0).then_some(cost.cpu_ns as f64 / 1e9),
        lock_s: (cost.lock_known > 0).then_some(cost.lock_wait_ns as f64 / 1e9),
        objects: (cost.requests > 0).then(|| cost.allocations as f64 / measured),
        gc_s: (cost.requests > 0).then_some(cost.gc_ns as f64 / 1e9),
        errors: route.failed,
    }
}

#[cfg(test)]
mod tests {
    use metrics::{ApplicationMetrics, Cost, Ended};

    use super::*;

    fn rates(readings: &[(u64, u64, u64)]) -> f64 {
        let name = "GET /".to_owned();
        let mut rates = RouteRates::default();
        for &(seconds, requests, count) in readings {
            let counts = [(&name, count)].into_iter();
            rates.count(requests, counts, Duration::from_secs(seconds));
        }
        rates.of(&name)
    }

    #[test]
    fn a_steady_rate_is_shown_from_the_second_reading() {
        assert_eq!(rates(&[(0, 100, 40)]), 0.0);
        let early = rates(&[(0, 100, 40), (5, 200, 90)]);
        assert!((early - 10.0).abs() < 1e-9, "{early}");
        let steady: Vec<_> = (0..200).map(|n| (n * 5, n * 100, n * 50)).collect();
        assert!((rates(&steady) - 10.0).abs() < 1e-6);
    }

    #[test]
    fn counts_of_an_earlier_server_are_no_rate() {
        let rate = rates(&[
            (0, 0, 0),
            (5, 10, 10),
            (10, 20, 1_000_020),
            (15, 30, 1_000_030),
        ]);
        assert!(rate < 2.0, "{rate}");
    }

    #[test]
    fn a_route_has_the_times_and_costs_that_were_measured() {
        let metrics = ApplicationMetrics::default();
        metrics.recorder().record(&Ended {
            method: "GET",
            route: metrics::Route::Named(b"/slow"),
            status: Some(500),
            failed: true,
            whole: Some(Duration::from_millis(100)),
            queue: None,
            app: Some(Duration::from_millis(90)),
            cost: Some(Cost {
                db_ns: 60_000_000,
                cpu_ns: 30_000_000,
                allocations: 4_000,
                lock_wait_ns: Some(9_000_000),
                queries: 12,
                ..Cost::default()
            }),
        });
        let routes = routes(&metrics.totals(), |_| 4.5);
        let [route] = &routes[..] else {
            panic!("{routes:?}");
        };
        assert_eq!(
            (&*route.name, route.count, route.errors),
            ("GET /slow", 1, 1)
        );
        assert_eq!((route.total_s, route.database_s), (0.09, Some(0.06)));
        assert_eq!((route.view_s, route.gc_s), (None, Some(0.0)));
        assert_eq!((route.cpu_s, route.objects), (Some(0.03), Some(4_000.0)));
        assert_eq!(route.lock_s, Some(0.009));
        assert_eq!((route.queries, route.rate), (Some(12.0), 4.5));
        let p50 = route.p50_s.expect("a time");
        assert!((p50 / 0.09 - 1.0).abs() < 0.09, "{p50}");
    }
}
