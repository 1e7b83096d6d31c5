//! The five studies of deployment stacks from 2006 to 2014, as data (`lab/studies/*.toml`): what each asked, on what,
//! with whom, how, and every figure its text gives; and what replaces each of its parts today. Reading and checking
//! is here; [`plan`] makes comparisons of a study, and [`findings`] holds it against their results. No figure is made.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

pub use measure::{Better, Measure};
pub use participant::{ELSEWHERE, Participant};
use stacks::shipped;
use stacks::toml_file;

pub mod findings;
mod measure;
mod participant;
pub mod plan;

/// A study: its text as data, and what replaces each part today.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The file's name without its ending, and the command's argument: `2009-webroar`.
    pub id: String,
    /// When it was published.
    pub year: u16,
    /// As its text has it.
    pub title: String,
    /// Who published it, where its text says.
    pub author: Option<String>,
    /// `YYYY-MM-DD`, where its text says.
    pub date: Option<String>,
    /// What it wanted to know.
    pub question: String,
    /// The participant that it holds the others against.
    pub reference: String,
    /// What its reader should know of it: cautions, contradictions, ways of measuring.
    pub notes: Vec<String>,
    /// What it published only as an image, or did not say.
    pub absent: Vec<String>,
    /// The machines of then.
    pub machine: Machine,
    /// The versions of then, by program.
    pub software: BTreeMap<String, String>,
    /// The applications.
    #[serde(rename = "application")]
    pub applications: Vec<Application>,
    /// What was sent.
    #[serde(rename = "load")]
    pub loads: Vec<Load>,
    /// The stacks that were compared.
    #[serde(rename = "participant")]
    pub participants: Vec<Participant>,
    /// What was found, a group for each passage of the text.
    pub figures: Vec<Figures>,
    /// Ratios that the text states in words.
    #[serde(rename = "claim", default)]
    pub claims: Vec<Claim>,
    /// What was published as a table or a tool's output, cell for cell.
    #[serde(rename = "table", default)]
    pub tables: Vec<Table>,
}

/// The machines of then, in the text's words; empty where it does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// What the servers ran on.
    pub server: Vec<String>,
    /// What the load came from, and over which network.
    pub client: Vec<String>,
}

/// An application of a study.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// Unique in the study.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it was, its versions and the page that was asked for.
    pub then: String,
    /// What replaces it.
    pub today: ApplicationToday,
}

/// The application that replaces one of the study's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationToday {
    /// One of the lab's own applications, with its page where it has several: `classics/wiki`.
    pub app: String,
    /// Why it may stand for it.
    pub why: String,
}

/// A load of a study.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Unique in the study.
    pub id: String,
    /// The generator: `ab`, `httperf`, `wrk`.
    pub tool: String,
    /// Its command lines, or what the text gives of them.
    pub commands: Vec<String>,
    /// What was sent before and not counted; `None` where the text mentions nothing.
    pub warm_up: Option<String>,
    /// What is sent today.
    pub today: LoadToday,
}

/// The load that replaces one of the study's. Either `connections` or `find_peak` is given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadToday {
    /// Connections of a closed loop.
    pub connections: Option<usize>,
    /// A search for the largest rate that is held, in place of a series of rates.
    #[serde(default)]
    pub find_peak: bool,
    /// Requests on each connection, 1 as of ab without `-k`; as many as the server allows where it is absent, as of wrk.
    pub calls: Option<u32>,
    /// How it differs from that of then beyond the generator and the length, which always differ.
    pub difference: Option<String>,
}

/// The figures of one participant in one passage of the text.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// A participant's id.
    pub participant: String,
    /// An application's id.
    pub application: String,
    /// A load's id.
    pub load: String,
    /// The passage, shortened.
    pub quote: String,
    /// The figures.
    pub values: BTreeMap<Measure, f64>,
}

/// A ratio that the text states.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Who is better.
    pub participant: String,
    /// Than whom; `None` for all others.
    pub against: Option<String>,
    /// An application's id.
    pub application: String,
    /// A load's id.
    pub load: String,
    /// In what.
    pub measure: Measure,
    /// Lowest and highest ratio that it states.
    pub ratio: [f64; 2],
    /// Its words.
    pub quote: String,
}

/// A table of the text.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// A participant's id, where it is of one.
    pub participant: Option<String>,
    /// An application's id, where it is of one.
    pub application: Option<String>,
    /// A load's id.
    pub load: String,
    /// Its place in the text and its subject.
    pub title: String,
    /// The columns' heads.
    pub columns: Vec<String>,
    /// The rows; one may be shorter than the heads are many.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A figure.
    Number(f64),
    /// Words.
    Text(String),
}

impl Study {
    /// All studies that are shipped, the oldest first.
    ///
    /// # Errors
    /// Their folder is not found, or a file is wrong: says which, where and how.
    pub fn list() -> Result<Vec<Self>> {
        Self::list_in(&shipped::folder()?.join("studies"))
    }

