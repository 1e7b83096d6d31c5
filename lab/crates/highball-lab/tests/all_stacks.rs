//! A small comparison of every stack that comes with Highball, on the real programs, from the command line to the
//! report in a browser. No figure is asserted: the machine may be busy with anything.
//!
//! Needs the packages of `scripts/install test`; a missing one fails the test.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use inspection::{Expected, inspect};
use serde_json::Value;
use test_browser::Browser;
use test_support::Directory;

#[path = "../../report/tests/report/inspection.rs"]
mod inspection;

/// Stacks that no Debian package holds.
const NOT_PACKAGED: [&str; 8] = [
    "falcon",
    "iodine",
    "itsi",
    "mongrel",
    "mongrel-cluster",
    "nginx+passenger",
    "pitchfork",
    "thruster+puma",
];

/// Stacks that run no application; `tests/stacks.rs` has them.
const WITHOUT_RUBY: [&str; 2] = ["nginx", "nginx-tls"];

fn highball() -> Command {
    let mut command = Command::new(test_support::lab_binary());
    command
        .env("HIGHBALL_LAB", test_support::workspace().join("lab"))
        .env("HIGHBALL_RUBY_LIB", test_support::ruby_library())
        .stdin(Stdio::null());
    command
}

/// The ids of all stacks that can be started here.
fn stacks() -> Result<Vec<String>> {
    let output = highball().args(["stacks", "--json"]).output()?;
    let known: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let known = known.as_array().context("a list of stacks")?;
    let ids = known
        .iter()
        .filter_map(|stack| stack["id"].as_str())
        .filter(|id| *id != "url" && !NOT_PACKAGED.contains(id) && !WITHOUT_RUBY.contains(id));
    Ok(ids.map(str::to_owned).collect())
}

#[test]
fn every_stack_is_compared_and_the_report_shows_each() -> Result<()> {
    let folder = Directory::new();
    let stacks = stacks()?;
    let output = highball()
        .args([
            "compare",
            "--app",
            "hello",
            "--workers",
            "2",
            "--trials",
            "1",
        ])
        .args(["--duration", "1s", "--warm-up", "1s", "--connections", "4"])
        .args(["--stacks", &stacks.join(","), "--output"])
        .arg(folder.join("results"))
        .current_dir(folder.path())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");

    let results = compare::read(&folder.join("results"))?;
    ensure!(results.missing.is_empty(), "{:?}", results.missing);
    let mut measured: Vec<&str> = results
        .trials
        .iter()
        .map(|trial| trial.stack.as_str())
        .collect();
    measured.sort_unstable();
    let mut wanted: Vec<&str> = stacks.iter().map(String::as_str).collect();
    wanted.sort_unstable();
    ensure!(measured == wanted, "{measured:?}");
    for trial in &results.trials {
        ensure!(
            trial.failure.is_none(),
            "{}: {:?}",
            trial.stack,
            trial.failure
        );
        ensure!(
            trial.outcome.good > 0 && trial.left_behind == 0,
            "{trial:?}"
        );
    }

    let page = folder.join("results/report.html");
    let expected = Expected {
        charts: 6,
        stacks: stacks.len(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let browser = Browser::open().await?;
        for width in [1280, 390] {
            let name = format!("all-stacks-{width}");
            inspect(&browser, &page, &name, (width, "light"), expected).await?;
        }
        browser.close().await
    })
}
