//! `docs/settings.md`, written from the table. Writes no file itself.

use std::fmt::Write;

use crate::setting::Setting;
use crate::table::SETTINGS;

const HEAD: &str = "\
# Settings

<!-- Generated from crates/config/src/table.rs. Do not edit: `UPDATE_DOCS=1 cargo test -p highball-config` writes it. -->

Every setting has a default, and most applications need none of them. A setting can be given as, the strongest first,

1. a flag of `highball serve` and `highball check`: `--threads 5`;
2. a variable: `HIGHBALL_THREADS=5`;
3. for some, a variable that other servers share: `PORT`, `RAILS_ENV`, `RACK_ENV`, `WEB_CONCURRENCY`,
   `RAILS_MAX_THREADS`, `PIDFILE` (an empty one counts as absent);
4. where a server has several applications, a key in the table of one of them, for this one alone;
5. a key in the file: `threads = 5`.

The file is the one that `--config FILE` names, otherwise `highball.toml` in the application's folder, otherwise
`config/highball.toml` there. It is TOML with all keys at the top level, but for the tables `[[application]]` of a server
with several applications ([applications.md](applications.md)). `highball check` prints every setting with its value and
where that came from.

Everything is checked before anything starts. An unknown key or flag, a wrong type or a value out of range is an error that
names the place and what is allowed, even where a stronger source gives another value. An unknown `HIGHBALL_*` variable is
an error if at most two letters make it a known one, otherwise a warning; those that Kubernetes sets for a Service named
`highball` are left alone.

`highball init` writes a file with every setting, its text and its default; `highball init --from config/puma.rb` translates
the configuration of Puma, Unicorn or Passenger. `highball help NAME` shows the text of a setting.

- Sizes are plain numbers of bytes or have a unit: `\"112KiB\"`, `\"1GiB\"` (powers of 1024), `\"1MB\"` (of 1000).
- Times are plain numbers of seconds or have a unit: `\"500ms\"`, `\"30s\"`, `\"2m\"`, `\"1h\"`.
- Lists are arrays in the file; in variables they are separated by commas, and flags may be repeated.
- Rules for paths are lists of a path and a value: `[\"/reports=5m\", \"/up=2s\"]`. A path stands for itself and for
  everything below it: `/reports` for `/reports/1`, not for `/reportsx`. The longest path that matches applies.
- Both ends of a range are allowed.

`highball reload` has a running server read all of this again ([signals.md](signals.md)). Each setting below says what a
change needs.
";

/// The text of `docs/settings.md`.
pub fn settings_page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n| setting | default | |\n|---|---|---|\n");
    for setting in SETTINGS {
        let Setting { name, default, .. } = setting;
        line(
            &mut page,
            &format!(
                "| [`{name}`](#{name}) | `{default}` | {} |",
                setting.short()
            ),
        );
    }
    let mut category = "";
    for setting in SETTINGS {
        if setting.category != category {
            category = setting.category;
            line(&mut page, &format!("\n## {category}"));
        }
        section(&mut page, setting);
    }
    page
}

fn section(page: &mut String, setting: &Setting) {
    line(
        page,
        &format!("\n### `{}`\n\n{}.", setting.name, setting.short()),
    );
    let long = setting.long();
    if !long.is_empty() {
        line(page, &format!("\n{long}"));
    }
    line(page, &format!("\n- Allowed: {}.", setting.kind.allowed()));
    let development = setting
        .development
        .map(|default| format!("; in `development` and `test` `{default}`"));
    let development = development.unwrap_or_default();
    line(
        page,
        &format!("- Default: `{}`{development}.", setting.default),
    );
    let (flag, value) = (setting.flag(), setting.value_name());
    let short = match setting.short_flag() {
        Some(short) => format!(" or `-{short}`"),
        None => String::new(),
    };
    let mut names = format!(
        "- Flag: `--{flag} {value}`{short}. Variable: `{}`",
        setting.variable()
    );
    for shared in setting.shared_variables {
        let _ = write!(names, ", else `{shared}`");
    }
    line(page, &format!("{names}."));
    line(
        page,
        &format!("- A change needs {}.", setting.reload.text()),
    );
    line(page, &format!("- Scope: {}.", setting.scope.text()));
}

fn line(page: &mut String, text: &str) {
    page.push_str(text);
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_in_docs_is_the_one_of_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, settings_page()).expect("docs/settings.md can be written");
        }
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == settings_page(),
            "docs/settings.md is stale; write it again with: UPDATE_DOCS=1 cargo test -p highball-config"
        );
    }

    #[test]
    fn every_setting_is_documented() {
        for setting in SETTINGS {
            assert!(setting.short().len() > 10, "{}", setting.name);
            assert!(setting.help().contains(setting.default), "{}", setting.name);
        }
    }
}
