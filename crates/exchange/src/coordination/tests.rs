//! What a claim goes by, in memory that only this test has.

use std::cell::Cell;
use std::os::fd::AsFd;

use super::thread_states::{LOOKING, PARKED, WOKEN};
use super::{Coordination, Found, YIELD_TIMEOUT_NS};
use crate::doorbell::Doorbell;
use crate::region::{Geometry, Region};
use crate::scheduling::monotonic_ns;
use crate::sync::{AtomicU32, Ordering};
use crate::worker::{Interrupt, Worker};

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
    assert!(matches!(coordination.find(0, None), Found::Claim(_)));
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
    assert!(matches!(coordination.find(0, Some(0)), Found::Claim(_)));
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
    assert_eq!(coordination.find(0, None), Found::Yield(0));
    assert!(coordination.publish(&mut tail, 1, 1));
    assert!(matches!(coordination.find(0, None), Found::Claim(_)));
}

#[test]
fn a_request_that_an_idle_process_claims_meanwhile_is_not_counted() {
    let region = Region::create(Geometry::new(64, 3, 4096, 4096)).unwrap();
    let available = region.coordination().availability;
    // Of worker 0 the first thread has a request. Workers 1 and 2 are idle, and two requests wait.
    available.free.words[0].store(0b1_1111_1110, Ordering::SeqCst);
    let asked = Cell::new(0);
    let waiting = || {
        asked.set(asked.get() + 1);
        // The processes are counted; now worker 1 claims one of them.
        available.free.clear(3);
        1
    };
    assert!(available.should_yield(1, waiting));
    assert_eq!(asked.get(), 1);
}

#[test]
fn a_thread_leaves_each_request_to_others_until_its_time_is_over() {
    let region = Region::create(Geometry::new(64, 3, 4096, 4096)).unwrap();
    let coordination = region.coordination();
    let same = Region::open(region.file().try_clone_to_owned().unwrap()).unwrap();
    let bell = Doorbell::new()
        .unwrap()
        .as_fd()
        .try_clone_to_owned()
        .unwrap();
    let thread = Worker::new(same, bell, 0).unwrap().thread(1);
    // Of worker 0 the first thread has a request; worker 1 is idle.
    coordination.availability.free.words[0].store(0b11_1110, Ordering::SeqCst);
    let mut tail = 0;
    assert!(coordination.publish(&mut tail, 0, 1));
    let start = monotonic_ns();
    assert!(thread.claim().is_none());
    // It is woken before its time, and looks again.
    if thread.claim().is_some() {
        assert!(monotonic_ns() - start >= YIELD_TIMEOUT_NS);
        return;
    }
    // Worker 1 takes the request. What was left of the time for it is not held against the next one.
    assert!(matches!(coordination.find(3, None), Found::Claim(_)));
    coordination.availability.set_free(3);
    assert!(coordination.publish(&mut tail, 1, 1));
    while monotonic_ns() - start < 2 * YIELD_TIMEOUT_NS {
        thread.wait(&Interrupt::default());
    }
    let start = monotonic_ns();
    assert!(thread.claim().is_none());
    // Nobody comes.
    while thread.claim().is_none() {
        thread.wait(&Interrupt::default());
    }
    assert!(monotonic_ns() - start >= YIELD_TIMEOUT_NS);
}

#[test]
fn a_thread_that_yields_wakes_an_idle_process_and_no_busy_one() {
    let region = Region::create(Geometry::new(64, 3, 4096, 4096)).unwrap();
    let coordination = region.coordination();
    let available = coordination.availability;
    // Worker 0 has a request. Worker 1 has none, and its first thread is on its way.
    for thread in [1, 2, 4, 5] {
        set(&coordination, thread, PARKED);
        available.idle.set(usize::from(thread));
    }
    let awake = AtomicU32::new(1);
    coordination.wait(6, Some(0), &awake);
    for thread in [1, 2, 4, 5] {
        assert_eq!(word(&coordination, thread), PARKED, "thread {thread}");
    }
    set(&coordination, 3, PARKED);
    available.idle.set(3);
    coordination.wait(6, Some(0), &awake);
    assert_eq!(word(&coordination, 3), WOKEN);
    assert_eq!(word(&coordination, 1), PARKED);
}

