//! The body of a request while it comes and until it is in a slot, as long as it is short enough for memory. It writes no file.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::shared_bytes::{Share, SharedBytes};

/// Longest body that travels inside a slot; longer ones travel in a file.
pub const INLINE_BODY_BYTES: usize = 128 * 1024;
/// Bytes of a body that are in memory whatever other bodies take.
const ALWAYS_INLINE_BYTES: usize = 64 * 1024;
/// Bytes of all bodies together that are longer than that and in memory.
pub const LONG_BODIES_BYTES: usize = 64 * 1024 * 1024;

/// A body in memory.
#[derive(Debug, Default)]
pub struct BodyMemory {
    bytes: BytesMut,
    share: Share,
}

impl BodyMemory {
    /// Appends `data`; returns false, with nothing changed, where the body is to go to a file. `memory` is what the long
    /// bodies of all clients take.
    pub fn append(&mut self, data: &[u8], memory: &Arc<SharedBytes>) -> bool {
        let length = self.bytes.len() + data.len();
        let fits = length <= ALWAYS_INLINE_BYTES
            || length <= INLINE_BODY_BYTES && self.share.grow(memory, INLINE_BODY_BYTES);
        if fits {
            self.bytes.extend_from_slice(data);
        }
        fits
    }

    /// Takes what there is, for a file. Nothing is counted any more.
    pub fn take(&mut self) -> BytesMut {
        self.share.clear();
        std::mem::take(&mut self.bytes)
    }

    /// Returns the whole body; what it takes counts until the last handle of it is dropped.
    pub fn freeze(self) -> Bytes {
        match self.share.bytes() {
            0 => self.bytes.freeze(),
            _ => Bytes::from_owner(self),
        }
    }
}

impl AsRef<[u8]> for BodyMemory {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends pieces of 16 KiB until there is no room; returns the length.
    fn fill(body: &mut BodyMemory, memory: &Arc<SharedBytes>) -> usize {
        while body.append(&[b'b'; 16 * 1024], memory) {}
        body.as_ref().len()
    }

    #[test]
    fn a_body_is_in_memory_up_to_the_size_of_a_slot() {
        let memory = SharedBytes::new(LONG_BODIES_BYTES);
        let mut body = BodyMemory::default();
        assert_eq!(fill(&mut body, &memory), INLINE_BODY_BYTES);
        assert_eq!(memory.held(), INLINE_BODY_BYTES);
        assert_eq!(body.take().len(), INLINE_BODY_BYTES);
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn long_bodies_of_all_clients_keep_to_one_bound() {
        let memory = SharedBytes::new(2 * INLINE_BODY_BYTES);
        let mut bodies = [(); 3].map(|()| BodyMemory::default());
        let lengths = bodies.each_mut().map(|body| fill(body, &memory));
        let [long, short] = [INLINE_BODY_BYTES, ALWAYS_INLINE_BYTES];
        assert_eq!(lengths, [long, long, short]);
        let [first, second, _] = bodies;
        let (frozen, clone) = {
            let frozen = first.freeze();
            (frozen.clone(), frozen)
        };
        drop((second, frozen));
        assert_eq!((memory.held(), clone.len()), (long, long));
        drop(clone);
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn a_short_body_counts_nowhere() {
        let memory = SharedBytes::new(0);
        let mut body = BodyMemory::default();
        assert!(body.append(&[b'b'; ALWAYS_INLINE_BYTES], &memory));
        assert!(!body.append(b"b", &memory));
        assert_eq!(body.freeze().len(), ALWAYS_INLINE_BYTES);
    }
}
