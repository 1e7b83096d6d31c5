//! What the front itself knows of a slot: its own copies, so that it need not trust the words that workers can write.

use crate::region::Region;
use crate::response::Reader;

/// What the front itself knows of a slot.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    /// The latest publication.
    pub(super) sequence: u32,
    /// Bytes that were taken out of the response ring since the publish.
    pub(super) taken: u64,
    /// Whether the slot is published and was not taken back.
    pub(super) published: bool,
    /// Length of the request record.
    pub(super) length: u32,
    /// Position of its entry in the ready ring.
    pub(super) position: u64,
    /// Index of the thread that was seen to hold the publication.
    pub(super) thread: Option<u16>,
    /// Whether no client waits for the rest of the response.
    pub(super) abandoned: bool,
}

impl Slot {
    /// The front's end of the slot's response ring.
    pub(super) fn reader(self, region: &Region, slot: u16) -> Reader<'_> {
        Reader {
            region,
            slot,
            sequence: self.sequence,
            taken: self.taken,
        }
    }
}
