//! What the output of a test program says: how many tests passed, which failed and why. Pure; runs nothing.

/// Lines of a failed test that are shown; the rest, mostly a server's log, is in the file.
const SHOWN: usize = 60;

/// The result of one test program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Number of tests that passed.
    pub(super) passed: u64,
    /// Names of the tests that failed.
    pub(super) failed: Vec<String>,
}

impl Report {
    /// Reads the output of one program, or of several in a row.
    pub(super) fn read(output: &str) -> Self {
        let mut report = Self::default();
        for line in output.lines() {
            if let Some(summary) = line.strip_prefix("test result: ") {
                report.passed += passed(summary).unwrap_or(0);
            } else if let Some(name) = failed(line) {
                report.failed.push(name.to_owned());
            }
        }
        report
    }
}

/// Returns the 41 of `ok. 41 passed; 0 failed; ...`.
fn passed(summary: &str) -> Option<u64> {
    let (before, _) = summary.split_once(" passed")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// Returns the name of a test that failed, from the line that says so.
fn failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Returns the first lines that each failed test printed, or the last lines of a program that ended without naming one.
pub(super) fn reasons(output: &str, report: &Report) -> String {
    let lines: Vec<&str> = output.lines().collect();
    if report.failed.is_empty() {
        return joined(&lines[lines.len().saturating_sub(SHOWN)..]);
    }
    let sections = report.failed.iter().filter_map(|name| {
        let head = format!("---- {name} stdout ----");
        let begin = lines.iter().position(|line| *line == head)?;
        let length = lines[begin + 1..]
            .iter()
            .position(|line| line.starts_with("---- ") || *line == "failures:");
        let end = length.map_or(lines.len(), |length| begin + 1 + length);
        let left_out = end.saturating_sub(begin + SHOWN);
        let mut shown = joined(&lines[begin..end - left_out]);
        if left_out > 0 {
            shown += &format!("... {left_out} more lines\n");
        }
        Some(shown)
    });
    sections.collect()
}

fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test one ... ok
test two ... FAILED
test three has been running for over 60 seconds
test three ... FAILED

failures:

---- two stdout ----
thread 'two' panicked
left: 1

---- three stdout ----
lost

failures:
    two
    three

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.05s
";

    #[test]
    fn passed_tests_are_counted_and_failed_ones_named() {
        let report = Report::read(OUTPUT);
        assert_eq!(report.passed, 1);
        assert_eq!(report.failed, ["two", "three"]);
        let twice = Report::read(&format!("{OUTPUT}{OUTPUT}"));
        assert_eq!(twice.passed, 2);
    }

    #[test]
    fn each_failed_test_is_shown_with_what_it_printed() {
        let shown = reasons(OUTPUT, &Report::read(OUTPUT));
        let expected = "---- two stdout ----\nthread 'two' panicked\nleft: 1\n\n---- three stdout ----\nlost\n\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_long_output_is_cut_with_the_number_of_lines_left_out() {
        let long = "a line\n".repeat(SHOWN + 6);
        let output = format!("test two ... FAILED\n---- two stdout ----\n{long}failures:\n");
        let shown = reasons(&output, &Report::read(&output));
        assert_eq!(shown.lines().count(), SHOWN + 1);
        assert!(shown.ends_with("... 7 more lines\n"), "{shown}");
    }

    #[test]
    fn a_program_that_died_shows_its_last_lines() {
        let output = format!("first\n{}signal: 6\n", "a line\n".repeat(SHOWN));
        let shown = reasons(&output, &Report::read(&output));
        assert!(shown.ends_with("signal: 6\n") && !shown.contains("first"));
    }
}
