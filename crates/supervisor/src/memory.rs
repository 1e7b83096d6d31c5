//! How much memory processes hold, as the kernel counts it in `/proc/PID/smaps_rollup`, and how much their
//! control groups allow (`cgroup`). Reading takes it milliseconds
//! for a large process, so nothing here is to be called on the front's thread. It decides nothing.

use std::{fmt, fs};

mod cgroup;

pub(crate) use cgroup::{Group, own as groups};

/// The memory of one process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Pages that no other process has, and its part of what is swapped out: what its end would give back.
    pub(crate) private: u64,
    /// The same, and of each shared page the part that falls to this process. Over all processes of the server each
    /// page counts once.
    pub(crate) share: u64,
}

/// Bytes, as people read them: in MiB.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / f64::from(1 << 20))
    }
}

/// The memory of a process; none where it is gone, or the kernel does not tell.
pub(crate) fn of(pid: i32) -> Option<Memory> {
    // The second one is longer and says the same: Linux before 4.14, and some sandboxes, have no other.
    ["smaps_rollup", "smaps"].iter().find_map(|file| {
        let text = fs::read(format!("/proc/{pid}/{file}")).ok()?;
        parse(&String::from_utf8_lossy(&text))
    })
}

/// The sums of the lines that count. A process that is a zombie has none.
fn parse(text: &str) -> Option<Memory> {
    let mut memory = Memory::default();
    let mut found = false;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (private, share) = match words.next() {
            Some("Private_Clean:" | "Private_Dirty:" | "Private_Hugetlb:") => (true, false),
            Some("Pss:") => (false, true),
            // What leaks is swapped out first, and is in none of the other lines then.
            Some("SwapPss:") => (true, true),
            _ => continue,
        };
        let kibibytes: u64 = words.next()?.parse().ok()?;
        let bytes = kibibytes * 1024;
        memory.private += if private { bytes } else { 0 };
        memory.share += if share { bytes } else { 0 };
        found = true;
    }
    found.then_some(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLLUP: &str = "\
aaaaf0000000-ffffc1a81000 ---p 00000000 00:00 0                          [rollup]
Rss:               55800 kB
Pss:               21037 kB
Pss_Dirty:         20111 kB
Shared_Clean:       5120 kB
Shared_Dirty:      34000 kB
Private_Clean:        64 kB
Private_Dirty:     16616 kB
Referenced:        55800 kB
Private_Hugetlb:       0 kB
Swap:               1000 kB
SwapPss:             900 kB
";

    #[test]
    fn private_pages_the_share_and_what_is_swapped_are_read_from_their_lines() {
        let check = |text: &str, expect: Option<(u64, u64)>| {
            let found = parse(text).map(|memory| (memory.private, memory.share));
            assert_eq!(found, expect, "{text}");
        };
        let (private, share) = (64 + 16616 + 900, 21037 + 900);
        check(ROLLUP, Some((private * 1024, share * 1024)));
        // Without a rollup each mapping has its own lines.
        let each = "Pss: 4 kB\nPrivate_Dirty: 2 kB\n".repeat(3);
        check(&each, Some((6 * 1024, 12 * 1024)));
        check("", None);
        check("Rss: 12 kB\n", None);
        check("Pss: many kB\n", None);
    }

    #[test]
    fn the_memory_of_a_process_that_runs_is_known_and_that_of_none_is_not() {
        let own = of(std::process::id() as i32).expect("this process runs");
        assert!(own.private > 0 && own.share >= own.private, "{own:?}");
        assert_eq!(of(0), None);
    }
}
