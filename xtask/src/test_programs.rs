//! Runs the test programs of the workspace several at a time, which `cargo test` runs one after the other. The tests are
//! the same, each program has its own threads as with cargo, and what needs a quiet machine runs alone at the end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::workspace::Workspace;

/// Packages whose tests run elsewhere: the extension's inside a Ruby.
const ELSEWHERE: &str = "highball-extension";
/// Programs that compare speeds with other generators, so that nothing may run at the same time.
const ALONE: [&str; 1] = ["agreement"];
/// Where the times of the last run are kept: the longest programs begin first.
const TIMES: &str = "target/test-times.json";
/// Where the output of each program goes.
const LOGS: &str = "target/test-logs";

/// One test program.
#[derive(Clone, Debug)]
struct Program {
    /// Package and target: `highball-front late`.
    name: String,
    target: String,
    path: PathBuf,
    /// The folder of its package, in which it runs as with cargo.
    folder: PathBuf,
}

/// How a program ended.
#[derive(Debug)]
struct Ended {
    name: String,
    time: Duration,
    good: bool,
}

/// Builds all test programs and runs `jobs` of them at a time, then the tests in documentation. Prints a line for each,
/// and the output of those that failed. With `only`, no others than those with this in their names.
///
/// # Errors
/// If something does not build, or a test fails.
pub fn run(workspace: &Workspace, jobs: usize, only: &str) -> Result<()> {
    let root = &workspace.root;
    let mut times = read_times(root);
    let mut programs = build(root)?;
    programs.retain(|program| program.name.contains(only));
    if programs.is_empty() {
        bail!("no test program has {only} in its name");
    }
    // The longest last, for they are taken from the end; one that is not known yet may be long.
    programs.sort_by_key(|program| times.get(&program.name).copied().unwrap_or(u64::MAX));
    let (alone, together): (Vec<_>, Vec<_>) = programs
        .into_iter()
        .partition(|program| ALONE.contains(&program.target.as_str()));
    fs::create_dir_all(root.join(LOGS))?;
    let begun = Instant::now();
    let mut ended = run_all(root, together, jobs.max(1))?;
    ended.extend(run_all(root, alone, 1)?);
    println!("{:>6.1} s in all", begun.elapsed().as_secs_f64());
    times.extend(
        ended
            .iter()
            .map(|one| (one.name.clone(), one.time.as_millis() as u64)),
    );
    fs::write(root.join(TIMES), serde_json::to_string_pretty(&times)?)?;
    let documentation = cargo(root)
        .args([
            "test",
            "--workspace",
            "--exclude",
            ELSEWHERE,
            "--doc",
            "--quiet",
        ])
        .output()?;
    if !documentation.status.success() {
        print!("{}", String::from_utf8_lossy(&documentation.stdout));
        eprint!("{}", String::from_utf8_lossy(&documentation.stderr));
    }
    let failed: Vec<&str> = ended
        .iter()
        .filter(|one| !one.good)
        .map(|one| one.name.as_str())
        .collect();
    if !failed.is_empty() || !documentation.status.success() {
        bail!(
            "failed: {}",
            if failed.is_empty() {
                "documentation".to_owned()
            } else {
                failed.join(", ")
            }
        );
    }
    Ok(())
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Builds the test programs as `cargo test --workspace` does.
fn build(root: &Path) -> Result<Vec<Program>> {
    let output = cargo(root)
        .args([
            "test",
            "--workspace",
            "--exclude",
            ELSEWHERE,
            "--no-run",
            "--message-format",
            "json-render-diagnostics",
        ])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the tests do not build");
    }
    let lines = std::str::from_utf8(&output.stdout)?.lines();
    let mut programs = Vec::new();
    for line in lines {
        let message: Value = serde_json::from_str(line)?;
        if message["profile"]["test"] == true && message["executable"].is_string() {
            programs.push(program(&message).ok_or_else(|| anyhow!("not understood: {line}"))?);
        }
    }
    Ok(programs)
}

fn program(message: &Value) -> Option<Program> {
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let kind = if kind == "test" { "" } else { "unit tests of " };
    Some(Program {
        name: format!("{} {kind}{target}", folder.file_name()?.to_str()?),
        target: target.to_owned(),
        path: message["executable"].as_str()?.into(),
        folder: folder.to_owned(),
    })
}

/// Runs so many at a time, from the end of the list.
fn run_all(root: &Path, programs: Vec<Program>, jobs: usize) -> Result<Vec<Ended>> {
    let (queue, ended) = (Mutex::new(programs), Mutex::new(Vec::new()));
    let lane = || -> Result<()> {
        loop {
            let Some(program) = queue.lock().expect("no lane panics").pop() else {
                return Ok(());
            };
            let one = run_one(root, &program)?;
            ended.lock().expect("no lane panics").push(one);
        }
    };
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..jobs).map(|_| scope.spawn(lane)).collect();
        lanes
            .into_iter()
            .map(|lane| lane.join().expect("no lane panics"))
            .collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    Ok(ended.into_inner().expect("no lane panics"))
}

fn run_one(root: &Path, program: &Program) -> Result<Ended> {
    let log = root
        .join(LOGS)
        .join(format!("{}.log", program.name.replace(' ', "-")));
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let begun = Instant::now();
    let status = Command::new(&program.path)
        .current_dir(&program.folder)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .with_context(|| format!("cannot run {}", program.path.display()))?;
    let time = begun.elapsed();
    let good = status.success();
    println!(
        "{:>6.1} s {} {}",
        time.as_secs_f64(),
        if good { "ok    " } else { "FAILED" },
        program.name
    );
    if !good {
        print!("{}", String::from_utf8_lossy(&fs::read(&log)?));
    }
    Ok(Ended {
        name: program.name.clone(),
        time,
        good,
    })
}

/// Milliseconds of each program in the last run; nothing where there was none.
fn read_times(root: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(root.join(TIMES)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}
