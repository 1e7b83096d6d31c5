//! What a comparison found, as it is kept in `results.json`: how it was run, every trial, every search for a peak.
//! Plain data; verdicts and reports are made from it alone, also later and elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use loadgen::outcome::{Latency, Outcome};
use loadgen::plan::Arrivals;
pub use stacks::described::{Application, Stack};

/// The version of this format; a file of another version is refused.
pub const FORMAT: u32 = 1;

/// A whole comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// What is compared, in words.
    pub title: String,
    /// The command line.
    pub command: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// When it ended; `None` where it was stopped midway.
    pub finished: Option<String>,
    /// Whether it is too short for more than an indication.
    pub quick: bool,
    /// What order, arrivals and intervals depend on.
    pub seed: u64,
    /// How often each stack is to be measured.
    pub rounds: usize,
    /// The machine and its software.
    pub machine: Machine,
    /// Where servers and generator ran. Empty lists leave the choice to the kernel.
    #[serde(default)]
    pub placement: Placement,
    /// The application.
    pub application: Application,
    /// The stacks that took part, in the order in which they were named: the first is what others are held against.
    pub stacks: Vec<Stack>,
    /// What could not take part.
    pub missing: Vec<Missing>,
    /// Pages whose bodies could not be compared, although the application does not say that they differ each time.
    #[serde(default)]
    pub varying: Vec<Varying>,
    /// What was sent.
    pub loads: Vec<Load>,
    /// Every trial, in order.
    pub trials: Vec<Trial>,
    /// Every search for the largest rate.
    pub peaks: Vec<Peak>,
}

/// The cores of the two sides; with one in common, or where the kernel chose, each slows the other down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The servers' cores; empty where the kernel chose.
    pub server: Vec<usize>,
    /// The generator's cores; empty where the kernel chose.
    pub generator: Vec<usize>,
}

impl Placement {
    /// Whether servers and generator could run on the same core.
    pub fn is_shared(&self) -> bool {
        self.server.is_empty()
            || self.generator.is_empty()
            || self.server.iter().any(|core| self.generator.contains(core))
    }
}

/// A stack that was asked for and could not take part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// As on the command line.
    pub id: String,
    /// Why.
    pub reason: String,
    /// The command that installs it, where there is one.
    pub install: Option<String>,
    /// What replaces it in a study.
    pub stand_in: Option<String>,
}

/// A page that a stack answered in two ways when it was asked for twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Varying {
    /// Method and path.
    pub name: String,
    /// The ids of those that did.
    pub stacks: Vec<String>,
    /// Whether its length was still compared, roughly; otherwise it was the status alone.
    pub length: bool,
}

/// What was sent to every stack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Unique in the comparison.
    pub id: String,
    /// For people: `12 connections, closed loop`.
    pub title: String,
    /// Whether requests leave when answers come (closed) or by a schedule (open).
    pub open: bool,
    /// Connections of a closed loop, requests a second of an open one.
    pub size: f64,
    /// Seconds of load; zero where a number of requests ends it.
    pub duration_s: f64,
    /// The requests that end it.
    #[serde(default)]
    pub count: Option<u64>,
    /// How an open loop's requests are spread.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Requests that a connection carries; as many as the server allows where it is absent.
    #[serde(default)]
    pub calls: Option<u32>,
    /// Method, path and weight of what is sent.
    pub requests: Vec<(String, f64)>,
    /// Responses a second that the generator can take of this load from a server that does nothing but answer.
    #[serde(default)]
    pub ceiling: Option<f64>,
}

/// One start, warm-up, load and stop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The stack's id.
    pub stack: String,
    /// The load's id.
    pub load: String,
    /// From 1; every stack comes once in each round.
    pub round: usize,
    /// From 1, over the whole comparison.
    pub position: usize,
    /// RFC 3339, UTC.
    pub started: String,
    /// Why it gave no figures, with the end of the server's log; `None` where it did.
    pub failure: Option<String>,
    /// How a first attempt to start it failed, where a process of it crashed: it was started once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crashed_start: Option<String>,
    /// Seconds from the start to the first good answer.
    pub boot_s: f64,
    /// The warm-up.
    pub warm_up: WarmUp,
    /// The load's result.
    pub outcome: Outcome,
    /// CPU time of the whole process tree during the load, in seconds.
    pub cpu_s: f64,
    /// The same by the file name of the program; empty in results of earlier versions.
    #[serde(default)]
    pub cpu_by_program: BTreeMap<String, f64>,
    /// Cores that anything else on the machine used during the load, on average, and what the hypervisor took of them.
    pub other_cores: f64,
    /// Cores that the database used during the load, on average, where the lab started one for the application.
    #[serde(default)]
    pub database_cores: f64,
    /// Memory of the whole process tree.
    pub memory: MemoryUse,
    /// Processes at the load's end.
    pub processes: usize,
    /// Processes that were still there after the stop and had to be killed.
    pub left_behind: usize,
    /// What limited the rate.
    pub limit: Limit,
    /// The effect of idle connections on the load; `outcome` is then that of the load with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside_idle: Option<BesideIdle>,
    /// What a restart under an open loop did to its latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<UnderRestart>,
}

impl Trial {
    /// These results as those of the trial that `of` names.
    pub(crate) fn named_as(self, of: Self) -> Self {
        Self {
            stack: of.stack,
            load: of.load,
            round: of.round,
            position: of.position,
            started: of.started,
            ..self
        }
    }

