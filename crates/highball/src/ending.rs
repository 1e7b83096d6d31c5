//! The end of a server: what was begun may end, what idles goes to whoever has taken over, and a server that this one
//! took over from is waited for. Then the workers go.

use std::rc::Rc;
use std::time::{Duration, Instant};

use front::Front;
use front::access_log::{AccessLog, Level};
use supervisor::Supervisor;

use crate::application::LEAST_GRACE;
use crate::handover::Gone;
use crate::signals::{Stop, Stops};
use crate::upgrade::Heir;

/// What the end is about.
pub(crate) struct End<'a> {
    pub(crate) front: &'a Rc<Front>,
    pub(crate) supervisor: &'a Supervisor,
    pub(crate) log: &'a AccessLog,
    /// Who has taken over.
    pub(crate) heir: Option<&'a Heir>,
    /// Whom this server took over from.
    pub(crate) predecessor: &'a Gone,
}

impl End<'_> {
    /// Lets requests end for as long as the settings allow, or until somebody has no more patience; then ends the
    /// workers.
    pub(crate) async fn reach(&self, first: Stop, stops: &mut Stops) {
        let limit = self.front.settings().drain_timeout;
        let text = match first {
            Stop::Now => "stopping at once".to_owned(),
            _ => format!("draining: what was begun may end within {limit:?}"),
        };
        self.log.event(Level::Info, &text, &[]);
        tokio::select! {
            biased;
            () = self.hurry(first, stops) => {
                self.front.end().await;
                self.supervisor.stop(Duration::ZERO).await;
            }
            () = self.drain(limit) => {}
        }
    }

    async fn drain(&self, limit: Duration) {
        let began = Instant::now();
        let rest = || limit.saturating_sub(began.elapsed());
        // A service manager takes this process for the last one, and kills what is left behind it.
        let predecessor = self.predecessor.wait(limit);
        let own = async {
            if let Some(heir) = self.heir
                && let Ok(Err(error)) = tokio::time::timeout(limit, heir.endow(self.front)).await
            {
                let text = "the new server takes no connections: those that are idle are closed";
                self.log.event(Level::Warn, text, &[("reason", &error)]);
            }
            self.front.drain(rest()).await;
            self.supervisor.stop(rest().max(LEAST_GRACE)).await;
        };
        let _ = tokio::join!(predecessor, own);
    }

    /// Waits for somebody who wants the end at once.
    async fn hurry(&self, first: Stop, stops: &mut Stops) {
        // A second signal means it, a second `highball stop` only waits as well.
        let mut second = self.heir.is_none();
        let mut next = first;
        while next != Stop::Now {
            next = stops.next().await;
            if next == Stop::Signal && std::mem::replace(&mut second, true) {
                return;
            }
        }
    }
}
