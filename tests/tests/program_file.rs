//! The server's program as a file: `make build` strips it (`scripts/strip`) and puts its symbols beside it.

use std::fs;
use std::path::{Path, PathBuf};

use test_support::{Directory, Program, binary, workspace};

/// Bytes that the program may have.
const MAX_SIZE: u64 = 27_000_000;

/// The program as `make build` leaves it; a debug build is stripped into this folder first.
fn stripped(folder: &Directory) -> PathBuf {
    if is_release() {
        return binary();
    }
    let to = folder.join("highball");
    let strip = Program::new(workspace().join("scripts/strip"));
    let ran = strip.arg(binary()).arg(&to).run();
    assert!(ran.status.success(), "{}", ran.output());
    to
}

fn is_release() -> bool {
    binary()
        .parent()
        .is_some_and(|folder| folder.ends_with("release"))
}

fn readelf(what: &str, file: &Path) -> String {
    let ran = Program::new("readelf")
        .arg(what)
        .arg("--wide")
        .arg(file)
        .run();
    assert!(ran.status.success(), "{}", ran.output());
    ran.stdout
}

/// The line with the number that the linker gave to this build.
fn build_id(file: &Path) -> String {
    let notes = readelf("--notes", file);
    let line = notes.lines().find(|line| line.contains("Build ID"));
    line.unwrap_or_else(|| panic!("no build id in {}:\n{notes}", file.display()))
        .to_owned()
}

#[test]
fn the_program_is_stripped_and_its_symbols_are_beside_it() {
    let folder = Directory::new();
    let program = stripped(&folder);
    let sections = readelf("--section-headers", &program);
    assert!(
        !sections.contains(".debug_info"),
        "run make build:\n{sections}"
    );
    assert!(sections.contains(".gnu_debuglink"), "{sections}");
    // Backtraces name functions even where the symbols are not at hand.
    assert!(sections.contains(".symtab"), "{sections}");
    let mut symbols = program.clone().into_os_string();
    symbols.push(".debug");
    let symbols = PathBuf::from(symbols);
    assert!(readelf("--section-headers", &symbols).contains(".debug_line"));
    assert_eq!(build_id(&program), build_id(&symbols));
    let ran = Program::new(&program).arg("--version").run();
    assert!(ran.status.success(), "{}", ran.output());
}

#[test]
fn the_release_program_is_smaller_than_27_mb() {
    // A debug build is larger, as nothing in it is optimized.
    if is_release() {
        let size = fs::metadata(binary()).expect("it is built").len();
        assert!(size < MAX_SIZE, "{size} bytes");
    }
}
