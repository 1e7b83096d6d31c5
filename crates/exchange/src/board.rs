//! The board: who holds which slot, who is idle, and who must be woken.
//!
//! It is the lock-free core of the exchange, free of memory mapping and data, so that `tests/loom.rs` can
//! try every interleaving of it. It never touches a request or a response.
//!
//! - A slot's **state** word names its phase, its owner and its publication (sequence). Every change of
//!   hands is one compare-and-swap on it, so a process that dies between two steps leaves nothing half done.
//! - The **ready ring** gives the order (first in, first out). Its entries are hints: an entry whose
//!   compare-and-swap fails is stale and is stepped over. (A textbook MPMC ring wedges when a process dies
//!   between its claim and its publish.)
//! - The **idle bitmap** has a bit per seat. Who wakes a seat clears its bit first, so a wake-up is used once.
//! - The **free bitmap** has a bit per seat without a request. A seat sets its own before it parks and clears it with
//!   its claim. A free seat that is not idle is on its way. With both, nobody looks at the words of all seats.
//! - The **completion bitmap** has a bit per slot that has news for the front, and `parked` says whether
//!   the front sleeps and wants the doorbell.

mod idle;
#[cfg(loom)]
mod memory;
mod out_of_band;
mod state;

#[cfg(loom)]
pub use memory::Memory;
pub use state::{PHASE_CLAIMED, PHASE_DONE, PHASE_FRONT, PHASE_READY, State};

use crate::sync::{AtomicU32, AtomicU64, Futex, Line, Ordering, fence};

/// Values of a seat's futex word. RUNNING: it has a request, or its thread does not exist.
const RUNNING: u32 = 0;
const PARKED: u32 = 1;
/// Woken by somebody, but not yet holding the GVL.
const WOKEN: u32 = 2;
/// Between two requests, or about to park.
const LOOKING: u32 = 3;
/// Its thread looks for no request any more.
const LEFT: u32 = 4;

/// How long a request is left to an idle process before a busy one takes it after all: the idle one may
/// be stopped, or hold its GVL for something else.
const YIELD_TIMEOUT_NS: u64 = 20_000_000;

/// A claimed publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Index of the slot.
    pub slot: u16,
    /// Its publication.
    pub sequence: u32,
}

/// What a seat found when it looked for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A request, now this seat's own.
    Claim(Claim),
    /// Requests wait, but as many idle processes do too: they go first.
    Yield,
    /// Nothing waits.
    Nothing,
}

/// The shared words of the board. Fields are slices into the region (or, in the model, into vectors).
#[derive(Clone, Copy)]
pub struct Board<'a> {
    /// Seats per worker; seat `w * threads + t` is thread `t` of worker `w`.
    pub threads: u16,
    /// One state word per slot.
    pub states: &'a [Line<AtomicU64>],
    /// Entries `sequence << 32 | slot`; a power of two long.
    pub ring: &'a [AtomicU64],
    /// Next position to claim; moved by whoever steps over an entry.
    pub head: &'a Line<AtomicU64>,
    /// Next position to publish; written by the front only.
    pub tail: &'a Line<AtomicU64>,
    /// One futex word per seat.
    pub seats: &'a [Line<Futex>],
    /// Idle bits, 64 seats a word.
    pub idle: &'a [Line<AtomicU64>],
    /// Bits of seats whose threads have no request, 64 seats a word: parked, or on their way.
    pub free: &'a [Line<AtomicU64>],
    /// Completion bits, 64 slots a word.
    pub completed: &'a [Line<AtomicU64>],
    /// 1 while the front sleeps.
    pub parked: &'a Line<AtomicU32>,
    /// 1 when worker `w` should finish what it has and exit.
    pub stops: &'a [Line<AtomicU32>],
    /// Whose turn it is to work between requests: `w + 1`, or 0 for nobody's.
    pub out_of_band: &'a Line<AtomicU32>,
    /// 1 while requests wait beyond the slots; written by the front when it changes.
    pub queued: &'a Line<AtomicU32>,
}

