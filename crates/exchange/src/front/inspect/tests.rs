//! Sound workers in every state are found sound, and each word that is garbled is found.

use std::sync::Arc;

use super::*;
use crate::front::Front;
use crate::region::Geometry;
use crate::response::Kind;
use crate::worker::{Worker, WorkerThread};

/// A front with two workers of two threads each, and what workers need of it.
fn front() -> Front {
    Front::new(Geometry::new(2, 2, 4096, 4096)).unwrap()
}

fn worker(front: &Front, index: u16) -> Arc<Worker> {
    let (memory, bell) = front.files();
    let region = Region::open(memory.try_clone_to_owned().unwrap()).unwrap();
    Worker::new(region, bell.try_clone_to_owned().unwrap(), index).unwrap()
}

fn publish(front: &mut Front) -> u16 {
    let slot = front.acquire().unwrap();
    assert!(front.publish(slot, 100));
    slot
}

/// A front with one slot that is claimed, one that is ready, and one that is done; and the thread that claimed.
fn busy() -> (Front, WorkerThread) {
    let mut front = front();
    let thread = worker(&front, 0).thread(0);
    publish(&mut front);
    let mut done = thread.claim().unwrap();
    thread.try_frame(&mut done, Kind::End, &[]).unwrap();
    thread.finish(&done);
    publish(&mut front);
    thread.claim().unwrap();
    publish(&mut front);
    (front, thread)
}

#[test]
fn sound_workers_are_found_sound_whatever_they_do() {
    let (mut front, thread) = busy();
    assert_eq!(front.inspect(), None);
    front.set_queue_waits(true);
    front.abandon(1);
    let mut frame = Vec::new();
    assert_eq!(front.frame(0, &mut frame), Ok(Some(Kind::End)));
    front.release(0);
    assert!(front.retract(2));
    front.release(2);
    assert_eq!(front.inspect(), None);
    publish(&mut front);
    assert_eq!(front.inspect(), None);
    thread.claim().unwrap();
    front.set_active_threads(1);
    thread.begin_io();
    assert_eq!(front.inspect(), None);
    thread.end_io();
    front.set_active_threads(2);
    thread.leave();
    front.coordination().availability.threads.stop_worker(0);
    assert_eq!(front.inspect(), None);
    front.reclaim_worker(0);
    assert_eq!(front.inspect(), None);
    front.release(1);
    assert_eq!(front.inspect(), None);
}

#[test]
fn each_garbled_word_is_found_and_named() {
    type Garble = fn(&Front);
    let thread_count = 6;
    let cases: Vec<(Word, Garble)> = vec![
        (Word::Header, |front| {
            let file = front.files().0;
            rustix::io::pwrite(file, &[0; 8], 8).unwrap();
        }),
        (Word::Tail, |front| set_tail(front, 1 << 63)),
        (Word::Tail, |front| set_tail(front, 0)),
        (Word::Head, |front| set_head(front, 1 << 40)),
        (Word::Head, |front| set_head(front, u64::MAX)),
        // Past the entry of the request that is ready, which no thread has claimed.
        (Word::Entry, |front| set_head(front, 3)),
        (Word::State, |front| set_state(front, 0, u64::MAX)),
        (Word::State, |front| set_state(front, 1, 0)),
        (Word::State, |front| set_state(front, 2, 7 | 1 << 32)),
        (Word::State, |front| {
            set_state(front, 2, 2 | 6 << 16 | 1 << 32)
        }),
        (Word::State, |front| set_state(front, 2, 2 | 2 << 32)),
        // One that the front holds.
        (Word::State, |front| set_state(front, 3, 3)),
        (Word::Frame, |front| {
            front.region.words(1).put.store(8, Ordering::SeqCst);
        }),
        (Word::Taken, |front| {
            front.region.words(1).taken.store(8, Ordering::SeqCst)
        }),
        (Word::Length, |front| {
            front.region.words(1).request_len.store(8, Ordering::SeqCst)
        }),
        (Word::Abandoned, |front| {
            front.region.words(1).abandoned.store(1, Ordering::SeqCst)
        }),
        (Word::Thread, |front| {
            front.region.thread_states().words[5].store(77, Ordering::SeqCst)
        }),
        (Word::Idle, |front| {
            front.region.availability().idle.words[0].store(1 << 6, Ordering::SeqCst)
        }),
        (Word::Stop, |front| {
            front.region.thread_states().stops[2].store(2, Ordering::SeqCst)
        }),
        (Word::Resting, |front| {
            let threads = front.region.thread_states();
            threads.resting.store(1, Ordering::SeqCst);
        }),
        (Word::IoBound, |front| {
            let threads = front.region.thread_states();
            threads.io_bound[1].store(3, Ordering::SeqCst);
        }),
        (Word::OutOfBand, |front| {
            front.region.out_of_band().turn.store(4, Ordering::SeqCst)
        }),
        (Word::SingleWorker, |front| {
            front
                .region
                .out_of_band()
                .single_worker
                .store(2, Ordering::SeqCst)
        }),
        (Word::Queued, |front| {
            front
                .region
                .out_of_band()
                .queue_waits
                .store(1, Ordering::SeqCst)
        }),
    ];
    for (number, (word, garble)) in cases.into_iter().enumerate() {
        let (mut front, _thread) = busy();
        assert_eq!(front.region.thread_states().words.len(), thread_count);
        garble(&front);
        let found = front.inspect().map(|found| found.word);
        assert_eq!(found, Some(word), "case {number}");
    }
}

#[test]
fn a_state_that_goes_back_or_changes_its_holder_is_found() {
    for garbled in [1 | 1 << 32, 2 | 1 << 16 | 1 << 32] {
        let (mut front, _thread) = busy();
        assert_eq!(front.inspect(), None);
        set_state(&front, 1, garbled);
        assert_eq!(front.inspect().map(|found| found.word), Some(Word::State));
    }
}

#[test]
fn the_first_finding_is_kept_and_a_fresh_region_continues() {
    let (mut front, _thread) = busy();
    set_tail(&front, 0);
    let found = front.inspect();
    set_state(&front, 0, u64::MAX);
    assert_eq!(front.inspect(), found);
    let slot = front.acquire().unwrap();
    assert!(!front.publish(slot, 1));
    let mut fresh = front.recreate().unwrap();
    assert_eq!(fresh.inspect(), None);
    let slot = publish(&mut fresh);
    assert_eq!(
        fresh.publication(slot).sequence(),
        front.publication(slot).sequence() + 1
    );
}

#[test]
fn a_loop_of_a_worker_ends_whatever_head_and_tail_are() {
    let (front, thread) = busy();
    set_tail(&front, 1 << 63);
    for _ in 0..3 {
        thread.claim();
    }
    front.reclaim_worker(1);
    thread.end_out_of_band();
    set_head(&front, u64::MAX);
    assert!(thread.claim().is_none());
}

fn set_tail(front: &Front, value: u64) {
    front
        .region
        .ready_ring()
        .tail
        .store(value, Ordering::SeqCst);
}

fn set_head(front: &Front, value: u64) {
    front
        .region
        .ready_ring()
        .head
        .store(value, Ordering::SeqCst);
}

fn set_state(front: &Front, slot: u16, word: u64) {
    front.region.slot_states().words[usize::from(slot)].store(word, Ordering::SeqCst);
}
