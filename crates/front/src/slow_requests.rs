//! The slowest requests of the last hour, of one application. It samples nothing, and holds no value that the application
//! keeps secret.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use profiles::{Limits, StackTree, printable};
use serde::{Deserialize, Serialize};

/// Most requests that are kept.
const MAX_SLOW_REQUESTS: usize = 50;
/// How long a request is kept.
const KEEP_SLOW_REQUESTS: Duration = Duration::from_secs(3600);
/// Most bytes of a path that are kept.
pub(crate) const MAX_SLOW_PATH_BYTES: usize = 512;
/// Most bytes of a method, a route and a request's id that are kept.
pub(crate) const MAX_SLOW_WORD_BYTES: usize = 128;

/// A slow request that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// Its method.
    pub method: String,
    /// Path and query, without the values of secret parameters.
    pub path: String,
    /// Where the application routed it, if that is known.
    pub route: Option<String>,
    /// The id by which logs name it.
    pub request_id: Option<String>,
    /// When it ended, in seconds since 1970.
    pub ended: u64,
    /// Milliseconds that it waited for a worker.
    pub queue_ms: f64,
    /// Milliseconds that the application took.
    pub app_ms: f64,
    /// Milliseconds in the database, if the application tells.
    pub db_ms: Option<f64>,
    /// The worker that ran it.
    pub worker: Option<u16>,
    /// The worker's generation.
    pub generation: Option<u32>,
    /// The status of its response, if one was sent.
    pub status: Option<u16>,
    /// How it ended.
    pub outcome: String,
    /// Where its thread was while it was slow.
    pub stacks: StackTree,
}

impl SlowRequest {
    /// The same without more than this server would have kept.
    fn bounded(self) -> Self {
        let word = |text: String| printable(&text, MAX_SLOW_WORD_BYTES);
        let fits = self.stacks.fits(Limits::REQUEST);
        Self {
            method: word(self.method),
            path: printable(&self.path, MAX_SLOW_PATH_BYTES),
            route: self.route.map(word),
            request_id: self.request_id.map(word),
            outcome: word(self.outcome),
            stacks: if fits {
                self.stacks
            } else {
                StackTree::default()
            },
            ..self
        }
    }
}

/// Those of one application.
#[derive(Default)]
pub struct SlowRequests(Mutex<Vec<(Instant, SlowRequest)>>);

impl SlowRequests {
    /// Keeps a request that ended at `now`, unless there are enough slower ones.
    pub fn add(&self, now: Instant, request: SlowRequest) {
        let mut kept = self.kept(now);
        let at = kept.partition_point(|(_, other)| other.app_ms >= request.app_ms);
        kept.insert(at, (now, request));
        kept.truncate(MAX_SLOW_REQUESTS);
    }

    /// Those of the hour before `now`, the slowest first.
    pub fn list(&self, now: Instant) -> Vec<SlowRequest> {
        self.of_each(now, |request| Some(request.clone()))
    }

    /// What `look` takes of each of them, in the same order. Their stacks are large: nothing is copied.
    pub fn of_each<T>(&self, now: Instant, look: impl Fn(&SlowRequest) -> Option<T>) -> Vec<T> {
        let kept = self.kept(now);
        kept.iter().filter_map(|(_, one)| look(one)).collect()
    }

    /// Takes those of the hour before `now` away.
    pub(crate) fn take(&self, now: Instant) -> Vec<SlowRequest> {
        let kept = std::mem::take(&mut *self.kept(now)).into_iter();
        kept.map(|(_, request)| request).collect()
    }

    /// Adds those of another server, at this moment and second since 1970, as if they had ended here, within this
    /// server's bounds.
    pub(crate) fn merge(&self, now: (Instant, u64), slow: Vec<SlowRequest>) {
        for request in slow.into_iter().take(MAX_SLOW_REQUESTS) {
            let age = Duration::from_secs(now.1.saturating_sub(request.ended));
            let ended = now.0.checked_sub(age);
            if let Some(ended) = ended.filter(|_| age < KEEP_SLOW_REQUESTS) {
                self.add(ended, request.bounded());
            }
        }
    }

    fn kept(&self, now: Instant) -> MutexGuard<'_, Vec<(Instant, SlowRequest)>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(ended, _)| now.saturating_duration_since(*ended) < KEEP_SLOW_REQUESTS);
        kept
    }
}

/// The time of day, in seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(app_ms: f64) -> SlowRequest {
        SlowRequest {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            route: None,
            request_id: None,
            ended: 0,
            queue_ms: 0.0,
            app_ms,
            db_ms: None,
            worker: None,
            generation: None,
            status: Some(200),
            outcome: "ok".to_owned(),
            stacks: StackTree::default(),
        }
    }

    #[test]
    fn the_slowest_of_the_hour_are_kept() {
        let (slow, start) = (SlowRequests::default(), Instant::now());
        for number in 0..200_u32 {
            let ended = start + Duration::from_secs(number.into());
            slow.add(ended, request(f64::from(number * 37 % 200)));
        }
        let at = |seconds| slow.list(start + Duration::from_secs(seconds));
        let times: Vec<f64> = at(200).iter().map(|one| one.app_ms).collect();
        let expected: Vec<f64> = (150..200).rev().map(f64::from).collect();
        assert_eq!(times, expected);
        assert!((1..50).contains(&at(3700).len()));
        assert!(at(3800).is_empty());
    }

    #[test]
    fn another_servers_requests_are_kept_for_the_rest_of_their_hour() {
        let (slow, start) = (SlowRequests::default(), Instant::now());
        let now = start + Duration::from_secs(7200);
        let long = "\u{1b}".repeat(10_000);
        let ended_before = |seconds: u64| SlowRequest {
            ended: 1_000_000 - seconds,
            path: long.clone(),
            method: long.clone(),
            ..request(seconds as f64)
        };
        let all = [10, 3000, 3600, 1_000_000].map(ended_before);
        slow.merge((now, 1_000_000), all.into());
        let kept = slow.take(now);
        assert_eq!(kept.len(), 2);
        let most = 4 * MAX_SLOW_PATH_BYTES;
        assert!(
            kept.iter()
                .all(|one| one.path.len() <= most && one.method.len() <= most)
        );
        slow.merge((now, 1_000_000), kept);
        assert_eq!(slow.list(now + Duration::from_secs(700)).len(), 1);
        slow.merge((now, 1_000_000), (0..1000).map(|_| request(1.0)).collect());
        assert!(slow.list(now).len() <= MAX_SLOW_REQUESTS);
    }
}
