//! The board's words in ordinary memory, for the model tests: loom's atomics can't lie in a mapped file.

use super::Board;
use crate::sync::{AtomicU32, AtomicU64, Futex, Line};

/// The board's words in ordinary memory, for the model tests.
pub struct Memory {
    threads: u16,
    states: Vec<Line<AtomicU64>>,
    ring: Vec<AtomicU64>,
    head: Line<AtomicU64>,
    tail: Line<AtomicU64>,
    seats: Vec<Line<Futex>>,
    idle: Vec<Line<AtomicU64>>,
    free: Vec<Line<AtomicU64>>,
    completed: Vec<Line<AtomicU64>>,
    parked: Line<AtomicU32>,
    stops: Vec<Line<AtomicU32>>,
    out_of_band: Line<AtomicU32>,
    queued: Line<AtomicU32>,
}

impl Memory {
    /// Words for `workers` of `threads` seats each and `slots` slots.
    pub fn new(workers: u16, threads: u16, slots: u16) -> Self {
        let long = |count: u16| {
            (0..count)
                .map(|_| Line(AtomicU64::new(0)))
                .collect::<Vec<_>>()
        };
        let short = |count: u16| {
            (0..count)
                .map(|_| Line(AtomicU32::new(0)))
                .collect::<Vec<_>>()
        };
        Self {
            threads,
            states: long(slots),
            ring: (0..(slots * 4).next_power_of_two())
                .map(|_| AtomicU64::new(0))
                .collect(),
            head: Line(AtomicU64::new(0)),
            tail: Line(AtomicU64::new(0)),
            seats: (0..workers * threads)
                .map(|_| Line(Futex::new(0)))
                .collect(),
            idle: long(1),
            free: long(1),
            completed: long(1),
            parked: Line(AtomicU32::new(0)),
            stops: short(workers),
            out_of_band: Line(AtomicU32::new(0)),
            queued: Line(AtomicU32::new(0)),
        }
    }

    /// The board over these words.
    pub fn board(&self) -> Board<'_> {
        Board {
            threads: self.threads,
            states: &self.states,
            ring: &self.ring,
            head: &self.head,
            tail: &self.tail,
            seats: &self.seats,
            idle: &self.idle,
            free: &self.free,
            completed: &self.completed,
            parked: &self.parked,
            stops: &self.stops,
            out_of_band: &self.out_of_band,
            queued: &self.queued,
        }
    }
}
