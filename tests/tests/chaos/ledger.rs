//! The account of a run: what clients sent and got, what the application saw, what the log says. It only compares.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::{Value, json};
use test_support::{Program, TEST_TIMEOUT};

use crate::load::Sent;

/// What the server goes through while requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// Nothing.
    Calm,
    /// `highball restart` with code that is fit.
    Restart,
    /// The same with code that is not.
    BrokenDeploy,
    /// `highball reload`.
    Reload,
    /// `highball upgrade`.
    Upgrade,
    /// `kill -9` of a worker: it may take the unsafe requests with it that it holds.
    Kill,
    /// The same within a restart or an upgrade.
    KillAmid,
    /// `kill -9` of a template within a restart or an upgrade.
    TemplateAmid,
    /// SIGSTOP of a worker: what it holds ends at its deadline.
    Stop,
    /// `kill -9` of any process, while workers are forked from new templates and their number changes.
    KillAnywhere,
}

impl Event {
    pub(crate) const ALL: [Self; 10] = [
        Self::Calm,
        Self::Restart,
        Self::BrokenDeploy,
        Self::Reload,
        Self::Upgrade,
        Self::Kill,
        Self::KillAmid,
        Self::TemplateAmid,
        Self::Stop,
        Self::KillAnywhere,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Restart => "restarts",
            Self::BrokenDeploy => "broken deploys",
            Self::Reload => "reloads",
            Self::Upgrade => "upgrades",
            Self::Kill => "kill -9 of a worker",
            Self::KillAmid => "the same amid a change",
            Self::TemplateAmid => "of a template, too",
            Self::Stop => "SIGSTOP of a worker",
            Self::KillAnywhere => "kill -9 of anything",
        }
    }
}

/// The figures of one kind of event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    /// How often it happened.
    pub(crate) times: usize,
    pub(crate) sent: usize,
    pub(crate) failed_gets: usize,
    pub(crate) failed_posts: usize,
}

/// A whole run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) rows: BTreeMap<Event, Row>,
    /// The failures, in words.
    pub(crate) failures: Vec<String>,
    /// POSTs that the application saw more than once.
    pub(crate) posts_twice: Vec<u64>,
    /// GETs that it saw more than once: run again, which is allowed.
    pub(crate) gets_again: usize,
    /// Requests that were answered with 200 and that the application never saw.
    pub(crate) unseen: Vec<u64>,
    /// Requests without a line in the log, and with more than one.
    pub(crate) unlogged: Vec<u64>,
    pub(crate) logged_twice: Vec<u64>,
    /// Lines by their outcome.
    pub(crate) outcomes: BTreeMap<String, usize>,
    /// From the first request to the last.
    pub(crate) seconds: f64,
}

impl Ledger {
    /// Compares. `phases` are the events in the order of their numbers, `folder` has the application's databases, `log`
    /// is in JSON.
    pub(crate) fn draw_up(phases: &[Event], sent: &[Sent], folder: &Path, log: &[String]) -> Self {
        let mut ledger = Self::default();
        for &event in phases {
            ledger.rows.entry(event).or_default().times += 1;
        }
        let seen = seen(folder);
        let mut lines = outcomes(log, &mut ledger.outcomes);
        for one in sent {
            let event = phases[one.phase];
            let row = ledger.rows.entry(event).or_default();
            row.sent += 1;
            if let Some(reason) = &one.failure {
                match one.method {
                    "GET" => row.failed_gets += 1,
                    _ => row.failed_posts += 1,
                }
                let (name, method, id) = (event.name(), one.method, one.id);
                ledger
                    .failures
                    .push(format!("{name}: {method} {id}: {reason}"));
            }
            match (one.method, seen.get(&one.id).copied().unwrap_or(0)) {
                (_, 0) if one.failure.is_none() => ledger.unseen.push(one.id),
                (_, 0 | 1) => {}
                ("GET", _) => ledger.gets_again += 1,
                _ => ledger.posts_twice.push(one.id),
            }
            match lines.remove(&one.id).unwrap_or(0) {
                0 => ledger.unlogged.push(one.id),
                1 => {}
                _ => ledger.logged_twice.push(one.id),
            }
        }
        ledger
    }

