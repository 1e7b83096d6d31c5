//! What a client's frames cost: one budget for each connection, which floods of small frames use up and useful ones hardly
//! touch; and since when the client sends the head of a request. It reads frames' headers (RFC 9113 section 4.1) and nothing
//! that they say; the crate h2 judges them.

use std::cell::Cell;

/// The budget of a connection, in points, and the most that it ever has.
const FRAME_BUDGET: u32 = 1000;
/// Points that come back in each second.
const FRAME_BUDGET_REFILL: u64 = 100;
/// Points that come back with each piece of a response that is sent: clients answer it with WINDOW_UPDATE frames.
const SENT_REFILL: u32 = 4;
/// Points that a reset stream costs: its request may have been begun in vain. A browser that leaves a page resets all its
/// streams at once, and uses little more than half of the budget for that.
const RESET_COST: u32 = 5;
/// A DATA frame of so many bytes or fewer that does not end its stream costs a point: even a message of a WebSocket is seldom
/// shorter.
const TINY_DATA_BYTES: usize = 8;
/// Points that a SETTINGS or CONTINUATION frame costs: no client sends many.
const RARE_COST: u32 = 5;

const PREFACE_BYTES: usize = 24;
const HEADER_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// What is left of the budget of a connection.
pub(super) struct FrameBudget {
    left: Cell<u32>,
    refilled_ms: Cell<u64>,
    exhausted: Cell<bool>,
}

impl FrameBudget {
    /// Returns a whole budget at this time of the coarse clock, in milliseconds.
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            left: Cell::new(FRAME_BUDGET),
            refilled_ms: Cell::new(now_ms),
            exhausted: Cell::new(false),
        }
    }

    /// Whether the client has used it up. It stays so.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.get()
    }

    /// Notes a piece of a response that is sent.
    pub(super) fn note_sent(&self) {
        self.add(SENT_REFILL);
    }

    /// Notes a request that was answered whole.
    pub(super) fn note_answered(&self) {
        self.add(SENT_REFILL);
    }

    fn add(&self, points: u32) {
        self.left.set((self.left.get() + points).min(FRAME_BUDGET));
    }

    fn take(&self, cost: u32, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.refilled_ms.get());
        let refill = passed * FRAME_BUDGET_REFILL / 1000;
        if refill > 0 {
            self.refilled_ms.set(now_ms);
            self.add(refill.min(FRAME_BUDGET.into()) as u32);
        }
        match self.left.get().checked_sub(cost) {
            Some(left) => self.left.set(left),
            None => self.exhausted.set(true),
        }
    }
}

/// Finds the headers of frames in the bytes that a client sends.
pub(super) struct FrameReader {
    header: [u8; HEADER_BYTES],
    /// How many bytes of it have come.
    filled: usize,
    /// Bytes before the next header.
    skip: usize,
    /// Since when a head is being sent, and whether the frame that is being read ends it.
    head_since_ms: Option<u64>,
    ends_head: bool,
}

impl FrameReader {
    /// Returns the reader of a connection of which nothing was read, its preface neither.
    pub(super) fn new() -> Self {
        Self {
            header: [0; HEADER_BYTES],
            filled: 0,
            skip: PREFACE_BYTES,
            head_since_ms: None,
            ends_head: false,
        }
    }

    /// When the head began of which the client has not sent all; none between heads.
    pub(super) fn head_since_ms(&self) -> Option<u64> {
        self.head_since_ms
    }

    /// Reads on in what has come at this time of the coarse clock, and takes what the frames cost.
    pub(super) fn read(&mut self, mut bytes: &[u8], budget: &FrameBudget, now_ms: u64) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            self.note_end();
            let more = (HEADER_BYTES - self.filled).min(bytes.len());
            self.header[self.filled..self.filled + more].copy_from_slice(&bytes[..more]);
            self.filled += more;
            bytes = &bytes[more..];
            if self.filled == HEADER_BYTES {
                self.filled = 0;
                let [a, b, c, kind, flags, ..] = self.header;
                self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
                let cost = cost(kind, flags, self.skip);
                if cost > 0 {
                    budget.take(cost, now_ms);
                }
                self.note_head(kind, flags, now_ms);
                // One without a payload.
                self.note_end();
            }
        }
    }

    /// Notes a frame that begins, goes on with, or ends a head. Its payload is still to come.
    fn note_head(&mut self, kind: u8, flags: u8, now_ms: u64) {
        if matches!(kind, HEADERS | CONTINUATION) {
            self.head_since_ms.get_or_insert(now_ms);
            self.ends_head = flags & END_HEADERS != 0;
        }
    }

    /// Notes that a head ends where the payload of its last frame does.
    fn note_end(&mut self) {
        if self.ends_head && self.skip == 0 {
            (self.head_since_ms, self.ends_head) = (None, false);
        }
    }
}

