//! What of a file is in the system's memory. It reads single bytes, and no file for anybody.

use std::fs::File;
use std::io::IoSliceMut;

use rustix::io::{Errno, ReadWriteFlags, Result, preadv2};

/// How far apart the bytes are that say whether a file is in memory.
const PROBE_BYTES: usize = 128 * 1024;

/// Whether these bytes of a file are in the system's memory, as far as one in each `PROBE_BYTES` tells. Never waits for a
/// disk; a file system that cannot say so has nothing in memory.
pub fn is_in_memory(file: &File, at: u64, count: u64) -> bool {
    let offsets = (at..at + count).step_by(PROBE_BYTES);
    let mut offsets = offsets.chain([at + count - 1]);
    offsets.all(|offset| read_in_memory(file, offset) == Ok(1))
}

/// Whether the file system of a file tells what of it is in memory.
pub fn can_tell(file: &File) -> bool {
    matches!(read_in_memory(file, 0), Ok(_) | Err(Errno::AGAIN))
}

/// Reads a byte if that is in memory.
fn read_in_memory(file: &File, at: u64) -> Result<usize> {
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    preadv2(file, &mut into, at, ReadWriteFlags::NOWAIT)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_was_just_written_is_in_memory_where_the_file_system_tells() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 2 * PROBE_BYTES]).unwrap();
        assert_eq!(is_in_memory(&file, 1, PROBE_BYTES as u64), can_tell(&file));
        // Beyond its end there is nothing.
        assert!(!is_in_memory(&file, 1, 2 * PROBE_BYTES as u64));
    }

    #[test]
    fn a_file_system_that_cannot_tell_has_nothing_in_memory() {
        let file = File::open("/proc/self/status").unwrap();
        assert!(!can_tell(&file));
        assert!(!is_in_memory(&file, 0, 1));
    }
}
