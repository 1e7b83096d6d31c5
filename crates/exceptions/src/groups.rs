//! Exceptions that are alike, counted together, with a few samples of each group. Everything is bounded: groups, samples,
//! and how often people are told.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::hours::{HOUR, Hours};
use crate::notice::{Notice, Reason};
use crate::report::{Report, Seen};

/// The most groups of a server; the one that was quiet for the longest time leaves for a new one.
pub const MAX_GROUPS: usize = 200;
/// The most samples of a group: its first one and the latest.
const MAX_SAMPLES: usize = 5;
/// How long after people were told of a group they may be told of it again, in seconds.
const NOTICE_PAUSE: u64 = HOUR;
/// The most notices of one hour, of all groups.
const MAX_NOTICES: u32 = 20;
/// How many times as frequent an exception must be for people to be told.
const FREQUENT: f64 = 10.0;

/// Exceptions that are alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Group {
    id: String,
    class: String,
    /// The latest one's.
    message: String,
    frame: String,
    cause_class: String,
    cause_frame: String,
    route: String,
    /// The latest one's release.
    release: String,
    /// Whether the application rescued the latest.
    handled: bool,
    first_at: u64,
    last_at: u64,
    count: u64,
    hours: Hours,
    /// Samples as JSON, the first one and then the latest in their order.
    samples: Vec<Box<str>>,
    /// When people were told of it.
    told_at: Option<u64>,
    /// Why they would have been told, had they not been told of it before.
    untold: Option<Reason>,
}

/// All groups of an application.
#[derive(Debug)]
pub struct Groups {
    groups: HashMap<String, Group>,
    most: usize,
    /// The hour in which people were told last, and how often.
    notices: (u64, u32),
    /// Reports that could not be read.
    unreadable: u64,
    /// Whether another server has them now, and tells people. What is raised here still goes there at the end.
    handed_over: bool,
}

/// Groups on their way to another server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedGroups {
    groups: Vec<Group>,
    notices: (u64, u32),
}

impl SavedGroups {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            groups: HashMap::new(),
            most: MAX_GROUPS,
            notices: (0, 0),
            unreadable: 0,
            handed_over: false,
        }
    }
}

impl Groups {
    /// Keeps no more groups than these.
    pub fn limit(&mut self, most: usize) {
        self.most = most.max(1);
        while self.groups.len() > self.most {
            self.remove_quietest();
        }
    }

    /// Counts a report that could not be read.
    pub fn count_unreadable(&mut self) {
        self.unreadable += 1;
    }

    /// Takes an exception in. Returns what people are to be told.
    pub fn add(&mut self, report: Report, seen: Seen) -> Option<Notice> {
        let (id, at) = (report.group_id(), seen.at);
        if !self.groups.contains_key(&id) && self.groups.len() >= self.most {
            self.remove_quietest();
        }
        let group = self.groups.entry(id.clone()).or_insert_with(|| Group {
            id,
            first_at: at,
            release: report.release.clone(),
            ..Group::default()
        });
        // Where many are raised at once, one sample a second says enough.
        let is_sampled = group.samples.len() >= MAX_SAMPLES && group.last_at == at;
        let reason = group.count_one(&report, at);
        let request_id = seen.request_id.clone();
        if !is_sampled {
            group.keep(report.sample(seen));
        }
        let reason = reason?;
        if self.handed_over
            || group.told_at.is_some_and(|told| at < told + NOTICE_PAUSE)
            || !may_tell(&mut self.notices, at)
        {
            group.untold = Some(reason);
            return None;
        }
        (group.told_at, group.untold) = (Some(at), None);
        Some(group.notice(reason, request_id))
    }

    fn remove_quietest(&mut self) {
        let all = self.groups.values();
        let quietest = all
            .min_by_key(|group| group.last_at)
            .map(|group| group.id.clone());
        quietest.map(|id| self.groups.remove(&id));
    }

    /// All groups without their samples, at this time, the latest first.
    pub fn list(&self, at: u64) -> Value {
        let mut all: Vec<_> = self.groups.values().collect();
        all.sort_by(|one, other| (other.last_at, &one.id).cmp(&(one.last_at, &other.id)));
        let groups: Vec<_> = all.into_iter().map(|group| group.summary(at)).collect();
        json!({ "groups": groups, "unreadable_reports": self.unreadable })
    }

    /// The group with this id, or the only one whose id begins so, with its samples, the latest first.
    pub fn group(&self, id: &str, at: u64) -> Option<Value> {
        let mut found = self
            .groups
            .values()
            .filter(|group| group.id.starts_with(id));
        let (Some(group), None) = (found.next(), found.next()) else {
            return None;
        };
        let samples = group.samples.iter().rev();
        let samples: Vec<Value> = samples
            .filter_map(|text| serde_json::from_str(text).ok())
            .collect();
        let mut value = group.summary(at);
        value["samples"] = samples.into();
        Some(value)
    }

