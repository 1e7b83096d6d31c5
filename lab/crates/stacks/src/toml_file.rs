//! Reading of TOML files that people write: stacks, applications, studies, LAB.toml. An error names file and line, and
//! the nearest known name where one is unknown. It knows no key itself.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

/// Reads the file at `path`.
///
/// # Errors
/// It can't be read, is no TOML, or does not hold what `T` asks for; with the line where that is known.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    parse(path, &text)
}

/// The paths of `*.toml` in a folder, by name.
///
/// # Errors
/// The folder can't be read.
pub fn all_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder.read_dir();
    let entries = entries.with_context(|| format!("can't read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    Ok(paths)
}

/// Reads `text`; `path` serves for messages alone.
///
/// # Errors
/// As of [`read`].
pub fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or_else(String::new, |span| {
            format!(":{}", line_of(text, span.start))
        });
        anyhow!("{}{line}: {}", path.display(), worded(error.message()))
    })
}

/// The line of the key that `path` leads to from the file's root; a number counts the entries of a list from zero. Where
/// the way ends early, the line of the last part that there is.
pub fn line_of_key(text: &str, path: &[String]) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut place = None;
    let mut at: Option<&DeValue<'_>> = None;
    for part in path {
        let (span, value) = match at {
            None => key(table.get_ref(), part),
            Some(DeValue::Table(table)) => key(table, part),
            Some(DeValue::Array(list)) => {
                let entry = list.get(part.parse::<usize>().ok()?);
                entry.map(|entry| (entry.span().start, entry.get_ref()))
            }
            Some(_) => None,
        }
        .unzip();
        if value.is_none() {
            break;
        }
        (place, at) = (span, value);
    }
    place.map(|offset| line_of(text, offset))
}

fn key<'a>(table: &'a DeTable<'a>, name: &str) -> Option<(usize, &'a DeValue<'a>)> {
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    Some((key.span().start, value.get_ref()))
}

/// The candidate with the fewest changes to `name`; `None` only without candidates.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    candidates
        .into_iter()
        .min_by_key(|candidate| strsim::osa_distance(&name, &candidate.to_lowercase()))
}

/// Serde's words for an unknown name list all known ones, in backticks after it: only the nearest helps.
fn worded(message: &str) -> String {
    let message = message.trim().replace('\n', ", ");
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = ["unknown field", "unknown variant"]
        .iter()
        .find(|kind| message.starts_with(*kind));
    match (unknown, names.next()) {
        (Some(kind), Some(name)) => {
            let kind = if kind.ends_with("field") {
                "key"
            } else {
                "value"
            };
            match nearest(name, names) {
                Some(nearest) => {
                    format!("unknown {kind} {name}; the nearest known one is {nearest}")
                }
                None => format!("unknown {kind} {name}; none is known here"),
            }
        }
        _ => message,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Page {
        path: String,
        weight: Option<u32>,
        kind: Option<Kind>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Plain,
        Rich,
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let check = |text: &str, expect: &str| {
            let error = parse::<Page>(Path::new("page.toml"), text).unwrap_err();
            assert_eq!(format!("{error:#}"), expect);
        };
        check(
            "path = '/'\n\nwieght = 2\n",
            "page.toml:3: unknown key wieght; the nearest known one is weight",
        );
        check(
            "path = '/'\nkind = 'plane'\n",
            "page.toml:2: unknown value plane; the nearest known one is plain",
        );
        check(
            "path = '/'\nweight = 'two'\n",
            "page.toml:2: invalid type: string \"two\", expected u32",
        );
        check("weight = 2\n", "page.toml:1: missing field `path`");
        assert!(parse::<Page>(Path::new("page.toml"), "path = '/'\nweight = 2\n").is_ok());
    }

    #[test]
    fn a_key_is_found_where_it_stands() {
        let text = "a = 1\n[b]\nc = 2\n[[d]]\ne = 3\n\n[[d]]\ne = 4\n[f.\"g.h\"]\ni = 5\n";
        let check = |path: &[&str], expect: Option<usize>| {
            let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
            assert_eq!(line_of_key(text, &path), expect, "{path:?}");
        };
        check(&["a"], Some(1));
        check(&["b", "c"], Some(3));
        check(&["d", "1", "e"], Some(8));
        check(&["d", "1"], Some(7));
        check(&["f", "g.h", "i"], Some(10));
        check(&["b", "x"], Some(2));
        check(&["x"], None);
        check(&[], None);
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read::<Page>(Path::new("/nonexistent/page.toml")).unwrap_err();
        assert!(
            format!("{error:#}").starts_with("can't read /nonexistent/page.toml: No such file")
        );
    }

    #[test]
    fn the_nearest_name_is_the_one_with_the_fewest_changes() {
        let known = ["puma", "puma-cluster", "unicorn"];
        assert_eq!(nearest("pmua", known), Some("puma"));
        assert_eq!(nearest("Puma-clsuter", known), Some("puma-cluster"));
        assert_eq!(nearest("x", []), None);
    }
}
