//! `--export` of `load` and `compare`: which results go into which file. The formats themselves are in
//! [`formats::export`]; it measures nothing.

use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use formats::export::{self, Export, Kind, Load};
use loadgen::Single;
use loadgen::outcome::Outcome;
use loadgen::plan::Plan;

use compare::machine;
use compare::results::Results;

/// Creates the file where it does not exist, so that an error is known before the load.
///
/// # Errors
/// It can't be written.
pub(super) fn check_writable(file: &Path) -> Result<()> {
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened
        .map(drop)
        .with_context(|| format!("can't write to {}", file.display()))
}

/// Whether an export needs every single request.
pub(super) fn needs_each_request(exports: &[Export]) -> bool {
    exports.iter().any(|export| export.kind == Kind::Jmeter)
}

/// Exports one load, whose requests are in `singles` where an export needs them.
///
/// # Errors
/// A file can't be written.
pub(super) fn of_load(
    exports: &[Export],
    plan: &Plan,
    (started, outcome, singles): (SystemTime, &Outcome, &[Single]),
) -> Result<()> {
    let load = Load {
        tags: Vec::new(),
        started,
        outcome,
    };
    for Export { kind, file } in exports {
        let written = match kind {
            Kind::Hdr => std::fs::write(file, export::hdr(std::slice::from_ref(&load))),
            Kind::K6 => std::fs::write(file, export::k6(std::slice::from_ref(&load))),
            Kind::Jmeter => File::create(file).and_then(|output| {
                let measured = (started, outcome, singles);
                export::jmeter(BufWriter::new(output), plan, measured)
            }),
        };
        written.with_context(|| format!("can't write to {}", file.display()))?;
    }
    Ok(())
}

/// Refuses what a comparison can't export.
///
/// # Errors
/// An export needs single requests, or its file can't be written.
pub(super) fn check_comparison(exports: &[Export]) -> Result<()> {
    if needs_each_request(exports) {
        bail!(
            "a comparison keeps histograms and no single requests, which jmeter=FILE needs: export hdr or k6, or use \
             `highball load --export jmeter=FILE`"
        );
    }
    exports
        .iter()
        .try_for_each(|export| check_writable(&export.file))
}

/// Exports every trial that has figures, with stack and load as tags: HdrHistogram's log has each trial with its round, k6's
/// summary the trials of a stack together.
///
/// # Errors
/// A file can't be written.
pub(super) fn of_comparison(exports: &[Export], results: &Results) -> Result<()> {
    for Export { kind, file } in exports {
        let trials = results
            .trials
            .iter()
            .filter(|trial| trial.failure.is_none());
        let loads = trials.map(|trial| {
            let mut tags = vec![("stack", trial.stack.clone()), ("load", trial.load.clone())];
            if *kind == Kind::Hdr {
                tags.push(("round", trial.round.to_string()));
            }
            Load {
                tags,
                started: machine::moment(&trial.started).unwrap_or(SystemTime::UNIX_EPOCH),
                outcome: &trial.outcome,
            }
        });
        let loads: Vec<Load<'_>> = loads.collect();
        let text = match kind {
            Kind::K6 => export::k6(&loads),
            Kind::Hdr | Kind::Jmeter => export::hdr(&loads),
        };
        std::fs::write(file, text).with_context(|| format!("can't write to {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::results::Trial;

    #[test]
    fn a_comparison_is_exported_by_stack_and_load_and_never_as_jmeter() {
        let folder = tempfile::tempdir().unwrap();
        let trial = |round| Trial {
            stack: "puma".to_owned(),
            load: "c12".to_owned(),
            started: format!("2026-11-22T10:0{round}:00Z"),
            round,
            ..Trial::default()
        };
        let failed = Trial {
            failure: Some("it did not start".to_owned()),
            ..trial(3)
        };
        let results = Results {
            trials: vec![trial(1), trial(2), failed],
            ..Results::default()
        };
        let export = |kind: &str| {
            let text = format!("{kind}={}", folder.path().join(kind).display());
            text.parse::<Export>().unwrap()
        };
        let exports = [export("hdr"), export("k6")];
        check_comparison(&exports).unwrap();
        of_comparison(&exports, &results).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(
            read("hdr").contains("\nTag=puma:c12:1,0.000,"),
            "{}",
            read("hdr")
        );
        assert!(
            read("hdr").contains("\nTag=puma:c12:2,60.000,"),
            "{}",
            read("hdr")
        );
        assert!(!read("hdr").contains("c12:3"), "{}", read("hdr"));
        assert!(
            read("k6").contains("http_reqs{stack:puma,load:c12}"),
            "{}",
            read("k6")
        );
        let refused = check_comparison(&[export("jmeter")]).unwrap_err();
        assert!(
            refused.to_string().contains("no single requests"),
            "{refused}"
        );
    }
}
