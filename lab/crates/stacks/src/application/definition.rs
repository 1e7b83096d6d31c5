//! `app.toml`: what an application is and how it is made ready. Data only; an unknown key is an error.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::toml_file;

/// The file's name in the application's folder.
pub const FILE: &str = "app.toml";

/// One `app.toml`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// For people.
    pub name: String,
    /// What it is and what it does for a request, in a sentence.
    #[serde(default)]
    pub about: String,
    /// Commands for `sh`, run one after the other in a fresh copy of the folder.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// The folder within the copy that holds `config.ru`; the copy itself by default.
    #[serde(default)]
    pub root: Option<String>,
    /// Where its data is, unless a page says otherwise.
    #[serde(default)]
    pub database: Database,
    /// Variables for the prepare commands and for every server.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// What can be asked for; the first one is the default.
    #[serde(default, rename = "page")]
    pub pages: Vec<Page>,
}

/// One page of an application.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// As in `classics/wiki`.
    pub name: String,
    /// Path and query.
    pub path: String,
    /// What it does, in a sentence.
    #[serde(default)]
    pub about: String,
    /// Whether every server must send the very same body each time.
    #[serde(default = "yes")]
    pub same_body: bool,
    /// Where this page's data is, in place of the application's.
    #[serde(default)]
    pub database: Option<Database>,
}

/// Where an application keeps its data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Database {
    /// Nowhere that the lab need know of.
    #[default]
    None,
    /// In files of its copy.
    Sqlite,
    /// In a MariaDB that the lab starts.
    Mariadb,
}

impl Page {
    fn root() -> Self {
        Self {
            name: "root".to_owned(),
            path: "/".to_owned(),
            about: String::new(),
            same_body: true,
            database: None,
        }
    }
}

impl Database {
    /// As in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sqlite => "sqlite",
            Self::Mariadb => "mariadb",
        }
    }
}

impl Definition {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, is not TOML, has an unknown or a missing key, or says something that cannot be: names file and line.
    pub fn read(path: &Path) -> Result<Self> {
        let definition: Self = toml_file::read(path)?;
        definition
            .check()
            .with_context(|| path.display().to_string())?;
        Ok(definition)
    }

    /// What a folder without the file is: one page, at `/`.
    pub fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            about: String::new(),
            prepare: Vec::new(),
            root: None,
            database: Database::None,
            environment: BTreeMap::new(),
            pages: Vec::new(),
        }
    }

    /// The page named `name`; without a name the first one, or `/` where the file names none.
    ///
    /// # Errors
    /// There is no such page; names the nearest.
    pub fn page(&self, name: Option<&str>) -> Result<Page> {
        let Some(name) = name else {
            return Ok(self.pages.first().cloned().unwrap_or_else(Page::root));
        };
        if let Some(page) = self.pages.iter().find(|page| page.name == name) {
            return Ok(page.clone());
        }
        match toml_file::nearest(name, self.pages.iter().map(|page| page.name.as_str())) {
            Some(nearest) => bail!("there is no page {name}; the nearest is {nearest}"),
            None => bail!("there is no page {name}: {FILE} names none"),
        }
    }

    fn check(&self) -> Result<()> {
        for (index, page) in self.pages.iter().enumerate() {
            if !page.path.starts_with('/') {
                bail!("page {}: path {:?} must begin with /", page.name, page.path);
            }
            if self.pages[..index]
                .iter()
                .any(|other| other.name == page.name)
            {
                bail!("two pages are named {}", page.name);
            }
        }
        Ok(())
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Definition> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, text).unwrap();
        Definition::read(&path)
    }

    #[test]
    fn everything_but_the_name_has_a_default() {
        let definition = read("name = 'Shop'\n[[page]]\nname = 'list'\npath = '/list'\n").unwrap();
        assert_eq!(definition.database, Database::None);
        assert!(definition.prepare.is_empty());
        assert!(definition.pages[0].same_body);
    }

    #[test]
    fn what_is_wrong_is_refused_with_file_and_line() {
        let check = |text: &str, expect: &str| {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        check("name = 'a'\ncolour = 1\n", "app.toml:2: unknown key colour");
        check("about = 'a'\n", "missing field `name`");
        check(
            "name = 'a'\ndatabase = 'oracle'\n",
            "app.toml:2: unknown value oracle",
        );
        check(
            "name = 'a'\n[[page]]\nname = 'p'\npath = 'list'\n",
            "must begin with /",
        );
        check(
            "name = 'a'\n[[page]]\nname='p'\npath='/'\n[[page]]\nname='p'\npath='/2'\n",
            "two pages are named p",
        );
    }
}
