//! Processes that the application has started in a template or a worker, for the status: shells, browsers, job runners.
//! Found by their parents, so one whose parent has ended is not among them. Only reads.

use std::collections::BTreeSet;
use std::time::SystemTime;

/// The most of them that a status has: an application that starts more has other problems.
const MAX_CHILDREN: usize = 256;

/// A process that the application has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) pid: i32,
    /// The template or worker that it comes from, as its index among the parents.
    pub(super) parent: usize,
    /// Its name, as the kernel keeps it: any characters.
    pub(super) name: String,
    pub(super) started: SystemTime,
}

/// Returns the children of these processes, and the children of each child. Reads some files of each process.
pub(super) fn children(parents: &[i32]) -> Vec<Child> {
    at_most(MAX_CHILDREN, parents)
}

fn at_most(limit: usize, parents: &[i32]) -> Vec<Child> {
    let mut known: BTreeSet<i32> = parents.iter().copied().collect();
    let mut found = Vec::new();
    let mut asked = 0;
    for (parent, pid) in parents.iter().enumerate() {
        add_children(*pid, parent, &mut known, &mut found);
        while asked < found.len().min(limit) {
            add_children(found[asked].pid, parent, &mut known, &mut found);
            asked += 1;
        }
    }
    found.truncate(limit);
    found
}

fn add_children(of: i32, parent: usize, known: &mut BTreeSet<i32>, found: &mut Vec<Child>) {
    for pid in proc::children(of) {
        if known.insert(pid) {
            found.extend(child(pid, parent));
        }
    }
}

/// A child; `None` where it has ended.
fn child(pid: i32, parent: usize) -> Option<Child> {
    let stat = proc::stat(pid).filter(|stat| !stat.is_zombie())?;
    Some(Child {
        pid,
        parent,
        started: proc::started(&stat).unwrap_or_else(SystemTime::now),
        name: stat.name,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    /// What `look` sees while a shell runs that has so many children.
    fn beside_a_shell<T>(children: usize, look: impl FnOnce(i32) -> T) -> T {
        let script = "sleep 1000 & ".repeat(children) + "echo begun; wait";
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let group = shell.id() as i32;
        let output = shell.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line");
        let seen = look(group);
        let _ = kill_process_group(Pid::from_raw(group).expect("its pid"), Signal::KILL);
        shell.wait().expect("a child of ours");
        seen
    }

    #[test]
    fn children_of_children_are_found_with_the_process_that_they_come_from() {
        let own = std::process::id() as i32;
        let (shell, found) = beside_a_shell(1, |shell| (shell, children(&[0, own])));
        // Tests of other threads have children too.
        let row = found.iter().find(|one| one.pid == shell);
        let row = row.expect("the shell");
        assert_eq!((row.parent, &*row.name), (1, "sh"));
        assert!(found.len() > 1, "{found:?}");
    }

    #[test]
    fn no_more_children_than_the_limit_are_shown() {
        let counts = beside_a_shell(3, |shell| {
            let count = |limit| at_most(limit, &[shell]).len();
            [count(MAX_CHILDREN), count(2)]
        });
        assert_eq!(counts, [3, 2]);
    }
}
