//! What a server has seen of itself: a reading every few seconds, and marks of what happened. It keeps bounded rings in
//! memory, and asks for figures of memory seldom, because the kernel takes milliseconds for a large process.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use dashboard::{Bucket, Mark, Measured, Reading, Recorder, STEP_S, Saved};

use tokio::time::{MissedTickBehavior, interval};

use crate::control::report::{ApplicationReport, Report};
use crate::control::reporter::Reporter;
use crate::dashboard::applications::applications;
use crate::dashboard::routes::RouteRates;

/// How far apart readings are.
const READING_INTERVAL: Duration = Duration::from_secs(STEP_S);
/// Of so many readings one has figures of memory.
const READINGS_A_MEASURE: u64 = 6;
/// The newest marks that are kept.
const MAX_MARKS: usize = 100;
/// How long a mark is kept in a file, in seconds: as long as what is drawn.
const MARK_LIFETIME_S: u64 = 86_400;

/// What a server has seen of itself.
#[derive(Default)]
pub(crate) struct History {
    recorder: RefCell<Recorder>,
    marks: RefCell<VecDeque<Mark>>,
    /// What each application was at the last reading.
    seen: RefCell<BTreeMap<String, Seen>>,
}

/// An application at the last reading.
#[derive(Default)]
struct Seen {
    generation: Option<u32>,
    /// Processes by generation and number.
    workers: BTreeMap<(u32, u16), i32>,
    memory_bytes: Option<u64>,
    /// How often its routes are asked for.
    rates: RouteRates,
}