/// A worker of so many threads, all of which are parked and can be woken, and another that is not there.
fn parked(region: &Region) -> Coordination<'_> {
    let coordination = region.coordination();
    for thread in 0..region.geometry().threads {
        set(&coordination, thread, PARKED);
        for bits in [
            coordination.availability.idle,
            coordination.availability.free,
        ] {
            bits.set(usize::from(thread));
        }
    }
    coordination
}

#[test]
fn no_more_threads_than_the_active_ones_claim_or_are_woken() {
    let region = Region::create(Geometry::new(1, 4, 4096, 4096)).unwrap();
    let coordination = parked(&region);
    coordination.set_resting(2);
    let mut tail = 0;
    for slot in 0..3 {
        assert!(coordination.publish(&mut tail, slot, 1));
    }
    let woken = |coordination: &Coordination<'_>| {
        (0..4)
            .filter(|&thread| word(coordination, thread) == WOKEN)
            .count()
    };
    assert_eq!(woken(&coordination), 2);
    assert!(matches!(coordination.find(0, None), Found::Claim(_)));
    assert!(matches!(coordination.find(1, None), Found::Claim(_)));
    assert_eq!(coordination.find(2, None), Found::Nothing);
    // One that comes to its end takes the next one.
    assert!(matches!(coordination.find(0, None), Found::Claim(_)));
}

#[test]
fn a_request_that_waits_has_one_more_thread_woken_until_it_ends() {
    let region = Region::create(Geometry::new(1, 3, 4096, 4096)).unwrap();
    let coordination = parked(&region);
    coordination.set_resting(2);
    let mut tail = 0;
    for slot in 0..3 {
        assert!(coordination.publish(&mut tail, slot, 1));
    }
    assert!(matches!(coordination.find(0, None), Found::Claim(_)));
    assert_eq!(word(&coordination, 1), PARKED);
    coordination.begin_io(0);
    assert_eq!(word(&coordination, 1), WOKEN);
    assert!(matches!(coordination.find(1, None), Found::Claim(_)));
    assert_eq!(coordination.find(2, None), Found::Nothing);
    coordination.end_io(0);
    assert_eq!(coordination.find(0, None), Found::Nothing);
    assert!(matches!(coordination.find(1, None), Found::Claim(_)));
}

#[test]
fn threads_that_rest_no_more_are_woken_for_what_waits() {
    let region = Region::create(Geometry::new(1, 3, 4096, 4096)).unwrap();
    let coordination = parked(&region);
    coordination.set_resting(2);
    let mut tail = 0;
    for slot in 0..3 {
        assert!(coordination.publish(&mut tail, slot, 1));
    }
    assert!(matches!(coordination.find(0, None), Found::Claim(_)));
    coordination.set_resting(0);
    assert_eq!([word(&coordination, 1), word(&coordination, 2)], [WOKEN; 2]);
}

#[test]
fn whatever_workers_write_one_thread_takes_requests() {
    let region = Region::create(Geometry::new(1, 3, 4096, 4096)).unwrap();
    let coordination = parked(&region);
    let threads = coordination.availability.threads;
    for (resting, waiting) in [(u32::MAX, 0), (2, u32::MAX), (u32::MAX, u32::MAX)] {
        threads.resting.store(resting, Ordering::SeqCst);
        threads.io_bound[0].store(waiting, Ordering::SeqCst);
        assert!(coordination.availability.may_take(0), "{resting} {waiting}");
    }
}

#[test]
fn an_idle_worker_takes_the_turn_only_while_all_its_threads_are_parked() {
    let region = Region::create(Geometry::new(64, 3, 4096, 4096)).unwrap();
    let coordination = region.coordination();
    let idle = coordination.availability.idle;
    for thread in [0, 1, 2, IDLE] {
        set(&coordination, thread, PARKED);
        idle.set(thread.into());
    }
    set(&coordination, 1, LOOKING);
    assert!(!coordination.begin_out_of_band(0, None));
    assert!(coordination.begin_out_of_band(0, Some(1)));
    coordination.end_out_of_band(0);
    set(&coordination, 1, PARKED);
    assert!(coordination.begin_out_of_band(0, None));
    assert!(!idle.contains(0), "a request would wake it");
    coordination.end_out_of_band(0);
    assert!(idle.contains(0));
}
