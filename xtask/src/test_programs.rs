//! Runs the test programs of the workspace several at a time, which `cargo test` runs one after the other. The tests are
//! the same, each program has its own threads as with cargo, and what needs a quiet machine runs alone at the end.

mod report;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::workspace::Workspace;
use report::Report;

/// Packages whose tests run elsewhere: the extension's inside a Ruby.
const ELSEWHERE: &str = "highball-extension";
/// Programs that compare speeds with other generators, so that nothing may run at the same time.
const ALONE: [&str; 1] = ["loadgen agreement"];
/// Programs that take more than 40 seconds, longest first: they begin first, so that none of them runs alone at the
/// end. Those that use much CPU time (chaos, units) stand between those that mostly wait.
const LONGEST: [&str; 7] = [
    "tests chaos",
    "highball-lab compare",
    "tests units",
    "highball-lab all_stacks",
    "highball-lab honesty",
    "stacks applications",
    "highball-lab bench",
];
/// Variables that a program in a root has as well.
const PASSED_ON: [&str; 2] = ["HIGHBALL_BIN", "RUST_TEST_THREADS"];
/// Where the output of each program goes.
const LOGS: &str = "target/artifacts/test-logs";

/// One test program.
#[derive(Clone, Debug)]
struct Program {
    /// Folder of its package, and target: `front late`.
    name: String,
    path: PathBuf,
    /// The folder of its package, in which it runs as with cargo.
    folder: PathBuf,
}

/// How a program ended.
#[derive(Debug)]
struct Ended {
    name: String,
    status: ExitStatus,
    log: PathBuf,
    output: String,
}

/// Builds all test programs and runs `jobs` of them at a time, then the tests in documentation. Prints a line for each
/// as it ends; at the end every failed test with its output, and the number of tests. With `only`, no others than those
/// with this in their names. With `debian`, in this root, and not those in documentation. Returns whether all passed.
///
/// # Errors
/// If something does not build or cannot be run.
pub fn run(workspace: &Workspace, jobs: usize, only: &str, debian: Option<&Path>) -> Result<bool> {
    let root = &workspace.root;
    let mut programs = build(root)?;
    order(&mut programs)?;
    programs.retain(|program| program.name.contains(only));
    if programs.is_empty() {
        bail!("no test program has {only} in its name");
    }
    let (alone, together): (Vec<_>, Vec<_>) = programs
        .into_iter()
        .partition(|program| ALONE.contains(&program.name.as_str()));
    fs::create_dir_all(root.join(LOGS))?;
    let begun = Instant::now();
    let mut ended = run_all(root, together, jobs.max(1), debian)?;
    ended.extend(run_all(root, alone, 1, debian)?);
    if only.is_empty() && debian.is_none() {
        ended.push(run_documentation(root)?);
    }
    println!("{:>6.1} s in all", begun.elapsed().as_secs_f64());
    Ok(summarize(&ended))
}

/// Puts the longest programs last, for they are taken from the end.
fn order(programs: &mut [Program]) -> Result<()> {
    let is_built = |name: &str| programs.iter().any(|program| program.name == name);
    if let Some(name) = LONGEST.iter().chain(&ALONE).find(|name| !is_built(name)) {
        bail!("xtask/src/test_programs.rs names the test program {name}, which does not exist");
    }
    programs.sort_by_key(|program| {
        let place = LONGEST.iter().position(|name| *name == program.name);
        std::cmp::Reverse(place.unwrap_or(LONGEST.len()))
    });
    Ok(())
}

/// Prints what failed and how many tests there were. Returns whether all passed.
fn summarize(ended: &[Ended]) -> bool {
    let (mut passed, mut failed) = (0, Vec::new());
    for one in ended {
        let report = Report::read(&one.output);
        passed += report.passed;
        if one.status.success() {
            continue;
        }
        println!(
            "\n=== {} failed ({}); all its output: {}",
            one.name,
            one.status,
            one.log.display()
        );
        print!("{}", report::reasons(&one.output, &report));
        match report.failed.is_empty() {
            true => failed.push(format!("{}: ended without naming a test", one.name)),
            false => failed.extend(
                report
                    .failed
                    .iter()
                    .map(|test| format!("{}: {test}", one.name)),
            ),
        }
    }
    println!();
    for test in &failed {
        println!("FAILED {test}");
    }
    println!("tests: {passed} passed, {} failed", failed.len());
    failed.is_empty()
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
        path: message["executable"].as_str()?.into(),
        folder: folder.to_owned(),
    })
}

/// Runs so many at a time, from the end of the list.
fn run_all(
    root: &Path,
    programs: Vec<Program>,
    jobs: usize,
    debian: Option<&Path>,
) -> Result<Vec<Ended>> {
    let (queue, ended) = (Mutex::new(programs), Mutex::new(Vec::new()));
    let lane = || -> Result<()> {
        loop {
            let Some(program) = queue.lock().expect("no lane panics").pop() else {
                return Ok(());
            };
            let command = match debian {
                Some(debian) => in_root(root, debian, &program),
                None => here(&program),
            };
            let one = run_one(root, program.name, command)?;
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

fn here(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    command
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder);
    command
}

/// Runs it in a root of another Debian, at the same path. What is built here runs on newer releases too.
fn in_root(root: &Path, debian: &Path, program: &Program) -> Command {
    let assign = |name: &str, value: &OsStr| {
        let mut text = OsString::from(format!("{name}="));
        text.push(value);
        text
    };
    let mut command = Command::new(root.join("scripts/in-root"));
    command.arg("--with").arg(root).arg(debian);
    command.args(["env", "--chdir"]).arg(&program.folder);
    command.arg(assign("CARGO_MANIFEST_DIR", program.folder.as_os_str()));
    for name in PASSED_ON {
        if let Some(value) = std::env::var_os(name) {
            command.arg(assign(name, &value));
        }
    }
    command.arg(&program.path);
    command
}

fn run_documentation(root: &Path) -> Result<Ended> {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--exclude", ELSEWHERE, "--doc"]);
    run_one(root, "documentation".to_owned(), command)
}

/// Runs a command to its end, with its output in a file of its own.
fn run_one(root: &Path, name: String, mut command: Command) -> Result<Ended> {
    let log = root
        .join(LOGS)
        .join(format!("{}.log", name.replace(' ', "-")));
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let begun = Instant::now();
    let status = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .with_context(|| format!("cannot run {name}"))?;
    let time = begun.elapsed();
    let result = if status.success() { "ok    " } else { "FAILED" };
    println!("{:>6.1} s {result} {name}", time.as_secs_f64());
    let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    Ok(Ended {
        name,
        status,
        log,
        output,
    })
}
