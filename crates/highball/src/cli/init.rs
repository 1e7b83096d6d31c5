//! `init`: writes a file of settings, with every setting as a comment, or translated from another server's configuration.
//! Such a configuration is Ruby and is evaluated; nothing else of the application runs.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use config::{CONFIG_FILES, Settings, Sources, WrongEntry};
use serde::Deserialize;

use crate::application::{folder, library};
use crate::cli::print;
use crate::translation::{Entry, Translation, passenger, puma, unicorn};

/// The script that evaluates a configuration, in the folder of the Ruby files.
const RECORDER: &str = "highball/init/recorder.rb";

/// What that script prints.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Recorded {
    Calls(Vec<Entry>),
    Failure(String),
}

/// Writes `highball.toml` into the folder, and prints what became of each entry of `from`.
///
/// # Errors
/// There is a file of settings already, it cannot be written, or `from` cannot be read or evaluated.
pub(crate) fn run(dir: Option<&Path>, from: Option<&Path>) -> Result<()> {
    let dir = folder(dir.unwrap_or(Path::new(".")))?;
    for name in CONFIG_FILES {
        if dir.join(name).symlink_metadata().is_ok() {
            bail!(
                "{} exists already; remove it first, or edit it",
                dir.join(name).display()
            );
        }
    }
    let translation = match from {
        Some(from) => {
            let translated = translate(from, &dir);
            translated.with_context(|| format!("cannot translate {}", from.display()))?
        }
        None => Translation::default(),
    };
    let (text, wrong) = config::example_file(&translation.settings);
    let path = dir.join(CONFIG_FILES[0]);
    write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    print(&report(&path, from, &translation, &wrong))
}

fn translate(from: &Path, dir: &Path) -> Result<Translation> {
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".json") {
        return passenger::translate(&std::fs::read_to_string(from)?, dir);
    }
    let entries = evaluate(from, dir)?;
    Ok(match name.contains("unicorn") {
        true => unicorn::translate(&entries, dir),
        false => puma::translate(&entries, dir),
    })
}

/// Evaluates a configuration with the Ruby of the settings, in the application's folder.
fn evaluate(from: &Path, dir: &Path) -> Result<Vec<Entry>> {
    let from = from.canonicalize()?;
    let sources = Sources {
        dir: dir.to_owned(),
        env: std::env::vars_os().collect(),
        ..Sources::default()
    };
    let ruby = Settings::load(sources)?.ruby;
    let output = Command::new(&ruby)
        .arg(library::find()?.join(RECORDER))
        .arg(&from)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let output = output.with_context(|| format!("cannot run {ruby} (setting ruby)"))?;
    if !output.status.success() {
        bail!(
            "{ruby} ended with {} while it evaluated the file",
            output.status
        );
    }
    let recorded = serde_json::from_slice(&output.stdout);
    match recorded.context("cannot read what the file calls")? {
        Recorded::Calls(calls) => Ok(calls),
        Recorded::Failure(reason) => bail!(
            "{reason}; the file is evaluated without the application and its gems: `bundle exec highball init` brings the gems"
        ),
    }
}

/// Writes a new file; one that exists stays as it is.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn report(
    path: &Path,
    from: Option<&Path>,
    translation: &Translation,
    wrong: &[WrongEntry],
) -> String {
    let mut text = format!("wrote {}", path.display());
    if let Some(from) = from {
        text += &format!(", translated from {}", from.display());
    }
    text += "\n";
    for line in &translation.lines {
        text += &format!("{line}\n");
    }
    for WrongEntry { name, reason } in wrong {
        text += &format!("{name} is left out: {reason}\n");
    }
    if from.is_some_and(|from| from.extension().is_some_and(|extension| extension == "rb")) {
        text += "The file was evaluated with the variables that are set here; RAILS_ENV=production may give other values.\n";
    }
    text + "`highball check` shows which settings apply and whether the application loads.\n"
}
