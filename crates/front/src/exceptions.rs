//! The exceptions of one application, as its workers report them: taken in from frames, kept in groups, and passed to
//! those who listen. It logs nothing: an error frame does, and holds the same exception as text.

use std::cell::{OnceCell, RefCell};
use std::time::{SystemTime, UNIX_EPOCH};

use ::exceptions::{Groups, MAX_GROUPS, Notice, Report, SavedGroups, Seen};
use exchange::WorkerId;
use http::HeaderValue;

use crate::http::request::Request;

/// The fewest groups of an application, however many share a server.
const MIN_GROUPS: usize = 10;

/// The exceptions of one application.
#[derive(Default)]
pub struct Exceptions {
    groups: RefCell<Groups>,
    /// Who hears of what people are to be told.
    on_notice: OnceCell<Box<dyn Fn(Notice)>>,
    /// Who counts them.
    on_report: OnceCell<Box<dyn Fn(bool)>>,
}

impl Exceptions {
    /// Takes in what a worker reports of an exception in this request.
    pub(crate) fn take_in(&self, request: &Request, by: Option<WorkerId>, report: &[u8]) {
        let Some(report) = Report::parse(report) else {
            return self.groups.borrow_mut().count_unreadable();
        };
        if let Some(count) = self.on_report.get() {
            count(report.handled);
        }
        let path = request.full_path();
        let path = path.split(|&byte| byte == b'?').next().unwrap_or_default();
        let id = request.id.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
        let seen = Seen {
            at: now(),
            method: request.method.as_str().to_owned(),
            path: String::from_utf8_lossy(path).into_owned(),
            request_id: String::from_utf8_lossy(id).into_owned(),
            worker: by.map(|by| by.worker.into()),
            generation: by.map(|by| by.generation),
        };
        let notice = self.groups.borrow_mut().add(report, seen);
        if let (Some(notice), Some(hear)) = (notice, self.on_notice.get()) {
            hear(notice);
        }
    }

    /// Keeps as many groups as each of so many applications may have.
    pub(crate) fn share(&self, applications: usize) {
        let share = MAX_GROUPS / applications.max(1);
        self.groups.borrow_mut().limit(share.max(MIN_GROUPS));
    }

    /// Calls `hear` with what people are to be told. Only the first call counts.
    pub fn on_notice(&self, hear: impl Fn(Notice) + 'static) {
        let _ = self.on_notice.set(Box::new(hear));
    }

    /// Calls `count` with each exception that can be read: whether the application rescued it. Only the first call counts.
    pub(crate) fn on_report(&self, count: impl Fn(bool) + 'static) {
        let _ = self.on_report.set(Box::new(count));
    }

    /// All groups without their samples, as JSON, the latest first.
    pub fn list(&self) -> serde_json::Value {
        self.groups.borrow().list(now())
    }

    /// The group with this id, or the only one whose id begins so, as JSON, with its samples.
    pub fn group(&self, id: &str) -> Option<serde_json::Value> {
        self.groups.borrow().group(id, now())
    }

    /// Takes all groups away, for another server.
    pub fn take(&self) -> SavedGroups {
        self.groups.borrow_mut().take()
    }

    /// Adds the groups of another server.
    pub fn merge(&self, saved: SavedGroups) {
        self.groups.borrow_mut().merge(saved);
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_secs())
}
