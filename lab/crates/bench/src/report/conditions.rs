//! How a run was made: its length, its machine, and every command. What it shows was recorded with the run,
//! never looked up on the machine that writes the report.

use std::fmt::Write as _;

use super::table::Table;
use crate::results::{Results, Run};
use crate::workload::WORKLOADS;

/// A section on one run.
pub(super) fn conditions(results: &Results, run: &Run) -> String {
    let workloads: Vec<&str> = WORKLOADS
        .iter()
        .map(|workload| workload.id)
        .filter(|id| {
            results
                .trials
                .iter()
                .any(|trial| trial.run == run.id && trial.workload == *id)
        })
        .collect();
    let mut text = format!("## Run of {}\n\n", run.id);
    let _ = write!(
        text,
        "Workloads: {}. {} rounds, {} s of load after {} s of warm-up (twice that for the open loop, three times for Redmine), \
         seed {}, until {}.\n\n```\n{}\n```\n\n",
        workloads.join(", "),
        run.rounds,
        run.duration_s,
        run.warm_up_s,
        run.seed,
        run.finished,
        run.command
    );
    for (heads, rows) in [
        (["machine", "value"], &run.machine.facts),
        (["software", "version"], &run.machine.versions),
    ] {
        let mut table = Table::new(&heads);
        for (name, value) in rows {
            table.row(vec![name.clone(), value.clone()]);
        }
        let _ = writeln!(text, "{table}");
    }
    text.push_str(&commands(run));
    for reason in &run.skipped {
        let _ = writeln!(text, "- Skipped: {reason}.");
    }
    if !run.skipped.is_empty() {
        text.push('\n');
    }
    text
}

/// Every command once, below the loads of the workloads that it served.
fn commands(run: &Run) -> String {
    let mut groups: Vec<(Vec<&str>, _)> = Vec::new();
    for id in WORKLOADS.iter().map(|workload| workload.id) {
        let Some(commands) = run.commands.get(id) else {
            continue;
        };
        match groups.iter_mut().find(|(_, known)| *known == commands) {
            Some((ids, _)) => ids.push(id),
            None => groups.push((vec![id], commands)),
        }
    }
    let mut text = String::from(
        "Commands, in the application's folder (APP) with RACK_ENV and RAILS_ENV set to production; other names in capitals \
         stand for free ports and for folders of the trial's own:\n\n```\n",
    );
    for (ids, commands) in groups {
        for id in ids {
            let load = run.loads.get(id).map_or("", String::as_str);
            let _ = writeln!(text, "# {id}: {load}");
        }
        for (_, command) in commands {
            let _ = writeln!(text, "{command}");
        }
    }
    text.push_str("```\n\n");
    text
}
