//! Has the number of threads that take requests follow the advice, slowly, where `threads` is a range. It starts and ends no
//! thread.

use std::time::{Duration, Instant};

use front::log::Level;
use metrics::CostTotals;
use tokio::time::sleep;

use crate::hosted::Hosted;
use crate::thread_limit::ActiveThreads;

/// The number changes by one, and only after so long.
const STEP_INTERVAL: Duration = Duration::from_secs(30);
/// How often it is looked whether the settings have another range.
const RANGE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Sets the first number, before there are workers.
pub(crate) fn begin_thread_limit(hosted: &Hosted) {
    let range = hosted.front.settings().threads;
    if range.is_range() {
        set_active_threads(hosted, ActiveThreads::first(range));
    }
}

/// Has the number of threads that take requests follow the advice, wherever the settings leave it a range. Never returns.
pub(crate) async fn follow_thread_advice(hosted: &Hosted) {
    let (mut before, mut since) = (CostTotals::default(), Instant::now());
    loop {
        let range = hosted.front.settings().threads;
        let now = hosted.thread_limit.get().filter(|now| now.is_of(range));
        match (range.is_range(), now) {
            (false, _) => take_all_threads(hosted),
            (true, None) => {
                (before, since) = (hosted.front.totals().cost(), Instant::now());
                set_active_threads(hosted, ActiveThreads::first(range));
            }
            (true, Some(now)) if since.elapsed() >= STEP_INTERVAL => {
                let all = hosted.front.totals().cost();
                since = Instant::now();
                if let Some(next) = now.next(&all.since(&before)) {
                    before = all;
                    step(hosted, now, next);
                }
            }
            (true, Some(_)) => {}
        }
        sleep(RANGE_CHECK_INTERVAL).await;
    }
}

/// Sets the number, and says so where it changes.
fn step(hosted: &Hosted, now: ActiveThreads, next: ActiveThreads) {
    if next.active != now.active {
        let waits = next.wait_share.unwrap_or_default() * 100.0;
        let text = format!(
            "{} of {} threads of each worker take requests, {} before: requests wait {waits:.0} % of their time (threads \
             = \"{}..{}\")",
            next.active, next.most, now.active, next.least, next.most
        );
        hosted.log().event(Level::Info, &text, &[]);
    }
    set_active_threads(hosted, next);
}

fn set_active_threads(hosted: &Hosted, next: ActiveThreads) {
    hosted.thread_limit.set(Some(next));
    front::set_active_threads(hosted.front.dispatcher(), next.active);
}

/// The settings have no range, or not any more.
fn take_all_threads(hosted: &Hosted) {
    if hosted.thread_limit.set(None).is_some() {
        front::set_active_threads(hosted.front.dispatcher(), u16::MAX);
    }
}
