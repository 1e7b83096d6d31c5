//! The commands of the repository that need its source tree or its list of packages. The checks themselves are tests:
//! `cargo test -p xtask`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use xtask::workspace::Workspace;
use xtask::{exceptions, lines, man_pages, test_programs};

const USAGE: &str = "\
usage: cargo run -p xtask -- COMMAND
  lines        product lines of code of each crate and in all, without tests, comments and blank lines
  findings     everything that breaks a rule now, known exceptions too
  test [N [WORD [ROOT]]]
               the tests of `make test-rust`, N test programs (2) at a time; only those with WORD in their names; with
               ROOT in that root of another Debian (scripts/debian-root), without those in documentation
  exceptions   write xtask/exceptions.txt again, and print what is worse in it than before
  man DIR      write the man pages into this folder
";

fn main() -> Result<ExitCode> {
    let workspace = Workspace::here()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["lines"] => print!("{}", lines::report(&workspace)?),
        ["test"] => return test(&workspace, "2", "", None),
        ["test", jobs] => return test(&workspace, jobs, "", None),
        ["test", jobs, only] => return test(&workspace, jobs, only, None),
        ["test", jobs, only, root] => return test(&workspace, jobs, only, Some(Path::new(root))),
        ["man", dir] => man_pages::write(Path::new(dir))?,
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

fn test(workspace: &Workspace, jobs: &str, only: &str, debian: Option<&Path>) -> Result<ExitCode> {
    let passed = test_programs::run(workspace, jobs.parse()?, only, debian)?;
    Ok(match passed {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
