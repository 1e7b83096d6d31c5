//! The man pages of the program, from the definition of its command line: `highball.1` and a page for each command, without
//! those of the lab. The server's program does not contain them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;
use command_line::{LAB_COMMANDS, definition};

/// Writes the pages into a folder, which is made if it does not exist.
///
/// # Errors
/// A file cannot be written.
pub fn write(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (name, page) in pages()? {
        let path = dir.join(name);
        fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The names of the files and their contents.
fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    let whole = definition().disable_help_subcommand(true);
    let mut pages = vec![page(&whole, "highball")?];
    let is_of_lab = |name: &str| LAB_COMMANDS.iter().any(|(of_lab, _)| *of_lab == name);
    for command in whole.get_subcommands() {
        if !is_of_lab(command.get_name()) {
            let name = format!("highball-{}", command.get_name());
            let version = whole.get_version().unwrap_or_default().to_owned();
            let command = command
                .clone()
                .bin_name(name.replacen('-', " ", 1))
                .version(version);
            pages.push(page(&command, &name)?);
        }
    }
    Ok(pages)
}

fn page(command: &Command, name: &str) -> Result<(String, Vec<u8>)> {
    let man = Man::new(command.clone().name(name.to_owned())).title(name);
    let mut text = Vec::new();
    man.render(&mut text)?;
    Ok((format!("{name}.1"), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_with_its_flags() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("man1");
        write(&folder).unwrap();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let whole = read("highball.1");
        assert!(
            whole.contains(".TH highball 1") && whole.contains("upgrade"),
            "{whole}"
        );
        assert!(read("highball-serve.1").contains("request\\-timeout"));
        assert!(read("highball-stop.1").contains("\\-\\-now"));
        assert!(!folder.join("highball-load.1").exists());
    }
}
