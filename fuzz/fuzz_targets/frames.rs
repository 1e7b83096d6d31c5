//! Frames of a response, in a region over which a hostile worker writes: reading them ends, gives no more than the ring
//! holds, and never panics.

#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;

use exchange::response::{Head, Kind};
use exchange::worker::Worker;
use exchange::{Front, Geometry, Region};
use libfuzzer_sys::fuzz_target;

const RING: usize = 4096;
const KINDS: [Kind; 10] = [
    Kind::Head,
    Kind::Hints,
    Kind::Chunk,
    Kind::File,
    Kind::End,
    Kind::Error,
    Kind::Abort,
    Kind::Hijacked,
    Kind::Exception,
    Kind::Counts,
];

/// Takes what is there, as the front does.
fn read(front: &mut Front, slot: u16) {
    let mut count = 0;
    let mut total = 0;
    loop {
        let mut payload = Vec::new();
        let Ok(Some(kind)) = front.frame(slot, &mut payload) else {
            return;
        };
        if matches!(kind, Kind::Head | Kind::Hints) {
            let _ = Head::parse(&payload, |name, value| {
                assert!(name.end <= value.start && value.end <= payload.len());
            });
        }
        count += 1;
        total += payload.len();
        // Nobody writes meanwhile.
        assert!(
            count <= RING / 8 && total <= RING,
            "{count} frames of {total} bytes"
        );
    }
}

fuzz_target!(|data: &[u8]| {
    let mut front = Front::new(Geometry::new(1, 1, RING as u32, RING as u32)).expect("memory");
    let (memory, bell) = front.files();
    let memory = memory.try_clone_to_owned().expect("a descriptor");
    let bell = bell.try_clone_to_owned().expect("a descriptor");
    let region = Region::open(memory.try_clone().expect("a descriptor")).expect("a region");
    let memory = File::from(memory);
    let length = memory.metadata().expect("a file").len();
    let worker = Worker::new(region, bell, 0).expect("a place");
    let thread = worker.thread(0);
    front.coordination().availability.threads.clear_stop(0);
    let slot = front.acquire().expect("a free slot");
    assert!(front.publish(slot, 0));
    let mut job = thread.claim().expect("the request");

    // The last byte says how many frames a sound worker writes first.
    let (mut rest, frames) = match data.split_last() {
        Some((&frames, rest)) => (rest, usize::from(frames % 8)),
        None => return,
    };
    let mut take = |count: usize| {
        let (taken, left) = rest.split_at(count.min(rest.len()));
        rest = left;
        taken
    };
    for _ in 0..frames {
        let &[kind, size] = take(2) else { break };
        let payload = take(usize::from(size));
        let _ = thread.try_frame(&mut job, KINDS[usize::from(kind % 8)], &[payload]);
    }
    thread.flush(&job);
    // From here on it writes anywhere; only the size of the memory is sealed.
    while let &[high, middle, low, size] = take(4) {
        let at = u64::from(u32::from_be_bytes([0, high, middle, low])) % length;
        let bytes = take(usize::from(size % 64));
        let room = bytes.len().min((length - at) as usize);
        memory.write_all_at(&bytes[..room], at).expect("room");
        if size >= 128 {
            read(&mut front, slot);
        }
    }
    read(&mut front, slot);
});
