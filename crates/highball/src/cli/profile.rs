//! The command `profile`: has a worker sampled, and shows which methods take its time. What it writes elsewhere are the files
//! that it was told to write.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use command_line::{ProfileMode as Mode, ViewArguments};
use exchange::control::ProfileMode;
use profiles::{StackTree, flame_graph, methods, methods_text, speedscope};

use crate::cli::{client, print};
use crate::control::inspection_routes::ProfileRequest;
use crate::control::inspections::WorkerProfile;

/// Methods in the table.
const SHOWN_METHODS: usize = 20;

/// Has a worker sampled for so many seconds, and prints what takes its time.
///
/// # Errors
/// There is no server, it cannot tell, or a file cannot be written.
pub(crate) fn run(view: &ViewArguments, seconds: u32, mode: Mode) -> Result<()> {
    let request = ProfileRequest {
        seconds,
        mode: match mode {
            Mode::Cpu => ProfileMode::Cpu,
            Mode::Wall => ProfileMode::Wall,
        },
        application: view.application.clone(),
        worker: view.worker,
    };
    let profile: WorkerProfile = client::profile(&view.server, &request)?;
    let worker = &profile.worker;
    let title = format!("worker {} (pid {})", worker.worker, worker.pid);
    let note = summary(&profile);
    let per_sample = 1.0 / RATE;
    write_files(view, &profile.stacks, &title, &note, Some(per_sample))?;
    if view.json {
        return print(&(serde_json::to_string_pretty(&profile)? + "\n"));
    }
    let table = methods(&profile.stacks);
    let samples = profile.stacks.samples();
    let table = match samples {
        0 => nothing_sampled(profile.mode).to_owned(),
        samples => methods_text(&table, samples, SHOWN_METHODS),
    };
    print(&format!("{title}: {note}\n\n{table}"))
}

fn nothing_sampled(mode: ProfileMode) -> &'static str {
    match mode {
        ProfileMode::Cpu => {
            "Its request threads used next to no CPU time. --mode wall shows what they wait for.\n"
        }
        ProfileMode::Wall => "No thread ran a request meanwhile.\n",
    }
}

/// Samples a second of each thread, as gem/lib/highball/profiler.rb counts them.
const RATE: f64 = 99.0;

fn summary(profile: &WorkerProfile) -> String {
    let (busy, idle) = (profile.stacks.samples(), profile.idle);
    let activity = match profile.cpu_seconds {
        Some(cpu) => format!("{cpu:.1} s of CPU time in request threads"),
        None => {
            let all = busy.saturating_add(idle).max(1);
            let share = 100.0 * f64::from(busy) / f64::from(all);
            format!("threads busy {share:.0} % of the time")
        }
    };
    let dropped = match profile.dropped {
        0 => String::new(),
        dropped => format!(", {dropped} samples of too many different stacks left out"),
    };
    format!(
        "{:.1} s, {activity}, {busy} samples{dropped}; sampling took {:.1} % of a core",
        profile.seconds,
        100.0 * profile.overhead,
    )
}

/// Writes the files that the arguments name.
///
/// # Errors
/// One cannot be written.
pub(crate) fn write_files(
    view: &ViewArguments,
    stacks: &StackTree,
    title: &str,
    note: &str,
    seconds_per_sample: Option<f64>,
) -> Result<()> {
    if let Some(path) = &view.svg {
        write(path, &flame_graph(stacks, title, note))?;
    }
    if let Some(path) = &view.speedscope {
        write(
            path,
            &speedscope(stacks, title, seconds_per_sample).to_string(),
        )?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
