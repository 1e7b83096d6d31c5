//! The page of a benchmark, in Markdown, from what its comparisons found: targets with their verdicts, a table for each
//! part, and how it was measured. Explanations of figures come from a file of notes, which is
//! copied as it is; the page never explains a figure by itself.

use std::fmt::Write as _;
use std::path::Path;

use compare::results::{Results, Trial};
use compare::statistics::Estimate;
use compare::verdict::contamination::DISTURBED_CORES;
use compare::verdict::{Judgement, judge as judge_comparison};

use crate::figure::{Figure, counted, ratio};
use crate::method::method;
use crate::plan::{Benchmark, Part};
use crate::table::{Table, figure, spread};
use crate::verdict::judge;

/// A part with what was found; `None` where it was not measured to its end.
pub type Found<'a> = (&'a Part, Option<Results>);

/// The whole page, which lies in `output`, as seen from the repository's root. `folder` is where the comparisons are, as
/// seen from the page.
pub fn render(
    benchmark: &Benchmark,
    found: &[Found<'_>],
    notes: &str,
    folder: &str,
    output: &Path,
) -> String {
    let mut text = format!(
        "<!-- Written by `highball-lab bench`; notes belong into {folder}/notes.md. -->\n\n# {}\n\n{}\n\n",
        benchmark.title,
        benchmark.about.trim()
    );
    if found
        .iter()
        .flat_map(|(_, results)| results)
        .any(|results| results.quick)
    {
        text.push_str("**This run was a quick one: its figures are indicative only.**\n\n");
    }
    text.push_str(&targets(found));
    if !notes.trim().is_empty() {
        let _ = write!(text, "## Notes\n\n{}\n\n", notes.trim());
    }
    text.push_str(
        "## Figures\n\nMedians over the rounds, with the smallest and largest in parentheses.\n\n",
    );
    for (part, results) in found {
        text.push_str(&section(part, results.as_ref(), folder));
    }
    text.push_str(&method(output));
    text.push_str(&conditions(found));
    text
}

/// One line a target, for the terminal.
pub fn verdicts(found: &[Found<'_>]) -> String {
    let mut text = String::new();
    for (part, results) in found {
        for target in &part.targets {
            let judged = judge(part, target, results.as_ref());
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{:12} {:45} {:28} {}",
                part.id, target.text, judged.measured, judged.verdict
            );
        }
    }
    text
}

/// Whether an earlier page, `text`, has figures of the part.
pub fn shows(text: &str, part: &Part) -> bool {
    let heading = format!("### {}\n", part.title);
    let section = text.split_once(&heading).map(|(_, section)| section);
    section.is_some_and(|section| !section.trim_start().starts_with(NOT_MEASURED))
}

/// The whole section of a part without figures.
const NOT_MEASURED: &str = "Not measured.";

fn targets(found: &[Found<'_>]) -> String {
    let mut table = Table::new(&["part", "must reach", "measured", "95 % interval", "verdict"]);
    let (mut reached, mut all) = (0, 0);
    for (part, results) in found {
        for target in &part.targets {
            let judged = judge(part, target, results.as_ref());
            all += 1;
            reached += usize::from(judged.verdict.is_reached());
            table.row(vec![
                part.title.clone(),
                target.text.clone(),
                judged.measured,
                judged.interval,
                judged.verdict.to_string(),
            ]);
        }
    }
    format!("## Targets\n\n{reached} of {all} reached.\n\n{table}\n")
}

fn section(part: &Part, results: Option<&Results>, folder: &str) -> String {
    let mut text = format!("### {}\n\n", part.title);
    let Some((results, load)) = results.and_then(|results| Some((results, results.loads.first()?)))
    else {
        let _ = write!(text, "{NOT_MEASURED}\n\n");
        return text;
    };
    let _ = write!(
        text,
        "{}; [report]({folder}/{}/report.html).\n\n",
        load.title, part.id
    );
    let judgement = judge_comparison(results);
    let trials_of = |stack: &str| counted(results, &judgement, stack, &load.id);
    let all: Vec<(&str, Vec<&Trial>)> = results
        .stacks
        .iter()
        .map(|stack| (stack.name.as_str(), trials_of(&stack.id)))
        .collect();
    text.push_str(&figures(&all, load.requests.len() > 1));
    if let Some(((_, own), peers)) = all.split_first() {
        text.push_str(&multiples(&results.stacks[0].name, own, peers));
    }
    text.push_str(&remarks(results, &judgement));
    text
}

/// A row for each stack; a column for each figure that any of them has, and for each kind of request where there are
/// several.
fn figures(all: &[(&str, Vec<&Trial>)], each_request: bool) -> String {
    let mut columns: Vec<(String, Figure, Option<String>)> = Figure::ALL
        .iter()
        .map(|one| (one.title().to_owned(), *one, None))
        .collect();
    let first = all.iter().find_map(|(_, trials)| trials.first());
    if let Some(trial) = first.filter(|_| each_request) {
        for request in &trial.outcome.requests {
            let name = &request.name;
            for one in [Figure::P50, Figure::P99] {
                columns.push((format!("{name} {}", one.title()), one, Some(name.clone())));
            }
        }
    }
    let values = |trials: &[&Trial], one: Figure, request: Option<&str>| -> Vec<f64> {
        let values = trials.iter().filter_map(|trial| one.of(trial, request));
        values.collect()
    };
    columns.retain(|(_, one, request)| {
        let has = |trials: &Vec<&Trial>| !values(trials, *one, request.as_deref()).is_empty();
        all.iter().any(|(_, trials)| has(trials))
    });
    let mut heads = vec!["stack"];
    heads.extend(columns.iter().map(|column| column.0.as_str()));
    heads.push("errors");
    let mut table = Table::new(&heads);
    for (name, trials) in all {
        let mut row = vec![(*name).to_owned()];
        for (_, one, request) in &columns {
            row.push(spread(&values(trials, *one, request.as_deref())));
        }
        let errors: u64 = trials.iter().map(|trial| trial.errors()).sum();
        row.push(errors.to_string());
        table.row(row);
    }
    format!("{table}\n")
}

/// The first stack's figures as multiples of each peer's.
fn multiples(name: &str, own: &[&Trial], peers: &[(&str, Vec<&Trial>)]) -> String {
    if peers.is_empty() {
        return String::new();
    }
    let head = format!("{name} as a multiple of");
    let mut heads = vec![head.as_str()];
    heads.extend(Figure::COMPARED.map(Figure::title));
    let mut table = Table::new(&heads);
    for (peer, theirs) in peers {
        let mut row = vec![(*peer).to_owned()];
        for one in Figure::COMPARED {
            let ratio = ratio(one, own, theirs, None);
            row.push(ratio.map_or("–".into(), multiple));
        }
        table.row(row);
    }
    format!("{table}\n")
}

/// A multiple with its interval, where the rounds tell one: `1.35 (1.20 to 1.50)`.
fn multiple(ratio: Estimate) -> String {
    let value = figure(ratio.value);
    match ratio.interval() {
        Some((low, high)) => format!("{value} ({} to {})", figure(low), figure(high)),
        None => format!("{value} (too few rounds for an interval)"),
    }
}

/// What a reader must know before believing the table.
fn remarks(results: &Results, judgement: &Judgement<'_>) -> String {
    let mut text = String::new();
    let disturbed = |trial: &&Trial| trial.other_cores > DISTURBED_CORES;
    let count = results.trials.iter().filter(disturbed).count();
    if count > 0 {
        let _ = writeln!(
            text,
            "- In {count} trials something else on the machine used more than {DISTURBED_CORES} cores."
        );
    }
    for one in &judgement.set_aside {
        let _ = writeln!(
            text,
            "- {}, round {}, does not count: {}",
            one.stack, one.round, one.reason
        );
    }
    for one in &results.missing {
        let _ = writeln!(text, "- {} did not take part: {}", one.id, one.reason);
    }
    if text.is_empty() { text } else { text + "\n" }
}

/// How each part was measured: its length, the machine, every command.
fn conditions(found: &[Found<'_>]) -> String {
    let mut text = String::from("## Conditions\n\n");
    let mut machines = Vec::new();
    for (part, results) in found {
        let Some(results) = results else { continue };
        let _ = writeln!(
            text,
            "- `{}`: {} rounds from {} to {}, seed {}, `{}`",
            part.id,
            results.rounds,
            results.started,
            results
                .finished
                .as_deref()
                .unwrap_or("the moment it was stopped"),
            results.seed,
            results.command
        );
        let machine = results.machine.lasting();
        if !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    text.push('\n');
    for machine in &machines {
        for (heads, rows) in [
            (["machine", "value"], &machine.facts),
            (["software", "version"], &machine.versions),
        ] {
            let mut table = Table::new(&heads);
            for (name, value) in rows {
                table.row(vec![name.clone(), value.clone()]);
            }
            let _ = writeln!(text, "{table}");
        }
    }
    text.push_str(&commands(found));
    text
}

/// Every command once, below the parts that it served.
fn commands(found: &[Found<'_>]) -> String {
    let mut groups: Vec<(Vec<&str>, Vec<&String>)> = Vec::new();
    for (part, results) in found {
        let Some(results) = results else { continue };
        let commands = results.stacks.iter().flat_map(|stack| &stack.commands);
        let commands: Vec<&String> = commands.collect();
        match groups.iter_mut().find(|(_, known)| *known == commands) {
            Some((ids, _)) => ids.push(&part.id),
            None => groups.push((vec![&part.id], commands)),
        }
    }
    let mut text = String::from(
        "Commands, in the application's folder; names in capitals stand for free ports and for folders of the trial's \
         own:\n\n```\n",
    );
    for (ids, commands) in groups {
        let _ = writeln!(text, "# {}", ids.join(", "));
        for command in commands {
            let _ = writeln!(text, "{command}");
        }
    }
    text + "```\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Target;
    use crate::verdict::tests::{part, results, target};
    use compare::results::{Stretch, UnderRestart};

    fn benchmark() -> Benchmark {
        Benchmark {
            title: "Performance".into(),
            about: "With others.".into(),
            output: "docs".into(),
            parts: Vec::new(),
        }
    }

    #[test]
    fn a_multiple_that_too_few_rounds_tell_has_no_interval() {
        let ratio = |low, high| {
            multiple(Estimate {
                value: 2.89,
                low,
                high,
            })
        };
        assert_eq!(ratio(2.5, 3.25), "2.89 (2.50 to 3.25)");
        assert_eq!(
            ratio(0.0, f64::INFINITY),
            "2.89 (too few rounds for an interval)"
        );
    }

    #[test]
    fn a_page_shows_targets_figures_failures_and_notes() {
        let rate = Target {
            text: "3 times Puma's requests per second".into(),
            times: Some("puma-cluster".into()),
            at_least: Some(3.0),
            ..target(Figure::Rate)
        };
        let mut found = results(&[("highball", 90_000.0, 2), ("puma-cluster", 25_000.0, 20)]);
        for (stack, name) in found.stacks.iter_mut().zip(["Highball", "Puma"]) {
            stack.name = name.into();
        }
        found.trials[0].restart = Some(UnderRestart {
            during: Stretch {
                errors: 321,
                ..Stretch::default()
            },
            ..UnderRestart::default()
        });
        found.trials[9].failure = Some("it fell over\nand more".into());
        let part = part(vec![rate]);
        let idle = Part {
            title: "Idle ones".into(),
            targets: Vec::new(),
            ..part.clone()
        };
        let found = [(&part, Some(found)), (&idle, None)];
        let text = render(
            &benchmark(),
            &found,
            "Why it is so.",
            "performance",
            Path::new("docs"),
        );
        for expected in [
            "1 of 1 reached",
            "| Hello, 12 connections | 3 times Puma's requests per second | 3.60 times with 321 errors |",
            "| Highball | 90,000 (90,000 to 90,001) |",
            "| Puma | 3.60 (3.60 to 3.60) |",
            " | 321 |\n",
            "- puma-cluster, round 5, does not count: it fell over\n",
            "## Notes\n\nWhy it is so.",
            "### Idle ones\n\nNot measured.",
        ] {
            assert!(text.contains(expected), "no {expected:?} in:\n{text}");
        }
        assert!(shows(&text, &part) && !shows(&text, &idle), "{text}");
        let lines = verdicts(&found);
        assert!(
            lines.starts_with("hello-12 ") && lines.ends_with(" reached\n"),
            "{lines}"
        );
    }

    #[test]
    fn a_page_on_nothing_can_be_written() {
        let part = part(vec![Target {
            at_least: Some(1.0),
            ..target(Figure::Rate)
        }]);
        let text = render(
            &benchmark(),
            &[(&part, None)],
            "",
            "performance",
            Path::new("docs"),
        );
        assert!(text.contains("0 of 1 reached"), "{text}");
        assert!(text.contains("| not measured |"), "{text}");
    }
}
