//! The commands `version`, `help TOPIC` and `completion`: print texts. They look at no server and no application.

use anyhow::{Result, bail};
use command_line::Shell;
use config::SETTINGS;

use crate::cli::print;

/// The topics that are neither a command nor a setting.
const TOPICS: [&str; 2] = ["settings", "signals"];

const SIGNALS: &str = "\
Signals for the server's main process (`highball status` shows its number):

  TERM, INT, QUIT  Stop gracefully: running requests may finish within
                   drain_timeout. A second one ends the server at once.
  HUP              Open log_file again and read the settings again, as
                   `highball reload`. When the terminal is closed that the
                   server was started in, it stops. Under nohup: ignored.
  USR1             Load the application's code again, as `highball restart`.
  USR2             Replace the server's program, as `highball upgrade`.

Commands do the same, wait until it is done and say what came of it.
docs/signals.md has the details.
";

/// Prints the version.
///
/// # Errors
/// Stdout cannot be written to.
pub(crate) fn version() -> Result<()> {
    print(concat!("highball ", env!("CARGO_PKG_VERSION"), "\n"))
}

/// Prints the help for a topic that is no command.
///
/// # Errors
/// There is no such topic; names the nearest one.
pub(crate) fn topic(topic: &str) -> Result<()> {
    let text = match topic {
        "settings" => config::list_of_settings(),
        "signals" => SIGNALS.to_owned(),
        _ => match config::help_of(topic) {
            Some(text) => text,
            None => bail!(unknown(topic)),
        },
    };
    print(&text)
}

fn unknown(topic: &str) -> String {
    let definition = command_line::definition();
    let commands = definition
        .get_subcommands()
        .map(|command| command.get_name());
    let settings = SETTINGS.iter().map(|setting| setting.name);
    let names: Vec<&str> = TOPICS.into_iter().chain(commands).chain(settings).collect();
    let (nearest, _) = config::nearest(topic, names.iter().copied()).unwrap_or_default();
    format!(
        "there is no help for {topic:?}; the nearest topic is {}. `highball help` lists the commands, `highball help \
         settings` the settings",
        names[nearest]
    )
}

/// Prints the completions for a shell.
///
/// # Errors
/// Stdout cannot be written to.
pub(crate) fn completion(shell: Shell) -> Result<()> {
    print(&command_line::completion(shell))
}
