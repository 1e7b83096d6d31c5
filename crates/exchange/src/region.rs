//! The region: one memory file, mapped by the front and by every worker of a generation.
//!
//! Layout: header, board (see [`crate::board`]), then the slots. Each slot has a page of words, a request
//! area and a response ring. The file is sealed at its size, so that no worker can shrink it under the
//! front (which would be a SIGBUS there). It never grows, and nothing of it has a name in a file system.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate,
    memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::board::Board;
use crate::room::Room;
use crate::sync::{AtomicU32, AtomicU64, Line};

const MAGIC: u64 = 0x6862_6578_6368_0004;
const LINE: usize = 64;
const PAGE: usize = 4096;

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

    fn check(self) -> io::Result<Self> {
        let seats = u32::from(self.max_workers()) * u32::from(self.threads);
        let sound = self.workers > 0
            && self.threads > 0
            && self.slots > 0
            && seats <= u32::from(u16::MAX / 2)
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

    fn seats(self) -> usize {
        usize::from(self.max_workers()) * usize::from(self.threads)
    }

    fn ring(self) -> usize {
        (usize::from(self.slots) * 8).next_power_of_two()
    }
}

/// Offsets of the parts, from the geometry.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    states: usize,
    head: usize,
    tail: usize,
    parked: usize,
    ring: usize,
    seats: usize,
    idle: usize,
    free: usize,
    completed: usize,
    stops: usize,
    out_of_band: usize,
    queued: usize,
    slots: usize,
    slot: usize,
    total: usize,
}

impl Offsets {
    fn of(geometry: Geometry) -> Self {
        let mut at = LINE.max(size_of::<Header>().next_multiple_of(LINE));
        let mut take = |bytes: usize| {
            let start = at;
            at += bytes.next_multiple_of(LINE);
            start
        };
        let states = take(usize::from(geometry.slots) * LINE);
        let head = take(LINE);
        let tail = take(LINE);
        let parked = take(LINE);
        let ring = take(geometry.ring() * 8);
        let seats = take(geometry.seats() * LINE);
        let idle = take(geometry.seats().div_ceil(64) * LINE);
        let free = take(geometry.seats().div_ceil(64) * LINE);
        let completed = take(usize::from(geometry.slots).div_ceil(64) * LINE);
        let stops = take(usize::from(geometry.max_workers()) * LINE);
        let out_of_band = take(LINE);
        let queued = take(LINE);
        let slots = take(0).next_multiple_of(PAGE);
        let slot = PAGE + geometry.request_bytes as usize + geometry.response_bytes as usize;
        Self {
            states,
            head,
            tail,
            parked,
            ring,
            seats,
            idle,
            free,
            completed,
            stops,
            out_of_band,
            queued,
            slots,
            slot,
            total: slots + slot * usize::from(geometry.slots),
        }
    }
}

#[repr(C)]
struct Header {
    magic: u64,
    geometry: Geometry,
}

/// The words of one slot, in its own page. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[repr(C)]
pub struct SlotWords {
    /// Written by the front: length of the request record.
    pub request_len: Line<AtomicU32>,
    /// Written by the front: bytes of the response ring it has taken, since the publish.
    pub taken: Line<AtomicU64>,
    /// Written by the front: 1 when nobody wants the rest of the response.
    pub abandoned: Line<AtomicU32>,
    /// Written by the worker: bytes it has put into the response ring since the publish, and the sequence of its claim;
    /// see [`crate::response`].
    pub put: Line<AtomicU64>,
    /// 1 while writers wait for room in the ring, and what they sleep on; see [`crate::room`].
    pub room_wanted: Line<AtomicU32>,
    /// See [`SlotWords::room_wanted`].
    pub room_wake_ups: Line<crate::sync::Futex>,
    /// Written by the worker: when it claimed the request.
    pub claimed_at: Line<AtomicU64>,
    /// Written by the worker: when the application's part ended.
    pub finished_at: Line<AtomicU64>,
}

/// A mapped region. Unmapped when dropped.
pub struct Region {
    memory: NonNull<u8>,
    geometry: Geometry,
    offsets: Offsets,
    file: OwnedFd,
}

