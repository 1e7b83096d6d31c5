//! Sound workers in every state are found sound, and each word that is garbled is found.

use std::sync::Arc;

use super::*;
use crate::region::{Geometry, Region};
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

/// A front with one slot that is claimed, one that is ready, and one that is done; and the seat that claimed.
fn busy() -> (Front, WorkerThread) {
    let mut front = front();
    let seat = worker(&front, 0).thread(0);
    publish(&mut front);
    let mut done = seat.claim().unwrap();
    seat.try_frame(&mut done, Kind::End, &[]).unwrap();
    seat.finish(&done);
    publish(&mut front);
    seat.claim().unwrap();
    publish(&mut front);
    (front, seat)
}

#[test]
fn sound_workers_are_found_sound_whatever_they_do() {
    let (mut front, seat) = busy();
    assert_eq!(front.inspect(), None);
    front.tell_queue(true);
    front.abandon(1);
    let mut frame = Vec::new();
    assert_eq!(front.frame(0, &mut frame), Ok(Some(Kind::End)));
    front.release(0);
    assert!(front.retract(2));
    front.release(2);
    assert_eq!(front.inspect(), None);
    publish(&mut front);
    assert_eq!(front.inspect(), None);
    seat.claim().unwrap();
    seat.leave();
    front.stop(0);
    assert_eq!(front.inspect(), None);
    front.reclaim_worker(0);
    assert_eq!(front.inspect(), None);
    front.release(1);
    assert_eq!(front.inspect(), None);
}

#[test]
fn each_garbled_word_is_found_and_named() {
    type Garble = fn(&Front);
    let seat_count = 6;
    let cases: Vec<(Word, Garble)> = vec![
        (Word::Header, |front| {
            let file = front.files().0;
            rustix::io::pwrite(file, &[0; 8], 8).unwrap();
        }),
        (Word::Tail, |front| front.board_tail(1 << 63)),
        (Word::Tail, |front| front.board_tail(0)),
        (Word::Head, |front| front.board_head(1 << 40)),
        (Word::Head, |front| front.board_head(u64::MAX)),
        // Past the entry of the request that is ready, which nobody has claimed.
        (Word::Entry, |front| front.board_head(3)),
        (Word::State, |front| front.set_state(0, u64::MAX)),
        (Word::State, |front| front.set_state(1, 0)),
        (Word::State, |front| front.set_state(2, 7 | 1 << 32)),
        (Word::State, |front| {
            front.set_state(2, 2 | 6 << 16 | 1 << 32)
        }),
        (Word::State, |front| front.set_state(2, 2 | 2 << 32)),
        // One that the front holds.
        (Word::State, |front| front.set_state(3, 3)),
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
            front.region.board().seats[5].store(77, Ordering::SeqCst)
        }),
        (Word::Idle, |front| {
            front.region.board().idle[0].store(1 << 6, Ordering::SeqCst)
        }),
        (Word::Stop, |front| {
            front.region.board().stops[2].store(2, Ordering::SeqCst)
        }),
        (Word::OutOfBand, |front| {
            front.region.board().out_of_band.store(4, Ordering::SeqCst)
        }),
        (Word::Queued, |front| {
            front.region.board().queued.store(1, Ordering::SeqCst)
        }),
    ];
    for (number, (word, garble)) in cases.into_iter().enumerate() {
        let (mut front, _seat) = busy();
        assert_eq!(front.region.board().seats.len(), seat_count);
        garble(&front);
        let found = front.inspect().map(|found| found.word);
        assert_eq!(found, Some(word), "case {number}");
    }
}

#[test]
fn a_state_that_goes_back_or_changes_its_holder_is_found() {
    for garbled in [1 | 1 << 32, 2 | 1 << 16 | 1 << 32] {
        let (mut front, _seat) = busy();
        assert_eq!(front.inspect(), None);
        front.set_state(1, garbled);
        assert_eq!(front.inspect().map(|found| found.word), Some(Word::State));
    }
}

#[test]
fn the_first_finding_is_kept_and_a_fresh_region_continues() {
    let (mut front, _seat) = busy();
    front.board_tail(0);
    let found = front.inspect();
    front.set_state(0, u64::MAX);
    assert_eq!(front.inspect(), found);
    let slot = front.acquire().unwrap();
    assert!(!front.publish(slot, 1));
    let mut fresh = front.recreate().unwrap();
    assert_eq!(fresh.inspect(), None);
    let slot = publish(&mut fresh);
    assert_eq!(fresh.sequence(slot), front.sequence(slot) + 1);
}

#[test]
fn a_loop_of_a_worker_ends_whatever_head_and_tail_are() {
    let (front, seat) = busy();
    front.board_tail(1 << 63);
    for _ in 0..3 {
        seat.claim();
    }
    front.reclaim_worker(1);
    seat.end_out_of_band();
    front.board_head(u64::MAX);
    assert!(seat.claim().is_none());
}

impl Front {
    fn board_tail(&self, value: u64) {
        self.region.board().tail.store(value, Ordering::SeqCst);
    }

    fn board_head(&self, value: u64) {
        self.region.board().head.store(value, Ordering::SeqCst);
    }

    fn set_state(&self, slot: u16, word: u64) {
        self.region.board().states[usize::from(slot)].store(word, Ordering::SeqCst);
    }
}
