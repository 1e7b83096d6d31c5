//! The plan of a comparison: `LAB.toml` as read from a file, or as made from flags. Everything is checked here,
//! before anything starts; a file's errors name their line. It opens no socket and starts no process.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

pub(super) use load::MAX_CONNECTIONS;
pub use load::{Load, Restart};

use loadgen::duration;
use stacks::toml_file;

mod check;
mod load;

/// A whole comparison, as it is to be run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lab {
    /// The title; made from application and stacks where it is empty.
    pub title: String,
    /// A folder, or the name of one of the lab's own applications.
    pub app: String,
    /// The stacks, in order: the others are compared with the first. Each is the name of a stack, or of a table in
    /// `stack`. Empty: Highball and what is installed of [`USUAL`].
    pub stacks: Vec<String>,
    /// Files that describe further stacks.
    pub stack_files: Vec<PathBuf>,
    /// Worker processes of each stack.
    pub workers: usize,
    /// Threads of each worker.
    pub threads: usize,
    /// How often each stack is started and measured under each load.
    pub trials: usize,
    /// Length of each load.
    #[serde(with = "duration")]
    pub duration: Duration,
    /// The longest that a warm-up may take.
    #[serde(with = "duration")]
    pub warm_up: Duration,
    /// How long a stack has nothing to do after a load, before its memory is read.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub rest: Duration,
    /// A request without its answer after so long has failed.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// The longest that a stack may take until it answers.
    #[serde(with = "duration")]
    pub boot_timeout: Duration,
    /// What order, arrivals and intervals depend on.
    pub seed: u64,
    /// The servers' cores. Where both lists are empty, four or more cores are divided, and fewer are shared.
    pub server_cores: Vec<usize>,
    /// The generator's cores.
    pub generator_cores: Vec<usize>,
    /// Where results go; a new folder below `highball-lab` where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<PathBuf>,
    /// What is sent, drawn by weight; the application's own page where it is empty.
    #[serde(rename = "request")]
    pub requests: Vec<Request>,
    /// Sent once by each connection before anything else; the cookies it gets are sent from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<Request>,
    /// How it is sent: each stack is measured under each of these.
    #[serde(rename = "load")]
    pub loads: Vec<Load>,
    /// Whether the largest rate is searched that each stack holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub find_peak: Option<FindPeak>,
    /// Settings of single stacks, by the names in `stacks`.
    #[serde(rename = "stack")]
    pub settings: BTreeMap<String, Setting>,
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// `GET`, `POST` and so on.
    #[serde(default = "get")]
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Its share, relative to the other requests' weights.
    #[serde(default = "one")]
    pub weight: f64,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(default)]
    pub body: String,
    /// The length of a body whose content does not matter, in place of `body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<usize>,
}

/// Settings of one stack.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Setting {
    /// The stack that it is; its own name where it is absent. So one stack can take part twice, differently set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Worker processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// Threads of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Where the server is that the lab does not start (stack `url`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Variables of its processes.
    pub environment: BTreeMap<String, String>,
}

/// How the largest rate is searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FindPeak {
    /// The latency that 99 of 100 requests must keep. Where it is absent, the median may grow by half over that of the
    /// quickest unloaded server, and p99 to a second.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub p99: Option<Duration>,
    /// Searches for each stack; three where it is absent, or fewer where there are fewer trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<usize>,
    /// The search ends when the first rate that was not held is within this share of the last that was.
    pub precision: f64,
    /// Whether one and a half times the peak is sent afterwards.
    pub overload: bool,
}

/// A stack that takes part, with what holds for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Participant {
    /// Its name in this comparison.
    pub id: String,
    /// The stack that it is.
    pub kind: String,
    /// Worker processes.
    pub workers: usize,
    /// Threads of each.
    pub threads: usize,
    /// Where it is, where the lab does not start it.
    pub url: Option<String>,
    /// Variables of its processes.
    pub environment: BTreeMap<String, String>,
}

/// The stacks that take part by default, as far as they are installed.
pub const USUAL: [&str; 5] = [
    "highball",
    "puma-cluster",
    "unicorn",
    "passenger",
    "nginx+thin",
];

/// Fewer trials than these give indicative results only.
pub const ENOUGH_TRIALS: usize = 5;

/// The name of the file in which a comparison's plan is kept, too.
pub const FILE: &str = "LAB.toml";

