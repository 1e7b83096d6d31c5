//! Files with secrets: read only if no other user can read or change them. It never shows what is in them.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Result, bail};
use rustix::fs::OFlags;

use crate::system::privileges::User;

/// Returns the text of a file of at most this many bytes that other users cannot read.
///
/// # Errors
/// It cannot be read, others can, or it is too long.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<String> {
    // Of a pipe that nobody writes into, opening would wait.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    let (facts, own) = (file.metadata()?, User::of_this_process().uid);
    if !facts.is_file() {
        bail!("it is not a regular file");
    }
    if facts.uid() != own && facts.uid() != 0 {
        bail!(
            "it belongs to uid {}: it must belong to the server's user (uid {own}) or to root",
            facts.uid()
        );
    }
    if facts.mode() & 0o027 != 0 {
        bail!(
            "its mode is {:04o}, so others can read or change it: chmod 0600 it",
            facts.mode() & 0o7777
        );
    }
    let mut text = String::new();
    file.take(max_bytes + 1).read_to_string(&mut text)?;
    if text.len() as u64 > max_bytes {
        bail!("it has more than {max_bytes} bytes");
    }
    Ok(text)
}
