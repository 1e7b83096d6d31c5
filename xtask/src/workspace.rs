//! The members of the workspace and what they depend on, from the Cargo.toml files. Does not run cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use toml::{Table, Value};

/// One package of the workspace.
#[derive(Debug)]
pub struct Member {
    /// Its folder, relative to the root of the workspace: `crates/front`.
    pub folder: String,
    /// Name of the package: `highball-front`.
    pub package: String,
    /// Members that the product uses (dependencies and build dependencies): name in the code, and folder.
    pub uses: BTreeMap<String, String>,
    /// Folders of the members that only its tests use.
    pub uses_in_tests: BTreeSet<String>,
}

/// The workspace.
#[derive(Debug)]
pub struct Workspace {
    /// Its root folder.
    pub root: PathBuf,
    /// Its members, ordered by folder.
    pub members: Vec<Member>,
}

impl Workspace {
    /// Returns the workspace that this crate belongs to.
    ///
    /// # Errors
    /// If a Cargo.toml cannot be read.
    pub fn here() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask is a folder of the workspace");
        Self::at(root)
    }

    /// Returns the workspace with this root folder.
    ///
    /// # Errors
    /// If a Cargo.toml cannot be read.
    pub fn at(root: &Path) -> Result<Self> {
        let manifest = read_manifest(&root.join("Cargo.toml"))?;
        let workspace = table(&manifest, "workspace")
            .ok_or_else(|| anyhow!("Cargo.toml has no [workspace]"))?;
        let patterns = workspace
            .get("members")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let mut folders = BTreeSet::new();
        for pattern in patterns.iter().filter_map(Value::as_str) {
            folders.extend(expand(root, pattern)?);
        }
        let mut manifests = BTreeMap::new();
        for folder in folders {
            manifests.insert(
                folder.clone(),
                read_manifest(&root.join(&folder).join("Cargo.toml"))?,
            );
        }
        let by_package: BTreeMap<String, String> = manifests
            .iter()
            .filter_map(|(folder, manifest)| Some((package_name(manifest)?, folder.clone())))
            .collect();
        let shared = table(workspace, "dependencies")
            .cloned()
            .unwrap_or_default();
        let members = manifests
            .iter()
            .map(|(folder, manifest)| member(folder, manifest, &shared, &by_package))
            .collect();
        Ok(Self {
            root: root.to_owned(),
            members,
        })
    }
}

fn read_manifest(path: &Path) -> Result<Table> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse()
        .with_context(|| format!("cannot parse {}", path.display()))
}

fn table<'a>(within: &'a Table, key: &str) -> Option<&'a Table> {
    within.get(key).and_then(Value::as_table)
}

fn package_name(manifest: &Table) -> Option<String> {
    Some(
        table(manifest, "package")?
            .get("name")?
            .as_str()?
            .to_owned(),
    )
}

/// The folders that a pattern of `members` names; of patterns, cargo's `folder/*` alone is known.
fn expand(root: &Path, pattern: &str) -> Result<Vec<String>> {
    let Some(parent) = pattern.strip_suffix("/*") else {
        return Ok(vec![pattern.to_owned()]);
    };
    let entries =
        fs::read_dir(root.join(parent)).with_context(|| format!("cannot read {parent}"))?;
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            folders.push(format!("{parent}/{}", entry.file_name().to_string_lossy()));
        }
    }
    Ok(folders)
}

fn member(
    folder: &str,
    manifest: &Table,
    shared: &Table,
    by_package: &BTreeMap<String, String>,
) -> Member {
    let sections = |name: &str| -> Vec<&Table> {
        let targets = table(manifest, "target")
            .into_iter()
            .flat_map(|targets| targets.values());
        let of_targets =
            targets.filter_map(|target| target.as_table().and_then(|target| table(target, name)));
        table(manifest, name)
            .into_iter()
            .chain(of_targets)
            .collect()
    };
    let members = |name: &str| -> BTreeMap<String, String> {
        let dependencies = sections(name).into_iter().flatten();
        dependencies
            .filter_map(|(key, value)| {
                let package = renamed(value)
                    .or_else(|| renamed(shared.get(key)?))
                    .unwrap_or(key);
                Some((key.replace('-', "_"), by_package.get(package)?.clone()))
            })
            .collect()
    };
    let mut uses = members("dependencies");
    uses.extend(members("build-dependencies"));
    Member {
        folder: folder.to_owned(),
        package: package_name(manifest).unwrap_or_else(|| folder.to_owned()),
        uses,
        uses_in_tests: members("dev-dependencies").into_values().collect(),
    }
}

/// The package that a dependency names by `package = "..."`.
fn renamed(dependency: &Value) -> Option<&str> {
    dependency.get("package")?.as_str()
}

/// Every file with this extension (`""`: with none) below a folder, relative to `root` and ordered; none if the folder
/// does not exist.
///
/// # Errors
/// If a folder cannot be read.
pub fn files_below(root: &Path, folder: &str, extension: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        if !root.join(&folder).is_dir() {
            continue;
        }
        for entry in fs::read_dir(root.join(&folder))
            .with_context(|| format!("cannot read {}", folder.display()))?
        {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                if entry.file_name() != "target" {
                    folders.push(path);
                }
            } else if path.extension().unwrap_or_default() == extension {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}
