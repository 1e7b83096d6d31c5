//! All stacks that are known: those that come with Highball and those of a user's own files. It starts none.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::Definition;
use crate::shipped;
use crate::toml_file;

/// The stacks, in the order of their ids.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    definitions: Vec<Definition>,
}

impl Catalogue {
    /// The stacks that come with Highball, and those of `extra` files. A file may take the place of a shipped one
    /// by having its id.
    ///
    /// # Errors
    /// The folder is not found, or a file is wrong: with file and line.
    pub fn load(extra: &[PathBuf]) -> Result<Self> {
        Self::load_from(&shipped::folder()?, extra)
    }

    /// The same with the lab's data in `folder`.
    ///
    /// # Errors
    /// As of [`Self::load`].
    pub fn load_from(folder: &Path, extra: &[PathBuf]) -> Result<Self> {
        let mut catalogue = Self::default();
        for path in &toml_file::all_in(&folder.join("stacks"))? {
            catalogue.add(Definition::read(path)?)?;
        }
        for path in extra {
            let definition = Definition::read(path)?;
            catalogue
                .definitions
                .retain(|known| known.id != definition.id);
            catalogue.add(definition)?;
        }
        Ok(catalogue)
    }

    /// The stack with this id or alias.
    ///
    /// # Errors
    /// There is none; names the nearest.
    pub fn get(&self, id: &str) -> Result<&Definition> {
        let found = self
            .definitions
            .iter()
            .find(|definition| names(definition).any(|name| name == id));
        found.with_context(|| {
            let nearest = toml_file::nearest(id, self.definitions.iter().flat_map(names));
            let nearest = nearest.map_or_else(String::new, |name| {
                format!("; the nearest known one is {name}")
            });
            format!("no stack is named {id}{nearest} (`highball stacks` lists them)")
        })
    }

    /// Adds a server that was started elsewhere: `url` is `http://host:port`. It takes the place of what had its id.
    ///
    /// # Errors
    /// The URL is none of that form, or the id can't be one.
    pub fn add_external(&mut self, id: &str, url: &str) -> Result<()> {
        let definition = Definition::external(id, url)?;
        self.definitions.retain(|known| known.id != definition.id);
        self.add(definition)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Definition> {
        self.definitions.iter()
    }

    fn add(&mut self, definition: Definition) -> Result<()> {
        for name in names(&definition) {
            if let Some(other) = self
                .definitions
                .iter()
                .find(|other| names(other).any(|known| known == name))
            {
                bail!(
                    "{}: {name} is the name of a stack in {} too",
                    definition.source.display(),
                    other.source.display()
                );
            }
        }
        let place = self
            .definitions
            .partition_point(|known| known.id < definition.id);
        self.definitions.insert(place, definition);
        Ok(())
    }
}

fn names(definition: &Definition) -> impl Iterator<Item = &str> {
    std::iter::once(&definition.id)
        .chain(&definition.aliases)
        .map(String::as_str)
}
