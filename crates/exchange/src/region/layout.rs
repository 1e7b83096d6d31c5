//! Where what lies in a region, from the sizes that it is made with. It touches no memory.

use std::io;

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;
/// Bytes of a page of memory.
pub(super) const PAGE: usize = 4096;

/// The sizes a region is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Geometry {
    /// Workers that serve at once. One more can be there, see [`Geometry::max_workers`].
    pub workers: u16,
    /// Threads of each worker.
    pub threads: u16,
    /// Slots: requests that are with the workers or about to be.
    pub slots: u16,
    /// Bytes of a slot's request area: head and inline body. A multiple of 4096.
    pub request_bytes: u32,
    /// Bytes of a slot's response ring. A power of two, at least 4096.
    pub response_bytes: u32,
}

impl Geometry {
    /// Slots for `workers` x `threads`: one to run and one to follow it for each thread.
    pub fn new(workers: u16, threads: u16, request_bytes: u32, response_bytes: u32) -> Self {
        let slots = workers.saturating_mul(threads).saturating_mul(2).max(2);
        Self {
            workers,
            threads,
            slots,
            request_bytes: request_bytes.next_multiple_of(PAGE as u32),
            response_bytes,
        }
    }

    /// Workers that can be there at once: one more than serve, so that a successor can be ready before its
    /// predecessor leaves.
    pub fn max_workers(self) -> u16 {
        self.workers.saturating_add(1)
    }

    pub(super) fn check(self) -> io::Result<Self> {
        let threads = u32::from(self.max_workers()) * u32::from(self.threads);
        let sound = self.workers > 0
            && self.threads > 0
            && self.slots > 0
            && threads <= u32::from(u16::MAX / 2)
            && (self.request_bytes as usize).is_multiple_of(PAGE)
            && self.request_bytes > 0
            && self.response_bytes.is_power_of_two()
            && self.response_bytes as usize >= PAGE;
        sound.then_some(self).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the exchange can't have this geometry: {self:?}"),
            )
        })
    }

    /// Threads of all workers that can be there at once.
    pub(super) fn total_threads(self) -> usize {
        usize::from(self.max_workers()) * usize::from(self.threads)
    }

    /// Entries of the ready ring.
    pub(super) fn ring(self) -> usize {
        (usize::from(self.slots) * 8).next_power_of_two()
    }
}

/// What a region begins with. It is not written after it was made.
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: u64,
    pub(super) geometry: Geometry,
}

/// Offsets of the parts, from the geometry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub(super) states: usize,
    pub(super) head: usize,
    pub(super) tail: usize,
    pub(super) front_sleeps: usize,
    pub(super) ring: usize,
    pub(super) threads: usize,
    pub(super) idle: usize,
    pub(super) free: usize,
    pub(super) completed: usize,
    pub(super) stops: usize,
    pub(super) resting: usize,
    pub(super) io_bound: usize,
    pub(super) turn: usize,
    pub(super) queue_waits: usize,
    pub(super) single_worker: usize,
    pub(super) slots: usize,
    pub(super) slot: usize,
    pub(super) total: usize,
}

impl Offsets {
    pub(super) fn of(geometry: Geometry) -> Self {
        let mut at = LINE.max(size_of::<Header>().next_multiple_of(LINE));
        let mut take = |bytes: usize| {
            let start = at;
            at += bytes.next_multiple_of(LINE);
            start
        };
        let states = take(usize::from(geometry.slots) * LINE);
        let head = take(LINE);
        let tail = take(LINE);
        let front_sleeps = take(LINE);
        let ring = take(geometry.ring() * 8);
        let threads = take(geometry.total_threads() * LINE);
        let idle = take(geometry.total_threads().div_ceil(64) * LINE);
        let free = take(geometry.total_threads().div_ceil(64) * LINE);
        let completed = take(usize::from(geometry.slots).div_ceil(64) * LINE);
        let stops = take(usize::from(geometry.max_workers()) * LINE);
        let resting = take(LINE);
        let io_bound = take(usize::from(geometry.max_workers()) * LINE);
        let turn = take(LINE);
        let queue_waits = take(LINE);
        let single_worker = take(LINE);
        let slots = take(0).next_multiple_of(PAGE);
        let slot = PAGE + geometry.request_bytes as usize + geometry.response_bytes as usize;
        Self {
            states,
            head,
            tail,
            front_sleeps,
            ring,
            threads,
            idle,
            free,
            completed,
            stops,
            resting,
            io_bound,
            turn,
            queue_waits,
            single_worker,
            slots,
            slot,
            total: slots + slot * usize::from(geometry.slots),
        }
    }
}
