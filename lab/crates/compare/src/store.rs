//! A comparison's folder: the plan, each trial as it ends, and everything together, rewritten as a whole each time, so
//! that no moment leaves half a file. It computes nothing.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde_json::Value;

use super::lab::{self, Lab};
use super::results::{FORMAT, Results};

/// Everything that was found.
const RESULTS: &str = "results.json";
/// One file for each trial.
const TRIALS: &str = "trials";

/// Where a comparison is kept.
#[derive(Debug, Clone)]
pub(super) struct Store {
    folder: PathBuf,
}

impl Store {
    /// A new one. With `replace`, what an earlier comparison found there is removed.
    ///
    /// # Errors
    /// There is a comparison already, or the folder can't be written to.
    pub(super) fn create(folder: &Path, lab: &Lab, replace: bool) -> Result<Self> {
        if replace {
            discard(folder)?;
        }
        if folder.join(RESULTS).exists() {
            bail!(
                "there is a comparison in {0} already; name another folder with --output, resume it with `highball compare --resume \
                 {0}`, or write its reports again with `highball compare --report {0}`",
                folder.display()
            );
        }
        let trials = folder.join(TRIALS);
        fs::create_dir_all(&trials).with_context(|| format!("can't make {}", trials.display()))?;
        let store = Self {
            folder: folder.to_owned(),
        };
        let whole = fs::canonicalize(folder)?;
        store.write(lab::FILE, lab.to_toml_in(&whole)?.as_bytes())?;
        Ok(store)
    }

