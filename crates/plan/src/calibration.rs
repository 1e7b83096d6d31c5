//! Takes out of recorded waits what was waiting for Ruby's lock or for a core: the simulation adds that itself. It changes
//! nothing else.
//!
//! A worker measures a request's time and its CPU time. The rest is waiting, and the worker cannot tell for what. So the number
//! of workers and threads that were recorded is simulated at the recorded rate, and the waits of each route get shorter until
//! its mean time in the application is the recorded one.

use crate::forecast::Setup;
use crate::recording::Recording;
use crate::simulation::simulate;
use crate::workload::Workload;

/// After so many rounds the waits hardly change.
const ROUNDS: u64 = 8;
/// Requests of each round.
const REQUESTS: usize = 20_000;
/// What waits are multiplied by while the simulation cannot serve a load that was served.
const TOO_LONG: f64 = 0.7;

/// Shortens the waits of a workload.
pub(crate) fn calibrate(workload: &mut Workload, recording: &Recording, seed: u64) {
    let setup = Setup {
        workers: recording.workers.max(1),
        threads: recording.threads.max(1),
        cores: f64::from(recording.cores.max(1)),
    };
    let rate = recording.rate();
    if !(rate > 0.0 && rate.is_finite()) {
        return;
    }
    for round in 0..ROUNDS {
        let forecast = simulate(workload, setup, rate, REQUESTS, seed + round);
        for route in workload.routes() {
            let means = workload.means(route);
            let app_s = forecast.mean_app_s[route];
            let fitting_s = match forecast.percentiles {
                None => means.wait_s * TOO_LONG,
                // The route is too rare to be drawn.
                Some(_) if app_s == 0.0 => means.wait_s,
                Some(_) => means.recorded_wait_s - (app_s - means.cpu_s - means.wait_s).max(0.0),
            };
            // Half of the way, and never back: shorter waits change how long others wait for the lock.
            let halfway_s = (means.wait_s + fitting_s.max(0.0)) / 2.0;
            workload.set_wait_s(route, halfway_s.min(means.wait_s));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::RecordedRoute;
    use crate::times::Times;

    fn constant(seconds: f64, count: u64) -> Times {
        Times {
            sum_s: seconds * count as f64,
            ranges: vec![(seconds, seconds, count)],
        }
    }

    fn recording(wait_s: f64, seconds: f64, threads: u16) -> Recording {
        Recording {
            seconds,
            workers: 1,
            threads,
            cores: 1,
            routes: vec![RecordedRoute {
                cpu: constant(0.01, 1_000),
                wait: constant(wait_s, 1_000),
                ..RecordedRoute::default()
            }],
            ..Recording::default()
        }
    }

    fn calibrated_wait_s(recording: &Recording) -> f64 {
        let mut workload = Workload::of(recording).unwrap();
        calibrate(&mut workload, recording, 1);
        workload.means(0).wait_s
    }

    #[test]
    fn waits_of_a_worker_with_one_thread_stay_as_they_are() {
        assert!((calibrated_wait_s(&recording(0.05, 100.0, 1)) - 0.05).abs() < 1e-6);
    }

    #[test]
    fn waits_for_the_lock_are_taken_out() {
        // A thousand requests in 20 seconds are half of what one worker can compute; 5 ms is what M/D/1 waits then.
        let wait_s = calibrated_wait_s(&recording(0.005, 20.0, 8));
        assert!(wait_s < 0.001, "{wait_s}");
        // Of 30 ms about 6 are waiting for the lock, before and after the wait.
        let wait_s = calibrated_wait_s(&recording(0.03, 20.0, 8));
        assert!((0.018..0.028).contains(&wait_s), "{wait_s}");
    }
}
