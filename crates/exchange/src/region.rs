//! The region: one memory file, mapped by the front and by every worker of a generation.
//!
//! Layout: header, the words of [`crate::coordination`], then the slots. Each slot has a page of words, a request
//! area and a response ring. The file is sealed at its size, so that no worker can shrink it under the
//! front (which would be a SIGBUS there). It never grows, and nothing of it has a name in a file system.

mod layout;

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fstat, ftruncate,
    memfd_create,
};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::coordination::{
    Availability, Bitmap, Completions, Coordination, OutOfBand, ReadyRing, SlotStates, ThreadStates,
};
use crate::room::Room;
use crate::sync::{AtomicU32, AtomicU64, Line};
pub use layout::Geometry;
use layout::{Header, Offsets, PAGE};

const MAGIC: u64 = 0x6862_6578_6368_0004;

/// The words of one slot, in its own page. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[repr(C)]
pub struct SlotWords {
    /// Written by the front: length of the request record.
    pub request_len: Line<AtomicU32>,
    /// Written by the front: bytes of the response ring it has taken, since the publish.
    pub taken: Line<AtomicU64>,
    /// Written by the front: 1 when no client waits for the rest of the response.
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

    /// Whether the header is still as it was written at the start. Later workers read it.
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

    /// The words by which front and workers coordinate.
    pub fn coordination(&self) -> Coordination<'_> {
        Coordination {
            slots: self.slot_states(),
            ring: self.ready_ring(),
            availability: self.availability(),
            completions: self.completions(),
            out_of_band: self.out_of_band(),
        }
    }

    /// Who holds which slot.
    pub(crate) fn slot_states(&self) -> SlotStates<'_> {
        // SAFETY: `Offsets` gives each part its own aligned memory inside the mapping, here a line for each slot; every
        // bit pattern is a valid atomic; all access is atomic.
        let words = unsafe { self.slice(self.offsets.states, self.geometry.slots.into()) };
        SlotStates { words }
    }

    /// Published requests in their order.
    pub(crate) fn ready_ring(&self) -> ReadyRing<'_> {
        let offsets = self.offsets;
        // SAFETY: as in `slot_states`: `ring` has so many words of eight bytes, head and tail a line each.
        unsafe {
            ReadyRing {
                entries: self.slice::<AtomicU64>(offsets.ring, self.geometry.ring()),
                head: &self.slice(offsets.head, 1)[0],
                tail: &self.slice(offsets.tail, 1)[0],
            }
        }
    }

    /// What each worker thread does.
    pub(crate) fn thread_states(&self) -> ThreadStates<'_> {
        let (geometry, offsets) = (self.geometry, self.offsets);
        // SAFETY: as in `slot_states`: a line for each thread, one for all, and two for each worker.
        unsafe {
            ThreadStates {
                per_worker: geometry.threads,
                words: self.slice(offsets.threads, geometry.total_threads()),
                stops: self.slice(offsets.stops, geometry.max_workers().into()),
                resting: &self.slice(offsets.resting, 1)[0],
                io_bound: self.slice(offsets.io_bound, geometry.max_workers().into()),
            }
        }
    }

    /// Which worker threads can take a request.
    pub(crate) fn availability(&self) -> Availability<'_> {
        let count = self.geometry.total_threads();
        Availability {
            threads: self.thread_states(),
            idle: self.bitmap(self.offsets.idle, count),
            free: self.bitmap(self.offsets.free, count),
        }
    }

    /// Slots that have news for the front.
    pub(crate) fn completions(&self) -> Completions<'_> {
        let slots = self.geometry.slots;
        // SAFETY: as in `slot_states`: a line of its own.
        let front_sleeps = unsafe { &self.slice(self.offsets.front_sleeps, 1)[0] };
        Completions {
            slots,
            bits: self.bitmap(self.offsets.completed, slots.into()),
            front_sleeps,
        }
    }

    /// Whose turn it is to work between requests.
    pub(crate) fn out_of_band(&self) -> OutOfBand<'_> {
        // SAFETY: as in `slot_states`: a line each.
        unsafe {
            OutOfBand {
                turn: &self.slice(self.offsets.turn, 1)[0],
                queue_waits: &self.slice(self.offsets.queue_waits, 1)[0],
                single_worker: &self.slice(self.offsets.single_worker, 1)[0],
            }
        }
    }

    /// So many bits at `offset`, which is one of those of [`Offsets`] for that many.
    fn bitmap(&self, offset: usize, count: usize) -> Bitmap<'_> {
        // SAFETY: as in `slot_states`: a line for each 64 bits.
        let words = unsafe { self.slice(offset, count.div_ceil(64)) };
        Bitmap { words }
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
        assert!(made.coordination().publish(&mut tail, 11, 7));
        assert_eq!(opened.slot_states().get(11).sequence, 7);
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
