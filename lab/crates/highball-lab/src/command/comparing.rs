//! What the commands compare, study and bench have in common: where results go, quick runs, and what is said of a run that
//! was stopped or failed. It measures nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use compare::machine;
use compare::results::Results;

/// The lengths of a quick run.
pub(super) struct Quick {
    pub(super) trials: usize,
    pub(super) duration: Duration,
    pub(super) warm_up: Duration,
}

/// Three rounds: fewer give no verdict.
pub(super) const QUICK: Quick = Quick {
    trials: 3,
    duration: Duration::from_secs(3),
    warm_up: Duration::from_secs(15),
};

/// The exit code of a process that Ctrl-C ended: 128 and the number of SIGINT.
pub(super) const INTERRUPTED: u8 = 130;

/// The exit code where a condition of --assert does not hold, or one of --fail-if holds.
pub(super) const CONDITION_FAILED: u8 = 2;

/// The folder for results without --output, below the current one.
const HOME: &str = "highball-lab";

/// The folders of results and of temporary files. `given` is that of --output or --resume. Without it copies of applications
/// are shared with later comparisons.
pub(super) fn places(given: Option<&PathBuf>) -> (PathBuf, PathBuf) {
    let home = Path::new(HOME);
    match given {
        Some(folder) => (folder.clone(), folder.join("work")),
        None => {
            let name = machine::timestamp().replace(':', "");
            (home.join(name), home.join("work"))
        }
    }
}

/// Says how to resume a run of `command` that was stopped.
pub(super) fn stopped(command: &str, folder: &Path) -> ExitCode {
    eprintln!(
        "stopped; what was measured is kept. Resume with `{command} --resume {}`",
        folder.display()
    );
    ExitCode::from(INTERRUPTED)
}

/// As it was typed, with the name of the program that has this command: `highball` passes most on to this one.
pub(super) fn command_line(program: &str) -> String {
    let words = std::env::args().skip(1).map(|word| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=,:+@%".contains(letter);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    std::iter::once(program.to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// What failed, in one message; `None` where nothing did.
pub(super) fn failures(results: &Results) -> Option<String> {
    let trials = results.trials.iter().filter_map(|trial| {
        let failure = trial.failure.as_ref()?;
        Some((
            &trial.stack,
            format!("{} in round {}", trial.load, trial.round),
            failure,
        ))
    });
    let peaks = results.peaks.iter().filter_map(|peak| {
        let failure = peak.failure.as_ref()?;
        Some((
            &peak.stack,
            format!("largest rate in round {}", peak.round),
            failure,
        ))
    });
    let all: Vec<_> = trials.chain(peaks).collect();
    let (stack, place, failure) = all.first()?;
    let count = match all.len() {
        1 => "a trial failed".to_owned(),
        count => format!("{count} trials failed; the first"),
    };
    Some(format!("{count}: {stack}, {place}: {failure}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::results::{Peak, Trial};

    #[test]
    fn all_failures_make_one_message() {
        let mut results = Results::default();
        assert_eq!(failures(&results), None);
        results.trials.push(Trial {
            stack: "thin".to_owned(),
            load: "c12".to_owned(),
            round: 2,
            failure: Some("it ended under load".to_owned()),
            ..Trial::default()
        });
        assert_eq!(
            failures(&results).unwrap(),
            "a trial failed: thin, c12 in round 2: it ended under load"
        );
        results.peaks.push(Peak {
            failure: Some("x".to_owned()),
            ..Peak::default()
        });
        assert!(
            failures(&results)
                .unwrap()
                .starts_with("2 trials failed; the first: thin")
        );
    }
}
