//! A benchmark as a file of `lab/bench` describes it: comparisons, and the targets of each.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use compare::lab::Lab;
use serde::Deserialize;
use stacks::toml_file;

pub use crate::figure::Figure;

/// A benchmark.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Benchmark {
    /// The heading of its page.
    pub title: String,
    /// What is measured, in a few sentences.
    pub about: String,
    /// The folder of its published page, from the repository's root.
    #[serde(default = "documents")]
    pub output: PathBuf,
    /// Its comparisons, in the order of the page.
    #[serde(rename = "part")]
    pub parts: Vec<Part>,
}

fn documents() -> PathBuf {
    "docs".into()
}

/// A comparison and its targets.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name on the command line, and its folder.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// As in `LAB.toml`.
    pub compare: Lab,
    /// What the first stack must reach.
    #[serde(default, rename = "target")]
    pub targets: Vec<Target>,
}

/// What the first stack of a part must reach under the part's only load.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// In words.
    pub text: String,
    /// What is held against the bound.
    pub figure: Figure,
    /// One kind of several requests, as `GET /fast`.
    pub request: Option<String>,
    /// As a multiple of this stack's.
    pub times: Option<String>,
    /// As what it is above this stack's.
    pub above: Option<String>,
    /// As a multiple of another figure of the same trials.
    pub times_own: Option<Figure>,
    /// The bound from below.
    pub at_least: Option<f64>,
    /// The bound from above.
    pub at_most: Option<f64>,
}

impl Benchmark {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Anything is wrong with it, or with a comparison in it.
    pub fn read(path: &Path) -> Result<Self> {
        let benchmark: Self = toml_file::read(path)?;
        for part in &benchmark.parts {
            part.check()
                .with_context(|| format!("{}, part {}", path.display(), part.id))?;
        }
        Ok(benchmark)
    }

    /// The parts that these names mean: one by its id, or all that begin with it (`hello`, `list`); all without a name.
    ///
    /// # Errors
    /// A name means none.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Part>> {
        for name in names {
            if !self.parts.iter().any(|part| part.is_meant_by(name)) {
                let known: Vec<&str> = self.parts.iter().map(|part| part.id.as_str()).collect();
                bail!("there is no part {name}; there are {}", known.join(", "));
            }
        }
        let chosen =
            |part: &&Part| names.is_empty() || names.iter().any(|name| part.is_meant_by(name));
        Ok(self.parts.iter().filter(chosen).collect())
    }
}

impl Part {
    /// The stack that the targets are for.
    pub fn subject(&self) -> &str {
        self.compare.stacks.first().map_or("", String::as_str)
    }

    /// The same comparison in short, for an indication.
    pub fn shortened(&self, trials: usize, most: Duration, warm_up: Duration) -> Lab {
        let mut lab = self.compare.clone();
        lab.trials = trials;
        lab.duration = lab.duration.min(most);
        lab.warm_up = lab.warm_up.min(warm_up);
        for load in &mut lab.loads {
            if let Some(restart) = &mut load.restart {
                restart.before = restart.before.min(2 * most);
            }
        }
        lab
    }

    fn is_meant_by(&self, name: &str) -> bool {
        let rest = self.id.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }

    fn check(&self) -> Result<()> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        ensure!(
            !self.id.is_empty() && self.id.chars().all(plain),
            "an id is made of letters, digits and -"
        );
        self.compare.check()?;
        ensure!(self.compare.loads.len() == 1, "a part has one load");
        ensure!(!self.compare.stacks.is_empty(), "a part names its stacks");
        for target in &self.targets {
            target
                .check(&self.compare)
                .with_context(|| target.text.clone())?;
        }
        Ok(())
    }
}

impl Target {
    /// The bound, and whether it is one from below.
    pub fn bound(&self) -> (f64, bool) {
        match self.at_least {
            Some(bound) => (bound, true),
            None => (self.at_most.unwrap_or(f64::INFINITY), false),
        }
    }

    fn check(&self, lab: &Lab) -> Result<()> {
        ensure!(
            self.at_least.is_some() != self.at_most.is_some(),
            "a target has either at_least or at_most"
        );
        let relations = [
            self.times.is_some(),
            self.times_own.is_some(),
            self.above.is_some(),
        ];
        ensure!(
            relations.into_iter().filter(|given| *given).count() <= 1,
            "a target has either times, times_own or above"
        );
        if let Some(peer) = self.times.as_ref().or(self.above.as_ref()) {
            ensure!(lab.stacks.contains(peer), "{peer} does not take part");
        }
        if let Some(name) = &self.request {
            let is_sent = lab
                .requests
                .iter()
                .any(|request| format!("{} {}", request.method, request.path) == *name);
            ensure!(is_sent, "no request of the part is {name}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(name: &str) -> Benchmark {
        let path = test_support::workspace().join("lab/bench").join(name);
        Benchmark::read(&path).unwrap()
    }

    #[test]
    fn the_benchmarks_of_the_repository_are_sound() {
        let performance = shipped("performance.toml");
        let targets = performance.parts.iter().map(|part| part.targets.len());
        assert_eq!((performance.parts.len(), targets.sum::<usize>()), (8, 20));
        let front = shipped("front.toml");
        let restart = shipped("restart.toml");
        let before = shipped("before.toml");
        let insight = shipped("insight.toml");
        let runtime = shipped("runtime.toml");
        let memory = shipped("memory.toml");
        assert_eq!(performance.output, Path::new("docs"));
        assert_eq!(restart.output, Path::new("docs/reliability"));
        for benchmark in [
            performance,
            front,
            restart,
            before,
            insight,
            runtime,
            memory,
        ] {
            for part in &benchmark.parts {
                assert!(part.subject().starts_with("highball"), "{}", part.id);
                assert!(!part.targets.is_empty(), "{}", part.id);
            }
        }
    }

    #[test]
    fn a_name_selects_one_part_or_a_family() {
        let benchmark = shipped("performance.toml");
        let ids = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let parts = benchmark.select(&names);
            parts.map(|parts| parts.iter().map(|part| part.id.clone()).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["hello"]).unwrap(), ["hello-12", "hello-100"]);
        assert_eq!(ids(&["list-100", "idle"]).unwrap(), ["list-100", "idle"]);
        assert_eq!(ids(&[]).unwrap().len(), 8);
        let error = ids(&["hel"]).unwrap_err().to_string();
        assert!(error.contains("there is no part hel"), "{error}");
    }

    #[test]
    fn a_target_that_makes_no_sense_is_refused() {
        let check = |target: &str, expect: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("bench.toml");
            let text = format!(
                "title = 'T'\nabout = 'A.'\n[[part]]\nid = 'a'\ntitle = 'A'\n\
                 [part.compare]\napp = 'hello'\nstacks = ['highball']\n[[part.compare.load]]\nconnections = 1\n\
                 [[part.target]]\ntext = 'fast'\nfigure = 'rate'\n{target}\n"
            );
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", Benchmark::read(&path).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        check("", "either at_least or at_most");
        check(
            "at_least = 1.0\nat_most = 2.0",
            "either at_least or at_most",
        );
        check("at_least = 1.0\ntimes = 'puma'", "puma does not take part");
        check(
            "at_least = 1.0\ntimes = 'highball'\ntimes_own = 'p50'",
            "either times, times_own or above",
        );
        check(
            "at_most = 1.0\nrequest = 'GET /fats'",
            "no request of the part is GET /fats",
        );
        check("at_most = 1.0\nfigur = 'p50'", "unknown key figur");
    }
}