    /// Takes all groups away, for another server.
    pub fn take(&mut self) -> SavedGroups {
        self.handed_over = true;
        let groups = self.groups.drain().map(|(_, group)| group).collect();
        SavedGroups {
            groups,
            notices: self.notices,
        }
    }

    /// Adds the groups of another server.
    pub fn merge(&mut self, saved: SavedGroups) {
        self.handed_over = false;
        for mut group in saved.groups {
            group.samples.truncate(MAX_SAMPLES);
            match self.groups.get_mut(&group.id) {
                Some(own) => own.merge(group),
                None => drop(self.groups.insert(group.id.clone(), group)),
            }
        }
        let most = self.most;
        self.limit(most);
        self.notices = match (self.notices, saved.notices) {
            // The other server's may be those that this one had given it.
            (own, other) if own.0 == other.0 => (own.0, own.1.max(other.1)),
            (own, other) => own.max(other),
        };
    }
}

/// Whether people may be told once more in this hour; counts it then.
fn may_tell(notices: &mut (u64, u32), at: u64) -> bool {
    let hour = at / HOUR;
    if notices.0 != hour {
        *notices = (hour, 0);
    }
    notices.1 += u32::from(notices.1 <= MAX_NOTICES);
    notices.1 <= MAX_NOTICES
}

impl Group {
    /// Counts an exception. Returns why people should be told of it.
    fn count_one(&mut self, report: &Report, at: u64) -> Option<Reason> {
        let is_new = self.count == 0;
        let is_back = !self.release.is_empty()
            && !report.release.is_empty()
            && self.release != report.release;
        let cause = report.causes.first();
        self.class.clone_from(&report.class);
        self.message.clone_from(&report.message);
        self.frame.clone_from(&report.frame);
        self.cause_class = cause.map_or_else(String::new, |cause| cause.class.clone());
        self.cause_frame = cause.map_or_else(String::new, |cause| cause.frame.clone());
        self.route.clone_from(&report.route);
        if !report.release.is_empty() {
            self.release.clone_from(&report.release);
        }
        self.handled = report.handled;
        self.last_at = self.last_at.max(at);
        self.count += 1;
        self.hours.count(at);
        if is_new {
            return Some(Reason::New);
        }
        if is_back {
            return Some(Reason::Back);
        }
        self.untold
            .or_else(|| self.is_frequent(at).then_some(Reason::Frequent))
    }

    fn is_frequent(&self, at: u64) -> bool {
        let mean = self.hours.mean_before(at, self.first_at);
        mean.is_some_and(|mean| f64::from(self.hours.at(at)[0]) >= FREQUENT * mean.max(1.0))
    }

    fn keep(&mut self, sample: Box<str>) {
        if self.samples.len() >= MAX_SAMPLES {
            // The first one stays.
            self.samples.remove(1);
        }
        self.samples.push(sample);
    }

    /// Adds what an earlier server knows of it.
    fn merge(&mut self, earlier: Self) {
        let later = std::mem::replace(self, earlier);
        self.first_at = self.first_at.min(later.first_at);
        self.count = self.count.saturating_add(later.count);
        self.hours.add(&later.hours);
        self.told_at = self.told_at.max(later.told_at);
        self.untold = later.untold;
        later
            .samples
            .into_iter()
            .for_each(|sample| self.keep(sample));
        if later.last_at >= self.last_at {
            self.last_at = later.last_at;
            self.message = later.message;
            self.route = later.route;
            self.release = later.release;
            self.handled = later.handled;
        }
    }

    fn summary(&self, at: u64) -> Value {
        json!({
            "group": self.id,
            "class": self.class,
            "message": self.message,
            "frame": self.frame,
            "cause": { "class": self.cause_class, "frame": self.cause_frame },
            "route": self.route,
            "release": self.release,
            "handled": self.handled,
            "first_at": self.first_at,
            "last_at": self.last_at,
            "count": self.count,
            "hours": self.hours.at(at),
        })
    }

    fn notice(&self, reason: Reason, request_id: String) -> Notice {
        let notice = Notice {
            text: String::new(),
            reason,
            application: String::new(),
            group: self.id.clone(),
            class: self.class.clone(),
            message: self.message.clone(),
            frame: self.frame.clone(),
            cause: self.cause_class.clone(),
            route: self.route.clone(),
            request_id,
            count: self.count,
            count_this_hour: self.hours.at(self.last_at)[0],
            first_at: self.first_at,
            last_at: self.last_at,
            release: self.release.clone(),
        };
        notice.worded()
    }
}

#[cfg(test)]
mod tests;
