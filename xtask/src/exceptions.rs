//! The known exceptions to the rules: `exceptions.txt`, one a line, each with its present number. The list can only
//! shrink: a number that grows fails, and so does one that is higher than it has to be.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, anyhow};

use crate::workspace::Workspace;
use crate::{Finding, circles, decisions, layers, links, sizes, source};

/// Where the list is.
pub const LIST: &str = "xtask/exceptions.txt";

const COMMAND: &str = "cargo run -p xtask -- exceptions";

const HEADER: &str = "\
# What breaks a rule of `cargo test -p xtask` for now, and by how much: rule, name, number. This list only shrinks.
# After an improvement, or a merge: `cargo run -p xtask -- exceptions` writes it again and tells what is new in it.
";

/// Number of a finding by rule and name.
type List = BTreeMap<(String, String), usize>;

/// Returns everything that breaks a rule, known or not.
///
/// # Errors
/// If a file cannot be read or is not Rust.
pub fn findings(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut findings = layers::check(workspace);
    findings.extend(sizes::check_openings(workspace)?);
    findings.extend(decisions::check(&workspace.root)?);
    findings.extend(links::check(&workspace.root)?);
    for member in &workspace.members {
        for target in source::targets(&workspace.root, member)? {
            findings.extend(circles::check(&target));
            findings.extend(sizes::check_files(&target));
            findings.extend(sizes::check_functions(&target));
            findings.extend(sizes::check_types(member, &target));
        }
    }
    findings.sort();
    Ok(findings)
}

/// Returns the list as it is in the tree.
///
/// # Errors
/// If it cannot be read.
pub fn read(workspace: &Workspace) -> Result<List> {
    let text = fs::read_to_string(workspace.root.join(LIST))
        .with_context(|| format!("cannot read {LIST}"))?;
    parse(&text)
}

/// Compares what was found by one rule with the list, and returns a message for each difference.
pub fn compare(rule: &str, findings: &[Finding], list: &List) -> Vec<String> {
    let mut messages = Vec::new();
    let found: BTreeMap<&str, &Finding> = findings
        .iter()
        .filter(|finding| finding.rule == rule)
        .map(|finding| (finding.name.as_str(), finding))
        .collect();
    for finding in found.values() {
        match list.get(&(rule.to_owned(), finding.name.clone())) {
            None => messages.push(finding.message.clone()),
            Some(&known) if finding.number > known => {
                messages.push(format!("{} (it was {known})", finding.message))
            }
            Some(&known) if finding.number < known => {
                messages.push(format!(
                    "{rule} {}: better than {LIST} says; run `{COMMAND}`",
                    finding.name
                ));
            }
            Some(_) => {}
        }
    }
    for (_, name) in list
        .keys()
        .filter(|(listed, name)| listed == rule && !found.contains_key(name.as_str()))
    {
        messages.push(format!(
            "{rule} {name}: {LIST} need not list it any more; run `{COMMAND}`"
        ));
    }
    messages
}

/// Writes the list again, and returns what is worse in it than before.
///
/// # Errors
/// If a file cannot be read, or the list cannot be written.
pub fn rewrite(workspace: &Workspace) -> Result<Vec<String>> {
    let before = read(workspace).unwrap_or_default();
    let findings = findings(workspace)?;
    let mut text = HEADER.to_owned();
    let mut worse = Vec::new();
    for Finding {
        rule, name, number, ..
    } in &findings
    {
        writeln!(text, "{rule} {name} {number}")?;
        match before.get(&(rule.to_string(), name.clone())) {
            None => worse.push(format!("new: {rule} {name} {number}")),
            Some(known) if number > known => {
                worse.push(format!("grown: {rule} {name} {number}, was {known}"))
            }
            Some(_) => {}
        }
    }
    fs::write(workspace.root.join(LIST), text).with_context(|| format!("cannot write {LIST}"))?;
    Ok(worse)
}

fn parse(text: &str) -> Result<List> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(
            |line| match line.split_whitespace().collect::<Vec<_>>()[..] {
                [rule, name, number] => Ok(((rule.to_owned(), name.to_owned()), number.parse()?)),
                _ => Err(anyhow!("{LIST}: expected rule, name and number: {line}")),
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &str, number: usize) -> Finding {
        Finding {
            rule: "file",
            name: name.to_owned(),
            number,
            message: format!("{name} is too long"),
        }
    }

    #[test]
    fn what_is_known_passes_and_what_grows_fails() {
        let list = parse("# comment\nfile a.rs 410\ntype a 30\n").unwrap();
        assert_eq!(compare("file", &[finding("a.rs", 410)], &list), [""; 0]);
        assert_eq!(
            compare("file", &[finding("a.rs", 411)], &list),
            ["a.rs is too long (it was 410)"]
        );
        assert_eq!(
            compare("file", &[finding("a.rs", 410), finding("b.rs", 401)], &list),
            ["b.rs is too long"]
        );
    }

    #[test]
    fn an_exception_that_is_not_needed_fails() {
        let list = parse("file a.rs 410\n").unwrap();
        assert_eq!(compare("file", &[], &list).len(), 1);
        assert_eq!(compare("file", &[finding("a.rs", 409)], &list).len(), 1);
    }

    #[test]
    fn a_line_that_is_no_exception_is_an_error() {
        parse("file a.rs\n").unwrap_err();
        parse("file a.rs many\n").unwrap_err();
    }
}
