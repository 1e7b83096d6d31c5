//! The progress display in a real terminal of 80 columns: a bar, the phase, live rate and latency, on one line that is
//! removed at the end.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::io::Read as _;
use std::process::{Command, Stdio};

use server::serve;
use test_support::{Directory, PseudoTerminal};

#[allow(dead_code, reason = "the other test asks the server for more")]
#[path = "load_command/server.rs"]
mod server;

const COLUMNS: usize = 80;

/// Runs the lab with stderr in a terminal; returns its exit code, stdout, and all that the terminal got.
fn in_terminal(command: &mut Command) -> (Option<i32>, String, String) {
    let terminal = PseudoTerminal::new(COLUMNS as u16).unwrap();
    let child = command
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(terminal.program_end().unwrap())
        .spawn()
        .unwrap();
    // The command keeps the other end open; without it the terminal ends with the program.
    command.stderr(Stdio::null());
    let mut reader = terminal.reader().unwrap();
    let reader = std::thread::spawn(move || {
        let mut written = Vec::new();
        let mut buffer = [0; 4096];
        // The kernel answers EIO once no process has the other end.
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            written.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8_lossy(&written).into_owned()
    });
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), stdout, reader.join().unwrap())
}

/// What stood on the terminal's lines, one after the other, without control sequences (ECMA-48).
fn lines(written: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut characters = written.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                let is_end = |c: &char| c.is_ascii_alphabetic();
                characters.by_ref().skip(1).find(is_end);
                lines.push(String::new());
            }
            '\r' | '\n' => lines.push(String::new()),
            _ => lines.last_mut().unwrap().push(character),
        }
    }
    lines.retain(|line| !line.trim().is_empty());
    lines
}

fn check_widths(lines: &[String]) {
    for line in lines {
        assert!(line.chars().count() <= COLUMNS, "{line:?}");
    }
}

#[test]
fn a_load_shows_bar_rate_and_latency_on_one_line() {
    let (address, _) = serve();
    let mut command = Command::new(test_support::lab_binary());
    command.args(["load", &format!("http://{address}/"), "-d", "2s", "-c", "2"]);
    let (code, stdout, written) = in_terminal(&mut command);
    assert_eq!(code, Some(0), "{written}");
    let lines = lines(&written);
    check_widths(&lines);
    let is_live =
        |line: &&String| line.contains("load ") && line.contains("/s, p99 ") && line.contains('░');
    assert!(lines.iter().filter(is_live).count() > 1, "{lines:?}");
    assert!(!written.contains('\n'), "one line: {written:?}");
    assert!(stdout.contains("\ngood responses "), "{stdout}");
}

#[test]
fn a_comparison_shows_the_phase_above_its_lines() {
    let folder = Directory::new();
    folder.write(
        "app/config.ru",
        "run ->(_env) { [200, {}, [\"Hello World\"]] }\n",
    );
    let output = folder.join("results");
    let mut command = Command::new(test_support::lab_binary());
    command
        .args([
            "compare", "--app", "app", "--stacks", "thin", "--trials", "1",
        ])
        .args(["--duration", "2s", "--warm-up", "2s", "--output"])
        .arg(&output)
        .current_dir(folder.path())
        .env("HIGHBALL_LAB", test_support::workspace().join("lab"));
    let (code, stdout, written) = in_terminal(&mut command);
    assert_eq!(code, Some(0), "{written}");
    let lines = lines(&written);
    for phase in ["[0/1] thin c12, warm-up ", "[0/1] thin c12, load "] {
        let shown = lines.iter().find(|line| line.contains(phase));
        let shown = shown.unwrap_or_else(|| panic!("no {phase:?} in {lines:?}"));
        assert!(shown.contains("/s, p99 "), "{shown}");
        assert!(shown.chars().count() <= COLUMNS, "{shown}");
    }
    assert!(
        lines.iter().any(|line| line.starts_with("[1/1] round 1, ")),
        "{lines:?}"
    );
    // The answer is as wide as a terminal of 80 columns.
    let too_wide = |line: &&str| line.chars().count() > COLUMNS && !line.starts_with("report: ");
    assert_eq!(
        stdout.lines().filter(too_wide).collect::<Vec<_>>(),
        Vec::<&str>::new()
    );
}
