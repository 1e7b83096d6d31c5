//! The texts of settings for a terminal: one setting, and the list of all. It prints nothing.

use crate::setting::Setting;
use crate::table::SETTINGS;

/// The width of a line.
const WIDTH: usize = 80;
/// The names in the list have so much room.
const NAME_WIDTH: usize = 4;

/// Returns everything about the setting of this name; `None` if there is no such setting.
pub fn help_of(name: &str) -> Option<String> {
    let name = name.trim_start_matches('-').replace('-', "_");
    let setting = SETTINGS.iter().find(|setting| setting.name == name)?;
    let Setting {
        name,
        default,
        category,
        ..
    } = setting;
    let mut text = format!("{name} ({category})\n\n");
    for paragraph in [format!("{}.", setting.short())]
        .iter()
        .chain(&paragraphs(setting))
    {
        text += &(wrapped(paragraph, 0) + "\n");
    }
    let mut flags = format!("--{} {}", setting.flag(), setting.value_name());
    if let Some(short) = setting.short_flag() {
        flags += &format!(", -{short}");
    }
    let variables: Vec<String> = [setting.variable()]
        .into_iter()
        .chain(setting.shared_variables.iter().map(|&one| one.to_owned()))
        .collect();
    let facts = [
        ("Allowed", setting.kind.allowed()),
        ("Default", format!("{default}{}", elsewhere(setting))),
        ("Flag", flags),
        ("Variable", variables.join(", else ")),
        ("A change needs", setting.reload.text().to_owned()),
    ];
    for (what, fact) in facts {
        text += &wrapped(&format!("{what}: {fact}"), 2);
    }
    Some(text)
}

/// The default in other environments, where it is another one.
fn elsewhere(setting: &Setting) -> String {
    let default = setting.development;
    default.map_or_else(String::new, |default| {
        format!("; in development and test {default}")
    })
}

fn paragraphs(setting: &Setting) -> Vec<String> {
    let long = setting.long();
    let paragraphs = long.split("\n\n").filter(|paragraph| !paragraph.is_empty());
    paragraphs.map(str::to_owned).collect()
}

/// Returns the names, defaults and first sentences of all settings.
pub fn list_of_settings() -> String {
    let mut text = String::new();
    let mut category = "";
    for setting in SETTINGS {
        if setting.category != category {
            category = setting.category;
            text += &format!("\n{category}\n");
        }
        let Setting { name, default, .. } = setting;
        text += &format!("  {name} = {default}\n");
        let indent = " ".repeat(NAME_WIDTH);
        text += &wrapped(&format!("{indent}{}", setting.short()), NAME_WIDTH);
    }
    text.trim_start().to_owned()
}

/// Breaks a text into lines; those after the first one are indented by `indent`.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    let lead = text.len() - text.trim_start().len();
    let mut lines = vec![" ".repeat(lead)];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("never empty");
        let is_empty = line.trim().is_empty();
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(" ".repeat(indent) + word);
        } else {
            let space = if is_empty { "" } else { " " };
            *line += &format!("{space}{word}");
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_a_setting_says_everything_within_80_columns() {
        for setting in SETTINGS {
            let text = help_of(&setting.flag()).expect("a setting");
            let lines: Vec<_> = text.lines().collect();
            assert!(lines[0].starts_with(setting.name), "{text}");
            let flag = format!("Flag: --{}", setting.flag());
            assert!(lines.iter().any(|line| line.starts_with(&flag)), "{text}");
            let long = |line: &&&str| line.chars().count() > WIDTH && line.contains(' ');
            assert_eq!(lines.iter().find(long), None, "{}", setting.name);
        }
        assert!(help_of("request-timeout").is_some_and(|text| text.contains("Default: 60s")));
        let workers = help_of("--workers").expect("a setting");
        assert!(
            workers.contains("Default: auto; in development and test 1"),
            "{workers}"
        );
        assert_eq!(help_of("request_time"), None);
    }

    #[test]
    fn the_list_names_every_setting_with_its_default() {
        let list = list_of_settings();
        for Setting { name, default, .. } in SETTINGS {
            assert!(
                list.contains(&format!("\n  {name} = {default}\n")),
                "{name}"
            );
        }
        assert!(
            list.starts_with("Application\n  environment = development\n    The"),
            "{list}"
        );
    }
}
