//! `docs/internals/decisions`: each file has a number of its own, and the index names all of them. Does not judge the text.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::Finding;
use crate::workspace::files_below;

const FOLDER: &str = "docs/internals/decisions";
const INDEX: &str = "docs/internals/decisions/README.md";

/// Returns files whose names have no number or one that is taken, and what index and folder do not agree about.
///
/// # Errors
/// If a file cannot be read.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut add = |name: &str, message: String| {
        findings.push(Finding {
            rule: "decision",
            name: name.to_owned(),
            number: 1,
            message,
        });
    };
    let index = fs::read_to_string(root.join(INDEX)).unwrap_or_default();
    let mut numbers: BTreeMap<String, String> = BTreeMap::new();
    let files = files_below(root, FOLDER, "md")?;
    for path in files.iter().filter(|path| *path != INDEX) {
        let name = path.rsplit('/').next().expect("a path has a last part");
        let number = name.split('-').next().unwrap_or_default();
        if number.len() != 4 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            add(
                path,
                format!("{path}: a decision's file is called `0001-short-title.md`"),
            );
        } else if let Some(other) = numbers.insert(number.to_owned(), path.clone()) {
            add(path, format!("{path} has the number of {other}"));
        }
        if index.matches(&format!("({name})")).count() != 1 {
            add(path, format!("{INDEX} has to name {name} once"));
        }
    }
    for link in index
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
    {
        if !link.contains('/') && !files.contains(&format!("{FOLDER}/{link}")) {
            add(link, format!("{INDEX} names {link}, which does not exist"));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_the_index_is_complete() {
        let root = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| fs::write(root.path().join(FOLDER).join(name), text).unwrap();
        fs::create_dir_all(root.path().join(FOLDER)).unwrap();
        write("0001-a.md", "# A\n");
        write(
            "README.md",
            "- [A](0001-a.md), see [map](../../ARCHITECTURE.md)\n",
        );
        assert_eq!(check(root.path()).unwrap(), []);

        write("0001-b.md", "# B\n");
        write("c.md", "# C\n");
        write(
            "README.md",
            "- [A](0001-a.md)\n- [B](0001-b.md)\n- [C](c.md)\n- [D](0004-d.md)\n",
        );
        let found: Vec<String> = check(root.path())
            .unwrap()
            .into_iter()
            .map(|finding| finding.name)
            .collect();
        assert_eq!(
            found,
            [
                "docs/internals/decisions/0001-b.md",
                "docs/internals/decisions/c.md",
                "0004-d.md"
            ]
        );

        write("README.md", "nothing\n");
        assert!(check(root.path()).unwrap().len() >= 3);
    }
}
