//! The lab's figures of memory beside those of others: smem, and what `passenger-memory-stats` adds up (`Private_Dirty`
//! of every mapping in `/proc/PID/smaps`). On a server that forks after it loaded the application, where the ways of
//! counting differ most.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use proc::Memory;
use stacks::{Catalogue, Deployment};

/// PSS and RSS in kB of these processes together, by smem.
fn smem(pids: &[i32]) -> (u64, u64) {
    let output = Command::new("smem")
        .args(["-H", "-c", "pid pss rss"])
        .output();
    let output = output.expect("smem runs (apt-get install smem)");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut total = (0, 0);
    for line in text.lines() {
        let fields: Vec<u64> = line
            .split_whitespace()
            .map(|field| field.parse().unwrap())
            .collect();
        if pids.contains(&i32::try_from(fields[0]).unwrap()) {
            total.0 += fields[1];
            total.1 += fields[2];
        }
    }
    total
}

/// `Private_Dirty` in kB of every mapping of these processes.
fn private_dirty(pids: &[i32]) -> u64 {
    let of = |pid: &i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("Private_Dirty:"));
        lines
            .map(|rest| {
                rest.trim()
                    .trim_end_matches("kB")
                    .trim()
                    .parse::<u64>()
                    .unwrap()
            })
            .sum::<u64>()
    };
    pids.iter().map(of).sum()
}

/// Asserts that `theirs` is within 2 % of what the lab read before and after it: other processes that come and go share
/// pages with these, and so change their PSS.
fn agree(name: &str, before: u64, theirs: u64, after: u64) {
    let (low, high) = (
        before.min(after) as f64 * 0.98,
        before.max(after) as f64 * 1.02,
    );
    assert!(
        (low..=high).contains(&(theirs as f64)),
        "{name}: {theirs} kB, and {before} to {after} kB by the lab"
    );
}

#[test]
fn memory_agrees_with_smem_and_with_what_passenger_adds_up() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::load_from(&test_support::workspace().join("lab"), &[]).unwrap();
    let deployment = Deployment {
        app: test_support::workspace().join("lab/apps/hello"),
        highball: test_support::binary(),
        scratch: folder.path().join("scratch"),
        workers: 3,
        threads: 1,
        environment: BTreeMap::new(),
        path: "/".to_owned(),
        boot_timeout: Duration::from_secs(60),
        cores: Vec::new(),
    };
    let mut running = catalogue
        .get("puma-cluster")
        .unwrap()
        .start(&deployment)
        .unwrap();
    let pids: Vec<i32> = running.tree().members().iter().map(|one| one.pid).collect();
    assert_eq!(pids.len(), 4, "a master and three workers");
    assert!(
        pids.iter()
            .all(|pid| Path::new(&format!("/proc/{pid}")).is_dir())
    );

    let before: Memory = running.tree().memory();
    let (pss, rss) = smem(&pids);
    let dirty = private_dirty(&pids);
    let after = running.tree().memory();
    agree("PSS", before.pss / 1024, pss, after.pss / 1024);
    agree("RSS", before.rss / 1024, rss, after.rss / 1024);
    agree(
        "private dirty",
        before.private_dirty / 1024,
        dirty,
        after.private_dirty / 1024,
    );
    // What each way of counting is for: forked processes share much, which RSS counts four times and private dirty never.
    assert!(before.private_dirty < before.pss && before.pss < before.rss);
    assert_eq!(running.stop().left_behind, 0);
}
