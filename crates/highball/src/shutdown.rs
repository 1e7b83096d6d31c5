//! The end of a server: what was begun may end, what idles goes to whoever has taken over, and a server that this one
//! took over from is waited for. Then the workers go.

use std::rc::Rc;
use std::time::{Duration, Instant};

use front::Front;
use front::log::{AccessLog, Level};
use supervisor::Supervisor;
use tokio::time::timeout_at;

use crate::application::LEAST_GRACE;
use crate::changes::handover::PredecessorExit;
use crate::changes::upgrade::Heir;
use crate::control::queue::ChangeQueue;
use crate::system::signals::{Stop, Stops};

/// What the end is about.
pub(crate) struct Shutdown<'a> {
    pub(crate) front: &'a Rc<Front>,
    pub(crate) supervisor: &'a Supervisor,
    pub(crate) log: &'a AccessLog,
    /// What it is asked for meanwhile, which is for the heir.
    pub(crate) queue: &'a ChangeQueue,
    /// Who has taken over.
    pub(crate) heir: Option<&'a Heir>,
    /// Whom this server took over from.
    pub(crate) predecessor: &'a PredecessorExit,
}

impl Shutdown<'_> {
    /// Lets requests end for as long as the settings allow, or until somebody has no more patience; then ends the
    /// workers.
    pub(crate) async fn reach(&self, first: Stop, stops: &mut Stops) {
        let limit = self.front.settings().drain_timeout;
        let text = match (first, self.heir) {
            (Stop::Now, _) => "stopping at once".to_owned(),
            (_, None) => format!("draining: what was begun may end within {limit:?}"),
            (_, Some(_)) => {
                format!("draining: what is in time may end, what has no deadline within {limit:?}")
            }
        };
        self.log.event(Level::Info, &text, &[]);
        tokio::select! {
            biased;
            () = self.hurry(limit, first, stops) => {
                self.front.end().await;
                self.supervisor.stop(Duration::ZERO).await;
            }
            () = self.drain(limit) => {}
            () = self.pass_on() => {}
        }
    }

    /// Never ends.
    async fn pass_on(&self) {
        match self.heir {
            Some(heir) => heir.pass_on(self.queue, self.log).await,
            None => std::future::pending().await,
        }
    }

    async fn drain(&self, limit: Duration) {
        let began = Instant::now();
        let rest = || limit.saturating_sub(began.elapsed());
        // A service manager takes this process for the last one, and kills what is left behind it.
        let predecessor = self.predecessor.wait(limit);
        let own = async {
            match self.heir {
                Some(heir) => self.leave_to(heir, limit).await,
                None => {
                    self.front.drain(limit).await;
                    self.supervisor.stop(rest().max(LEAST_GRACE)).await;
                }
            }
        };
        let _ = tokio::join!(predecessor, own);
    }

    /// Another server has taken over: what is in time ends here, clients take and give at their own pace, and the workers
    /// go when nothing needs them any more.
    async fn leave_to(&self, heir: &Heir, limit: Duration) {
        let clients = async {
            let error = tokio::select! {
                given = heir.endow(self.front) => match given {
                    Ok(()) => return,
                    Err(error) => error,
                },
                () = heir.gone() => std::io::Error::other("it has ended"),
            };
            let text = "the new server takes no connections: this one ends as in a stop";
            self.log.event(Level::Warn, text, &[("reason", &error)]);
            self.front.drain(limit).await;
        };
        let workers = async {
            let began = Instant::now();
            self.front.let_workers_go(limit).await;
            let rest = limit.saturating_sub(began.elapsed());
            let rest = rest.max(self.front.in_time()).max(LEAST_GRACE);
            self.supervisor.stop(rest).await;
        };
        tokio::join!(clients, workers);
    }

    /// Waits for somebody who wants the end at once.
    async fn hurry(&self, limit: Duration, first: Stop, stops: &mut Stops) {
        // A second signal means it, a second `highball stop` only waits as well.
        let mut second = self.heir.is_none();
        let mut until = None;
        let mut next = first;
        while next != Stop::Now {
            next = match until {
                None => stops.next().await,
                Some(until) => match timeout_at(until, stops.next()).await {
                    Ok(next) => next,
                    Err(_) => return,
                },
            };
            if next == Stop::Signal && std::mem::replace(&mut second, true) {
                return;
            }
            // A server that was replaced has no clock for the whole of its end before it is asked to stop itself.
            if self.heir.is_some() && until.is_none() {
                until = Some(tokio::time::Instant::now() + limit);
            }
        }
    }
}
