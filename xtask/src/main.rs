//! The commands of the repository that need its source tree. The checks themselves are tests: `cargo test -p xtask`.

use std::process::ExitCode;

use anyhow::Result;
use xtask::workspace::Workspace;
use xtask::{exceptions, lines};

const USAGE: &str = "\
usage: cargo run -p xtask -- COMMAND
  lines        product lines of code of each crate and in all, without tests, comments and blank lines
  findings     everything that breaks a rule now, known exceptions too
  exceptions   write xtask/exceptions.txt again, and tell what is worse in it than before
";

fn main() -> Result<ExitCode> {
    let workspace = Workspace::here()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["lines"] => print!("{}", lines::report(&workspace)?),
        ["findings"] => {
            for finding in exceptions::findings(&workspace)? {
                println!("{}: {}", finding.rule, finding.message);
            }
        }
        ["exceptions"] => {
            for line in exceptions::rewrite(&workspace)? {
                println!("{line}");
            }
        }
        _ => {
            eprint!("{USAGE}");
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
