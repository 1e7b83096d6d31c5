//! The raw data of a benchmark: runs and trials, kept beside the report as `runs.json` (how), `trials.jsonl`
//! (everything, one trial a line) and `trials.csv` (the figures, one a line). Nothing here computes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::stack::Stack;
use compare::machine::Machine;

/// One call of the benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its time of start in UTC, which names it.
    pub id: String,
    /// When it ended.
    pub finished: String,
    /// The command line.
    pub command: String,
    /// Rounds asked for.
    pub rounds: usize,
    /// Seconds of load in an unstretched trial.
    pub duration_s: u64,
    /// Seconds of warm-up before it.
    pub warm_up_s: u64,
    /// What order and arrivals depend on.
    pub seed: u64,
    /// Whether it was too short for its figures to count.
    pub quick: bool,
    /// Where it ran.
    pub machine: Machine,
    /// Stack and command line of each workload that took part.
    pub commands: BTreeMap<String, Vec<(Stack, String)>>,
    /// What each of them was loaded with.
    pub loads: BTreeMap<String, String>,
    /// What was left out, and why.
    pub skipped: Vec<String>,
}

/// One start, warm-up, load and stop of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The run it belongs to.
    pub run: String,
    /// The workload's id.
    pub workload: String,
    /// The server.
    pub stack: Stack,
    /// The round, from 1.
    pub round: usize,
    /// Its place in the run's order, from 1.
    pub position: usize,
    /// When it started.
    pub started: String,
    /// Why it gave no figures, where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The figures by name.
    pub measures: BTreeMap<String, f64>,
    /// What wrk printed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub generator_output: String,
}

/// All raw data of a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// The runs, oldest first.
    pub runs: Vec<Run>,
    /// Their trials.
    pub trials: Vec<Trial>,
}

impl Results {
    /// Reads a folder; nothing where there is none yet.
    ///
    /// # Errors
    /// When a file there is not what this version writes.
    pub fn load(folder: &Path) -> Result<Self> {
        let runs = folder.join("runs.json");
        let trials = folder.join("trials.jsonl");
        if !runs.exists() {
            return Ok(Self::default());
        }
        let text =
            fs::read_to_string(&runs).with_context(|| format!("reading {}", runs.display()))?;
        let runs =
            serde_json::from_str(&text).with_context(|| format!("reading {}", runs.display()))?;
        let text =
            fs::read_to_string(&trials).with_context(|| format!("reading {}", trials.display()))?;
        let lines = text
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<Vec<_>, _>>();
        Ok(Self {
            runs,
            trials: lines.with_context(|| format!("reading {}", trials.display()))?,
        })
    }

