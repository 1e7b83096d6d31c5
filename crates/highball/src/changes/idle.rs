//! Applications that nobody uses (setting `idle_timeout`): their processes end, and the first request starts them again. What
//! there is to do is known to the front; that a stop is possible now, to the supervisor.

use std::time::{Duration, Instant};

use exchange::Dispatcher;
use front::log::{Level, Value};
use front::{Activity, Front, IdleWatch};
use supervisor::stop_serving;
use tokio::time::sleep;

use crate::changes::boot::{FIRST_RETRY_DELAY, is_stop};
use crate::hosted::Hosted;

/// How often it is looked whether an application has anything to do; more often where `idle_timeout` is short.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The least number of looks in an `idle_timeout`.
const CHECKS_PER_TIMEOUT: u32 = 4;

impl Hosted {
    /// Stops this application, which is the front's with that number, whenever it has had nothing to do for `idle_timeout`, and
    /// starts it again with its next request. Never returns.
    pub(crate) async fn stop_when_idle(&self, front: &Front, number: u16) {
        loop {
            if !self.is_stopped.get() {
                let idle = self.until_idle(front, number).await;
                if front.is_leaving() || !self.try_stop(idle) {
                    continue;
                }
            }
            self.idle_watch().request_waits().await;
            self.start_again().await;
        }
    }

    /// Waits until this application serves and has had nothing to do for `idle_timeout`. Returns what it had then.
    async fn until_idle(&self, front: &Front, number: u16) -> (Activity, Duration) {
        let watch = self.idle_watch();
        let activity = || watch.activity();
        let (mut last, mut since) = (activity(), Instant::now());
        loop {
            let limit = self.front.settings().idle_timeout;
            let checks = limit.map_or(IDLE_CHECK_INTERVAL, |limit| limit / CHECKS_PER_TIMEOUT);
            sleep(checks.min(IDLE_CHECK_INTERVAL)).await;
            let now = activity();
            let quiet = now == last && !now.is_busy && self.serving.get().is_some();
            if !quiet || front.hijacked_of(number).await > 0 {
                (last, since) = (now, Instant::now());
            } else if let Some(limit) = limit
                && since.elapsed() >= limit
            {
                return (now, limit);
            }
        }
    }

    /// Stops the application unless it has something to do by now, or a change is being made.
    fn try_stop(&self, (idle, limit): (Activity, Duration)) -> bool {
        let Ok(_turn) = self.turn.try_lock() else {
            return false;
        };
        let watch = self.idle_watch();
        if watch.activity() != idle || !stop_serving(&self.supervisor) {
            return false;
        }
        watch.listen_for_requests();
        self.is_stopped.set(true);
        let serving = self.serving.take();
        let text = format!(
            "the application had nothing to do for {limit:?} (idle_timeout): its processes end, and its next request starts \
             it again"
        );
        let generation = serving.map(|number| ("generation", Value::Number(number.into())));
        self.log().event(Level::Info, &text, generation.as_slice());
        true
    }

    /// Begins as a stopped application: that is what it is in the server that this one replaces.
    pub(crate) fn leave_stopped(&self) {
        self.idle_watch().listen_for_requests();
        self.front.dispatcher().close(self.latest.get());
        self.is_stopped.set(true);
    }

    fn idle_watch(&self) -> IdleWatch {
        IdleWatch::of(self.front.dispatcher())
    }

    /// Starts a stopped application, for a request waits. Where it does not come up requests get 503, and it is tried again
    /// until it does.
    async fn start_again(&self) {
        let turn = self.turn.lock().await;
        self.supervisor.settled().await;
        let (application, began) = (self.application.borrow().clone(), Instant::now());
        let launched = self.launch(&application).await;
        self.is_stopped.set(false);
        match launched {
            Ok(_) => {
                let text = format!(
                    "a request has started the application again in {:.2} s: {}",
                    began.elapsed().as_secs_f64(),
                    self.capacity(self.latest.get())
                );
                self.log().event(Level::Info, &text, &[]);
            }
            Err(error) if is_stop(&error) => {}
            Err(error) => {
                self.log_failed(&format!("{error:#}"), FIRST_RETRY_DELAY);
                drop(turn);
                self.keep_trying().await;
            }
        }
    }
}
