//! Single processes by their numbers: state, CPU time, command line, threads and descriptors. A process that ended, or
//! that the kernel does not let us look at, is `None`.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use procfs::process::{Process, Task};

/// What `/proc/PID/stat` says about a process, as far as it is used here (proc(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Process id.
    pub pid: i32,
    /// The name, as the kernel keeps it.
    pub name: String,
    /// `R`, `S`, `Z` and so on.
    pub state: char,
    /// Parent.
    pub parent: i32,
    /// Process group.
    pub group: i32,
    /// Session.
    pub session: i32,
    /// CPU time of the process itself, user and system.
    pub own_cpu: Duration,
    /// CPU time of its children that ended and were waited for.
    pub reaped_cpu: Duration,
    /// When it started, in clock ticks since boot: with the pid, its identity.
    pub started: u64,
}

impl Stat {
    /// Whether the process has ended and only waits for its parent to take notice.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

impl From<procfs::process::Stat> for Stat {
    fn from(stat: procfs::process::Stat) -> Self {
        let reaped = stat.cutime.saturating_add(stat.cstime);
        Self {
            pid: stat.pid,
            state: stat.state,
            parent: stat.ppid,
            group: stat.pgrp,
            session: stat.session,
            own_cpu: ticks(stat.utime + stat.stime),
            reaped_cpu: ticks(u64::try_from(reaped).unwrap_or(0)),
            started: stat.starttime,
            name: stat.comm,
        }
    }
}

/// Returns the state of one process.
pub fn stat(pid: i32) -> Option<Stat> {
    Some(Process::new(pid).ok()?.stat().ok()?.into())
}

/// Returns the children of a process, zombies too. None where the kernel was built without the list of them
/// (`/proc/PID/task/TID/children`, proc(5)).
pub fn children(pid: i32) -> Vec<i32> {
    let tasks = Process::new(pid).and_then(|process| process.tasks());
    let tasks = tasks.into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| task.children().ok()).flatten();
    children.filter_map(|pid| pid.try_into().ok()).collect()
}

/// Returns when a process started, to the second.
pub fn started(stat: &Stat) -> Option<SystemTime> {
    let since_boot = ticks(stat.started);
    let boot = procfs::boot_time_secs().ok()?;
    Some(UNIX_EPOCH + Duration::from_secs(boot) + since_boot)
}

/// Returns the numbers of all processes, zombies too.
pub fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Returns the states of all processes, zombies too. Those that end meanwhile are left out.
pub fn all() -> Vec<Stat> {
    let processes = procfs::process::all_processes().into_iter().flatten();
    processes
        .filter_map(|process| Some(process.ok()?.stat().ok()?.into()))
        .collect()
}

/// Returns the CPU time of this process and of all children it has waited for.
pub fn own_cpu() -> Duration {
    let stat = Process::myself().and_then(|own| own.stat()).map(Stat::from);
    stat.map_or(Duration::ZERO, |stat| stat.own_cpu + stat.reaped_cpu)
}

