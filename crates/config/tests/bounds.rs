//! `docs/internals/bounds.md` is the whole table: every setting and every constant that bounds a wait or a buffer stands in it, and
//! what it names exists.

use std::fs;
use std::path::{Path, PathBuf};

use highball_config::{Kind, SETTINGS};

/// The crates and folders of which the server consists.
const SOURCES: [&str; 14] = [
    "crates/traces/src",
    "crates/admin/src",
    "crates/cache/src",
    "crates/certificates/src",
    "crates/dashboard/src",
    "crates/exceptions/src",
    "crates/front/src",
    "crates/exchange/src",
    "crates/metrics/src",
    "crates/notify/src",
    "crates/supervisor/src",
    "crates/extension/src",
    "crates/highball/src",
    "gem/lib",
];

/// Lengths that are what they are by a specification or a format, and bound nothing.
const NO_BOUNDS: [&str; 7] = [
    "VERSION_BYTES",
    "RANDOM_BYTES",
    "KEY_RANDOM_BYTES",
    "PREFACE_BYTES",
    "HEADER_BYTES",
    "LINE_EXTRA_BYTES",
    "FIELD_EXTRA_BYTES",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The rows of the tables.
fn rows() -> Vec<String> {
    let page = fs::read_to_string(root().join("docs/internals/bounds.md"))
        .expect("docs/internals/bounds.md");
    let rows = page.lines().filter(|line| line.starts_with("| "));
    rows.map(str::to_owned).collect()
}

/// The sources of the server, without tests: path and text of each file.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = SOURCES.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|kind| kind == "rs" || kind == "rb")
                && path.file_stem().is_some_and(|name| name != "tests")
            {
                let text = fs::read_to_string(&path).expect("a source");
                let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
                found.push((path, text[..end].to_owned()));
            }
        }
    }
    assert!(found.len() > 50, "the sources moved: {found:?}");
    found
}

#[test]
fn every_setting_that_bounds_something_is_in_the_table() {
    let rows = rows();
    for setting in SETTINGS {
        let kind = match setting.kind {
            Kind::Maybe(kind) => *kind,
            kind => kind,
        };
        let bounds = matches!(
            kind,
            Kind::Integer { .. }
                | Kind::AutoInteger { .. }
                | Kind::AutoRange { .. }
                | Kind::Range { .. }
                | Kind::Bytes { .. }
                | Kind::AutoBytes { .. }
                | Kind::Duration { .. }
                | Kind::Percent
                | Kind::Paths(_)
        );
        let name = format!("`{}`", setting.name);
        assert!(
            !bounds || rows.iter().any(|row| row.contains(&name)),
            "docs/internals/bounds.md has no row for the setting {name}: what does it bound, what happens then, which test holds it?"
        );
    }
}

#[test]
fn every_constant_that_bounds_something_is_in_the_table() {
    let rows = rows();
    for (path, text) in sources() {
        for line in text.lines() {
            let Some((name, kind)) = line
                .split_once("const ")
                .and_then(|(_, rest)| rest.split_once(": "))
            else {
                continue;
            };
            let bounds = kind.starts_with("Duration")
                || name.starts_with("MAX_")
                || ["_BYTES", "_MS", "_NS", "LIMIT"]
                    .iter()
                    .any(|end| name.ends_with(end));
            let named = format!("`{name}`");
            assert!(
                !bounds || NO_BOUNDS.contains(&name) || rows.iter().any(|row| row.contains(&named)),
                "docs/internals/bounds.md has no row for {named} of {}: what does it bound, what happens then, which test holds it?",
                path.display()
            );
        }
    }
}

#[test]
fn no_wait_has_a_length_without_a_name() {
    for (path, text) in sources() {
        for line in text.lines().filter(|line| !line.contains("const ")) {
            let literal = ["from_secs(", "from_millis(", "sleep("].iter().any(|call| {
                let after = line.split_once(call).map(|(_, rest)| rest);
                after.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
            });
            assert!(
                !literal || line.trim_start().starts_with("//"),
                "{}: {line}: make it a constant, with a row in docs/internals/bounds.md",
                path.display()
            );
        }
    }
}

#[test]
fn every_test_and_every_constant_that_the_table_names_exists() {
    let sources = sources();
    let mut tests = 0;
    for row in rows() {
        // [name](../../path)
        for link in row.split('[').skip(1) {
            let (name, rest) = link
                .split_once("](../../")
                .expect("a link to a file of tests");
            let (path, _) = rest.split_once(')').expect("the end of a link");
            let text = fs::read_to_string(root().join(path));
            let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
            let there =
                text.contains(&format!("fn {name}(")) || text.contains(&format!("def {name}\n"));
            assert!(there, "{path} has no test {name}");
            tests += 1;
        }
        for word in row.split('`').skip(1).step_by(2) {
            let constant = word.len() > 2
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte == b'_' || byte.is_ascii_digit())
                && word.contains(|c: char| c.is_ascii_uppercase());
            let declared = |text: &str| {
                text.contains(&format!("const {word}: "))
                    || text.contains(&format!("    {word} = "))
            };
            assert!(
                !constant || sources.iter().any(|(_, text)| declared(text)),
                "there is no constant {word}"
            );
        }
    }
    assert!(tests > 60, "{tests}");
}

#[test]
fn every_row_names_a_test() {
    let mut rows = rows();
    // The heads of the tables.
    rows.retain(|row| !row.starts_with("| what ") && !row.starts_with("|---"));
    for row in rows {
        assert!(row.contains("](../../"), "no test in {row}");
    }
}