/// Takes readings until it is dropped. A server that `replaces` another one has nothing to read before it serves.
pub(crate) async fn keep(history: Rc<History>, reporter: Rc<Reporter>, replaces: bool) {
    let since = Instant::now();
    let mut ticks = interval(READING_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0_u64.. {
        ticks.tick().await;
        if replaces && reporter.state.get() == "booting" {
            continue;
        }
        let report = match number % READINGS_A_MEASURE {
            0 => reporter.report().await,
            _ => reporter.report_without_memory(),
        };
        history.take(&report, since.elapsed());
    }
}

impl History {
    /// Takes a reading from a status. `elapsed` is the time on a clock that nobody sets.
    fn take(&self, report: &Report, elapsed: Duration) {
        let mut seen = self.seen.borrow_mut();
        let mut before = std::mem::take(&mut *seen);
        let mut readings = Vec::new();
        for (name, one) in applications(report) {
            let mut old = before.remove(name);
            let mut now = Seen::of(one);
            now.rates = old
                .as_mut()
                .map(|old| std::mem::take(&mut old.rates))
                .unwrap_or_default();
            now.rates.take(one, elapsed);
            now.memory_bytes = now
                .memory_bytes
                .or(old.as_ref().and_then(|old| old.memory_bytes));
            for text in old.iter().flat_map(|old| old.changes(&now)) {
                self.mark(Mark {
                    at: report.now,
                    text,
                    application: (!report.applications.is_empty()).then(|| name.to_owned()),
                });
            }
            readings.push((
                name.to_owned(),
                reading(report.now, elapsed, one, now.memory_bytes),
            ));
            seen.insert(name.to_owned(), now);
        }
        self.recorder.borrow_mut().record(readings);
    }

    /// Puts what an earlier server has seen before what this one has. `now` is in seconds of the UNIX epoch.
    pub(super) fn restore(&self, saved: Saved, now: u64) {
        self.recorder.borrow_mut().restore(saved.series, now);
        let own = self.marks.take();
        let is_shown = |mark: &Mark| (now.saturating_sub(MARK_LIFETIME_S)..=now).contains(&mark.at);
        let earlier = saved.marks.into_iter().filter(is_shown);
        earlier.chain(own).for_each(|mark| self.mark(mark));
    }

    /// What a later server can go on from.
    pub(super) fn saved(&self) -> Saved {
        Saved {
            marks: self.marks(),
            series: self.recorder.borrow().series(),
        }
    }

    /// Notes what happened.
    pub(super) fn mark(&self, mark: Mark) {
        let mut marks = self.marks.borrow_mut();
        if marks.len() == MAX_MARKS {
            marks.pop_front();
        }
        marks.push_back(mark);
    }

    /// What happened, the oldest first.
    pub(super) fn marks(&self) -> Vec<Mark> {
        self.marks.borrow().iter().cloned().collect()
    }

    /// How many requests a second each route of an application gets.
    pub(super) fn rate(&self, application: &str, route: &str) -> f64 {
        let seen = self.seen.borrow();
        seen.get(application)
            .map_or(0.0, |seen| seen.rates.of(route))
    }

    /// The figures of all applications together.
    pub(super) fn all(&self) -> Measured {
        self.recorder.borrow().all()
    }

    /// The figures of an application.
    pub(super) fn of(&self, application: &str) -> Measured {
        self.recorder.borrow().of(application)
    }
}

impl Seen {
    fn of(report: &ApplicationReport) -> Self {
        let serving = report
            .generations
            .iter()
            .filter(|one| one.state == "serving");
        let workers = report.processes.iter();
        let known = report
            .processes
            .iter()
            .filter_map(|one| Some(one.memory?.pss_bytes));
        Self {
            generation: serving.map(|one| one.number).max(),
            workers: workers
                .filter_map(|one| Some(((one.generation?, one.worker?), one.pid)))
                .collect(),
            memory_bytes: known.reduce(|a, b| a + b),
            rates: RouteRates::default(),
        }
    }

    /// What has changed since, in words.
    fn changes(&self, now: &Self) -> Vec<String> {
        let generation = match (self.generation, now.generation) {
            (old, Some(new)) if old != Some(new) => Some(format!("generation {new} serves")),
            (Some(old), None) => Some(format!("generation {old} serves no more")),
            _ => None,
        };
        let replaced = now.workers.iter().filter_map(|(id, pid)| {
            let old = self.workers.get(id).filter(|old| *old != pid)?;
            Some(format!("worker {} replaced: pid {old} by {pid}", id.1))
        });
        generation.into_iter().chain(replaced).collect()
    }
}

fn reading(
    at: u64,
    elapsed: Duration,
    report: &ApplicationReport,
    memory_bytes: Option<u64>,
) -> Reading {
    let busy = report
        .threads
        .iter()
        .filter(|thread| thread.state != "idle");
    Reading {
        at,
        monotonic_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        requests: report.own_requests,
        errors: report.own_errors,
        latency: report
            .latency
            .ranges()
            .map(|(above_s, up_to_s, count)| Bucket {
                above_s,
                up_to_s,
                count,
            })
            .collect(),
        queue: report.queue.length as u64,
        busy: busy.count() as u64,
        threads: report.threads.len() as u64,
        memory_bytes,
    }
}

#[cfg(test)]
mod tests {
    use supervisor::{Generation, MemoryDetails, Process, Role};

    use super::*;

    fn report(requests: u64, generation: u32, pid: i32, pss_bytes: Option<u64>) -> Report {
        Report {
            dir: "/srv/shop/current".into(),
            now: 1_000 + requests,
            all: ApplicationReport {
                generations: vec![Generation {
                    number: generation,
                    state: "serving".into(),
                    ..Generation::default()
                }],
                processes: vec![Process {
                    pid,
                    role: Role::Worker,
                    worker: Some(0),
                    generation: Some(generation),
                    state: "ready".into(),
                    forked_from: None,
                    started: 1_000,
                    requests: Some(requests),
                    name: None,
                    memory_bytes: None,
                    first_memory_bytes: None,
                    memory: pss_bytes.map(|pss_bytes| MemoryDetails {
                        pss_bytes,
                        ..MemoryDetails::default()
                    }),
                }],
                own_requests: requests + 2,
                own_errors: 2,
                ..ApplicationReport::default()
            },
            ..Report::default()
        }
    }

    #[test]
    fn a_reading_has_the_counters_of_the_status() {
        let history = History::default();
        history.take(&report(100, 1, 7, Some(5)), Duration::from_secs(0));
        history.take(&report(160, 1, 7, None), Duration::from_secs(5));
        let measured = history.of("shop");
        assert_eq!(measured, history.all());
        let point = &measured.recent[0];
        assert_eq!((point.requests, point.errors, point.rate()), (60, 0, 12.0));
        assert_eq!(point.memory_bytes, Some(5), "the last that was measured");
        assert!(history.marks().is_empty());
    }

    #[test]
    fn an_earlier_history_comes_before_what_was_seen() {
        let mark = |at: u64, text: &str| Mark {
            at,
            text: text.into(),
            application: None,
        };
        let earlier = History::default();
        earlier.take(&report(100, 1, 7, None), Duration::from_secs(0));
        earlier.take(&report(105, 1, 7, None), Duration::from_secs(5));
        let mut saved = earlier.saved();
        saved.marks = vec![
            mark(1_000, "yesterday"),
            mark(1_200, "earlier"),
            mark(90_000_000, "in the future"),
        ];
        let history = History::default();
        history.mark(mark(1_300, "own"));
        history.restore(saved, 1_110 + MARK_LIFETIME_S);
        let texts: Vec<String> = history.marks().into_iter().map(|one| one.text).collect();
        assert_eq!(texts, ["earlier", "own"]);
        assert!(history.of("shop").day.is_empty(), "older than a day");
        let history = History::default();
        history.restore(earlier.saved(), 1_110);
        assert_eq!(history.of("shop"), earlier.of("shop"));
        assert_eq!(history.all(), earlier.all());
    }

    #[test]
    fn what_changes_between_readings_is_marked_within_a_bound() {
        let history = History::default();
        let texts = || {
            let marks = history.marks().into_iter();
            marks.map(|mark| mark.text).collect::<Vec<_>>()
        };
        history.take(&report(1, 1, 7, None), Duration::from_secs(0));
        history.take(&report(2, 1, 8, None), Duration::from_secs(5));
        history.take(&report(3, 2, 9, None), Duration::from_secs(10));
        assert_eq!(
            texts(),
            ["worker 0 replaced: pid 7 by 8", "generation 2 serves"]
        );
        for pid in 0..300 {
            history.take(&report(4, 2, 10 + pid, None), Duration::from_secs(15));
        }
        assert_eq!(texts().len(), MAX_MARKS);
    }
}
