//! A restart under an open loop at a share of what the stack can do: latency before it, from its begin until no process
//! of before is left, and after.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::lab::{MAX_CONNECTIONS, Restart};
use crate::results::{Stretch, UnderRestart};
use crate::trial_context::{Server, TrialContext};
use loadgen::plan::{Arrivals, ConnectionUse, Mode};
use loadgen::{Single, run_each};
use stacks::Restarted;

/// The open loop's first seconds, which count for nothing.
const LEAD_IN: Duration = Duration::from_secs(3);

/// Restarts the server under load. `capacity` is what it can do, in good responses a second.
///
/// # Errors
/// It can do nothing, its stack has no restart, or the restart fails or is not over when the load ends.
pub(super) fn measure(
    context: &TrialContext<'_>,
    server: &mut Server,
    restart: &Restart,
    capacity: f64,
    seed: u64,
) -> Result<UnderRestart> {
    if capacity <= 0.0 {
        bail!("the closed loop before the restart had no good response");
    }
    let rate = capacity * restart.share;
    let length = LEAD_IN + restart.before + restart.after;
    let mode = Mode::Open {
        rate,
        arrivals: Arrivals::Poisson,
        duration: length,
        max_connections: MAX_CONNECTIONS,
    };
    let plan = context.plan(server, mode, ConnectionUse::KeepAlive, seed);
    // The load begins once its thread has started, some tenths of a millisecond later.
    let begin = Instant::now();
    let (restarted, load) = thread::scope(|scope| {
        let running = &mut server.running;
        let restarted = scope.spawn(move || {
            thread::sleep(LEAD_IN + restart.before);
            running.restart(begin + length)
        });
        let load = run_each(&plan, &mut |_| {}, context.stop);
        (restarted.join().expect("a restart does not panic"), load)
    });
    let (restarted, (_, singles)) = (restarted?, load?);
    let mut under = divided(&singles, begin, &restarted, context.lab.timeout);
    (under.capacity, under.rate) = (capacity, rate);
    Ok(under)
}

/// The requests of each stretch, by the moments at which they were due.
fn divided(
    singles: &[Single],
    begin: Instant,
    restarted: &Restarted,
    timeout: Duration,
) -> UnderRestart {
    let mut under = UnderRestart {
        served_s: (restarted.served - restarted.began).as_secs_f64(),
        gone_s: (restarted.gone - restarted.began).as_secs_f64(),
        ..UnderRestart::default()
    };
    for single in singles.iter().filter(|single| single.due >= LEAD_IN) {
        let stretch = match begin + single.due {
            due if due < restarted.began => &mut under.before,
            due if due < restarted.gone => &mut under.during,
            _ => &mut under.after,
        };
        add(stretch, single, timeout);
    }
    under
}

/// A quick refusal is no quick answer: it counts as one that took the time-out.
fn add(stretch: &mut Stretch, single: &Single, timeout: Duration) {
    stretch.errors += u64::from(!single.good);
    stretch.latency.record(match single.good {
        true => single.latency,
        false => single.latency.max(timeout),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(due: Duration, milliseconds: u64, good: bool) -> Single {
        Single {
            due,
            latency: Duration::from_millis(milliseconds),
            good,
            ..Single::default()
        }
    }

    #[test]
    fn a_request_that_failed_is_never_a_quick_one() {
        let mut stretch = Stretch::default();
        let timeout = Duration::from_secs(10);
        for _ in 0..50 {
            add(&mut stretch, &single(Duration::ZERO, 10, true), timeout);
        }
        add(&mut stretch, &single(Duration::ZERO, 1, false), timeout);
        assert_eq!((stretch.latency.count(), stretch.errors), (51, 1));
        assert!((stretch.latency.at(50.0) - 10.0).abs() < 0.1);
        assert!(stretch.latency.max_ms() >= 9_990.0);
    }

    #[test]
    fn requests_belong_to_the_stretch_that_they_were_due_in() {
        let begin = Instant::now();
        let after = |seconds| begin + LEAD_IN + Duration::from_secs(seconds);
        let restarted = Restarted {
            began: after(10),
            served: after(12),
            gone: after(15),
        };
        let due = |seconds| single(LEAD_IN + Duration::from_secs(seconds), 5, true);
        let early = single(LEAD_IN / 2, 5, true);
        let singles = [early, due(1), due(10), due(14), due(15), due(20), due(21)];
        let under = divided(&singles, begin, &restarted, Duration::from_secs(1));
        let counts = [&under.before, &under.during, &under.after].map(|one| one.latency.count());
        assert_eq!(counts, [1, 2, 3]);
        assert_eq!((under.served_s, under.gone_s), (2.0, 5.0));
    }
}
