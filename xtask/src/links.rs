//! The links of the Markdown files: each relative one names a file of the tree, and a heading of it if it has an anchor.
//! Opens no address of another host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path};

use anyhow::{Context, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::Finding;
use crate::workspace::files_below;

/// Folders that hold copies, and nothing of the repository.
const COPIES: [&str; 3] = ["gem/lab/", "tmp/", ".git/"];

/// Returns the links that lead nowhere.
///
/// # Errors
/// If a file cannot be read.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut headings = BTreeMap::new();
    for file in files_below(root, "", "md")? {
        if COPIES.iter().any(|folder| file.starts_with(folder)) {
            continue;
        }
        for link in links(&read(root, &file)?) {
            if let Some(problem) = problem(root, &file, &link, &mut headings)? {
                findings.push(Finding {
                    rule: "link",
                    name: format!("{file}:{}", link.replace(' ', "%20")),
                    number: 1,
                    message: format!("{file} links to {link}: {problem}"),
                });
            }
        }
    }
    Ok(findings)
}

fn read(root: &Path, file: &str) -> Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
}

fn parse(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// The links and images of a page that stay within the repository.
fn links(text: &str) -> Vec<String> {
    let links = parse(text).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url),
        _ => None,
    });
    links
        .filter(|link| !has_scheme(link))
        .map(|link| link.to_string())
        .collect()
}

/// Whether this is an address such as `https://...` or `mailto:...`.
fn has_scheme(link: &str) -> bool {
    link.split_once(':')
        .is_some_and(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

/// What is wrong with a link in `file`. `headings` keeps the anchors of the pages that were read.
fn problem(
    root: &Path,
    file: &str,
    link: &str,
    headings: &mut BTreeMap<String, BTreeSet<String>>,
) -> Result<Option<String>> {
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link, None),
    };
    let target = match path {
        "" => Some(file.to_owned()),
        _ => resolve(file, path),
    };
    let Some(target) = target else {
        return Ok(Some("it leads out of the repository".to_owned()));
    };
    if !root.join(&target).exists() {
        return Ok(Some(format!("there is no {target}")));
    }
    let Some(anchor) = anchor.filter(|_| target.ends_with(".md")) else {
        return Ok(None);
    };
    if !headings.contains_key(&target) {
        headings.insert(target.clone(), anchors(&read(root, &target)?));
    }
    let known = headings[&target].contains(anchor);
    Ok((!known).then(|| format!("{target} has no heading with the anchor {anchor}")))
}

/// The path that a link in `file` means, relative to the root; `None` if it is outside.
fn resolve(file: &str, link: &str) -> Option<String> {
    let path = Path::new(file).parent()?.join(link);
    let mut parts: Vec<&str> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// The anchors that GitHub gives the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut heading: Option<String> = None;
    for event in parse(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let name = anchor(&heading.take().unwrap_or_default());
                let count = seen.entry(name.clone()).or_default();
                anchors.insert(match *count {
                    0 => name,
                    _ => format!("{name}-{count}"),
                });
                *count += 1;
            }
            _ => {}
        }
    }
    anchors
}

/// The anchor of a heading: lower case, hyphens for spaces, no punctuation.
fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character))
        .map(|character| if character == ' ' { '-' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        let page = "# Time-outs that fit\n## `workers`\n## What? A (stop), again!\n## `workers`\n";
        let expect = [
            "time-outs-that-fit",
            "what-a-stop-again",
            "workers",
            "workers-1",
        ];
        assert_eq!(Vec::from_iter(anchors(page)), expect);
    }

    #[test]
    fn a_link_needs_its_file_and_its_heading() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        fs::create_dir_all(root.path().join("docs")).unwrap();
        write("docs/page.md", "# Title\n\n## Two words\n");
        write(
            "README.md",
            "[a](docs/page.md) [b](docs/page.md#two-words) [c](https://example.com/x#y) [d](docs) [e](#here)\n\n# Here\n\n\
             `[code](nothing.md)`\n\n```\n[code](nothing.md)\n```\n",
        );
        assert_eq!(check(root.path()).unwrap(), []);

        write(
            "docs/other.md",
            "[a](page.md#none) ![b](gone.png) [c](../../out.md) [d](#none) [e](../README.md)\n\n[f]: gone.md\n[g][f]\n",
        );
        let found: Vec<String> = check(root.path())
            .unwrap()
            .into_iter()
            .map(|finding| finding.name)
            .collect();
        assert_eq!(
            found,
            [
                "docs/other.md:page.md#none",
                "docs/other.md:gone.png",
                "docs/other.md:../../out.md",
                "docs/other.md:#none",
                "docs/other.md:gone.md",
            ]
        );
    }
}
