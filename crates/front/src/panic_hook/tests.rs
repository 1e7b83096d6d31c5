//! Each case runs in a process of its own, which is this test again.

use std::process::{Command, Output};
use std::rc::Rc;
use std::time::Duration;

use config::Settings;
use tokio::task::spawn_local;

use super::*;
use crate::front::Front;
use crate::log::Format;
use crate::panics::{spawn_contained, with_what_is_shared};
use crate::runtime;

/// Names the case to a process of a test.
const CASE: &str = "HIGHBALL_TEST_PANIC";
/// The cases that end the server.
const ENDS_SERVER: [&str; 4] = ["tick", "task", "command", "shared"];
/// How long such a case may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// What such a process says when it has outlived the case.
const OUTLIVED: &str = "it has outlived the panic";

/// A front with an edge on a thread of its own, and a log on stderr.
async fn outlive(case: &str) {
    let log = AccessLog::new(Format::Logfmt, std::io::stderr()).unwrap();
    end_server(&log);
    let settings = Settings {
        front_threads: 2,
        ..Settings::default()
    };
    let front = Front::new(Rc::new(settings), Rc::new(log), 0).unwrap();
    let panicking = || panic!("of the test");
    match case {
        "tick" => {
            let edge = Rc::clone(&front.edge);
            spawn_local(async move { edge.run_ticks(panicking).await });
            std::future::pending().await
        }
        "task" => front
            .edges
            .tell_all(move |_| drop(spawn_local(async move { panicking() }))),
        "command" => front.edges.tell_all(move |_| panicking()),
        "shared" => spawn_contained(async move {
            let _scope = with_what_is_shared();
            panicking();
        }),
        "client" => {
            spawn_contained(async move { panicking() });
            front
                .edges
                .tell_all(move |_| spawn_contained(async move { panicking() }));
        }
        "job" => drop(tokio::task::spawn_blocking(panicking).await),
        _ => unreachable!("{case}"),
    }
    if ENDS_SERVER.contains(&case) {
        let _ = tokio::time::timeout(TIME_LIMIT, std::future::pending::<()>()).await;
        eprintln!("{OUTLIVED}");
    }
    // An answer comes after what was told before, and after so many of them the tasks of that have run too.
    for _ in 0..100 {
        front.edges.ask_all(|_| ()).await;
        tokio::task::yield_now().await;
    }
}

/// Runs a case, within the test of this name.
fn run(test: &str, case: &str) -> Output {
    if let Ok(case) = std::env::var(CASE) {
        runtime::build().unwrap().block_on(outlive(&case));
        std::process::exit(0);
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let test = format!("panic_hook::tests::{test}");
    command.args([&test, "--exact", "--nocapture"]);
    command.env(CASE, case).output().unwrap()
}

#[test]
fn a_panic_of_what_all_clients_need_ends_the_server() {
    for case in ENDS_SERVER {
        let ended = run("a_panic_of_what_all_clients_need_ends_the_server", case);
        let text = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(EXIT_CODE), "{case}: {text}");
        assert!(!text.contains(OUTLIVED), "{case}: {text}");
        let line = "message=\"a panic ends the server\"";
        assert!(text.contains(line), "{case}: {text}");
        assert!(text.contains("reason=\"of the test\""), "{case}: {text}");
    }
}

#[test]
fn a_panic_in_the_work_for_a_client_or_in_a_job_ends_only_that() {
    let test = "a_panic_in_the_work_for_a_client_or_in_a_job_ends_only_that";
    for (case, lines) in [("client", 2), ("job", 0)] {
        let ended = run(test, case);
        let text = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{case}: {text}");
        let line = "a panic has ended the work for one client";
        assert_eq!(text.matches(line).count(), lines, "{case}: {text}");
    }
}
