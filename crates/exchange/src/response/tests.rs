//! Frames through a real region, both ends in one process.

use super::*;
use crate::coordination::Found;
use crate::region::Geometry;

/// A region whose one slot was published and claimed by its one thread.
struct Claimed {
    region: Region,
    claim: Claim,
}

impl Claimed {
    fn new() -> Self {
        let region = Region::create(Geometry::new(1, 1, 4096, 4096)).unwrap();
        Self {
            claim: Self::publish(&region, &mut 0, 7),
            region,
        }
    }

    /// What `Front::publish` and a thread do.
    fn publish(region: &Region, tail: &mut u64, sequence: u32) -> Claim {
        let words = region.words(0);
        words.put.store(put_word(sequence, 0), Ordering::SeqCst);
        words.taken.store(0, Ordering::SeqCst);
        assert!(region.coordination().publish(tail, 0, sequence));
        match region.coordination().find(0, None) {
            Found::Claim(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    fn writer(&self) -> Writer<'_> {
        Writer::resume(&self.region, self.claim, 0, 0)
    }

    fn reader(&self) -> Reader<'_> {
        self.reader_at(0)
    }

    fn reader_at(&self, taken: u64) -> Reader<'_> {
        Reader {
            region: &self.region,
            slot: 0,
            sequence: self.claim.sequence,
            taken,
        }
    }
}

#[test]
fn frames_come_out_as_they_went_in_over_many_turns_of_the_ring() {
    let claimed = Claimed::new();
    let (mut writer, mut reader) = (claimed.writer(), claimed.reader());
    for turn in 0..1000_usize {
        let payload = vec![turn as u8; turn * 7 % 2000];
        let (left, right) = payload.split_at(payload.len() / 3);
        writer.try_frame(Kind::Chunk, &[left, right]).unwrap();
        let mut got = Vec::new();
        assert_eq!(
            reader.frame(&mut got),
            Ok(None),
            "nothing is visible before the commit"
        );
        assert!(writer.commit());
        assert_eq!(reader.frame(&mut got), Ok(Some(Kind::Chunk)));
        assert_eq!(got, payload);
    }
}

#[test]
fn positions_are_told_apart_where_their_low_half_wraps() {
    let claimed = Claimed::new();
    let start = u64::from(u32::MAX) - 15;
    claimed.region.words(0).taken.store(start, Ordering::SeqCst);
    let mut writer = Writer::resume(&claimed.region, claimed.claim, 0, start);
    let mut reader = claimed.reader_at(start);
    for turn in 0..10_u8 {
        writer.try_frame(Kind::Chunk, &[&[turn; 5]]).unwrap();
        assert!(writer.commit());
        let mut got = Vec::new();
        assert_eq!(reader.frame(&mut got), Ok(Some(Kind::Chunk)));
        assert_eq!(got, [turn; 5]);
    }
}

#[test]
fn claims_whose_sequences_wrap_are_told_apart_as_others_are() {
    let region = Region::create(Geometry::new(1, 1, 4096, 4096)).unwrap();
    let mut tail = 0;
    let mut late: Option<Claim> = None;
    for sequence in [u32::MAX - 1, u32::MAX, 0, 1] {
        let claim = Claimed::publish(&region, &mut tail, sequence);
        if let Some(late) = late.replace(claim) {
            let mut writer = Writer::resume(&region, late, 0, 0);
            let refused = writer.try_frame(Kind::Chunk, &[b"late"]);
            assert_eq!(refused, Err(WriteError::NotClaimed));
            assert!(!writer.commit() && !region.slot_states().finish(late, 0));
        }
        let mut writer = Writer::resume(&region, claim, 0, 0);
        writer.try_frame(Kind::Chunk, &[b"own"]).unwrap();
        assert!(writer.commit() && region.slot_states().finish(claim, 0));
        let mut reader = Reader {
            region: &region,
            slot: 0,
            sequence,
            taken: 0,
        };
        let mut got = Vec::new();
        assert_eq!(reader.frame(&mut got), Ok(Some(Kind::Chunk)));
        assert_eq!(got, b"own");
    }
}

#[test]
fn a_full_ring_takes_more_once_the_front_has_read() {
    let claimed = Claimed::new();
    let (mut writer, mut reader) = (claimed.writer(), claimed.reader());
    let chunk = [1; 1000];
    let mut written = 0;
    while writer.try_frame(Kind::Chunk, &[&chunk]).is_ok() {
        written += 1;
    }
    assert_eq!(written, 4);
    assert!(writer.commit());
    reader.frame(&mut Vec::new()).unwrap();
    assert_eq!(writer.try_frame(Kind::End, &[]), Ok(()));
}

/// Writes a chunk as a worker's thread does: waits while the ring is full.
fn write_waiting(claimed: &Claimed, put: u64) -> Result<(), WriteError> {
    let mut writer = Writer::resume(&claimed.region, claimed.claim, 0, put);
    loop {
        match writer.try_frame(Kind::Chunk, &[&[1; 1000]]) {
            Err(WriteError::Full) => writer.wait_for_room(&AtomicU32::new(0)),
            other => return other,
        }
    }
}

