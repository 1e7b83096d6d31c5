//! What a claim goes by, in memory that only this test has.

use super::{Board, Found, LOOKING, PARKED, WOKEN};
use crate::region::{Geometry, Region};
use crate::sync::Ordering;

/// A seat of another worker, on another word of bits.
const IDLE: u16 = 100;

fn set(board: &Board<'_>, seat: u16, word: u32) {
    board.seats[usize::from(seat)].store(word, Ordering::SeqCst);
}

#[test]
fn a_claim_goes_by_bits_and_not_by_the_words_of_all_threads() {
    let region = Region::create(Geometry::new(64, 3, 4096, 4096)).unwrap();
    let board = region.board();
    // A reader that counted these words would think that all are on their way.
    for seat in 0..board.seats.len() as u16 {
        set(&board, seat, LOOKING);
    }
    let mut tail = 0;
    for slot in 0..2 {
        assert!(board.publish(&mut tail, slot, 1));
    }
    set(&board, IDLE, PARKED);
    for bits in [board.idle, board.free] {
        bits[usize::from(IDLE) / 64].fetch_or(1 << (IDLE % 64), Ordering::SeqCst);
    }
    assert!(matches!(board.find(0, true), Found::Claim(_)));
    let woken = board.seats[usize::from(IDLE)].load(Ordering::SeqCst);
    assert_eq!(woken, WOKEN);
}

#[test]
fn a_worker_that_works_between_requests_is_not_counted_on() {
    let region = Region::create(Geometry::new(64, 3, 4096, 4096)).unwrap();
    let board = region.board();
    for seat in [IDLE, 3, 4, 5] {
        set(&board, seat, PARKED);
        board.free[usize::from(seat) / 64].fetch_or(1 << (seat % 64), Ordering::SeqCst);
    }
    // Worker 1 has the turn: its threads sleep, and nobody wakes them.
    board.out_of_band.store(2, Ordering::SeqCst);
    let mut tail = 0;
    for slot in 0..2 {
        assert!(board.publish(&mut tail, slot, 1));
    }
    board.idle[usize::from(IDLE) / 64].fetch_or(1 << (IDLE % 64), Ordering::SeqCst);
    assert!(matches!(board.find(0, false), Found::Claim(_)));
    let woken = board.seats[usize::from(IDLE)].load(Ordering::SeqCst);
    assert_eq!(woken, WOKEN);
}

#[test]
fn a_request_is_left_to_as_many_idle_processes_as_requests_wait() {
    let region = Region::create(Geometry::new(64, 3, 4096, 4096)).unwrap();
    let board = region.board();
    let mut tail = 0;
    assert!(board.publish(&mut tail, 0, 1));
    // The process that ends in the next word of bits idles: its threads are 63, 64 and 65.
    board.free[0].store(1 << 63, Ordering::SeqCst);
    board.free[1].store(0b11, Ordering::SeqCst);
    assert_eq!(board.find(0, true), Found::Yield);
    assert!(board.publish(&mut tail, 1, 1));
    assert!(matches!(board.find(0, true), Found::Claim(_)));
}
