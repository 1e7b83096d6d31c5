//! The text of a file of settings: every setting with its description, those that are given with their values, the others
//! as comments with their defaults. It writes no file.

use crate::help::wrapped;
use crate::kind::Kind;
use crate::setting::Setting;
use crate::table::SETTINGS;

/// An entry whose setting does not allow its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongEntry {
    /// The setting.
    pub name: String,
    /// What is wrong with the value and what is allowed.
    pub reason: String,
}

const HEAD: &str = "\
# Settings of Highball. A line that begins with # has no effect; those with a
# name and a value show the default. Flags and variables are stronger than
# this file. `highball check` shows what applies and where it comes from,
# `highball help NAME` says more about a setting.
";

/// Returns the text of a file with these settings, each with the items of its value (one, if it is no list).
///
/// # Errors
/// The entries that are left out: no setting has the name, or the setting does not allow the value.
pub fn example_file(entries: &[(String, Vec<String>)]) -> (String, Vec<WrongEntry>) {
    let mut wrong = Vec::new();
    let mut right: Vec<(&str, &[String])> = Vec::new();
    for (name, items) in entries {
        match check(name, items) {
            Ok(()) => right.push((name, items)),
            Err(reason) => wrong.push(WrongEntry {
                name: name.clone(),
                reason,
            }),
        }
    }
    let mut text = HEAD.to_owned();
    let mut category = "";
    for setting in SETTINGS {
        if setting.category != category {
            category = setting.category;
            text += &format!("\n## {category}\n");
        }
        let development = setting
            .development
            .map(|default| format!(" In development and test the default is {default}."));
        let about = format!("{}.{}", setting.short(), development.unwrap_or_default());
        text += &format!("\n{}", comment(&about));
        let given = right.iter().find(|(name, _)| *name == setting.name);
        text += &match given {
            Some((_, items)) => format!("{} = {}\n", setting.name, toml(setting, items)),
            None => format!("#{} = {}\n", setting.name, toml(setting, &default(setting))),
        };
    }
    (text, wrong)
}

fn check(name: &str, items: &[String]) -> Result<(), String> {
    let setting = SETTINGS.iter().find(|setting| setting.name == name);
    let kind = &setting.ok_or("no setting has this name")?.kind;
    match (kind.is_list(), items) {
        (true, items) => {
            items.iter().try_for_each(|item| kind.check_item(item))?;
            kind.parse_list(items).map(drop)
        }
        (false, [item]) => kind.parse(item).map(drop),
        (false, _) => Err(format!("expected {}", kind.allowed())),
    }
}

fn comment(text: &str) -> String {
    wrapped(&format!("# {text}"), 0)
        .replace("\n", "\n# ")
        .trim_end_matches("# ")
        .to_owned()
}

fn default(setting: &Setting) -> Vec<String> {
    let items = match setting.is_list() {
        true => setting.default.split(',').collect(),
        false => vec![setting.default],
    };
    items.into_iter().map(str::to_owned).collect()
}

/// A value as TOML has it.
fn toml(setting: &Setting, items: &[String]) -> String {
    let texts = items.iter().map(|item| match item.parse::<u64>() {
        // Not as it stands: TOML has no `05`.
        Ok(number) if setting.kind.takes_numbers() => number.to_string(),
        Err(_) if matches!(setting.kind, Kind::Bool) => item.clone(),
        _ => toml::Value::String(item.clone()).to_string(),
    });
    match setting.is_list() {
        true => format!("[{}]", texts.collect::<Vec<_>>().join(", ")),
        false => texts.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, Sources};

    fn load(text: &str) -> Settings {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("highball.toml"), text).unwrap();
        let sources = Sources {
            dir: dir.path().to_owned(),
            flags: vec![("environment".to_owned(), "production".to_owned())],
            ..Sources::default()
        };
        Settings::load(sources).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn the_file_changes_nothing_and_its_comments_are_the_defaults() {
        let (text, wrong) = example_file(&[]);
        assert_eq!(wrong, []);
        let values = |text: &str| {
            let described = load(text).describe().into_iter();
            described
                .map(|(name, value, _)| (name, value))
                .collect::<Vec<_>>()
        };
        let plain = values("");
        assert_eq!(values(&text), plain);
        // A file of hooks that is named must exist.
        let setting = |line: &&str| {
            line.starts_with('#') && !line.starts_with("# ") && !line.starts_with("##")
        };
        let named: Vec<&str> = text
            .lines()
            .filter(setting)
            .map(|line| &line[1..])
            .collect();
        assert_eq!(named.len(), SETTINGS.len());
        let named: Vec<&str> = named
            .into_iter()
            .filter(|line| !line.starts_with("hooks"))
            .collect();
        // In development a named default is no default: that environment has others.
        let production = named
            .join("\n")
            .replace("\"development\"", "\"production\"");
        assert_eq!(values(&production), values("environment = \"production\""));
        assert_eq!(
            text.lines()
                .find(|line| line.chars().count() > 82 && line.starts_with("# ")),
            None
        );
    }

    #[test]
    fn given_values_are_in_force_and_wrong_ones_are_left_out() {
        let entry = |name: &str, items: &[&str]| {
            (
                name.to_owned(),
                items
                    .iter()
                    .map(|&item| item.to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let (text, wrong) = example_file(&[
            entry("threads", &["5"]),
            entry("listen", &["127.0.0.1:80", "unix:/run/a \"b\".sock"]),
            entry("request_timeout", &["90"]),
            entry("environment", &["a\nthreads = 7"]),
            entry("workers", &["2000"]),
            entry("colour", &["red"]),
        ]);
        let settings = load(&text);
        assert_eq!(
            (
                settings.threads.most(),
                settings.request_timeout.map(|time| time.as_secs())
            ),
            (5, Some(90))
        );
        assert_eq!(settings.listen[1].to_string(), "unix:/run/a \"b\".sock");
        let names: Vec<_> = wrong.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["environment", "workers", "colour"]);
        assert!(wrong[1].reason.contains("from 0 to 1024"), "{wrong:?}");
    }
}