    /// One that was begun, with its plan and what was found.
    ///
    /// # Errors
    /// There is none, or its files can't be read.
    pub(super) fn open(folder: &Path) -> Result<(Self, Lab, Results)> {
        if !folder.join(lab::FILE).is_file() {
            bail!("{} holds no comparison", folder.display());
        }
        let lab = Lab::read(&folder.join(lab::FILE))?;
        let results = if folder.join(RESULTS).is_file() {
            read(folder)?
        } else {
            Results::default()
        };
        let store = Self {
            folder: folder.to_owned(),
        };
        Ok((store, lab, results))
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps the raw data of one trial or step.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn keep(
        &self,
        position: usize,
        stack: &str,
        load: &str,
        raw: &impl Serialize,
    ) -> Result<()> {
        let name = format!("{TRIALS}/{position:03}-{stack}-{load}.json");
        self.write(&name, &serde_json::to_vec(raw)?)
    }

    /// Rewrites what was found.
    ///
    /// # Errors
    /// It can't be written; the file as it was is kept.
    pub(super) fn save(&self, results: &Results) -> Result<()> {
        self.write(RESULTS, &serde_json::to_vec(results)?)
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        let new = self.folder.join(format!("{name}.new"));
        // A folder that was handed on may hold plan and results alone.
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = made
            .and_then(|()| File::create(&new))
            .and_then(|mut file| {
                file.write_all(content)?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&new, &path));
        if written.is_err() {
            // Half a file is of no use, and the disk may be full.
            let _ = fs::remove_file(&new);
        }
        let folder = self.folder.display();
        written.with_context(|| {
            format!(
                "can't write {}; what was measured before is kept there. Make room, then resume with `highball compare \
                 --resume {folder}`",
                path.display()
            )
        })
    }
}

/// Removes the results and the raw data, where there are any.
fn discard(folder: &Path) -> Result<()> {
    let (results, trials) = (folder.join(RESULTS), folder.join(TRIALS));
    for (path, removed) in [
        (&results, fs::remove_file(&results)),
        (&trials, fs::remove_dir_all(&trials)),
    ] {
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("can't remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads what a comparison found.
///
/// # Errors
/// There is nothing, or it is of another format.
pub fn read(folder: &Path) -> Result<Results> {
    let path = folder.join(RESULTS);
    let file = fs::read(&path).with_context(|| format!("can't read {}", path.display()))?;
    let results: Results =
        serde_json::from_slice(&file).with_context(|| format!("{} is damaged", path.display()))?;
    if results.format != FORMAT {
        bail!(
            "{} is of format {}; this Highball reads {FORMAT}",
            path.display(),
            results.format
        );
    }
    Ok(results)
}

/// The first place in which two values differ: its path, what is there and what is here; `None` where they are equal.
pub(super) fn difference(
    there: &impl Serialize,
    here: &impl Serialize,
) -> Result<Option<(String, String, String)>> {
    Ok(differing(
        &serde_json::to_value(there)?,
        &serde_json::to_value(here)?,
        "",
    ))
}

fn differing(there: &Value, here: &Value, path: &str) -> Option<(String, String, String)> {
    let below = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    match (there, here) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let get = |map: &serde_json::Map<String, Value>| {
                    map.get(name).cloned().unwrap_or(Value::Null)
                };
                differing(&get(a), &get(b), &below(name))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (a, b))| differing(a, b, &below(&index.to_string())))
        }
        _ if there == here => None,
        _ => Some((path.to_owned(), there.to_string(), here.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::Trial;
    use super::*;

    #[test]
    fn what_is_saved_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new/one");
        let lab = Lab::default();
        let store = Store::create(&folder, &lab, false).unwrap();
        let results = Results {
            format: FORMAT,
            title: "t".to_owned(),
            ..Results::default()
        };
        store.save(&results).unwrap();
        store
            .keep(7, "nginx+thin", "c12", &Trial::default())
            .unwrap();
        assert!(folder.join("trials/007-nginx+thin-c12.json").is_file());
        let (_, lab_read, results_read) = Store::open(&folder).unwrap();
        assert_eq!(results_read, results);
        assert_eq!(lab_read.trials, lab.trials);
        let error = Store::create(&folder, &lab, false).unwrap_err().to_string();
        assert!(error.contains("--resume"), "{error}");

        fs::write(folder.join("notes.md"), "A note.\n").unwrap();
        let new = Store::create(&folder, &lab, true).unwrap();
        assert!(!folder.join(RESULTS).exists() && folder.join("notes.md").exists());
        assert_eq!(fs::read_dir(folder.join(TRIALS)).unwrap().count(), 0);
        new.save(&results).unwrap();
    }

    #[test]
    fn stacks_beside_the_results_are_found_where_both_are_moved() {
        let before = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(before.path()).unwrap();
        let lab = Lab {
            stack_files: vec![root.join("stacks/own.toml"), "/elsewhere/own.toml".into()],
            ..Lab::default()
        };
        Store::create(&root.join("results/one"), &lab, false).unwrap();
        let after = tempfile::tempdir().unwrap();
        let moved = after.path().join("moved");
        fs::rename(root.join("results"), &moved).unwrap();
        let (_, lab, _) = Store::open(&moved.join("one")).unwrap();
        let own = moved.join("one/../../stacks/own.toml");
        assert_eq!(lab.stack_files, [own, "/elsewhere/own.toml".into()]);
    }

    #[test]
    fn a_folder_with_a_plan_alone_is_resumed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("LAB.toml"), "app = \"hello\"\n").unwrap();
        let (store, lab, results) = Store::open(folder.path()).unwrap();
        assert_eq!((lab.app.as_str(), results), ("hello", Results::default()));
        store.keep(1, "thin", "c12", &Trial::default()).unwrap();
        assert!(folder.path().join("trials/001-thin-c12.json").is_file());
    }

    #[test]
    fn what_can_not_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path(), &Lab::default(), false).unwrap();
        let results = Results {
            format: FORMAT,
            ..Results::default()
        };
        store.save(&results).unwrap();
        // A folder has the name of the new file.
        fs::create_dir(folder.path().join("results.json.new")).unwrap();
        let error = format!("{:#}", store.save(&Results::default()).unwrap_err());
        assert!(
            error.contains("results.json; what was measured before is kept"),
            "{error}"
        );
        assert_eq!(read(folder.path()).unwrap(), results);
    }

    #[test]
    fn results_of_another_format_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path(), &Lab::default(), false).unwrap();
        store.save(&Results::default()).unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("is of format 0"), "{error}");
    }

    #[test]
    fn the_first_difference_is_named() {
        let lab = Lab::default();
        assert_eq!(difference(&lab, &lab).unwrap(), None);
        let mut other = lab.clone();
        other.trials = 3;
        let found = difference(&lab, &other).unwrap();
        assert_eq!(
            found,
            Some(("trials".to_owned(), "5".to_owned(), "3".to_owned()))
        );
        other = lab.clone();
        other.stacks = vec!["thin".to_owned()];
        let (path, _, here) = difference(&lab, &other).unwrap().unwrap();
        assert_eq!((path.as_str(), here.as_str()), ("stacks", "[\"thin\"]"));
    }
}
