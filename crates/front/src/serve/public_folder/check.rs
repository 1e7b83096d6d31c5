//! A path that is being looked up: what is known of it counts for others meanwhile. It asks no file system.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use super::file::KnownFile;
use super::lookup::{Looked, LookedNames, Names};
use super::served::Served;
use super::store::Meaning;
use crate::clock::Clock;

/// What a look at the folder brought.
pub(super) type Done = (io::Result<Looked>, Option<io::Result<LookedNames>>);

/// A path that is being looked up, until this is dropped.
pub(super) struct Check<'a> {
    served: &'a Served,
    path: &'a [u8],
    clock: &'a Clock,
    /// The file that it meant before.
    pub(super) known: Option<Rc<KnownFile>>,
    /// Whether the names of the folder are looked up too, and those that are known.
    pub(super) names: Option<Option<Arc<Names>>>,
    ended: bool,
}

impl<'a> Check<'a> {
    /// Begins to look up the path.
    pub(super) fn begin(served: &'a Served, path: &'a [u8], clock: &'a Clock) -> Self {
        Self {
            known: served.begin(path),
            names: served.begin_names(clock.now_ms()),
            served,
            path,
            clock,
            ended: false,
        }
    }

    /// Keeps what was found, and returns what the path means. None: nothing was found in time.
    pub(super) fn end(mut self, done: Option<Done>) -> Meaning {
        let (looked, names) = done.map_or((None, None), |(looked, names)| (Some(looked), names));
        let before = self.known.take().map_or(Meaning::Nothing, Meaning::File);
        let meaning = match looked {
            // What may not be opened from here is the application's.
            Some(Ok(Looked::Nothing) | Err(_)) => Some(Meaning::Nothing),
            Some(Ok(Looked::Found(found))) => Some(Meaning::File(Rc::new(KnownFile::new(found)))),
            Some(Ok(Looked::Unchanged)) | None => None,
        };
        self.finish(meaning.clone(), names);
        meaning.unwrap_or(before)
    }

    fn finish(&mut self, meaning: Option<Meaning>, names: Option<io::Result<LookedNames>>) {
        self.ended = true;
        let now_ms = self.clock.now_ms();
        self.served.end(self.path, meaning, now_ms);
        if self.names.is_some() {
            self.served.end_names(names, now_ms);
        }
    }
}

impl Drop for Check<'_> {
    fn drop(&mut self) {
        // The client left meanwhile.
        if !self.ended {
            self.finish(None, None);
        }
    }
}