/// Returns the command line, its arguments separated by NUL bytes and whatever is not UTF-8 replaced.
pub fn command_line(pid: i32) -> Option<String> {
    file(pid, "cmdline").map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// Returns the file name of the program that a process runs: `ruby3.1` also where the process was started by a script
/// of another name.
pub fn program(pid: i32) -> Option<String> {
    let file = Process::new(pid).ok()?.exe().ok()?;
    Some(file.file_name()?.to_string_lossy().into_owned())
}

/// Whether the environment that a process was started with contains a text.
pub fn environment_contains(pid: i32, text: &str) -> bool {
    file(pid, "environ").is_some_and(|all| String::from_utf8_lossy(&all).contains(text))
}

/// Whether each thread of a process is in one of these states (`S`, `T`, ...). False where the process is gone.
pub fn has_only_threads_in(pid: i32, states: &[char]) -> bool {
    let in_state = |task: &Task| task.stat().is_ok_and(|one| states.contains(&one.state));
    let tasks = Process::new(pid).and_then(|process| process.tasks());
    tasks.is_ok_and(|mut tasks| tasks.all(|task| task.is_ok_and(|task| in_state(&task))))
}

/// Returns how long the calling thread was ready to run and waited for a core; zero on kernels that do not count it.
pub fn thread_run_delay() -> Duration {
    // A thread of a process is a folder like that of a process. Its path has to end with the number, which the link
    // `thread-self` does not: it leads to `PID/task/TID`.
    let counted = fs::read_link("/proc/thread-self").ok().and_then(|own| {
        let thread = Process::new_with_root(Path::new("/proc").join(own)).ok()?;
        thread.schedstat().ok()
    });
    Duration::from_nanos(counted.map_or(0, |counted| counted.run_delay))
}

/// Returns the CPU time of all threads of a process, with the time in which they were ready to run and waited for a core.
pub fn cpu_demand(pid: i32) -> Option<Duration> {
    let tasks = Process::new(pid).ok()?.tasks().ok()?;
    // One that ends meanwhile has no more demand.
    let counted = tasks.filter_map(|task| task.ok()?.schedstat().ok());
    let demand = counted.map(|one| one.sum_exec_runtime + one.run_delay);
    Some(Duration::from_nanos(demand.sum()))
}

/// Returns the most memory, in bytes, that was ever resident in a process.
pub fn peak_rss(pid: i32) -> Option<u64> {
    let status = Process::new(pid).ok()?.status().ok()?;
    status.vmhwm.map(|kibibytes| kibibytes * 1024)
}

/// Returns how many files of shared memory (memfd) a process holds as descriptors, and their bytes in all.
pub fn shared_memory(pid: i32) -> Option<(usize, u64)> {
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut found = (0, 0);
    for entry in folder.flatten() {
        let path = entry.path();
        let is_memory = fs::read_link(&path)
            .is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:"));
        // Through the link, to the file itself.
        if let Some(facts) = fs::metadata(&path).ok().filter(|_| is_memory) {
            found = (found.0 + 1, found.1 + facts.len());
        }
    }
    Some(found)
}

/// Returns how many file descriptors a process has open.
pub fn descriptors(pid: i32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// Turns clock ticks (`USER_HZ`) into time.
pub(crate) fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / procfs::ticks_per_second() as f64)
}

fn file(pid: i32, name: &str) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/{name}")).ok()
}

#[cfg(test)]
mod tests {
    use procfs::FromRead as _;

    use std::time::Instant;

    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_name_is() {
        let parse = |line: &str| {
            let stat = procfs::process::Stat::from_read(line.as_bytes());
            stat.map(Stat::from).ok()
        };
        let line = "42 (a ) (b) c) R 7 40 39 0 -1 4194560 1 2 3 4 11 22 33 44 20 0 5 0 987 1 2 3 \
                    4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29";
        let stat = parse(line).unwrap();
        assert_eq!(
            (stat.pid, stat.name.as_str(), stat.state),
            (42, "a ) (b) c", 'R')
        );
        assert_eq!((stat.parent, stat.group, stat.session), (7, 40, 39));
        assert_eq!(
            (stat.own_cpu, stat.reaped_cpu, stat.started),
            (ticks(33), ticks(77), 987)
        );
        assert_eq!(parse("42 (cut) R 1 2"), None);
    }

    #[test]
    fn this_process_is_found_with_its_threads_and_descriptors() {
        let pid = std::process::id() as i32;
        let own = stat(pid).expect("it runs");
        assert!(!own.is_zombie());
        assert!(all().iter().any(|one| one.pid == pid));
        assert!(pids().any(|one| one == pid));
        assert!(command_line(pid).is_some_and(|line| !line.is_empty()));
        let own = std::env::current_exe().unwrap();
        assert_eq!(program(pid).as_deref(), own.file_name().unwrap().to_str());
        assert!(descriptors(pid) > Some(2));
        assert!(peak_rss(pid) > Some(0));
        assert!(cpu_demand(pid) > Some(Duration::ZERO));
        assert!(has_only_threads_in(pid, &['R', 'S', 'D']));
        assert!(!has_only_threads_in(pid, &['T']));
        assert_eq!(stat(0), None);
        assert!(!has_only_threads_in(0, &['S']));
    }

    #[test]
    fn a_thread_among_more_than_there_are_cores_has_waited_for_one() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let busy = || {
            let (begun, before) = (Instant::now(), thread_run_delay());
            while begun.elapsed() < Duration::from_millis(200) {}
            thread_run_delay() - before
        };
        let waited: Duration = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2 * cores).map(|_| scope.spawn(busy)).collect();
            let delays = threads.into_iter().map(|thread| thread.join());
            delays.map(|delay| delay.expect("it ends")).sum()
        });
        // Each has a core for half of the time at most.
        assert!(waited > Duration::from_millis(50), "{waited:?}");
    }
}
