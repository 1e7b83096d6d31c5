//! The exceptions of all applications on their way from a server to the one that replaces it: JSON in a file without a name,
//! whose descriptor comes with the message. Both servers belong to one user and trust each other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use front::SavedGroups;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::hosted::Hosted;

/// The longest file that is read, in bytes: more than all groups can have.
const MAX_SAVED_BYTES: u64 = 64 * 1024 * 1024;

/// The groups of each application, by its name; empty where a server has only one.
pub(crate) type SavedExceptions = BTreeMap<String, SavedGroups>;

/// Takes the groups of these applications away.
pub(crate) fn take(hosted: &[Rc<Hosted>]) -> SavedExceptions {
    let each = hosted.iter().map(|one| {
        let groups = one.front.exceptions().take();
        (one.name().unwrap_or_default(), groups)
    });
    each.filter(|(_, groups)| !groups.is_empty()).collect()
}

/// Adds groups to those of these applications; those of an application that is not there are dropped.
pub(crate) fn merge(hosted: &[Rc<Hosted>], mut saved: SavedExceptions) {
    for one in hosted {
        if let Some(groups) = saved.remove(&one.name().unwrap_or_default()) {
            one.front.exceptions().merge(groups);
        }
    }
}

/// Writes groups into a file.
///
/// # Errors
/// No descriptors or no memory are left.
pub(crate) fn write(saved: &SavedExceptions) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("highball-exceptions", MemfdFlags::CLOEXEC)?);
    serde_json::to_writer(&mut file, saved)?;
    file.rewind()?;
    Ok(file.into())
}

/// Reads what [`write()`] has written.
///
/// # Errors
/// It is something else.
pub(crate) fn read(file: OwnedFd) -> io::Result<SavedExceptions> {
    let mut text = Vec::new();
    File::from(file)
        .take(MAX_SAVED_BYTES)
        .read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let saved = SavedExceptions::from([("shop".to_owned(), SavedGroups::default())]);
        let file = write(&saved).expect("a file");
        assert_eq!(read(file).expect("JSON"), saved);
    }

    #[test]
    fn what_is_something_else_is_an_error() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).expect("a file");
        assert!(read(file).is_err());
    }
}
