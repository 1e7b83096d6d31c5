//! The command line as values: commands, and one flag for each setting of the table. It does not check the settings, and
//! carries out no command.

#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod definition;
mod experiment;
mod matches;
mod server_arguments;

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;

pub use clap::Error;
pub use clap_complete::Shell;
pub use commands::{
    ApplicationArguments, Command, MaintenanceArguments, MaintenanceState, ProfileMode, Purge,
};
pub use definition::{LAB_COMMANDS, definition};
pub use server_arguments::{
    ExperimentAction, ExperimentArguments, PlanArguments, ServerArguments, ViewArguments,
};

/// They ask for the help itself, and are no topics.
const HELP_FLAGS: [&str; 2] = ["-h", "--help"];

/// Flags of the program itself.
const GENERAL: [&str; 4] = ["-h", "--help", "-V", "--version"];
/// A word that is no folder and differs from a command by so many edits is a mistyped command, if at most every third letter
/// is another: many words are nearly as short a command.
const MAX_EDITS: usize = 2;

/// Reads the command line, the program's own name first.
///
/// # Errors
/// What is wrong with it; or the text that `--help` and `--version` ask for.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> clap::error::Result<Command> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let word = |index: usize| arguments.get(index).and_then(|word| word.to_str());
    let first = word(1).unwrap_or_default();
    let topic = (first == "help").then(|| word(2)).flatten();
    let is_of_lab = |name: &str| LAB_COMMANDS.iter().any(|(known, _)| *known == name);
    if is_of_lab(topic.unwrap_or(first)) {
        return Ok(Command::Lab(arguments.split_off(1)));
    }
    let is_command = |name: &str| name == "help" || definition().find_subcommand(name).is_some();
    if let Some(topic) = topic.filter(|topic| !HELP_FLAGS.contains(topic) && !is_command(topic)) {
        return Ok(Command::Help(topic.to_owned()));
    }
    if !is_command(first) && !GENERAL.contains(&first) {
        refuse_mistyped(first)?;
        arguments.insert(1.min(arguments.len()), "serve".into());
    }
    let (name, mut matches) = definition()
        .try_get_matches_from(arguments)?
        .remove_subcommand()
        .expect("clap insists on a command");
    Ok(matches::command(&name, &mut matches))
}

/// Refuses a word that is nearly a command and no folder.
fn refuse_mistyped(word: &str) -> clap::error::Result<()> {
    if word.is_empty() || word.starts_with('-') || Path::new(word).exists() {
        return Ok(());
    }
    let mut definition = definition();
    let names: Vec<&str> = definition
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    match config::nearest(word, names.iter().copied()) {
        Some((index, edits)) if edits <= MAX_EDITS.min(names[index].len() / 3) => {
            let text = format!(
                "there is neither a command nor a folder {word:?}; did you mean `highball {}`?\n",
                names[index]
            );
            Err(definition.error(ErrorKind::InvalidSubcommand, text))
        }
        _ => Ok(()),
    }
}

/// Returns the completions for a shell, a script in its language.
pub fn completion(shell: Shell) -> String {
    // `serve` may be left out.
    let mut definition = definition().args(definition::flags_of_serve());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut definition, "highball", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests;
