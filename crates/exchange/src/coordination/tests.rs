//! What a claim goes by, in memory that only this test has.

use super::thread_states::{LOOKING, PARKED, WOKEN};
use super::{Coordination, Found};
use crate::region::{Geometry, Region};
use crate::sync::Ordering;

/// A thread of another worker, on another word of bits.
const IDLE: u16 = 100;

fn set(coordination: &Coordination<'_>, thread: u16, word: u32) {
    coordination.availability.threads.set(thread, word);
}

fn word(coordination: &Coordination<'_>, thread: u16) -> u32 {
    let threads = coordination.availability.threads;
    threads.words[usize::from(thread)].load(Ordering::SeqCst)
}

#[test]
fn a_claim_goes_by_bits_and_not_by_the_words_of_all_threads() {
    let region = Region::create(Geometry::new(64, 3, 4096, 4096)).unwrap();
    let coordination = region.coordination();
    let available = coordination.availability;
    // A reader that counted these words would think that all are on their way.
    for thread in 0..available.threads.words.len() as u16 {
        set(&coordination, thread, LOOKING);
    }
    let mut tail = 0;
    for slot in 0..2 {
        assert!(coordination.publish(&mut tail, slot, 1));
    }
    set(&coordination, IDLE, PARKED);
    for bits in [available.idle, available.free] {
        bits.set(usize::from(IDLE));
    }
    assert!(matches!(coordination.find(0, true), Found::Claim(_)));
    assert_eq!(word(&coordination, IDLE), WOKEN);
}

#[test]
fn a_worker_that_works_between_requests_is_not_counted_on() {
    let region = Region::create(Geometry::new(64, 3, 4096, 4096)).unwrap();
    let coordination = region.coordination();
    let available = coordination.availability;
    for thread in [IDLE, 3, 4, 5] {
        set(&coordination, thread, PARKED);
        available.free.set(usize::from(thread));
    }
    // Worker 1 has the turn: its threads sleep, and are not woken.
    coordination.out_of_band.turn.store(2, Ordering::SeqCst);
    let mut tail = 0;
    for slot in 0..2 {
        assert!(coordination.publish(&mut tail, slot, 1));
    }
    available.idle.set(usize::from(IDLE));
    assert!(matches!(coordination.find(0, false), Found::Claim(_)));
    assert_eq!(word(&coordination, IDLE), WOKEN);
}

#[test]
fn a_request_is_left_to_as_many_idle_processes_as_requests_wait() {
    let region = Region::create(Geometry::new(64, 3, 4096, 4096)).unwrap();
    let coordination = region.coordination();
    let available = coordination.availability;
    let mut tail = 0;
    assert!(coordination.publish(&mut tail, 0, 1));
    // The process that ends in the next word of bits idles: its threads are 63, 64 and 65.
    available.free.words[0].store(1 << 63, Ordering::SeqCst);
    available.free.words[1].store(0b11, Ordering::SeqCst);
    assert_eq!(coordination.find(0, true), Found::Yield);
    assert!(coordination.publish(&mut tail, 1, 1));
    assert!(matches!(coordination.find(0, true), Found::Claim(_)));
}