    /// Writes all three files.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn save(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        let mut lines = String::new();
        for trial in &self.trials {
            lines.push_str(&serde_json::to_string(trial)?);
            lines.push('\n');
        }
        let runs = serde_json::to_string_pretty(&self.runs)? + "\n";
        for (name, text) in [
            ("runs.json", runs),
            ("trials.jsonl", lines),
            ("trials.csv", self.csv()),
        ] {
            fs::write(folder.join(name), text)
                .with_context(|| format!("writing {name} in {}", folder.display()))?;
        }
        Ok(())
    }

    /// Makes room for `run`: it replaces what earlier runs found on `workloads`, and keeps the rest.
    pub fn begin(&mut self, run: Run, workloads: &[&str]) {
        self.trials
            .retain(|trial| !workloads.contains(&trial.workload.as_str()));
        self.runs
            .retain(|earlier| self.trials.iter().any(|trial| trial.run == earlier.id));
        self.runs.push(run);
    }

    /// The trials of one workload and stack that gave figures, by round.
    pub fn of(&self, workload: &str, stack: Stack) -> Vec<&Trial> {
        let of_stack = |trial: &&Trial| {
            trial.workload == workload && trial.stack == stack && trial.failure.is_none()
        };
        let mut found: Vec<&Trial> = self.trials.iter().filter(of_stack).collect();
        found.sort_by_key(|trial| trial.round);
        found
    }

    /// The values of one measure over those trials.
    pub fn values(&self, workload: &str, stack: Stack, measure: &str) -> Vec<f64> {
        self.of(workload, stack)
            .iter()
            .filter_map(|trial| trial.measures.get(measure).copied())
            .collect()
    }

    /// The values of one measure of two stacks, from rounds in which both gave it.
    pub fn pairs(
        &self,
        workload: &str,
        measure: &str,
        first: Stack,
        second: Stack,
    ) -> Vec<(f64, f64)> {
        let seconds = self.of(workload, second);
        let value = |trial: &Trial| trial.measures.get(measure).copied();
        let pair = |trial: &&Trial| {
            let peer = seconds
                .iter()
                .find(|peer| (peer.round, &peer.run) == (trial.round, &trial.run))?;
            Some((value(trial)?, value(peer)?))
        };
        self.of(workload, first).iter().filter_map(pair).collect()
    }

    fn csv(&self) -> String {
        let mut text = String::from("run,workload,stack,round,position,measure,value\n");
        for trial in &self.trials {
            for (name, value) in &trial.measures {
                let Trial {
                    run,
                    workload,
                    stack,
                    round,
                    position,
                    ..
                } = trial;
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "{run},{workload},{stack},{round},{position},{name},{value}"
                );
            }
        }
        text
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run for tests of what reads results.
    pub(crate) fn run(id: &str) -> Run {
        Run {
            id: id.into(),
            finished: id.into(),
            command: "highball-bench".into(),
            rounds: 5,
            duration_s: 6,
            warm_up_s: 2,
            seed: 1,
            quick: false,
            machine: Machine::default(),
            commands: BTreeMap::new(),
            loads: BTreeMap::new(),
            skipped: Vec::new(),
        }
    }

    /// A trial with one figure.
    pub(crate) fn trial(
        run: &str,
        workload: &str,
        stack: Stack,
        round: usize,
        measure: &str,
        value: f64,
    ) -> Trial {
        Trial {
            run: run.into(),
            workload: workload.into(),
            stack,
            round,
            position: 1,
            started: run.into(),
            failure: None,
            measures: BTreeMap::from([(measure.to_owned(), value)]),
            generator_output: String::new(),
        }
    }

    fn example() -> Results {
        let mut failed = trial("a", "hello-12", Stack::Puma, 2, "p99_ms", 0.0);
        failed.failure = Some("it fell over".into());
        Results {
            runs: vec![run("a")],
            trials: vec![
                trial("a", "hello-12", Stack::Highball, 2, "p99_ms", 2.0),
                trial("a", "hello-12", Stack::Highball, 1, "p99_ms", 1.5),
                trial("a", "hello-12", Stack::Puma, 1, "p99_ms", 3.0),
                failed,
                trial("a", "list-12", Stack::Puma, 1, "p99_ms", 4.0),
            ],
        }
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Results::load(folder.path()).unwrap(), Results::default());
        let results = example();
        results.save(folder.path()).unwrap();
        assert_eq!(Results::load(folder.path()).unwrap(), results);
        let csv = fs::read_to_string(folder.path().join("trials.csv")).unwrap();
        assert!(
            csv.contains("a,hello-12,Highball,1,1,p99_ms,1.5\n"),
            "{csv}"
        );
    }

    #[test]
    fn pairs_are_of_one_round_in_which_both_gave_figures() {
        let results = example();
        assert_eq!(
            results.values("hello-12", Stack::Highball, "p99_ms"),
            [1.5, 2.0]
        );
        assert_eq!(
            results.pairs("hello-12", "p99_ms", Stack::Highball, Stack::Puma),
            [(1.5, 3.0)]
        );
    }

    #[test]
    fn a_partial_run_replaces_its_own_workloads_only() {
        let mut results = example();
        results.begin(run("b"), &["list-12"]);
        assert_eq!(
            results
                .runs
                .iter()
                .map(|run| run.id.as_str())
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert!(
            results
                .trials
                .iter()
                .all(|trial| trial.workload == "hello-12")
        );
        results.begin(run("c"), &["hello-12", "list-12"]);
        assert_eq!(
            results
                .runs
                .iter()
                .map(|run| run.id.as_str())
                .collect::<Vec<_>>(),
            ["c"]
        );
    }
}