impl Default for Lab {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            title: String::new(),
            app: ".".to_owned(),
            stacks: Vec::new(),
            stack_files: Vec::new(),
            workers: cores.clamp(1, check::MAX_WORKERS),
            threads: 1,
            trials: ENOUGH_TRIALS,
            duration: Duration::from_secs(10),
            warm_up: Duration::from_secs(30),
            rest: Duration::ZERO,
            timeout: Duration::from_secs(10),
            boot_timeout: Duration::from_secs(120),
            seed: 1,
            server_cores: Vec::new(),
            generator_cores: Vec::new(),
            output: None,
            requests: Vec::new(),
            login: None,
            loads: Vec::new(),
            find_peak: None,
            settings: BTreeMap::new(),
        }
    }
}

impl Default for FindPeak {
    fn default() -> Self {
        Self {
            p99: None,
            trials: None,
            precision: 0.05,
            overload: true,
        }
    }
}

impl Lab {
    /// Reads and checks a file. Relative paths in it start from its folder, except `output`, which starts from the current folder.
    ///
    /// # Errors
    /// Anything is wrong with it: unknown keys, values out of range, contradictions; with the line.
    pub fn read(path: &Path) -> Result<Self> {
        let mut lab: Self = toml_file::read(path)?;
        if let Err(fault) = lab.check() {
            bail!("{}", fault.in_file(path));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        if folder.join(&lab.app).is_dir() {
            lab.app = folder.join(&lab.app).to_string_lossy().into_owned();
        }
        for file in &mut lab.stack_files {
            *file = folder.join(&file);
        }
        Ok(lab)
    }

    /// Checks everything that can be checked without looking at the machine.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), check::Fault> {
        check::check(self)
    }

    /// As `LAB.toml` would say it, with every default written out.
    ///
    /// # Errors
    /// A path is no UTF-8.
    pub fn to_toml(&self) -> Result<String> {
        Ok(toml::to_string(self)?)
    }

    /// The same for the file in this folder: stacks near it are named from there, so that both can be moved together.
    ///
    /// # Errors
    /// A path is no UTF-8.
    pub fn to_toml_in(&self, folder: &Path) -> Result<String> {
        let mut lab = self.clone();
        for file in &mut lab.stack_files {
            *file = path_from(folder, file);
        }
        lab.to_toml()
    }

    /// Whether its results are indicative only.
    pub fn is_quick(&self) -> bool {
        self.trials < ENOUGH_TRIALS
    }

    /// What takes part under the name `id`.
    pub fn participant(&self, id: &str) -> Participant {
        let setting = self.settings.get(id).cloned().unwrap_or_default();
        Participant {
            id: id.to_owned(),
            kind: setting.kind.unwrap_or_else(|| id.to_owned()),
            workers: setting.workers.unwrap_or(self.workers),
            threads: setting.threads.unwrap_or(self.threads),
            url: setting.url,
            environment: setting.environment,
        }
    }

    /// Names stacks; one that comes again takes part again, under a name of its own (`puma`, `puma-2`).
    pub fn name_stacks(&mut self, names: impl IntoIterator<Item = String>) {
        self.stacks.clear();
        for name in names {
            let count = self.stacks.iter().filter(|id| self.is(id, &name)).count();
            if count == 0 {
                self.stacks.push(name);
                continue;
            }
            let again = format!("{name}-{}", count + 1);
            let first = self.settings.get(&name).cloned().unwrap_or_default();
            let kind = Some(first.kind.clone().unwrap_or_else(|| name.clone()));
            self.settings
                .insert(again.clone(), Setting { kind, ..first });
            self.stacks.push(again);
        }
    }

    /// How many searches for a peak each stack gets.
    pub fn searches(&self) -> usize {
        self.find_peak
            .as_ref()
            .map_or(0, |find| find.trials.unwrap_or(self.trials.min(3)))
    }

    fn is(&self, id: &str, name: &str) -> bool {
        let kind = |id: &str| {
            self.settings
                .get(id)
                .and_then(|setting| setting.kind.clone())
        };
        id == name || kind(id).as_deref() == Some(name)
    }
}

impl Request {
    /// A GET of `path`.
    pub fn get(path: &str) -> Self {
        Self {
            method: get(),
            path: path.to_owned(),
            weight: one(),
            headers: BTreeMap::new(),
            body: String::new(),
            body_bytes: None,
        }
    }
}

fn get() -> String {
    "GET".to_owned()
}

fn one() -> f64 {
    1.0
}

/// A path as seen from a folder, both from the root on. Where they have only the root in common it stays as it is.
fn path_from(folder: &Path, path: &Path) -> PathBuf {
    let both = folder.components().zip(path.components());
    let common = both.take_while(|(one, other)| one == other).count();
    if common < 2 {
        return path.to_owned();
    }
    let up = folder.components().skip(common);
    let up = up.map(|_| Component::ParentDir);
    up.chain(path.components().skip(common)).collect()
}

#[cfg(test)]
mod tests;
