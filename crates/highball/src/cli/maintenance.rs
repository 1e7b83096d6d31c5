//! `maintenance`: writes and removes the files of the setting `maintenance_file`. It talks to no server: each server looks at
//! the files itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use command_line::{MaintenanceArguments, MaintenanceState};
use config::{Settings, Sources};

use crate::application::folder;
use crate::cli::print;

/// The extensions that turn maintenance on.
const EXTENSIONS: [&str; 3] = ["html", "json", "txt"];

/// Turns maintenance on or off, or prints whether it is on.
///
/// # Errors
/// The settings cannot be read or name no file, or the files cannot be written or removed.
pub(crate) fn run(arguments: &MaintenanceArguments) -> Result<()> {
    let dir = folder(arguments.dir.as_deref().unwrap_or(Path::new(".")))?;
    let sources = Sources {
        dir: dir.clone(),
        config: arguments.config.clone(),
        env: std::env::vars_os().collect(),
        ..Sources::default()
    };
    let Some(file) = Settings::load(sources)?.maintenance_file else {
        bail!("the setting maintenance_file is \"none\": it must name a file");
    };
    let file = dir.join(file);
    match arguments.state {
        MaintenanceState::On => turn_on(&file, arguments.message.as_deref()),
        MaintenanceState::Off => turn_off(&file),
        MaintenanceState::Status => print(&status(&file)),
    }
}

fn turn_on(file: &Path, message: Option<&str>) -> Result<()> {
    if let Some(folder) = file.parent() {
        let made = fs::create_dir_all(folder);
        made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    // Without a message the page 503.html of error_pages is shown: an empty file has none of its own.
    let text = message.map_or_else(String::new, |message| format!("{message}\n"));
    write(&with_extension(file, "txt"), &text)?;
    if let Some(message) = message {
        write(&with_extension(file, "html"), &page(message))?;
    }
    print(&format!(
        "maintenance begins within a second (wrote {}); `highball maintenance off` ends it\n",
        with_extension(file, "txt").display()
    ))
}

fn turn_off(file: &Path) -> Result<()> {
    let mut removed = false;
    for extension in EXTENSIONS {
        let path = with_extension(file, extension);
        match fs::remove_file(&path) {
            Ok(()) => removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
        }
    }
    print(match removed {
        true => "maintenance ends within a second\n",
        false => "there was no maintenance\n",
    })
}

fn status(file: &Path) -> String {
    let paths = EXTENSIONS.map(|extension| with_extension(file, extension));
    match paths.iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => format!("maintenance is on: {} exists\n", path.display()),
        None => format!(
            "maintenance is off: {} does not exist\n",
            paths[2].display()
        ),
    }
}

/// The path with an extension added; a dot in its name belongs to the name.
fn with_extension(file: &Path, extension: &str) -> PathBuf {
    let mut path = file.to_owned().into_os_string();
    path.push(".");
    path.push(extension);
    path.into()
}

/// Writes a file at once: no server reads half of it.
fn write(path: &Path, text: &str) -> Result<()> {
    let new = with_extension(path, &format!("new{}", std::process::id()));
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// A page that says this.
fn page(message: &str) -> String {
    let message = message
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!(
        "<!DOCTYPE html>\n<html>\n<head><meta charset=\"utf-8\"><title>Maintenance</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <style>body {{ font: 1.2em/1.5 sans-serif; margin: 20vh auto; max-width: 32em; padding: 0 1em; text-align: center }}</style></head>\n\
         <body><p>{message}</p></body>\n</html>\n"
    )
}
