//! What the front finds wrong in the region: words that no sound worker could have written. It compares them with the
//! front's own copies and repairs nothing; what follows from a finding is for others to decide.

use std::fmt;

use super::{Front, Slot};
use crate::board::{PHASE_CLAIMED, PHASE_DONE, PHASE_FRONT, PHASE_READY, State};
use crate::response::sequence_of;
use crate::sync::Ordering;

/// A word of the region that no sound worker could have written. Nothing more of that region is to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Corrupt {
    /// Which word.
    pub word: Word,
    /// Of which slot, or of which worker thread.
    pub index: Option<u16>,
    /// What it was.
    pub value: u64,
}

/// A word of the region, or a few that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The region's header, which nobody writes.
    Header,
    /// The ready ring's end, which only the front moves.
    Tail,
    /// The ready ring's start: beyond the end, too far behind it, or moved back.
    Head,
    /// The ready ring went past a request that no worker has claimed.
    Entry,
    /// A slot's state.
    State,
    /// A slot's frames, or its count of written bytes; the value is that count.
    Frame,
    /// A slot's count of taken bytes, which only the front writes.
    Taken,
    /// A slot's length of the request record, which only the front writes.
    Length,
    /// A slot's mark that nobody reads its response, which only the front writes.
    Abandoned,
    /// What a worker thread does.
    Thread,
    /// The bits of idle or free seats, of some that do not exist.
    Idle,
    /// Whether a worker is to stop.
    Stop,
    /// Whose turn it is to work between requests.
    OutOfBand,
    /// Whether requests wait in the queue, which only the front writes.
    Queued,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.word {
            Word::Header => "the header",
            Word::Tail => "the end of the ready ring",
            Word::Head => "the start of the ready ring",
            Word::Entry => "an entry of the ready ring",
            Word::State => "the state",
            Word::Frame => "a response frame or the count of written bytes",
            Word::Taken => "the count of taken bytes",
            Word::Length => "the length of the request",
            Word::Abandoned => "the mark of an abandoned response",
            Word::Thread => "the word",
            Word::Idle => "the idle bits",
            Word::Stop => "the stop mark",
            Word::OutOfBand => "the turn to work between requests",
            Word::Queued => "the mark of a waiting queue",
        };
        f.write_str(name)?;
        match (self.word, self.index) {
            (Word::Thread, Some(seat)) => write!(f, " of worker thread {seat}")?,
            (Word::Stop, Some(worker)) => write!(f, " of worker {worker}")?,
            (_, Some(slot)) => write!(f, " of slot {slot}")?,
            (_, None) => {}
        }
        write!(f, " is wrong ({:#x})", self.value)
    }
}

impl Front {
    /// What was found wrong first, if anything was.
    pub fn corrupt(&self) -> Option<Corrupt> {
        self.corrupt.get()
    }

    /// Looks at every word on which workers and front agree. Its cost grows with slots and worker threads: for a look
    /// in a while, not for each request.
    pub fn inspect(&mut self) -> Option<Corrupt> {
        // Nobody else reads it: a worker that wrote at random could have filled it, and it would ring no more.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        // Before the states: what the head has passed by now was claimed before.
        self.inspect_ring();
        for number in 0..self.slots.len() as u16 {
            self.inspect_slot(number);
        }
        self.inspect_board();
        self.corrupt.get()
    }

    /// Remembers a finding, unless there is one already.
    pub(super) fn report(&self, word: Word, index: Option<u16>, value: u64) {
        if self.corrupt.get().is_none() {
            self.corrupt.set(Some(Corrupt { word, index, value }));
        }
    }

    /// Checks start and end of the ready ring.
    pub(super) fn inspect_ring(&mut self) {
        let board = self.region.board();
        let (length, tail) = (board.ring.len() as u64, board.tail.load(Ordering::Relaxed));
        let head = board.head.load(Ordering::Acquire);
        if tail != self.tail {
            self.report(Word::Tail, None, tail);
        } else if head > tail || tail - head > length || head < self.head {
            self.report(Word::Head, None, head);
        } else {
            self.head = head;
        }
    }

    fn inspect_slot(&mut self, number: u16) {
        let own = self.slots[usize::from(number)];
        let word = self.region.board().states[usize::from(number)].load(Ordering::Acquire);
        let state = State::of(word);
        let holds = state.word() == word && state.sequence == own.sequence;
        let seats = self.region.board().seats.len();
        let sound = match state.phase {
            PHASE_FRONT => !own.published && state.seat == 0,
            PHASE_READY => own.published && state.seat == 0 && own.seat.is_none(),
            PHASE_CLAIMED | PHASE_DONE => {
                own.published
                    && usize::from(state.seat) < seats
                    && own.seat.is_none_or(|seat| seat == state.seat)
            }
            _ => false,
        };
        if !holds || !sound {
            return self.report(Word::State, Some(number), word);
        }
        if !own.published {
            return;
        }
        match state.phase {
            // Who moves the head past an entry has tried to claim it.
            PHASE_READY if own.position < self.head => {
                self.report(Word::Entry, Some(number), own.position);
            }
            PHASE_READY => {}
            _ => self.slots[usize::from(number)].seat = Some(state.seat),
        }
        self.inspect_words(number, own);
    }

    /// Checks the words of a published slot that only the front writes, and whose claim its response belongs to.
    fn inspect_words(&self, number: u16, own: Slot) {
        let words = self.region.words(number);
        let (put, taken, length, abandoned) = (
            words.put.load(Ordering::Relaxed),
            words.taken.load(Ordering::Relaxed),
            words.request_len.load(Ordering::Relaxed),
            words.abandoned.load(Ordering::Relaxed),
        );
        // A writer that does not hold the claim changes nothing there.
        if sequence_of(put) != own.sequence {
            self.report(Word::Frame, Some(number), put);
        }
        if taken != own.taken {
            self.report(Word::Taken, Some(number), taken);
        }
        if length != own.length {
            self.report(Word::Length, Some(number), length.into());
        }
        if abandoned != u32::from(own.abandoned) {
            self.report(Word::Abandoned, Some(number), abandoned.into());
        }
    }

    fn inspect_board(&self) {
        if !self.region.has_its_header() {
            self.report(Word::Header, None, 0);
        }
        let board = self.region.board();
        for (number, seat) in (0..).zip(board.seats) {
            let word = seat.load(Ordering::Relaxed);
            if !board.is_thread_word(word) {
                self.report(Word::Thread, Some(number), word.into());
            }
        }
        let beyond = board.seats.len() % 64;
        let last = [board.idle.last(), board.free.last()];
        for last in last.into_iter().flatten().filter(|_| beyond != 0) {
            let bits = last.load(Ordering::Relaxed);
            if bits >> beyond != 0 {
                self.report(Word::Idle, None, bits);
            }
        }
        for (worker, stop) in (0..).zip(board.stops) {
            let stop = stop.load(Ordering::Relaxed);
            if stop > 1 {
                self.report(Word::Stop, Some(worker), stop.into());
            }
        }
        let turn = board.out_of_band.load(Ordering::Relaxed);
        if turn as usize > board.stops.len() {
            self.report(Word::OutOfBand, None, turn.into());
        }
        let queued = board.queued.load(Ordering::Relaxed);
        if queued != u32::from(self.queued.get()) {
            self.report(Word::Queued, None, queued.into());
        }
    }
}

#[cfg(test)]
mod tests;
