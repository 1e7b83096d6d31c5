//! What the front finds wrong in the region: words that no sound worker could have written. It compares them with the
//! front's own copies and repairs nothing; what follows from a finding is for others to decide.

use std::cell::Cell;
use std::fmt;

use super::slot::Slot;
use crate::coordination::{
    PHASE_CLAIMED, PHASE_DONE, PHASE_FRONT, PHASE_READY, State, is_thread_word,
};
use crate::region::Region;
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
    /// The region's header, which is never written.
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
    /// A slot's mark that its response is not read any more, which only the front writes.
    Abandoned,
    /// What a worker thread does.
    Thread,
    /// The bits of idle or free threads, of some that do not exist.
    Idle,
    /// Whether a worker is to stop.
    Stop,
    /// How many threads of each worker are to have no request, which only the front writes.
    Resting,
    /// How many requests of a worker have said that they wait.
    IoBound,
    /// Whose turn it is to work between requests.
    OutOfBand,
    /// Whether requests wait in the queue, which only the front writes.
    Queued,
    /// Whether a single worker is to serve, which only the front writes.
    SingleWorker,
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
            Word::Resting => "the number of resting threads",
            Word::IoBound => "the number of requests that wait",
            Word::OutOfBand => "the turn to work between requests",
            Word::Queued => "the mark of a waiting queue",
            Word::SingleWorker => "the mark of a single worker",
        };
        f.write_str(name)?;
        match (self.word, self.index) {
            (Word::Thread, Some(thread)) => write!(f, " of worker thread {thread}")?,
            (Word::Stop | Word::IoBound, Some(worker)) => write!(f, " of worker {worker}")?,
            (_, Some(slot)) => write!(f, " of slot {slot}")?,
            (_, None) => {}
        }
        write!(f, " is wrong ({:#x})", self.value)
    }
}

/// What was found wrong first, if anything was.
#[derive(Default)]
pub(super) struct Findings(Cell<Option<Corrupt>>);

impl Findings {
    pub(super) fn first(&self) -> Option<Corrupt> {
        self.0.get()
    }

    /// Remembers a finding, unless there is one already.
    pub(super) fn report(&self, word: Word, index: Option<u16>, value: u64) {
        if self.0.get().is_none() {
            self.0.set(Some(Corrupt { word, index, value }));
        }
    }
}

/// A look at a region's words.
pub(super) struct Inspection<'a> {
    region: &'a Region,
    findings: &'a Findings,
}

impl<'a> Inspection<'a> {
    pub(super) fn new(region: &'a Region, findings: &'a Findings) -> Self {
        Self { region, findings }
    }

    /// Checks start and end of the ready ring. `tail` is the front's own end, `seen` the start as it was seen last.
    pub(super) fn ring(&self, tail: u64, seen: &mut u64) {
        let ring = self.region.ready_ring();
        let found = ring.tail.load(Ordering::Relaxed);
        let head = ring.head.load(Ordering::Acquire);
        if found != tail {
            self.findings.report(Word::Tail, None, found);
        } else if head > found || found - head > ring.len() || head < *seen {
            self.findings.report(Word::Head, None, head);
        } else {
            *seen = head;
        }
    }

    /// Checks a slot, and remembers which thread holds it. `head` is the start of the ready ring.
    pub(super) fn slot(&self, number: u16, own: &mut Slot, head: u64) {
        let word = self.region.slot_states().words[usize::from(number)].load(Ordering::Acquire);
        let state = State::of(word);
        let holds = state.word() == word && state.sequence == own.sequence;
        let threads = self.region.thread_states().words.len();
        let sound = match state.phase {
            PHASE_FRONT => !own.published && state.thread == 0,
            PHASE_READY => own.published && state.thread == 0 && own.thread.is_none(),
            PHASE_CLAIMED | PHASE_DONE => {
                own.published
                    && usize::from(state.thread) < threads
                    && own.thread.is_none_or(|thread| thread == state.thread)
            }
            _ => false,
        };
        if !holds || !sound {
            return self.findings.report(Word::State, Some(number), word);
        }
        if !own.published {
            return;
        }
        match state.phase {
            // Who moves the head past an entry has tried to claim it.
            PHASE_READY if own.position < head => {
                self.findings
                    .report(Word::Entry, Some(number), own.position);
            }
            PHASE_READY => {}
            _ => own.thread = Some(state.thread),
        }
        self.words(number, own);
    }