    pub(crate) fn sent(&self) -> usize {
        self.rows.values().map(|row| row.sent).sum()
    }

    /// Requests that failed while one of these happened.
    pub(crate) fn failed(&self, events: &[Event]) -> usize {
        let rows = events.iter().filter_map(|event| self.rows.get(event));
        rows.map(|row| row.failed_gets + row.failed_posts).sum()
    }

    /// As it is kept.
    pub(crate) fn json(&self) -> Value {
        let row = |(event, row): (&Event, &Row)| {
            let row = json!({
                "times": row.times, "sent": row.sent, "failed_gets": row.failed_gets, "failed_posts": row.failed_posts,
            });
            (event.name().to_owned(), row)
        };
        json!({
            "seconds": self.seconds,
            "sent": self.sent(),
            "events": self.rows.iter().map(row).collect::<serde_json::Map<_, _>>(),
            "posts_run_twice": self.posts_twice.len(),
            "gets_run_again": self.gets_again,
            "answered_but_unseen": self.unseen.len(),
            "unlogged": self.unlogged.len(),
            "logged_twice": self.logged_twice.len(),
            "outcomes": self.outcomes,
            "failures": self.failures,
        })
    }

    /// For people.
    pub(crate) fn table(&self, title: &str) -> String {
        let mut text = format!(
            "\n{title}: {} requests in {:.0} s\n",
            self.sent(),
            self.seconds
        );
        let heads = ["", "times", "sent", "failed GETs", "failed POSTs"];
        text += &line(&heads.map(str::to_owned));
        for event in Event::ALL {
            if let Some(row) = self.rows.get(&event) {
                let counts = [row.times, row.sent, row.failed_gets, row.failed_posts];
                let mut cells = vec![event.name().to_owned()];
                cells.extend(counts.map(|count| count.to_string()));
                text += &line(&cells);
            }
        }
        text += &format!(
            "POSTs run twice {}, GETs run again {}, answered but unseen {}, not in the log {}, twice in the log {}\n",
            self.posts_twice.len(),
            self.gets_again,
            self.unseen.len(),
            self.unlogged.len(),
            self.logged_twice.len()
        );
        let outcomes = self.outcomes.iter();
        let outcomes = outcomes.map(|(name, count)| format!("{name} {count}"));
        text + &format!("outcomes: {}\n", outcomes.collect::<Vec<_>>().join(", "))
    }
}

fn line(cells: &[String]) -> String {
    let mut text = format!("{:<24}", cells[0]);
    for cell in &cells[1..] {
        text += &format!("{cell:>14}");
    }
    text + "\n"
}

/// How often the application saw each id.
fn seen(folder: &Path) -> HashMap<u64, usize> {
    const READ: &str = r##"require "sqlite3"
        Dir["*.db"].each do |file|
          database = SQLite3::Database.new(file)
          # A worker may have been killed before its table was there.
          next if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'seen'").empty?
          database.execute("SELECT id FROM seen") { |row| puts row }
        end"##;
    let ran = Program::new("ruby")
        .args(["-e", READ])
        .current_dir(folder)
        .patience(4 * TEST_TIMEOUT)
        .run();
    assert!(ran.status.success(), "{}", ran.output());
    let mut seen = HashMap::new();
    for id in ran.stdout.lines() {
        let id: u64 = id.parse().expect("an id of the load");
        *seen.entry(id).or_default() += 1;
    }
    seen
}

/// How many lines with an outcome each id has.
fn outcomes(log: &[String], by_outcome: &mut BTreeMap<String, usize>) -> HashMap<u64, usize> {
    let mut lines = HashMap::new();
    for line in log {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            assert!(!line.contains("outcome"), "a line that is no JSON: {line}");
            continue;
        };
        let (Some(outcome), Some(path)) = (line["outcome"].as_str(), line["path"].as_str()) else {
            continue;
        };
        *by_outcome.entry(outcome.to_owned()).or_default() += 1;
        let id = path.rsplit_once('/').and_then(|(_, id)| id.parse().ok());
        // Others are the test's own.
        if let Some(id) = id {
            *lines.entry(id).or_default() += 1;
        }
    }
    lines
}
