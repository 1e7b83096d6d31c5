//! The memory of a process, as the kernel counts it in `/proc/PID/smaps_rollup`. Reading it takes the kernel milliseconds
//! for a large process: never call it on a thread that serves requests.
//!
//! The parser is our own: the server reads this file for each worker every few seconds, on Linux before 4.14 and in some
//! sandboxes only the longer `smaps` is there, and `procfs` would build a table of all lines of all mappings.

use std::fs;

/// The memory of one or several processes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident set size: shared pages count in full for every process.
    pub rss: u64,
    /// Proportional set size: each shared page is divided among the processes that share it.
    pub pss: u64,
    /// Pages of this process alone that were not written to.
    pub private_clean: u64,
    /// Pages of this process alone that were written to.
    pub private_dirty: u64,
    /// Huge pages (hugetlbfs) of this process alone.
    pub private_huge: u64,
    /// Swapped-out pages; a shared one is divided among the processes that share it.
    pub swap_pss: u64,
}

impl Memory {
    /// Bytes that the end of the process would give back, what is swapped out included.
    pub fn private(&self) -> u64 {
        self.private_clean + self.private_dirty + self.private_huge + self.swap_pss
    }

    /// Resident bytes that other processes have as well.
    pub fn shared(&self) -> u64 {
        // Huge pages are not in the resident set size (proc(5)).
        self.rss
            .saturating_sub(self.private_clean + self.private_dirty)
    }

    /// Bytes that fall to this process, what is swapped out included. Over all processes each page counts once.
    pub fn share(&self) -> u64 {
        self.pss + self.swap_pss
    }
}

impl std::ops::AddAssign for Memory {
    fn add_assign(&mut self, other: Self) {
        self.rss += other.rss;
        self.pss += other.pss;
        self.private_clean += other.private_clean;
        self.private_dirty += other.private_dirty;
        self.private_huge += other.private_huge;
        self.swap_pss += other.swap_pss;
    }
}

/// Returns the memory of a process; `None` where it is gone or a zombie, or the kernel does not let us look.
pub fn memory_of(pid: i32) -> Option<Memory> {
    ["smaps_rollup", "smaps"].iter().find_map(|file| {
        let text = fs::read(format!("/proc/{pid}/{file}")).ok()?;
        parse(&String::from_utf8_lossy(&text))
    })
}

/// Adds up the lines of all mappings. A zombie has none.
fn parse(text: &str) -> Option<Memory> {
    let mut memory = Memory::default();
    let mut found = false;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let key = words.next();
        let field = match key {
            Some("Rss:") => &mut memory.rss,
            Some("Pss:") => &mut memory.pss,
            Some("Private_Clean:") => &mut memory.private_clean,
            Some("Private_Dirty:") => &mut memory.private_dirty,
            Some("Private_Hugetlb:") => &mut memory.private_huge,
            // What leaks is swapped out first, and is in none of the other lines then.
            Some("SwapPss:") => &mut memory.swap_pss,
            _ => continue,
        };
        let kibibytes: u64 = words.next()?.parse().ok()?;
        *field += kibibytes * 1024;
        // Rss alone says nothing of what is shared.
        found |= key != Some("Rss:");
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
    fn private_pages_the_share_and_swap_are_read_from_their_lines() {
        let check = |text: &str, expect: Option<(u64, u64)>| {
            let found = parse(text).map(|memory| (memory.private(), memory.share()));
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
    fn a_rollup_is_read_by_whole_keys() {
        let memory = parse(ROLLUP).unwrap();
        assert_eq!(memory.pss, 21037 * 1024);
        assert_eq!(memory.rss, 55800 * 1024);
        assert_eq!(memory.private_dirty, 16616 * 1024);
        assert_eq!(memory.shared(), (5120 + 34_000) * 1024);
    }

    #[test]
    fn the_memory_of_a_running_process_is_known_and_that_of_none_is_not() {
        let own = memory_of(std::process::id() as i32).expect("this process runs");
        assert!(own.private() > 0 && own.share() >= own.private(), "{own:?}");
        assert!(own.rss >= own.pss, "{own:?}");
        assert_eq!(memory_of(0), None);
    }
}
