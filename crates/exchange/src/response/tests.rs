//! Frames through a real region, both ends in one process.

use super::*;
use crate::region::Geometry;

fn region() -> Region {
    Region::create(Geometry::new(1, 1, 4096, 4096)).unwrap()
}

#[test]
fn frames_come_out_as_they_went_in_over_many_turns_of_the_ring() {
    let region = region();
    let mut writer = Writer::new(&region, 0);
    let mut reader = Reader {
        region: &region,
        slot: 0,
        taken: 0,
    };
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
        writer.commit();
        assert_eq!(reader.frame(&mut got), Ok(Some(Kind::Chunk)));
        assert_eq!(got, payload);
    }
}

#[test]
fn a_full_ring_takes_more_once_the_front_has_read() {
    let region = region();
    let mut writer = Writer::new(&region, 0);
    let mut reader = Reader {
        region: &region,
        slot: 0,
        taken: 0,
    };
    let chunk = [1; 1000];
    let mut written = 0;
    while writer.try_frame(Kind::Chunk, &[&chunk]).is_ok() {
        written += 1;
    }
    assert_eq!(written, 4);
    writer.commit();
    reader.frame(&mut Vec::new()).unwrap();
    assert_eq!(writer.try_frame(Kind::End, &[]), Ok(()));
}

#[test]
fn a_writer_that_waits_for_room_is_woken_by_the_reader_and_by_abandonment() {
    let region = region();
    for abandon in [false, true] {
        let mut writer = Writer::new(&region, 0);
        region.words(0).taken.store(0, Ordering::SeqCst);
        region.words(0).abandoned.store(0, Ordering::SeqCst);
        while writer.try_frame(Kind::Chunk, &[&[1; 1000]]).is_ok() {}
        writer.commit();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut writer = Writer::resume(&region, 0, writer.put());
                loop {
                    match writer.try_frame(Kind::Chunk, &[&[1; 1000]]) {
                        Err(WriteError::Full) => writer.wait_for_room(&AtomicU32::new(0)),
                        other => break other,
                    }
                }
            });
            if abandon {
                region.words(0).abandoned.store(1, Ordering::SeqCst);
                wake_writer(&region, 0);
                assert_eq!(waiting.join().unwrap(), Err(WriteError::Abandoned));
            } else {
                let mut reader = Reader {
                    region: &region,
                    slot: 0,
                    taken: 0,
                };
                while reader.frame(&mut Vec::new()).unwrap().is_some() {}
                assert_eq!(waiting.join().unwrap(), Ok(()));
            }
        });
    }
}

#[test]
fn lengths_that_point_outside_are_malformed() {
    let region = region();
    let reader = |taken| Reader {
        region: &region,
        slot: 0,
        taken,
    };
    region.words(0).put.store(1 << 40, Ordering::SeqCst);
    assert_eq!(reader(0).frame(&mut Vec::new()), Err(Malformed));
    assert_eq!(reader(1 << 50).frame(&mut Vec::new()), Err(Malformed));
    region.words(0).put.store(16, Ordering::SeqCst);
    let writer = Writer::new(&region, 0);
    for (kind, length) in [(99_u32, 0_u32), (3, 9), (3, u32::MAX)] {
        writer.copy_in(0, &kind.to_le_bytes());
        writer.copy_in(4, &length.to_le_bytes());
        assert_eq!(reader(0).frame(&mut Vec::new()), Err(Malformed));
    }
}

#[test]
fn a_frame_larger_than_half_the_ring_is_refused() {
    let region = region();
    let mut writer = Writer::new(&region, 0);
    let longest = writer.longest();
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
