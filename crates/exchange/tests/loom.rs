//! Every interleaving of claim, publish, doorbell and a worker's death, under loom.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p highball-exchange --release --test loom`.
#![cfg(loom)]

use highball_exchange::coordination::{Coordination, Found, PHASE_CLAIMED, PHASE_FRONT};
use highball_exchange::loom_memory::Memory;
use highball_exchange::room::{self, Room};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;

/// A model with a bound on preemptions: complete within it, and done in seconds.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 2_000;
    builder.check(check);
}

/// The slots that have news, a bit for each.
fn news(coordination: &Coordination<'_>) -> u64 {
    let mut slots = 0;
    coordination.completions.take(|slot| slots |= 1 << slot);
    slots
}

/// What a worker thread does: find, wait, until it has handled `count` requests in all with the others.
fn work(coordination: &Coordination<'_>, index: u16, left: &AtomicU32, bell: &Notify) {
    let interrupted = AtomicU32::new(0);
    let mut left_request = None;
    while left.load(Ordering::SeqCst) > 0 {
        match coordination.find(index, left_request) {
            Found::Claim(claim) => {
                left_request = None;
                coordination.slots.finish(claim, index);
                if coordination.completions.notify(claim.slot) {
                    bell.notify();
                }
                if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    // The last request: let the others go home.
                    for worker in 0..coordination.availability.threads.stops.len() as u16 {
                        coordination.availability.threads.stop_worker(worker);
                    }
                }
            }
            found => {
                left_request = match found {
                    Found::Yield(request) => Some(request),
                    _ => None,
                };
                coordination.wait(index, left_request.and(Some(0)), &interrupted);
            }
        }
    }
}

/// Starts a thread that does so.
fn start(
    memory: &Arc<Memory>,
    index: u16,
    left: &Arc<AtomicU32>,
    bell: &Arc<Notify>,
) -> thread::JoinHandle<()> {
    let (memory, left, bell) = (memory.clone(), left.clone(), bell.clone());
    thread::spawn(move || work(&memory.coordination(), index, &left, &bell))
}

#[test]
fn every_published_request_is_claimed_by_exactly_one_of_two_threads() {
    model(|| {
        let memory = Arc::new(Memory::new(2, 1, 2));
        let left = Arc::new(AtomicU32::new(2));
        let bell = Arc::new(Notify::new());
        let workers: Vec<_> = (0..2)
            .map(|index| start(&memory, index, &left, &bell))
            .collect();
        let coordination = memory.coordination();
        let mut tail = 0;
        assert!(coordination.publish(&mut tail, 0, 1));
        assert!(coordination.publish(&mut tail, 1, 1));
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(news(&coordination), 0b11);
    });
}

#[test]
fn a_front_that_parks_is_rung_for_every_completion() {
    model(|| {
        let memory = Arc::new(Memory::new(1, 1, 2));
        let left = Arc::new(AtomicU32::new(2));
        let bell = Arc::new(Notify::new());
        let worker = start(&memory, 0, &left, &bell);
        let coordination = memory.coordination();
        let mut tail = 0;
        assert!(coordination.publish(&mut tail, 0, 1));
        assert!(coordination.publish(&mut tail, 1, 1));
        let mut seen = 0_u64;
        while seen != 0b11 {
            seen |= news(&coordination);
            if seen != 0b11 && coordination.completions.park() {
                bell.wait();
                coordination.completions.unpark();
            }
        }
        worker.join().unwrap();
    });
}

#[test]
fn a_request_is_either_claimed_or_retracted() {
    model(|| {
        let memory = Arc::new(Memory::new(1, 1, 1));
        let coordination = memory.coordination();
        let mut tail = 0;
        assert!(coordination.publish(&mut tail, 0, 1));
        let worker = {
            let memory = memory.clone();
            thread::spawn(move || matches!(memory.coordination().find(0, None), Found::Claim(_)))
        };
        let retracted = coordination.slots.retract(0, 1);
        assert_ne!(worker.join().unwrap(), retracted);
    });
}

#[test]
fn a_death_during_a_claim_leaves_the_request_claimed_or_ready() {
    model(|| {
        let memory = Arc::new(Memory::new(2, 1, 2));
        let coordination = memory.coordination();
        let mut tail = 0;
        assert!(coordination.publish(&mut tail, 0, 1));
        // Worker 0 claims and dies there; worker 1 looks on its own.
        let dying = {
            let memory = memory.clone();
            thread::spawn(move || {
                let _ = memory.coordination().find(0, None);
            })
        };
        let left = Arc::new(AtomicU32::new(1));
        let bell = Arc::new(Notify::new());
        let other = start(&memory, 1, &left, &bell);
        dying.join().unwrap();
        coordination.reclaim_worker(0);
        let state = coordination.slots.get(0);
        if state.phase == PHASE_CLAIMED && state.thread == 0 {
            coordination.slots.take_back(0, 1);
            assert_eq!(coordination.slots.get(0).phase, PHASE_FRONT);
            assert!(coordination.publish(&mut tail, 0, 2));
        }
        other.join().unwrap();
        assert_eq!(news(&coordination), 1);
    });
}