#[test]
fn writers_that_wait_for_room_are_woken_by_the_reader_and_by_abandonment() {
    for abandon in [false, true] {
        let claimed = Claimed::new();
        let mut writer = claimed.writer();
        while writer.try_frame(Kind::Chunk, &[&[1; 1000]]).is_ok() {}
        assert!(writer.commit());
        let put = writer.put();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| write_waiting(&claimed, put)))
                .collect();
            let expected = if abandon {
                let words = claimed.region.words(0);
                words.abandoned.store(1, Ordering::SeqCst);
                claimed.region.room(0).wake();
                Err(WriteError::Abandoned)
            } else {
                let mut reader = claimed.reader();
                while reader.frame(&mut Vec::new()).unwrap().is_some() {}
                Ok(())
            };
            for writer in waiting {
                assert_eq!(writer.join().unwrap(), expected);
            }
        });
    }
}

#[test]
fn who_has_lost_the_claim_can_neither_write_nor_make_visible_nor_finish() {
    let claimed = Claimed::new();
    let (region, late) = (&claimed.region, claimed.claim);
    let mut writer = claimed.writer();
    writer.try_frame(Kind::Chunk, &[b"of the first"]).unwrap();
    // The front takes the slot back from a worker that it takes for dead, and gives it to another request.
    region.slot_states().take_back(0, late.sequence);
    assert_eq!(
        writer.try_frame(Kind::Chunk, &[b"late"]),
        Err(WriteError::NotClaimed)
    );
    let mut tail = 1;
    let next = Claimed::publish(region, &mut tail, 8);
    assert!(!writer.commit());
    assert!(!region.slot_states().finish(late, 0));
    let mut reader = Reader {
        sequence: next.sequence,
        ..claimed.reader()
    };
    assert_eq!(reader.frame(&mut Vec::new()), Ok(None));
    assert!(region.slot_states().finish(next, 0));
}

#[test]
fn a_writer_whose_response_has_ended_does_not_wait_for_room() {
    let claimed = Claimed::new();
    let mut writer = claimed.writer();
    while writer.try_frame(Kind::Chunk, &[&[1; 1000]]).is_ok() {}
    assert!(writer.commit());
    // By another thread, between the writer's look at the ring and its wait.
    assert!(claimed.region.slot_states().finish(claimed.claim, 0));
    writer.wait_for_room(&AtomicU32::new(0));
    Claimed::publish(&claimed.region, &mut 1, 8);
    writer.wait_for_room(&AtomicU32::new(0));
}

#[test]
fn a_frame_of_another_claim_is_refused() {
    let claimed = Claimed::new();
    let mut writer = claimed.writer();
    writer.try_frame(Kind::Chunk, &[b"other"]).unwrap();
    assert!(writer.commit());
    let other = claimed.claim.sequence + 1;
    let reader = || Reader {
        sequence: other,
        ..claimed.reader()
    };
    assert_eq!(reader().frame(&mut Vec::new()), Ok(None));
    // Even where the word says that it is this claim's.
    let put = &claimed.region.words(0).put;
    put.store(put_word(other, writer.put()), Ordering::SeqCst);
    assert_eq!(reader().frame(&mut Vec::new()), Err(Malformed));
}

#[test]
fn lengths_that_point_outside_are_malformed() {
    let claimed = Claimed::new();
    let put = &claimed.region.words(0).put;
    let says = |bytes| put.store(put_word(claimed.claim.sequence, bytes), Ordering::SeqCst);
    says(1 << 20);
    assert_eq!(claimed.reader().frame(&mut Vec::new()), Err(Malformed));
    says(24);
    let writer = claimed.writer();
    for (kind, length) in [(99_u32, 0_u32), (3, 9), (3, u32::MAX)] {
        writer.copy_in(0, &kind.to_le_bytes());
        writer.copy_in(4, &length.to_le_bytes());
        writer.copy_in(8, &claimed.claim.sequence.to_le_bytes());
        assert_eq!(claimed.reader().frame(&mut Vec::new()), Err(Malformed));
    }
}

#[test]
fn a_frame_larger_than_half_the_ring_is_refused() {
    let claimed = Claimed::new();
    let mut writer = claimed.writer();
    let longest = longest(&claimed.region);
    assert_eq!(
        writer.try_frame(Kind::Head, &[&vec![0; longest + 1]]),
        Err(WriteError::TooLarge(longest))
    );
    assert_eq!(writer.try_frame(Kind::Head, &[&vec![0; longest]]), Ok(()));
}

#[test]
fn a_head_is_read_as_it_was_written_and_never_outside() {
    let mut head = Head::default();
    head.begin(404);
    head.begin(200);
    head.field(b"content-type", b"text/html");
    head.field(b"x-empty", b"");
    let bytes = head.bytes().to_vec();
    let mut fields = Vec::new();
    let status = Head::parse(&bytes, |name, value| {
        fields.push((bytes[name].to_vec(), bytes[value].to_vec()))
    });
    assert_eq!(status, Ok(200));
    assert_eq!(
        fields,
        [
            (b"content-type".to_vec(), b"text/html".to_vec()),
            (b"x-empty".to_vec(), b"".to_vec())
        ]
    );
    for cut in 0..bytes.len() {
        assert_eq!(Head::parse(&bytes[..cut], |_, _| ()), Err(Malformed));
    }
}