    /// Checks the words of a published slot that only the front writes, and whose claim its response belongs to.
    fn words(&self, number: u16, own: &Slot) {
        let words = self.region.words(number);
        let (put, taken, length, abandoned) = (
            words.put.load(Ordering::Relaxed),
            words.taken.load(Ordering::Relaxed),
            words.request_len.load(Ordering::Relaxed),
            words.abandoned.load(Ordering::Relaxed),
        );
        let report = |word, value| self.findings.report(word, Some(number), value);
        // A writer that does not hold the claim changes nothing there.
        if sequence_of(put) != own.sequence {
            report(Word::Frame, put);
        }
        if taken != own.taken {
            report(Word::Taken, taken);
        }
        if length != own.length {
            report(Word::Length, length.into());
        }
        if abandoned != u32::from(own.abandoned) {
            report(Word::Abandoned, abandoned.into());
        }
    }

    /// Checks the header.
    pub(super) fn header(&self) {
        if !self.region.has_its_header() {
            self.findings.report(Word::Header, None, 0);
        }
    }

    /// Checks the words and bits of worker threads, how many of them rest, and the stop marks of workers.
    pub(super) fn threads(&self, resting: u16) {
        let available = self.region.availability();
        let threads = available.threads;
        for (number, thread) in (0..).zip(threads.words) {
            let word = thread.load(Ordering::Relaxed);
            if !is_thread_word(word) {
                self.findings
                    .report(Word::Thread, Some(number), word.into());
            }
        }
        let beyond = threads.words.len() % 64;
        let last = [available.idle.words.last(), available.free.words.last()];
        for last in last.into_iter().flatten().filter(|_| beyond != 0) {
            let bits = last.load(Ordering::Relaxed);
            if bits >> beyond != 0 {
                self.findings.report(Word::Idle, None, bits);
            }
        }
        for (worker, stop) in (0..).zip(threads.stops) {
            let stop = stop.load(Ordering::Relaxed);
            if stop > 1 {
                self.findings.report(Word::Stop, Some(worker), stop.into());
            }
        }
        let found = threads.resting.load(Ordering::Relaxed);
        if found != u32::from(resting) {
            self.findings.report(Word::Resting, None, found.into());
        }
        for (worker, waiting) in (0..).zip(threads.io_bound) {
            let waiting = waiting.load(Ordering::Relaxed);
            if waiting > threads.per_worker.into() {
                self.findings
                    .report(Word::IoBound, Some(worker), waiting.into());
            }
        }
    }

    /// Checks whose turn it is to work between requests, and what the workers were told of the queue and of their number.
    pub(super) fn out_of_band(&self, queue_waits: bool, single_worker: bool) {
        let words = self.region.out_of_band();
        let turn = words.turn.load(Ordering::Relaxed);
        if turn > u32::from(self.region.geometry().max_workers()) {
            self.findings.report(Word::OutOfBand, None, turn.into());
        }
        let waits = words.queue_waits.load(Ordering::Relaxed);
        if waits != u32::from(queue_waits) {
            self.findings.report(Word::Queued, None, waits.into());
        }
        let single = words.single_worker.load(Ordering::Relaxed);
        if single != u32::from(single_worker) {
            self.findings
                .report(Word::SingleWorker, None, single.into());
        }
    }
}

#[cfg(test)]
mod tests;