#[test]
fn a_worker_that_leaves_leaves_its_requests_to_another() {
    model(|| {
        let memory = Arc::new(Memory::new(2, 1, 2));
        let left = Arc::new(AtomicU32::new(2));
        let bell = Arc::new(Notify::new());
        let leaving = {
            let (memory, left, bell) = (memory.clone(), left.clone(), bell.clone());
            thread::spawn(move || {
                let (coordination, interrupted) = (memory.coordination(), AtomicU32::new(0));
                loop {
                    if let Found::Claim(claim) = coordination.find(0, None) {
                        coordination.slots.finish(claim, 0);
                        if coordination.completions.notify(claim.slot) {
                            bell.notify();
                        }
                        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                            coordination.availability.threads.stop_worker(1);
                        }
                    } else if coordination.availability.threads.stops[0].load(Ordering::SeqCst) != 0
                    {
                        return coordination.leave(0);
                    } else {
                        coordination.wait(0, None, &interrupted);
                    }
                }
            })
        };
        let stays = start(&memory, 1, &left, &bell);
        let coordination = memory.coordination();
        let mut tail = 0;
        assert!(coordination.publish(&mut tail, 0, 1));
        coordination.availability.threads.stop_worker(0);
        assert!(coordination.publish(&mut tail, 1, 1));
        leaving.join().unwrap();
        stays.join().unwrap();
        assert_eq!(news(&coordination), 0b11);
    });
}