// SAFETY: the mapping may be used from any thread; its words are atomics, and the data areas are handed
// from one owner to the next by them.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Makes and maps a new region.
    ///
    /// # Errors
    /// A geometry out of bounds, or no memory or descriptor for it.
    pub fn create(geometry: Geometry) -> io::Result<Self> {
        let geometry = geometry.check()?;
        let offsets = Offsets::of(geometry);
        let file = memfd_create(
            "highball-exchange",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&file, offsets.total as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = Self::map(&file, offsets.total)?;
        // SAFETY: the mapping is at least a header long, page aligned, and not yet shared.
        unsafe {
            memory.cast::<Header>().write(Header {
                magic: MAGIC,
                geometry,
            })
        };
        Ok(Self {
            memory,
            geometry,
            offsets,
            file,
        })
    }

    /// Maps the region that another process made.
    ///
    /// # Errors
    /// The file is no region of this version, or its size is not that of its geometry.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let wrong = |what: &str| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("not an exchange: {what}"),
            )
        };
        let size = usize::try_from(fstat(&file)?.st_size).map_err(|_| wrong("its size"))?;
        if size < PAGE {
            return Err(wrong("it is too short"));
        }
        let memory = Self::map(&file, size)?;
        // SAFETY: the mapping is at least a page long and page aligned; any bytes make a valid `Header`.
        let header = unsafe { memory.cast::<Header>().read() };
        let geometry = if header.magic == MAGIC {
            header.geometry.check()
        } else {
            Err(wrong("its mark"))
        };
        match geometry.map(|geometry| (geometry, Offsets::of(geometry))) {
            Ok((geometry, offsets)) if offsets.total == size => Ok(Self {
                memory,
                geometry,
                offsets,
                file,
            }),
            other => {
                // SAFETY: mapped above with this size, and no reference to it exists.
                let _ = unsafe { munmap(memory.as_ptr().cast(), size) };
                Err(other
                    .err()
                    .unwrap_or_else(|| wrong("its size is not that of its geometry")))
            }
        }
    }

    fn map(file: &OwnedFd, size: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: a fresh mapping at an address of the kernel's choice; the seals keep the file's size.
        let memory = unsafe {
            mmap(
                std::ptr::null_mut(),
                size,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        NonNull::new(memory.cast::<u8>())
            .ok_or_else(|| io::Error::other("the kernel mapped the exchange at 0"))
    }

    /// The sizes of this region.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Whether the header is still what it was made with; the workers that come read it.
    pub(crate) fn has_its_header(&self) -> bool {
        // SAFETY: the mapping is at least a page long and page aligned; any bytes make a valid `Header`. Volatile, for
        // a broken worker may write there.
        let header = unsafe { self.memory.cast::<Header>().read_volatile() };
        header.magic == MAGIC && header.geometry == self.geometry
    }

    /// The memory file, to be passed to another process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The board in this region.
    pub fn board(&self) -> Board<'_> {
        let (geometry, offsets) = (self.geometry, self.offsets);
        // SAFETY: `Offsets` gives each part its own aligned place of that many elements inside the
        // mapping; every bit pattern is a valid atomic; all access is atomic.
        unsafe {
            Board {
                threads: geometry.threads,
                states: self.slice::<Line<AtomicU64>>(offsets.states, usize::from(geometry.slots)),
                ring: self.slice::<AtomicU64>(offsets.ring, geometry.ring()),
                head: &self.slice(offsets.head, 1)[0],
                tail: &self.slice(offsets.tail, 1)[0],
                seats: self.slice(offsets.seats, geometry.seats()),
                idle: self.slice(offsets.idle, geometry.seats().div_ceil(64)),
                free: self.slice(offsets.free, geometry.seats().div_ceil(64)),
                completed: self.slice(offsets.completed, usize::from(geometry.slots).div_ceil(64)),
                parked: &self.slice(offsets.parked, 1)[0],
                stops: self
                    .slice::<Line<AtomicU32>>(offsets.stops, usize::from(geometry.max_workers())),
                out_of_band: &self.slice(offsets.out_of_band, 1)[0],
                queued: &self.slice(offsets.queued, 1)[0],
            }
        }
    }

    /// The words of a slot.
    ///
    /// # Panics
    /// When there is no such slot; callers check indices that come from outside first.
    pub fn words(&self, slot: u16) -> &SlotWords {
        const { assert!(size_of::<SlotWords>() <= PAGE) };
        // SAFETY: a slot begins with a page for its words, which are all atomics.
        unsafe { &self.slice::<SlotWords>(self.slot(slot), 1)[0] }
    }

    /// Room in a slot's response ring: how its two ends wait for each other.
    pub fn room(&self, slot: u16) -> Room<'_> {
        let words = self.words(slot);
        Room {
            taken: &words.taken,
            abandoned: &words.abandoned,
            wanted: &words.room_wanted,
            wake_ups: &words.room_wake_ups,
        }
    }

    /// Takes the mapping from every process that this one forks from now on: there it is no memory at all.
    ///
    /// # Errors
    /// Those of madvise(2).
    pub fn keep_from_children(&self) -> io::Result<()> {
        let length = self.offsets.total;
        // SAFETY: the whole of this mapping; in this process nothing of it changes.
        unsafe { madvise(self.memory.as_ptr().cast(), length, Advice::LinuxDontFork)? };
        Ok(())
    }

    /// The start of a slot's request area, `geometry().request_bytes` long.
    pub(crate) fn request_area(&self, slot: u16) -> NonNull<u8> {
        // SAFETY: inside the slot, which is inside the mapping.
        unsafe { self.memory.add(self.slot(slot) + PAGE) }
    }

    /// The start of a slot's response ring, `geometry().response_bytes` long.
    pub(crate) fn response_ring(&self, slot: u16) -> NonNull<u8> {
        // SAFETY: inside the slot, which is inside the mapping.
        unsafe {
            self.request_area(slot)
                .add(self.geometry.request_bytes as usize)
        }
    }

    /// Gives the pages of a slot's request area and response ring back to the system; they read as zeros then.
    ///
    /// # Errors
    /// The kernel can't.
    pub(crate) fn give_back(&self, slot: u16) -> io::Result<()> {
        let start = (self.slot(slot) + PAGE) as u64;
        let length = (self.offsets.slot - PAGE) as u64;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, hole, start, length)?)
    }

    fn slot(&self, slot: u16) -> usize {
        assert!(
            slot < self.geometry.slots,
            "slot {slot} of {}",
            self.geometry.slots
        );
        self.offsets.slots + self.offsets.slot * usize::from(slot)
    }

    /// # Safety
    /// `offset` must be aligned for `T` and have `count` elements inside the mapping, of a type for which
    /// every bit pattern is valid and every access atomic.
    unsafe fn slice<T>(&self, offset: usize, count: usize) -> &[T] {
        // SAFETY: the caller's promise; the mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.memory.add(offset).cast().as_ptr(), count) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped with this size; every reference into it borrows from `self`.
        let _ = unsafe { munmap(self.memory.as_ptr().cast::<c_void>(), self.offsets.total) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_opened_elsewhere_has_the_same_geometry_and_the_same_words() {
        let made = Region::create(Geometry::new(3, 2, 10_000, 8192)).unwrap();
        let opened = Region::open(made.file().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(opened.geometry(), made.geometry());
        let mut tail = 0;
        assert!(made.board().publish(&mut tail, 11, 7));
        assert_eq!(opened.board().state(11).sequence, 7);
    }

    #[test]
    fn a_file_that_is_no_region_is_refused() {
        let file = memfd_create("other", MemfdFlags::CLOEXEC).unwrap();
        assert!(Region::open(file.try_clone().unwrap()).is_err());
        ftruncate(&file, 8192).unwrap();
        assert!(Region::open(file).is_err());
    }

    #[test]
    fn a_worker_cannot_shrink_the_region() {
        let region = Region::create(Geometry::new(1, 1, 4096, 4096)).unwrap();
        assert!(ftruncate(region.file(), 0).is_err());
    }
}