    /// The same of the `*.toml` in `folder`.
    ///
    /// # Errors
    /// As of [`Self::list`].
    pub fn list_in(folder: &Path) -> Result<Vec<Self>> {
        // Their ids are the names of their files.
        let paths = toml_file::all_in(folder)?;
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// The study of this name.
    ///
    /// # Errors
    /// There is none: names the nearest. Else as of [`Self::list`].
    pub fn load(name: &str) -> Result<Self> {
        Self::find(Self::list()?, name)
    }

    fn find(studies: Vec<Self>, name: &str) -> Result<Self> {
        let ids: Vec<String> = studies.iter().map(|study| study.id.clone()).collect();
        match studies.into_iter().find(|study| study.id == name) {
            Some(study) => Ok(study),
            None => bail!("{}", unknown("study", name, ids.iter().map(String::as_str))),
        }
    }

    /// Reads and checks a study's file.
    ///
    /// # Errors
    /// It can't be read, has an unknown key, or names something that it does not have.
    pub fn read(path: &Path) -> Result<Self> {
        let study: Self = toml_file::read(path)?;
        study
            .check(path)
            .with_context(|| path.display().to_string())?;
        Ok(study)
    }

    /// The participant of this id.
    ///
    /// # Errors
    /// There is none: names the nearest.
    pub fn participant(&self, id: &str) -> Result<&Participant> {
        let known = || self.participants.iter().map(|one| one.id.as_str());
        self.participants
            .iter()
            .find(|one| one.id == id)
            .with_context(|| unknown("participant", id, known()))
    }

    /// The application of this id.
    ///
    /// # Errors
    /// There is none: names the nearest.
    pub fn application(&self, id: &str) -> Result<&Application> {
        let known = || self.applications.iter().map(|one| one.id.as_str());
        self.applications
            .iter()
            .find(|one| one.id == id)
            .with_context(|| unknown("application", id, known()))
    }

    /// The load of this id.
    ///
    /// # Errors
    /// There is none: names the nearest.
    pub fn load_of(&self, id: &str) -> Result<&Load> {
        let known = || self.loads.iter().map(|one| one.id.as_str());
        self.loads
            .iter()
            .find(|one| one.id == id)
            .with_context(|| unknown("load", id, known()))
    }

    /// The published figure; `None` where the text has none. The first counts where it has several.
    pub fn figure(
        &self,
        participant: &str,
        application: &str,
        load: &str,
        measure: Measure,
    ) -> Option<f64> {
        self.figures
            .iter()
            .filter(|group| {
                group.participant == participant
                    && group.application == application
                    && group.load == load
            })
            .find_map(|group| group.values.get(&measure).copied())
    }

    /// How many figures its text gives, tables not counted.
    pub fn figure_count(&self) -> usize {
        self.figures.iter().map(|group| group.values.len()).sum()
    }

    fn check(&self, path: &Path) -> Result<()> {
        ensure!(
            path.file_stem()
                .is_some_and(|stem| stem == self.id.as_str()),
            "the id is {}; it must be the file's name without its ending",
            self.id
        );
        unique("participant", self.participants.iter().map(|one| &one.id))?;
        unique("application", self.applications.iter().map(|one| &one.id))?;
        unique("load", self.loads.iter().map(|one| &one.id))?;
        self.participant(&self.reference).context("reference")?;
        for load in &self.loads {
            ensure!(
                load.today.connections.is_some() != load.today.find_peak,
                "load {}: today needs either connections or find_peak",
                load.id
            );
        }
        for group in &self.figures {
            self.participant(&group.participant)
                .and(self.application(&group.application).map(drop))
                .and(self.load_of(&group.load).map(drop))
                .with_context(|| format!("figures of {:?}", group.quote))?;
        }
        for claim in &self.claims {
            let against = claim.against.as_deref().unwrap_or(&claim.participant);
            self.participant(&claim.participant)
                .and(self.participant(against))
                .and(self.application(&claim.application).map(drop))
                .and(self.load_of(&claim.load).map(drop))
                .with_context(|| format!("claim {:?}", claim.quote))?;
        }
        for table in &self.tables {
            let of = || -> Result<()> {
                if let Some(participant) = &table.participant {
                    self.participant(participant)?;
                }
                if let Some(application) = &table.application {
                    self.application(application)?;
                }
                self.load_of(&table.load).map(drop)
            };
            of().with_context(|| format!("table {:?}", table.title))?;
            ensure!(
                table
                    .rows
                    .iter()
                    .all(|row| row.len() <= table.columns.len()),
                "table {:?}: a row has more cells than there are columns",
                table.title
            );
        }
        Ok(())
    }
}

fn unique<'a>(kind: &str, ids: impl Iterator<Item = &'a String>) -> Result<()> {
    let mut seen = BTreeSet::new();
    for id in ids {
        ensure!(seen.insert(id), "{kind} {id} is listed twice");
    }
    Ok(())
}

fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    match toml_file::nearest(name, known) {
        Some(nearest) => format!("there is no {kind} {name}; the nearest is {nearest}"),
        None => format!("there is no {kind} {name}"),
    }
}

#[cfg(test)]
mod tests;