#[test]
fn a_request_that_comes_while_a_worker_works_between_requests_is_claimed() {
    model(|| {
        // One worker: its first thread works between requests, its second one waits for some.
        let memory = Arc::new(Memory::new(1, 2, 1));
        let left = Arc::new(AtomicU32::new(1));
        let bell = Arc::new(Notify::new());
        let works = {
            let (memory, left, bell) = (memory.clone(), left.clone(), bell.clone());
            thread::spawn(move || {
                let coordination = memory.coordination();
                if coordination.begin_out_of_band(0, Some(0)) {
                    coordination.end_out_of_band(0);
                }
                work(&coordination, 0, &left, &bell);
            })
        };
        let waits = start(&memory, 1, &left, &bell);
        let coordination = memory.coordination();
        let mut tail = 0;
        assert!(coordination.publish(&mut tail, 0, 1));
        works.join().unwrap();
        waits.join().unwrap();
        assert_eq!(news(&coordination), 1);
        assert_eq!(coordination.out_of_band.turn.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_request_that_comes_while_an_idle_worker_takes_the_turn_is_claimed() {
    model(|| {
        // One worker: its only thread waits for requests, another one of its process takes the turn.
        let memory = Arc::new(Memory::new(1, 1, 1));
        let left = Arc::new(AtomicU32::new(1));
        let bell = Arc::new(Notify::new());
        let waits = start(&memory, 0, &left, &bell);
        let idle = {
            let memory = memory.clone();
            thread::spawn(move || {
                let coordination = memory.coordination();
                coordination.out_of_band.set_single_worker(true);
                if coordination.begin_out_of_band(0, None) {
                    coordination.end_out_of_band(0);
                }
            })
        };
        let coordination = memory.coordination();
        let mut tail = 0;
        assert!(coordination.publish(&mut tail, 0, 1));
        waits.join().unwrap();
        idle.join().unwrap();
        assert_eq!(news(&coordination), 1);
        assert_eq!(coordination.out_of_band.turn.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn the_turn_to_work_between_requests_is_one_worker_s_at_most() {
    model(|| {
        let memory = Arc::new(Memory::new(2, 1, 1));
        let turns = Arc::new(AtomicU32::new(0));
        let workers: Vec<_> = (0..2)
            .map(|index| {
                let (memory, turns) = (memory.clone(), turns.clone());
                thread::spawn(move || {
                    let coordination = memory.coordination();
                    if coordination.begin_out_of_band(index, Some(index)) {
                        assert_eq!(turns.fetch_add(1, Ordering::SeqCst), 0);
                        turns.fetch_sub(1, Ordering::SeqCst);
                        coordination.end_out_of_band(index);
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(
            memory
                .coordination()
                .out_of_band
                .turn
                .load(Ordering::SeqCst),
            0
        );
    });
}

#[test]
fn a_request_that_is_published_while_a_busy_process_looks_is_left_to_an_idle_one() {
    model(|| {
        // Worker 0 runs a request; its second thread, which is this one, was woken for another that is gone. Worker 1 has
        // none.
        let memory = Arc::new(Memory::new(2, 2, 2));
        let coordination = memory.coordination();
        coordination.availability.free.words[0].store(0b1110, Ordering::SeqCst);
        let front = {
            let memory = memory.clone();
            thread::spawn(move || assert!(memory.coordination().publish(&mut 0, 0, 1)))
        };
        assert!(!matches!(coordination.find(1, None), Found::Claim(_)));
        front.join().unwrap();
    });
}

#[test]
fn a_thread_that_yields_leaves_the_request_to_an_idle_process_or_takes_it() {
    model(|| {
        // Worker 0 has two threads; its second one runs a request all the time. Worker 1 has none; its second thread,
        // which is this one, is on its way.
        let memory = Arc::new(Memory::new(2, 2, 2));
        let left = Arc::new(AtomicU32::new(1));
        let bell = Arc::new(Notify::new());
        let coordination = memory.coordination();
        coordination.availability.threads.words[3].store(2, Ordering::SeqCst);
        coordination.availability.free.words[0].store(1 << 3, Ordering::SeqCst);
        let workers: Vec<_> = [0, 2]
            .into_iter()
            .map(|index| start(&memory, index, &left, &bell))
            .collect();
        let mut tail = 0;
        assert!(coordination.publish(&mut tail, 0, 1));
        work(&coordination, 3, &left, &bell);
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(news(&coordination), 1);
    });
}

#[test]
fn every_request_is_claimed_where_one_of_two_threads_is_to_rest() {
    model(|| {
        let memory = Arc::new(Memory::new(1, 2, 2));
        let left = Arc::new(AtomicU32::new(2));
        let bell = Arc::new(Notify::new());
        let coordination = memory.coordination();
        coordination.set_resting(1);
        let workers: Vec<_> = (0..2)
            .map(|index| start(&memory, index, &left, &bell))
            .collect();
        let mut tail = 0;
        assert!(coordination.publish(&mut tail, 0, 1));
        assert!(coordination.publish(&mut tail, 1, 1));
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(news(&coordination), 0b11);
    });
}

#[test]
fn a_thread_that_rests_is_woken_when_it_is_to_rest_no_more() {
    model(|| {
        // The first thread runs a request all the time: only the second one, which is this one, can take the other.
        let memory = Arc::new(Memory::new(1, 2, 1));
        let left = Arc::new(AtomicU32::new(1));
        let bell = Arc::new(Notify::new());
        let coordination = memory.coordination();
        coordination.set_resting(1);
        assert!(coordination.publish(&mut 0, 0, 1));
        let waits = {
            let memory = memory.clone();
            thread::spawn(move || memory.coordination().begin_io(0))
        };
        work(&coordination, 1, &left, &bell);
        waits.join().unwrap();
        assert_eq!(news(&coordination), 1);
    });
}

#[test]
fn all_writers_that_wait_for_room_in_one_response_are_woken() {
    model(|| {
        // Two threads of one process write one unit each into a full ring of two, under their process's lock.
        let words = Arc::new(room::Memory::new());
        let put = Arc::new(Mutex::new(2_u64));
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let (words, put) = (words.clone(), put.clone());
                thread::spawn(move || {
                    let interrupted = AtomicU32::new(0);
                    loop {
                        let mut put = put.lock().unwrap();
                        let room: Room<'_> = words.room();
                        if *put - room.taken.load(Ordering::SeqCst) < 2 {
                            *put += 1;
                            return;
                        }
                        let seen = *put;
                        drop(put);
                        room.wait(seen, 2, &interrupted, || true);
                    }
                })
            })
            .collect();
        words.room().took(2);
        for writer in writers {
            writer.join().unwrap();
        }
    });
}

#[test]
fn a_writer_that_begins_to_wait_while_its_response_ends_does_not_sleep() {
    model(|| {
        // One unit is in the ring of one, and the thread that ends the response finds no reader for it.
        let words = Arc::new(room::Memory::new());
        let ended = Arc::new(AtomicU32::new(0));
        let waiting = {
            let (words, ended) = (words.clone(), ended.clone());
            thread::spawn(move || {
                let interrupted = AtomicU32::new(0);
                while ended.load(Ordering::SeqCst) == 0 {
                    let holds_claim = || ended.load(Ordering::SeqCst) == 0;
                    words.room().wait(1, 1, &interrupted, holds_claim);
                }
            })
        };
        ended.store(1, Ordering::SeqCst);
        words.room().wake_wanting();
        waiting.join().unwrap();
    });
}