/// What a frame costs whose payload has this length.
fn cost(kind: u8, flags: u8, length: usize) -> u32 {
    match kind {
        DATA => u32::from(length <= TINY_DATA_BYTES && flags & END_STREAM == 0),
        // The stream's end gives it back.
        HEADERS => 1,
        RST_STREAM => RESET_COST,
        SETTINGS | CONTINUATION => RARE_COST,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::streams::MAX_STREAMS;
    use super::*;

    const PING: u8 = 6;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let length = (payload as u32).to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, 0, 0, 0, 0, 1];
        frame.resize(HEADER_BYTES + payload, 0);
        frame
    }

    fn preface() -> Vec<u8> {
        vec![b'x'; PREFACE_BYTES]
    }

    #[test]
    fn frames_are_found_however_the_bytes_arrive() {
        let mut bytes = preface();
        bytes.extend(frame(DATA, 3000));
        bytes.extend(frame(RST_STREAM, 4));
        bytes.extend(frame(PING, 8));
        for piece in [1, 2, 7, 100, bytes.len()] {
            let (mut reader, budget) = (FrameReader::new(), FrameBudget::new(0));
            for bytes in bytes.chunks(piece) {
                reader.read(bytes, &budget, 0);
            }
            assert_eq!(budget.left.get(), FRAME_BUDGET - RESET_COST - 1, "{piece}");
        }
    }

    #[test]
    fn a_head_lasts_from_its_first_frame_to_the_end_of_its_last_payload() {
        let (mut reader, budget) = (FrameReader::new(), FrameBudget::new(0));
        let mut read = |bytes: &[u8], now_ms| {
            reader.read(bytes, &budget, now_ms);
            reader.head_since_ms()
        };
        assert_eq!(read(&preface(), 1), None);
        assert_eq!(read(&frame(DATA, 10), 2), None);
        assert_eq!(read(&frame(HEADERS, 10), 3), Some(3));
        assert_eq!(read(&frame(CONTINUATION, 0), 4), Some(3));
        let mut last = frame(CONTINUATION, 10);
        last[4] = END_HEADERS;
        assert_eq!(read(&last[..9], 5), Some(3));
        assert_eq!(read(&last[9..18], 6), Some(3));
        assert_eq!(read(&last[18..], 7), None);
        // A head of one frame, of which a part comes later; one without a payload.
        let mut whole = frame(HEADERS, 3);
        whole[4] = END_HEADERS | END_STREAM;
        assert_eq!(read(&whole[..11], 8), Some(8));
        assert_eq!(read(&whole[11..], 9), None);
        let mut empty = frame(HEADERS, 0);
        empty[4] = END_HEADERS;
        assert_eq!(read(&empty, 10), None);
        // Frames that come at once: each head is its own, and a body is none.
        let both = [whole.clone(), frame(HEADERS, 3)].concat();
        assert_eq!(read(&both[..9], 11), Some(11));
        assert_eq!(read(&both[9..], 12), Some(12));
        let mut last = frame(CONTINUATION, 3);
        last[4] = END_HEADERS;
        last.extend(&frame(DATA, 100)[..50]);
        assert_eq!(read(&last, 13), None);
    }

    #[test]
    fn a_flood_uses_the_budget_up_and_useful_frames_do_not() {
        let after = |kind, payload, count: usize| {
            let (mut reader, budget) = (FrameReader::new(), FrameBudget::new(0));
            reader.read(&preface(), &budget, 0);
            (0..count).for_each(|_| reader.read(&frame(kind, payload), &budget, 0));
            budget.is_exhausted()
        };
        for (kind, payload, flood) in [
            (DATA, 0, 1001),
            (RST_STREAM, 4, 201),
            (SETTINGS, 0, 201),
            (CONTINUATION, 10, 201),
            (PING, 8, 1001),
            (99, 0, 1001),
        ] {
            assert!(after(kind, payload, flood), "{kind}");
            assert!(!after(kind, payload, flood - 1), "{kind}");
        }
        assert!(after(DATA, 1, 1001));
        assert!(!after(DATA, 9, 100_000));
    }

    #[test]
    fn the_reset_of_every_stream_at_once_leaves_points_for_the_next_page() {
        let one = cost(HEADERS, 0, 100) + cost(RST_STREAM, 0, 4);
        assert!(MAX_STREAMS * one <= FRAME_BUDGET * 2 / 3);
    }

    #[test]
    fn the_budget_comes_back_with_time_and_with_responses() {
        let budget = FrameBudget::new(0);
        budget.take(1000, 0);
        budget.take(100, 1000);
        budget.note_sent();
        budget.take(4, 1000);
        assert!(!budget.is_exhausted());
        // No more than a whole one.
        budget.take(1000, 1_000_000);
        assert!(!budget.is_exhausted());
        budget.take(1, 1_000_000);
        assert!(budget.is_exhausted());
    }
}
