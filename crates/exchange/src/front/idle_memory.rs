//! Memory of slots that have not been used for a while goes back to the system: a slot is as large as the largest request
//! and a response ring, and a burst would leave all of them filled for good.

use crate::region::Region;

/// How long a slot stays unused before its memory is given back, in nanoseconds.
const IDLE_NS: u64 = 10_000_000_000;
/// The most slots of which memory is given back in one look: it takes some microseconds each.
const SLOTS_PER_LOOK: usize = 4;

/// Whether a slot has memory for requests and responses.
#[derive(Clone, Copy)]
enum Memory {
    /// Nothing was written to it.
    None,
    /// It is in use, or was since the last look.
    Used,
    /// It was free at this moment, in nanoseconds of the monotonic clock, and has been since.
    FreeSince(u64),
}

/// The memory of all slots.
pub(super) struct IdleMemory(Vec<Memory>);

impl IdleMemory {
    /// That of so many slots, to which nothing was written.
    pub(super) fn new(slots: u16) -> Self {
        Self(vec![Memory::None; usize::from(slots)])
    }

    /// A slot is taken, and will be written to.
    pub(super) fn set_used(&mut self, slot: u16) {
        self.0[usize::from(slot)] = Memory::Used;
    }

    /// Gives memory back of those of the `free` slots that have been free for a while at `now`, in nanoseconds of the
    /// monotonic clock; of [`SLOTS_PER_LOOK`] and no more.
    pub(super) fn give_back(&mut self, free: &[u16], region: &Region, now: u64) {
        let mut left = SLOTS_PER_LOOK;
        for &slot in free {
            let memory = &mut self.0[usize::from(slot)];
            match *memory {
                Memory::Used => *memory = Memory::FreeSince(now),
                Memory::FreeSince(since) if left > 0 && now.saturating_sub(since) >= IDLE_NS => {
                    *memory = Memory::None;
                    left -= 1;
                    // Where the kernel can't, the memory stays.
                    let _ = region.give_back(slot);
                }
                Memory::None | Memory::FreeSince(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Kind;
    use crate::worker::Worker;
    use crate::{Front, Geometry, WorkerThread};

    const MEBIBYTE: u64 = 1024 * 1024;

    /// A front of 64 workers with 3 threads, and a thread that has answered with full slots so many at once.
    fn after_a_burst(requests: usize) -> (Front, WorkerThread) {
        let geometry = Geometry::new(64, 3, 200 * 1024, 256 * 1024);
        let mut front = Front::new(geometry).unwrap();
        let (memory, bell) = front.files();
        let region = Region::open(memory.try_clone_to_owned().unwrap()).unwrap();
        let worker = Worker::new(region, bell.try_clone_to_owned().unwrap(), 0).unwrap();
        let thread = worker.thread(0);
        let slots: Vec<u16> = (0..requests).map(|_| front.acquire().unwrap()).collect();
        for &slot in &slots {
            front.request_area(slot).fill(1);
            assert!(front.publish(slot, 1));
            let mut job = thread.claim().unwrap();
            let chunk = vec![1; thread.longest()];
            thread.try_frame(&mut job, Kind::Chunk, &[&chunk]).unwrap();
            thread.finish(&job);
        }
        for slot in slots {
            front.release(slot);
        }
        (front, thread)
    }

    fn resident(front: &Front) -> u64 {
        let file = rustix::fs::fstat(front.files().0).unwrap();
        file.st_blocks as u64 * 512
    }

    #[test]
    fn the_memory_of_a_burst_is_given_back_some_slots_at_a_time() {
        let (mut front, thread) = after_a_burst(300);
        let full = resident(&front);
        assert!(full > 90 * MEBIBYTE, "{full}");
        front.give_back_idle(1);
        front.give_back_idle(IDLE_NS);
        assert_eq!(resident(&front), full, "too soon");
        front.give_back_idle(IDLE_NS + 1);
        let slot = 328 * 1024;
        assert_eq!(resident(&front), full - SLOTS_PER_LOOK as u64 * slot);
        for _ in 0..300 {
            front.give_back_idle(IDLE_NS + 1);
        }
        assert!(resident(&front) < 3 * MEBIBYTE, "{}", resident(&front));
        // They serve on, and other memory than theirs is untouched.
        let slot = front.acquire().unwrap();
        front.request_area(slot)[..5].copy_from_slice(b"again");
        assert!(front.publish(slot, 5));
        let job = thread.claim().unwrap();
        assert_eq!(thread.record(&job), b"again");
        assert_eq!(front.inspect(), None);
    }

    #[test]
    fn slots_that_are_used_again_and_again_keep_their_memory() {
        let (mut front, _thread) = after_a_burst(3);
        let full = resident(&front);
        for look in 0..10 {
            front.give_back_idle(look * IDLE_NS / 2);
            let slots: Vec<u16> = (0..3).map(|_| front.acquire().unwrap()).collect();
            slots.into_iter().rev().for_each(|slot| front.release(slot));
        }
        assert_eq!(resident(&front), full);
        // What is in use is no free slot, however long that takes.
        let held = front.acquire().unwrap();
        assert!(front.publish(held, 1));
        for look in 10..20 {
            front.give_back_idle(look * IDLE_NS);
        }
        assert!(resident(&front) > 328 * 1024);
        assert!(resident(&front) < full - 500 * 1024);
    }
}
