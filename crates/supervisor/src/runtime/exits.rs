//! How the processes of a generation's workers ended. That one is gone is seen by its pidfd, how it ended is reported by
//! the template that forked it, in either order; this brings the two together. It ends no process.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::time::Duration;

use exchange::dispatcher::Cause;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long the template may take to report how a worker ended that is gone. It reports within milliseconds, unless it
/// forks just then or gets no processor time.
const CAUSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Ends of workers, by process id.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    /// Workers that were told to leave and whose end is not reported yet.
    leaving: BTreeSet<i32>,
    /// Workers that a template has forked which is there, of which one or both are still to come: their end and its report.
    /// With the process id of that template.
    forked: BTreeMap<i32, (i32, Report)>,
}

/// How the template reports on a worker that it has forked.
#[derive(Debug)]
enum Report {
    /// Neither is it gone nor reported.
    Runs,
    /// It is reported, and not known to be gone.
    Reported(String),
    /// It is gone: the number that it had, and the channel on which its report is awaited.
    Awaited(u16, oneshot::Sender<String>),
}

impl Exits {
    /// This template has forked a worker, and will report its end.
    pub(crate) fn forked(&mut self, template: i32, pid: i32) {
        self.forked.insert(pid, (template, Report::Runs));
    }

    /// A worker was told to leave.
    pub(crate) fn leaves(&mut self, pid: i32) {
        self.leaving.insert(pid);
    }

    /// The end of a worker is to be logged. Returns whether it was told to leave.
    pub(crate) fn forget_leaving(&mut self, pid: i32) -> bool {
        self.leaving.remove(&pid)
    }

    /// The template has reported how a worker ended.
    pub(crate) fn reported(&mut self, pid: i32, cause: &str) {
        match self.forked.remove(&pid) {
            Some((_, Report::Awaited(_, waits))) => drop(waits.send(cause.to_owned())),
            Some((template, Report::Runs | Report::Reported(_))) => {
                let report = Report::Reported(cause.to_owned());
                self.forked.insert(pid, (template, report));
            }
            None => {}
        }
    }

    /// Whether a template is there that has reported the end of a worker, or will.
    pub(crate) fn is_reported(&self, pid: i32) -> bool {
        self.forked.contains_key(&pid)
    }

    /// The process of this worker is gone. Returns how it ended, if that is or becomes known.
    pub(crate) fn died(&mut self, worker: u16, pid: Option<i32>) -> Cause {
        let Some((pid, (template, report))) = pid.and_then(|pid| self.forked.remove_entry(&pid))
        else {
            return Box::pin(ready(None));
        };
        if let Report::Reported(cause) = report {
            return Box::pin(ready(Some(cause)));
        }
        let (waits, report) = oneshot::channel();
        self.forked
            .insert(pid, (template, Report::Awaited(worker, waits)));
        Box::pin(within(CAUSE_TIMEOUT, report))
    }

    /// This template is gone: nothing more is reported of the workers that it has forked. Returns number and process id of
    /// those that are gone as well and were never reported.
    pub(crate) fn template_gone(&mut self, template: i32) -> Vec<(u16, i32)> {
        let own = |_: &i32, (of, _): &mut (i32, Report)| *of == template;
        let forked = self.forked.extract_if(.., own);
        let unreported = forked.filter_map(|(pid, (_, report))| match report {
            Report::Awaited(worker, _) => Some((worker, pid)),
            Report::Runs | Report::Reported(_) => None,
        });
        unreported.collect()
    }
}

/// The report, if it comes within so long.
async fn within(limit: Duration, report: oneshot::Receiver<String>) -> Option<String> {
    timeout(limit, report).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: i32 = 4711;
    const TEMPLATE: i32 = 4000;

    /// What is known of the cause by now.
    fn poll(cause: &mut Cause) -> Option<Option<String>> {
        use std::task::{Context, Poll, Waker};
        match cause.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(cause) => Some(cause),
            Poll::Pending => None,
        }
    }

    fn forked() -> Exits {
        let mut exits = Exits::default();
        exits.forked(TEMPLATE, PID);
        exits
    }

    #[tokio::test]
    async fn a_death_and_its_report_come_together_in_either_order() {
        let known = Some(Some("signal 9 (KILL)".to_owned()));
        let mut exits = forked();
        exits.reported(PID, "signal 9 (KILL)");
        assert!(exits.is_reported(PID));
        assert_eq!(poll(&mut exits.died(3, Some(PID))), known);
        let mut exits = forked();
        let mut cause = exits.died(3, Some(PID));
        assert_eq!(poll(&mut cause), None);
        exits.reported(PID, "signal 9 (KILL)");
        assert_eq!(poll(&mut cause), known);
        assert!(!exits.is_reported(PID));
    }

    #[tokio::test]
    async fn a_report_that_does_not_come_is_not_awaited() {
        let mut exits = forked();
        let mut cause = exits.died(3, Some(PID));
        assert_eq!(poll(&mut cause), None);
        assert_eq!(exits.template_gone(TEMPLATE + 1), []);
        assert_eq!(exits.template_gone(TEMPLATE), [(3, PID)]);
        assert_eq!(poll(&mut cause), Some(None));
        // Nor of a process that an earlier template forked, or that none has named.
        assert_eq!(poll(&mut exits.died(3, Some(PID))), Some(None));
        assert_eq!(poll(&mut exits.died(3, None)), Some(None));
        let (_late, report) = oneshot::channel();
        assert_eq!(within(Duration::from_millis(1), report).await, None);
    }
}
