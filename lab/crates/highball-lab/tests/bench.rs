//! The benchmark as a whole, short and on the smallest application: loads beside idle connections and under a restart,
//! targets, and the page. No figure is asserted but what no machine can miss.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use compare::results::{FORMAT, Results, Trial};
use test_support::Directory;

const BENCHMARK: &str = r#"
title = "A benchmark"
about = "Of the smallest application."

[[part]]
id = "idle"
title = "Beside idle connections"
[part.compare]
app = "hello"
stacks = ["highball"]
workers = 1
trials = 1
duration = "1s"
warm_up = "1s"
[[part.compare.load]]
connections = 2
idle = 20
[[part.target]]
text = "a newcomer is answered within a minute"
figure = "newcomer"
at_most = 60000.0

[[part]]
id = "restart"
title = "Restarted"
[part.compare]
app = "hello"
stacks = ["highball"]
workers = 2
trials = 1
duration = "1s"
warm_up = "1s"
[[part.compare.load]]
connections = 2
requests = 200
restart = { share = 0.05, before = "1s", after = "30s" }
"#;

fn run(folder: &Directory, arguments: &[&str]) -> Output {
    let mut command = Command::new(test_support::lab_binary());
    command
        .args(["bench", "bench.toml", "--output", "out", "--work", "work"])
        .args(arguments)
        .env("HIGHBALL_LAB", test_support::workspace().join("lab"))
        .env("HIGHBALL_RUBY_LIB", test_support::ruby_library())
        .current_dir(folder.path())
        .stdin(Stdio::null());
    command.output().unwrap()
}

fn only_trial(folder: &Path) -> Trial {
    let mut results = compare::read(folder).unwrap();
    assert_eq!(results.trials.len(), 1);
    let trial = results.trials.remove(0);
    assert_eq!(trial.failure, None);
    trial
}

#[test]
fn a_benchmark_is_run_judged_and_put_on_a_page() {
    let folder = Directory::new();
    folder.write("bench.toml", BENCHMARK);
    let output = run(&folder, &[]);
    let message = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}{errors}");
    assert!(
        message.contains("a newcomer is answered within a minute"),
        "{message}"
    );

    let beside = only_trial(&folder.join("out/bench/idle"));
    let idle = beside.beside_idle.unwrap();
    assert_eq!(idle.connections, 20);
    assert!(
        idle.newcomer_ms > 0.0 && idle.rate_ratio > 0.0 && idle.cpu_ratio > 0.0,
        "{idle:?}"
    );
    assert!(idle.front.rss > 0 && idle.front_before.rss > 0, "{idle:?}");

    let restarted = only_trial(&folder.join("out/bench/restart"));
    assert_eq!(restarted.outcome.completed, 200);
    let under = restarted.restart.unwrap();
    assert!(
        under.served_s > 0.0 && under.gone_s >= under.served_s,
        "{under:?}"
    );
    for stretch in [&under.before, &under.during, &under.after] {
        assert!(stretch.latency.count() > 0, "{under:?}");
        assert_eq!(stretch.errors, 0, "{under:?}");
    }

    let page = std::fs::read_to_string(folder.join("out/bench.md")).unwrap();
    for part in [
        "# A benchmark",
        "1 of 1 reached",
        "### Restarted",
        "p99 during it, ms",
    ] {
        assert!(page.contains(part), "no {part} in:\n{page}");
    }

    // Again from what was found, with what somebody wrote about it.
    folder.write("out/bench/notes.md", "A note.\n");
    let output = run(&folder, &["--report-only"]);
    assert!(output.status.success());
    let again = std::fs::read_to_string(folder.join("out/bench.md")).unwrap();
    assert!(again.contains("## Notes\n\nA note."), "{again}");
}

const UNMEASURABLE: &str = r#"
[[part]]
id = "unknown"
title = "An application that is not there"
[part.compare]
app = "no-such-application"
stacks = ["highball"]
[[part.compare.load]]
connections = 2
"#;

#[test]
fn a_part_that_can_not_be_measured_leaves_the_others() {
    let folder = Directory::new();
    let (before, idle) = BENCHMARK.split_once("[[part]]").unwrap();
    let (idle, _) = idle.split_once("[[part]]").unwrap();
    let text = format!("{before}{UNMEASURABLE}[[part]]{idle}");
    folder.write("bench.toml", &text);
    let earlier = Results {
        format: FORMAT,
        finished: Some("2026-01-01T00:00:00Z".to_owned()),
        ..Results::default()
    };
    let earlier = serde_json::to_string(&earlier).unwrap();
    folder.write("out/bench/unknown/results.json", &earlier);
    let output = run(&folder, &[]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("part unknown: "), "{message}");
    // What was known of the part stays; the other is measured, and on the page.
    assert!(folder.join("out/bench/unknown/results.json").exists());
    assert!(folder.join("out/bench/idle/report.html").is_file());
    let page = std::fs::read_to_string(folder.join("out/bench.md")).unwrap();
    assert!(page.contains("1 of 1 reached"), "{page}");
    assert!(page.contains("`highball-lab bench bench.toml"), "{page}");
}

#[test]
fn a_benchmark_of_which_no_part_can_be_measured_says_why() {
    let folder = Directory::new();
    let text = format!("title = 'A benchmark'\nabout = 'Of nothing.'\n{UNMEASURABLE}");
    folder.write("bench.toml", &text);
    let output = run(&folder, &[]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("part unknown: "), "{message}");
    let page = std::fs::read_to_string(folder.join("out/bench.md")).unwrap();
    assert!(page.contains("Not measured."), "{page}");
}

#[test]
fn a_benchmark_that_names_no_known_part_measures_nothing() {
    let folder = Directory::new();
    folder.write("bench.toml", BENCHMARK);
    let output = run(&folder, &["--only", "hello"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        message,
        "highball: there is no part hello; there are idle, restart\n"
    );
    assert!(!folder.join("out").exists());
}
