//! An application under comparison: found by name or folder, made ready once, the same under every stack. It starts no
//! server; the database that an application needs is started with it and ends with it.
//!
//! A folder with a `config.ru` is an application and is served in place; nothing is written into it. An `app.toml` next to it
//! ([`definition`]) names its pages, and what makes a copy of it ready: commands, and a database.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::described;
use crate::shipped;
use crate::toml_file;
use definition::{Database, Definition, Page};
use mariadb::Mariadb;
use preparation::Preparation;

mod copy;
pub mod definition;
mod description;
mod mariadb;
mod preparation;

/// An application, not made ready yet.
#[derive(Debug, Clone)]
pub struct Application {
    /// Its folder's name.
    id: String,
    /// The folder as it was given; read only.
    source: PathBuf,
    definition: Definition,
    /// The page that was named, or the first one.
    page: Page,
}

/// An application that can be served. Dropping it stops the database that was started for it.
#[derive(Debug)]
pub struct Prepared {
    /// What servers serve: it holds `config.ru`.
    pub folder: PathBuf,
    /// Variables that every server needs.
    pub environment: BTreeMap<String, String>,
    /// Name, purpose, versions, commit.
    pub description: described::Application,
    /// Path and query of the page that was asked for.
    pub path: String,
    /// Whether every server must send the very same body for it each time.
    pub same_body: bool,
    /// Ends when this is dropped.
    database: Option<Mariadb>,
}

impl Prepared {
    /// CPU time that the database which was started for it has used; zero without one.
    pub fn database_cpu(&self) -> Duration {
        self.database.as_ref().map_or(Duration::ZERO, Mariadb::cpu)
    }
}

impl Application {
    /// Finds the application that `name` means: a folder, the name of one of the lab's own (`hello`), or either with a page
    /// at its end (`classics/wiki`).
    ///
    /// # Errors
    /// There is none, it has no such page (names the nearest), or its `app.toml` is wrong.
    pub fn open(name: impl AsRef<Path>) -> Result<Self> {
        let name = name.as_ref();
        let shipped = shipped::folder().map(|folder| folder.join("apps"));
        Self::open_among(name, shipped.as_deref().ok())
    }

    fn open_among(name: &Path, shipped: Option<&Path>) -> Result<Self> {
        let places = || {
            [
                Some(name.to_owned()),
                shipped.map(|folder| folder.join(name)),
            ]
            .into_iter()
            .flatten()
        };
        if let Some(folder) = places().find(|folder| is_application(folder)) {
            return Self::read(&folder, None);
        }
        let page = name.file_name().map(|page| page.to_string_lossy());
        let parent = places()
            .filter_map(|place| Some(place.parent()?.to_owned()))
            .find(|folder| folder.join(definition::FILE).is_file());
        if let (Some(folder), Some(page)) = (parent, &page) {
            return Self::read(&folder, Some(page));
        }
        if name.is_dir() {
            bail!(
                "{} is no Rack application: it holds no config.ru",
                name.display()
            );
        }
        let known = shipped.map(names).unwrap_or_default();
        let nearest = toml_file::nearest(&name.to_string_lossy(), known.iter().map(String::as_str))
            .map_or_else(String::new, |nearest| {
                format!("; the lab's nearest is {nearest}")
            });
        bail!(
            "there is no application {}: name a folder with a config.ru{nearest}",
            name.display()
        )
    }

    fn read(folder: &Path, page: Option<&str>) -> Result<Self> {
        let source = folder
            .canonicalize()
            .with_context(|| format!("cannot open {}", folder.display()))?;
        let id = source.file_name().map_or_else(
            || "application".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        );
        let file = source.join(definition::FILE);
        let definition = if file.is_file() {
            Definition::read(&file)?
        } else {
            Definition::plain(&id)
        };
        let page = definition
            .page(page)
            .with_context(|| format!("application {id}"))?;
        Ok(Self {
            id,
            source,
            definition,
            page,
        })
    }

    /// Its folder's name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// For people.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Every page, the default first.
    pub fn pages(&self) -> &[Page] {
        &self.definition.pages
    }

    /// The page that was asked for.
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// Makes it ready to be served. Where it needs commands or a database this happens in a copy below `work_dir`, which is
    /// kept and used again as long as nothing in it changes. Commands that still run when `stop` is set are ended.
    ///
    /// # Errors
    /// A file can't be copied, a command fails (shows the end of what it printed) or was stopped, or the database doesn't
    /// start.
    pub fn prepare(&self, work_dir: &Path, stop: &AtomicBool) -> Result<Prepared> {
        let mut environment = self.definition.environment.clone();
        for name in ["RACK_ENV", "RAILS_ENV"] {
            environment
                .entry(name.to_owned())
                .or_insert_with(|| "production".to_owned());
        }
        let kind = self.page.database.unwrap_or(self.definition.database);
        let in_place = self.definition.prepare.is_empty() && kind != Database::Mariadb;
        let (copy, database) = if in_place {
            (self.source.clone(), None)
        } else {
            let preparation = Preparation {
                id: &self.id,
                source: &self.source,
                commands: &self.definition.prepare,
                database: kind,
                environment: &environment,
            };
            preparation.run(work_dir, stop)?
        };
        let folder = match &self.definition.root {
            Some(root) => copy.join(root),
            None => copy,
        };
        if !folder.join("config.ru").is_file() {
            bail!("there is no config.ru in {}", folder.display());
        }
        if let Some(database) = &database {
            let socket = database.socket().display().to_string();
            environment.insert(preparation::SOCKET.to_owned(), socket);
        }
        let mut versions = description::versions(&folder, &environment);
        if database.is_some() {
            versions.extend(mariadb::version().map(|version| ("mariadb".to_owned(), version)));
        }
        let description = described::Application {
            name: self.definition.name.clone(),
            about: self.about(),
            versions,
            commit: description::commit(&self.source),
        };
        Ok(Prepared {
            folder,
            environment,
            description,
            path: self.page.path.clone(),
            same_body: self.page.same_body,
            database,
        })
    }

    fn about(&self) -> String {
        [&self.definition.about, &self.page.about]
            .into_iter()
            .filter(|text| !text.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    }
}

fn is_application(folder: &Path) -> bool {
    folder.join(definition::FILE).is_file() || folder.join("config.ru").is_file()
}

/// The applications in a folder, by name.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| is_application(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests;