impl Board<'_> {
    // ===== the front's side =====

    /// Makes a filled slot ready and wakes the best idle seat.
    ///
    /// Returns false, and changes nothing, when the ring has no place. That takes as many retractions
    /// behind a request that nobody claims; the next claim makes room.
    pub fn publish(&self, tail: &mut u64, slot: u16, sequence: u32) -> bool {
        if tail.wrapping_sub(self.head.load(Ordering::Acquire)) >= self.ring.len() as u64 {
            return false;
        }
        let state = State {
            phase: PHASE_READY,
            seat: 0,
            sequence,
        };
        self.states[usize::from(slot)].store(state.word(), Ordering::Release);
        self.ring[self.position(*tail)].store(
            u64::from(sequence) << 32 | u64::from(slot),
            Ordering::Release,
        );
        *tail += 1;
        self.tail.store(*tail, Ordering::SeqCst);
        self.wake_one(None);
        true
    }

    /// Takes back a request that no seat has claimed. False when one has.
    pub fn retract(&self, slot: u16, sequence: u32) -> bool {
        let ready = State {
            phase: PHASE_READY,
            seat: 0,
            sequence,
        }
        .word();
        let front = State {
            phase: PHASE_FRONT,
            seat: 0,
            sequence,
        }
        .word();
        self.states[usize::from(slot)]
            .compare_exchange(ready, front, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// The state of a slot, as it stands now.
    pub fn state(&self, slot: u16) -> State {
        State::of(self.states[usize::from(slot)].load(Ordering::Acquire))
    }

    /// Gives the slot back to the front, whatever it held.
    pub fn take_back(&self, slot: u16, sequence: u32) {
        let front = State {
            phase: PHASE_FRONT,
            seat: 0,
            sequence,
        };
        self.states[usize::from(slot)].store(front.word(), Ordering::Release);
    }

    /// Takes the completion bits of one word of 64 slots.
    pub fn take_completed(&self, word: usize) -> u64 {
        if self.completed[word].load(Ordering::Acquire) == 0 {
            return 0;
        }
        self.completed[word].swap(0, Ordering::SeqCst)
    }

    /// Says that the front is about to sleep. False when there is news and it must not.
    pub fn park(&self) -> bool {
        self.parked.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self
            .completed
            .iter()
            .any(|word| word.load(Ordering::SeqCst) != 0)
        {
            self.parked.store(0, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Says that the front is awake and needs no doorbell.
    pub fn unpark(&self) {
        self.parked.store(0, Ordering::Relaxed);
    }

    /// Whether this is a value that a seat's word can have.
    pub fn is_thread_word(&self, word: u32) -> bool {
        word <= LEFT
    }

    /// Whether the seat's thread has not looked for work since its last request, or not yet.
    pub fn is_away(&self, seat: u16) -> bool {
        self.seats[usize::from(seat)].load(Ordering::SeqCst) == RUNNING
    }

    /// Wakes one more idle seat where requests wait: whoever was woken for them may stand still.
    pub fn nudge(&self) {
        if self.waiting() > 0 {
            self.repair_idle();
            self.wake_one(None);
        }
    }

    /// Asks a worker to finish what it has and exit.
    pub fn stop(&self, worker: u16) {
        self.stops[usize::from(worker)].store(1, Ordering::SeqCst);
        for seat in self.seats_of(worker) {
            self.wake(seat as u16);
        }
    }

    /// Forgets a worker that died: its seats are neither idle nor running, and what they were woken for
    /// goes to others. Returns nothing about slots: see [`Board::state`].
    pub fn reclaim_worker(&self, worker: u16) {
        self.lose_turn(worker);
        for seat in self.seats_of(worker) {
            self.idle[seat / 64].fetch_and(!(1 << (seat % 64)), Ordering::SeqCst);
            // So that a dead process never counts as an idle one in `should_yield`.
            self.free[seat / 64].fetch_and(!(1 << (seat % 64)), Ordering::SeqCst);
            self.seats[seat].store(RUNNING, Ordering::SeqCst);
        }
        // The dead may have been about to wake another seat: finish either half of that.
        self.repair_idle();
        self.wake_for_all();
    }

    // ===== the workers' side =====

    /// Looks for work. Call it only while holding the GVL: a claim by a thread that then waits for the
    /// GVL would hold a request that another process could run.
    ///
    /// `may_yield` is false right after a wait that followed [`Found::Yield`], so that a request is left to
    /// others once at most: they could be stopped.
    pub fn find(&self, seat: u16, may_yield: bool) -> Found {
        // A swap: it must see what was published before the wake-up it overwrites, or that is lost.
        self.seats[usize::from(seat)].swap(LOOKING, Ordering::SeqCst);
        if may_yield && self.threads > 1 && self.should_yield(seat) {
            self.mark_free(seat);
            return Found::Yield;
        }
        // Bounded, for a broken worker may have written anything into head and tail. A thread that finds nothing here
        // although something waits does not sleep: it looks again.
        for _ in 0..=self.ring.len() {
            let head = self.head.load(Ordering::Acquire);
            if head == self.tail.load(Ordering::Acquire) {
                break;
            }
            let entry = self.ring[self.position(head)].load(Ordering::Acquire);
            let claim = Claim {
                slot: entry as u16,
                sequence: (entry >> 32) as u32,
            };
            let claimed = self.claim(claim, seat);
            // Fails when somebody else stepped over the entry already, which is as good.
            let _ = self.head.compare_exchange(
                head,
                head.wrapping_add(1),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if claimed {
                self.seats[usize::from(seat)].store(RUNNING, Ordering::SeqCst);
                self.mark_taken(seat);
                self.pass_on();
                return Found::Claim(claim);
            }
        }
        self.mark_free(seat);
        Found::Nothing
    }

    /// Parks the seat until it is woken. Without the GVL. `yielded` says that [`Board::find`] said so;
    /// `interrupted` is raised by whoever wants the thread back before it calls [`Board::wake`].
    pub fn wait(&self, seat: u16, yielded: bool, interrupted: &AtomicU32) {
        let word = &self.seats[usize::from(seat)];
        let (idle, bit) = (&self.idle[usize::from(seat) / 64], 1 << (seat % 64));
        word.store(PARKED, Ordering::SeqCst);
        idle.fetch_or(bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if yielded {
            // The idle process this seat yields to may not have been woken for the request.
            self.wake_one(Some(seat / self.threads));
        }
        let stop = &self.stops[usize::from(seat / self.threads)];
        let stay = (yielded || self.waiting() == 0)
            && stop.load(Ordering::SeqCst) == 0
            && interrupted.load(Ordering::SeqCst) == 0;
        if stay {
            while word.load(Ordering::Acquire) == PARKED {
                if yielded {
                    word.wait_for(PARKED, YIELD_TIMEOUT_NS);
                    break;
                }
                word.wait(PARKED);
            }
        }
        idle.fetch_and(!bit, Ordering::SeqCst);
    }

    /// Says that the seat's thread looks for no request any more. What it was woken for goes to others: while it
    /// counted as looking, nobody else may have been woken.
    pub fn leave(&self, seat: u16) {
        self.seats[usize::from(seat)].store(LEFT, Ordering::SeqCst);
        self.mark_taken(seat);
        self.pass_on();
    }

    /// Wakes one seat. False when it was not parked. Async-signal-safe.
    pub fn wake(&self, seat: u16) -> bool {
        // Between what the caller raised (a stop, an interrupt) and the look at the seat's word; the seat
        // has the same fence between its word and its look at them.
        fence(Ordering::SeqCst);
        let word = &self.seats[usize::from(seat)];
        let woken = word
            .compare_exchange(PARKED, WOKEN, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok();
        if woken {
            word.wake();
        }
        woken
    }

    /// Marks the request as finished; the caller rings afterwards. False, with nothing changed, where the seat does not
    /// hold it any more.
    pub fn finish(&self, claim: Claim, seat: u16) -> bool {
        let state = |phase| State {
            phase,
            seat,
            sequence: claim.sequence,
        };
        let (claimed, done) = (state(PHASE_CLAIMED).word(), state(PHASE_DONE).word());
        self.states[usize::from(claim.slot)]
            .compare_exchange(claimed, done, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Tells the front that the slot has news. True when it sleeps and the doorbell must be rung.
    #[must_use]
    pub fn notify(&self, slot: u16) -> bool {
        self.completed[usize::from(slot) / 64].fetch_or(1 << (slot % 64), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.parked.load(Ordering::SeqCst) == 1 && self.parked.swap(0, Ordering::SeqCst) == 1
    }

    // ===== both sides =====

    fn claim(&self, claim: Claim, seat: u16) -> bool {
        let Some(state) = self.states.get(usize::from(claim.slot)) else {
            return false;
        };
        let ready = State {
            phase: PHASE_READY,
            seat: 0,
            sequence: claim.sequence,
        }
        .word();
        let claimed = State {
            phase: PHASE_CLAIMED,
            seat,
            sequence: claim.sequence,
        }
        .word();
        state
            .compare_exchange(ready, claimed, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Entries in the ring: an upper bound of the requests that wait, since entries can be stale. Never more than the
    /// ring has places, whatever a broken worker wrote into head and tail.
    fn waiting(&self) -> u64 {
        // The head first: it never passes the tail, so the difference can't be negative.
        let head = self.head.load(Ordering::SeqCst);
        let waiting = self.tail.load(Ordering::SeqCst).saturating_sub(head);
        waiting.min(self.ring.len() as u64)
    }

    fn seats_of(&self, worker: u16) -> std::ops::Range<usize> {
        let first = usize::from(worker) * usize::from(self.threads);
        first..first + usize::from(self.threads)
    }

    fn position(&self, at: u64) -> usize {
        (at as usize) & (self.ring.len() - 1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