    /// How many requests failed: under the load, and in all of a restart.
    pub fn errors(&self) -> u64 {
        self.outcome.errors.total() + self.restart.as_ref().map_or(0, UnderRestart::errors)
    }
}

/// A load with idle connections open, and the same load before and after.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BesideIdle {
    /// The idle ones.
    pub connections: usize,
    /// The longest that a new client waited for its answer while they were open, in milliseconds.
    pub newcomer_ms: f64,
    /// Memory of the process that clients talk to, while they were open.
    pub front: Footprint,
    /// The same before they were opened.
    pub front_before: Footprint,
    /// The load's rate over the mean of that without them.
    pub rate_ratio: f64,
    /// The same of the CPU time per request.
    pub cpu_ratio: f64,
}

/// An open loop during which the stack was restarted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UnderRestart {
    /// Good responses a second of the closed loop before it.
    pub capacity: f64,
    /// Requests a second of the open loop.
    pub rate: f64,
    /// Seconds until the command that restarts had ended.
    pub served_s: f64,
    /// Seconds until no process of before was left.
    pub gone_s: f64,
    /// Until the restart began.
    pub before: Stretch,
    /// From then on until no process of before was left.
    pub during: Stretch,
    /// From then on.
    pub after: Stretch,
}

impl UnderRestart {
    /// How many requests failed, before the restart, during it and after it.
    pub fn errors(&self) -> u64 {
        self.before.errors + self.during.errors + self.after.errors
    }
}

/// The requests that were due in a stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// How many failed; their latency is the time-out at least.
    pub errors: u64,
    /// From the moment that a request was due.
    pub latency: Latency,
}

/// How the server was brought to a steady state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Seconds.
    pub seconds: f64,
    /// Whether the rate, of an open loop the latency, neither rose nor fell any more before the time for it was over.
    pub settled: bool,
    /// Good responses of each second.
    pub rates: Vec<f64>,
    /// Middle latency of each second of an open loop in which a request ended, in milliseconds.
    #[serde(default)]
    pub medians_ms: Vec<f64>,
}

/// Memory over a trial, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// After the boot, before any load.
    pub idle: Footprint,
    /// Once a second under load: seconds since the load began, and what was found.
    pub under_load: Vec<(f64, Footprint)>,
    /// After the load.
    pub after: Footprint,
    /// What `free` showed less once the server was stopped than right after the load: how the studies of 2008 and 2009 measured.
    pub free_difference: i64,
}

/// Memory of a process tree at one moment, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Proportional set size: shared pages are divided among those who share them.
    pub pss: u64,
    /// Pages that are private and were written to: what `passenger-memory-stats` adds up.
    pub private_dirty: u64,
    /// Resident set size: shared pages count in full for everyone.
    pub rss: u64,
}

/// What limited the rate of a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// The server had used all cores it could get.
    Server,
    /// The generator: the figures do not describe the server, and the trial does not rank.
    Client,
    /// Neither: waiting, locks, a database, or a rate below both.
    #[default]
    Neither,
}

/// A search for the largest rate that a stack holds, one of several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The stack's id.
    pub stack: String,
    /// From 1.
    pub round: usize,
    /// The largest rate that was held, in requests a second; zero where none was.
    pub last_good: f64,
    /// The smallest rate that was not; `None` where the generator's own limit came first.
    pub first_bad: Option<f64>,
    /// Every rate that was tried, in order, each on a fresh server.
    pub steps: Vec<Step>,
    /// What happened at 1.5 times the peak.
    pub overload: Option<Overload>,
    /// Why the search gave nothing.
    pub failure: Option<String>,
    /// The latency that a rate had to keep to count as held, in words: the same for all stacks.
    #[serde(default)]
    pub criterion: String,
    /// Median latency of one request after the other, in milliseconds, as found in the stack's first search.
    #[serde(default)]
    pub unloaded_ms: Option<f64>,
    /// The rate to begin with, in requests a second; found with `unloaded_ms`.
    #[serde(default)]
    pub start: f64,
    /// Whether the search came to its end.
    #[serde(default)]
    pub finished: bool,
}

/// One rate of a search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Requests a second that were demanded.
    pub rate: f64,
    /// Good responses a second.
    pub achieved: f64,
    /// Failed requests over demanded ones.
    pub errors: f64,
    /// Milliseconds; `None` where there were too few requests.
    pub p99_ms: Option<f64>,
    /// Median latency in milliseconds; `None` in results of earlier versions.
    #[serde(default)]
    pub p50_ms: Option<f64>,
    /// Why the rate was not held; `None` where it was.
    pub why: Option<String>,
    /// [`Limit::Client`] where it says nothing of the server.
    #[serde(default)]
    pub limit: Limit,
    /// Cores that anything else on the machine used, on average.
    #[serde(default)]
    pub other_cores: f64,
    /// Whether the server ended under it; then `why` says how, and there are no other figures.
    #[serde(default)]
    pub died: bool,
}

/// How a stack behaves when more is asked than it can do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Overload {
    /// Requests a second that were demanded.
    pub rate: f64,
    /// The load's result: what was refused, reset, timed out or answered late is in its statuses and errors.
    pub outcome: Outcome,
    /// Seconds from the load's end until requests were answered as quickly as before; `None` where they never were.
    pub recovered_s: Option<f64>,
    /// How the server ended under it; then there are no other figures. `None` where it lived on.
    #[serde(default)]
    pub died: Option<String>,
}
