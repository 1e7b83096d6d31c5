//! `highball stacks`: what can be compared here, and how to install the rest. It starts no server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use stacks::{Catalogue, Definition, Presence};

/// Arguments of `highball stacks`.
#[derive(Debug, PartialEq, clap::Args)]
pub struct Arguments {
    /// A file that describes a further stack; may be repeated
    #[arg(long = "stack-file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// One stack, as JSON.
#[derive(Debug, Serialize)]
struct Row<'a> {
    id: &'a str,
    aliases: &'a [String],
    name: String,
    about: &'a str,
    note: String,
    installed: bool,
    versions: BTreeMap<String, String>,
    missing: Option<String>,
    install: Option<String>,
}

/// Prints the table.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let catalogue = Catalogue::load(&arguments.files)?;
    let rows: Vec<Row<'_>> = catalogue.iter().map(row).collect();
    let text = if arguments.json {
        serde_json::to_string_pretty(&rows)? + "\n"
    } else {
        table(&rows)
    };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn row(definition: &Definition) -> Row<'_> {
    let (versions, missing, install) = match definition.presence() {
        Presence::Installed { versions } => (versions, None, None),
        Presence::Missing { reason, install } => (BTreeMap::new(), Some(reason), install),
    };
    Row {
        id: &definition.id,
        aliases: &definition.aliases,
        name: definition.title(),
        about: definition.about.trim(),
        note: definition.note_line(),
        installed: missing.is_none(),
        versions,
        missing,
        install,
    }
}

/// Three columns: id, name, versions or what to do.
fn table(rows: &[Row<'_>]) -> String {
    let width = |cell: fn(&Row<'_>) -> usize| rows.iter().map(cell).max().unwrap_or(0);
    let (ids, names) = (
        width(|row| row.id.len()),
        width(|row| row.name.chars().count()),
    );
    let lines = rows.iter().map(|row| {
        let versions: Vec<String> = row
            .versions
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        let state = match (&row.missing, &row.install) {
            (None, _) => versions.join(", "),
            (Some(_), Some(install)) => format!("missing: {install}"),
            (Some(reason), None) => format!("missing: {reason}"),
        };
        format!("{:ids$}  {:names$}  {state}", row.id, row.name)
            .trim_end()
            .to_owned()
            + "\n"
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_versions_or_the_install_command() {
        let row = |id,
                   name: &str,
                   versions: &[(&str, &str)],
                   missing: Option<&str>,
                   install: Option<&str>| Row {
            id,
            aliases: &[],
            name: name.to_owned(),
            about: "",
            note: String::new(),
            installed: missing.is_none(),
            versions: versions
                .iter()
                .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()))
                .collect(),
            missing: missing.map(str::to_owned),
            install: install.map(str::to_owned),
        };
        let rows = [
            row(
                "nginx+thin",
                "nginx before Thins",
                &[("nginx", "1.22.1"), ("thin", "1.8.1")],
                None,
                None,
            ),
            row(
                "mongrel",
                "Mongrel",
                &[],
                Some("mongrel_rails is not there"),
                Some("gem install mongrel"),
            ),
            row("url", "elsewhere", &[], Some("no address"), None),
        ];
        let expect = "\
nginx+thin  nginx before Thins  nginx 1.22.1, thin 1.8.1
mongrel     Mongrel             missing: gem install mongrel
url         elsewhere           missing: no address
";
        assert_eq!(table(&rows), expect);
    }
}
