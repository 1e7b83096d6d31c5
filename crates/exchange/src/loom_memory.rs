//! The words in ordinary memory, for the model tests: loom's atomics can't lie in a mapped file.

use crate::coordination::{
    Availability, Bitmap, Completions, Coordination, OutOfBand, ReadyRing, SlotStates, ThreadStates,
};
use crate::sync::{AtomicU32, AtomicU64, Futex, Line};

/// The words of a [`Coordination`] in ordinary memory, for the model tests.
pub struct Memory {
    per_worker: u16,
    slots: Vec<Line<AtomicU64>>,
    ring: Vec<AtomicU64>,
    head: Line<AtomicU64>,
    tail: Line<AtomicU64>,
    threads: Vec<Line<Futex>>,
    idle: Vec<Line<AtomicU64>>,
    free: Vec<Line<AtomicU64>>,
    completed: Vec<Line<AtomicU64>>,
    front_sleeps: Line<AtomicU32>,
    stops: Vec<Line<AtomicU32>>,
    resting: Line<AtomicU32>,
    io_bound: Vec<Line<AtomicU32>>,
    turn: Line<AtomicU32>,
    queue_waits: Line<AtomicU32>,
    single_worker: Line<AtomicU32>,
}

impl Memory {
    /// Words for `workers` of `threads` threads each and `slots` slots.
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
            per_worker: threads,
            slots: long(slots),
            ring: (0..(slots * 4).next_power_of_two())
                .map(|_| AtomicU64::new(0))
                .collect(),
            head: Line(AtomicU64::new(0)),
            tail: Line(AtomicU64::new(0)),
            threads: (0..workers * threads)
                .map(|_| Line(Futex::new(0)))
                .collect(),
            idle: long(1),
            free: long(1),
            completed: long(1),
            front_sleeps: Line(AtomicU32::new(0)),
            stops: short(workers),
            resting: Line(AtomicU32::new(0)),
            io_bound: short(workers),
            turn: Line(AtomicU32::new(0)),
            queue_waits: Line(AtomicU32::new(0)),
            // The last worker is the spare one.
            single_worker: Line(AtomicU32::new(u32::from(workers <= 2))),
        }
    }

    /// The coordination over these words.
    pub fn coordination(&self) -> Coordination<'_> {
        Coordination {
            slots: SlotStates { words: &self.slots },
            ring: ReadyRing {
                entries: &self.ring,
                head: &self.head,
                tail: &self.tail,
            },
            availability: Availability {
                threads: ThreadStates {
                    per_worker: self.per_worker,
                    words: &self.threads,
                    stops: &self.stops,
                    resting: &self.resting,
                    io_bound: &self.io_bound,
                },
                idle: Bitmap { words: &self.idle },
                free: Bitmap { words: &self.free },
            },
            completions: Completions {
                slots: self.slots.len() as u16,
                bits: Bitmap {
                    words: &self.completed,
                },
                front_sleeps: &self.front_sleeps,
            },
            out_of_band: OutOfBand {
                turn: &self.turn,
                queue_waits: &self.queue_waits,
                single_worker: &self.single_worker,
            },
        }
    }
}
