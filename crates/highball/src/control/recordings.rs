//! What was recorded of an application, for `highball plan`: times of its routes, its workers and their memory. It only computes.

use std::time::Duration;

use metrics::{Distribution, RouteTotals};
use plan::{RecordedRoute, Recording, Times};
use supervisor::Role;

use crate::control::report::ApplicationReport;

/// Returns what an application's report has of it. `elapsed` is how long its server has recorded.
pub(crate) fn recording(report: &ApplicationReport, elapsed: Duration) -> Recording {
    let threads = report.threads.iter().map(|thread| thread.thread + 1);
    // Of a range those that take requests: the others rest, and nothing that was recorded waited for them.
    let active = report.active_threads.map(|limit| limit.active);
    let (worker_bytes, shared_bytes) = memory(report).unzip();
    let routes = report.totals.routes.iter();
    let measured = routes.filter(|(_, route)| route.cpu.count() > 0);
    Recording {
        seconds: elapsed.as_secs_f64(),
        workers: report.workers.allowed,
        threads: active.or(threads.max()).unwrap_or(0),
        cores: config::usable_cores(),
        worker_bytes,
        shared_bytes,
        routes: measured
            .map(|(name, route)| recorded(name, route))
            .collect(),
    }
}

fn recorded(name: &str, route: &RouteTotals) -> RecordedRoute {
    RecordedRoute {
        route: name.to_owned(),
        queries: route.cost.queries as f64 / route.cost.requests.max(1) as f64,
        cpu: times(&route.cpu),
        wait: times(&route.wait),
    }
}

fn times(all: &Distribution) -> Times {
    Times {
        sum_s: all.sum_s(),
        ranges: all.ranges().collect(),
    }
}

/// The mean private memory of a worker that serves, and the memory of all processes beyond that, in bytes.
fn memory(report: &ApplicationReport) -> Option<(u64, u64)> {
    let processes = report.processes.iter();
    let known = processes.filter_map(|one| Some((one, one.memory_bytes?, one.memory?)));
    let (mut workers, mut private, mut all) = (0_u64, 0_u64, 0_u64);
    for (process, own, figures) in known {
        all += figures.pss_bytes + figures.swap_bytes;
        if process.role == Role::Worker && process.state == "ready" {
            workers += 1;
            private += own;
        }
    }
    (workers > 0).then(|| (private / workers, all.saturating_sub(private)))
}

#[cfg(test)]
mod tests {
    use metrics::{ApplicationMetrics, Cost, Ended, Route};
    use std::sync::Arc;
    use supervisor::{MemoryDetails, Process};

    use super::*;
    use crate::control::report::{Thread, Workers};
    use crate::thread_limit::ActiveThreads;
    use config::NumberRange;

    fn process(role: Role, state: &str, private: u64, pss: u64) -> Process {
        Process {
            pid: 1,
            role,
            worker: None,
            generation: None,
            name: None,
            state: state.to_owned(),
            started: 0,
            forked_from: None,
            requests: None,
            memory_bytes: Some(private),
            first_memory_bytes: None,
            memory: Some(MemoryDetails {
                pss_bytes: pss,
                ..MemoryDetails::default()
            }),
        }
    }

    #[test]
    fn a_report_becomes_times_of_routes_and_memory() {
        let metrics = ApplicationMetrics::default();
        let measured = Ended {
            method: "GET",
            route: Route::Named(b"/books"),
            status: Some(200),
            failed: false,
            whole: None,
            queue: None,
            app: Some(Duration::from_millis(30)),
            cost: Some(Cost {
                cpu_ns: 10_000_000,
                queries: 4,
                ..Cost::default()
            }),
        };
        let recorder = metrics.recorder();
        recorder.record(&measured);
        recorder.record(&measured);
        recorder.record(&Ended {
            route: Route::None,
            cost: None,
            ..measured
        });
        let report = ApplicationReport {
            totals: Arc::new(metrics.totals()),
            workers: Workers {
                allowed: 2,
                ..Workers::default()
            },
            threads: vec![Thread {
                thread: 2,
                ..Thread::default()
            }],
            processes: vec![
                process(Role::Front, "ready", 10, 12),
                process(Role::Template, "ready", 20, 50),
                process(Role::Worker, "ready", 100, 150),
                process(Role::Worker, "ready", 200, 250),
                process(Role::Worker, "starting", 1, 51),
            ],
            ..ApplicationReport::default()
        };
        let found = recording(&report, Duration::from_secs(60));
        assert_eq!((found.workers, found.threads, found.seconds), (2, 3, 60.0));
        let some_rest = ApplicationReport {
            active_threads: Some(ActiveThreads::first(NumberRange::between(1, 2))),
            ..report.clone()
        };
        assert_eq!(recording(&some_rest, Duration::ZERO).threads, 2);
        assert_eq!(
            (found.worker_bytes, found.shared_bytes),
            (Some(150), Some(213))
        );
        let [route] = &found.routes[..] else {
            panic!("{found:?}");
        };
        assert_eq!((&*route.route, route.queries), ("GET /books", 4.0));
        assert_eq!((route.cpu.count(), route.wait.count()), (2, 2));
        let (cpu_s, wait_s) = (route.cpu.mean_s(), route.wait.mean_s());
        assert!((cpu_s - 0.01).abs() < 1e-9 && (wait_s - 0.02).abs() < 1e-9);
    }
}
