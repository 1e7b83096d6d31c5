//! The tree on invented and on real processes.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::*;

fn stat(pid: i32, parent: i32, group: i32, session: i32) -> Stat {
    let (name, state) = ("x".to_owned(), 'S');
    Stat {
        pid,
        name,
        state,
        parent,
        group,
        session,
        own_cpu: Duration::from_millis(10),
        reaped_cpu: Duration::ZERO,
        started: 100 + pid as u64,
    }
}

fn pids(members: &[Stat]) -> Vec<i32> {
    members.iter().map(|stat| stat.pid).collect()
}

#[test]
fn members_are_descendants_groups_sessions_and_those_seen_before() {
    let mut tree = ProcessTree::rooted(10);
    // 10 leads a group and session; 11 and 12 descend; 13 was orphaned but stayed in the session; 20 is a stranger.
    let all = [
        stat(10, 1, 10, 10),
        stat(12, 11, 12, 10),
        stat(11, 10, 10, 10),
        stat(13, 1, 10, 10),
        stat(20, 1, 20, 20),
    ];
    assert_eq!(pids(&tree.select(&all)), [10, 11, 12, 13]);
    // 12 is orphaned into its own group and session; 30 is its child; a stranger took the pid of 11.
    let mut reused = stat(11, 1, 20, 20);
    reused.started = 5000;
    let all = [
        stat(10, 1, 10, 10),
        stat(12, 1, 12, 12),
        stat(30, 12, 12, 12),
        reused,
        stat(20, 1, 20, 20),
    ];
    assert_eq!(pids(&tree.select(&all)), [10, 12, 30]);
}

#[test]
fn the_starters_own_group_does_not_join_the_tree() {
    let mut tree = ProcessTree::rooted(10);
    // The root stayed in the group and session of the process that started it.
    let all = [stat(5, 1, 5, 5), stat(10, 5, 5, 5), stat(6, 5, 5, 5)];
    assert_eq!(pids(&tree.select(&all)), [10]);
}

#[test]
fn the_tree_below_a_process_is_without_it_but_with_what_it_waited_for() {
    // The shell waits for a child that burns CPU, then holds another one.
    let script =
        "(i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done); sleep 1000 & echo ready; wait";
    let mut child = Command::new("setsid")
        .args(["sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();

    let mut tree = ProcessTree::below(child.id() as i32);
    let members = tree.members();
    assert_eq!(members.len(), 1, "{members:?}");
    assert!(tree.cpu() > Duration::ZERO);
    assert_eq!(tree.kill(), 1);
    // The shell itself was not killed: it ends because it has nothing left to wait for.
    assert!(child.wait().unwrap().code().is_some());
}

#[test]
fn a_real_tree_is_measured_with_its_dead_and_killed() {
    // The shell burns CPU in a child that it waits for, then holds another child and reports that it is ready.
    let script =
        "(i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done); sleep 1000 & echo ready; wait";
    let mut child = Command::new("setsid")
        .args(["sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");

    let mut tree = ProcessTree::rooted(child.id() as i32);
    assert_eq!(tree.members().len(), 2, "{:?}", tree.members());
    assert!(
        tree.cpu() > Duration::ZERO,
        "the dead child's CPU is counted"
    );
    let programs = tree.cpu_by_program();
    let mut shells = programs.iter().filter(|(name, _)| *name != "sleep");
    assert!(
        shells.any(|(_, used)| *used > Duration::ZERO),
        "the child's CPU counts to the shell's program: {programs:?}"
    );
    let memory = tree.memory();
    assert!(memory.pss > 0 && memory.rss >= memory.pss, "{memory:?}");

    assert_eq!(tree.kill(), 2);
    child.wait().unwrap();
    assert!(tree.members().is_empty());
}
