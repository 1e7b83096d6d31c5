//! Histories that were written are read; everything else is refused.

use super::*;

fn point(at: u64, buckets: usize, count: u64) -> Point {
    let bucket = |index: usize| Bucket {
        above_s: index as f64,
        up_to_s: index as f64 + 1.0,
        count,
    };
    Point {
        at,
        seconds: 5.0,
        requests: count,
        errors: 3,
        latency: (0..buckets).map(bucket).collect(),
        queue: 4,
        busy: 1.5,
        threads: 6,
        memory_bytes: at.is_multiple_of(2).then_some(700_000_000),
    }
}

fn saved(points: u64, buckets: usize, count: u64) -> Saved {
    let points =
        |most: u64| (0..points.min(most)).map(|at| point(1_795_417_392 + at, buckets, count));
    let measured = Measured {
        recent: points(RECENT_POINTS as u64).collect(),
        day: points(DAY_POINTS as u64 + 1).collect(),
    };
    Saved {
        marks: vec![Mark {
            at: 1_795_417_392,
            text: "generation 2 serves".into(),
            application: Some("shop".into()),
        }],
        series: vec![(String::new(), measured.clone()), ("shop".into(), measured)],
    }
}

#[test]
fn what_was_written_is_read() {
    for saved in [
        Saved::default(),
        saved(1, 0, 1),
        saved(3, 5, 1 << 40),
        saved(1_000, 40, 300),
    ] {
        assert_eq!(Saved::from_bytes(&saved.to_bytes()), Ok(saved));
    }
}

#[test]
fn damaged_and_foreign_bytes_are_refused() {
    let bytes = saved(2, 3, 7).to_bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert_eq!(Saved::from_bytes(&damaged), Err(DamagedHistory), "{at}");
        assert!(Saved::from_bytes(&bytes[..at]).is_err(), "cut at {at}");
    }
    for foreign in [&b""[..], b"HBHIST1\n", b"{}", &[0xff; 4096]] {
        assert_eq!(Saved::from_bytes(foreign), Err(DamagedHistory));
    }
    let longer = [&bytes[..], b"x"].concat();
    assert!(Saved::from_bytes(&longer).is_err());
}

#[test]
fn lengths_and_numbers_beyond_the_bounds_are_refused() {
    // Each with a right hash, as somebody could write it.
    let sealed = |body: &[u8]| {
        let mut bytes = [&MAGIC[..], body].concat();
        let hash = hash(&bytes);
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes
    };
    assert_eq!(Saved::from_bytes(&sealed(&[0, 0])), Ok(Saved::default()));
    let nan = f64::NAN.to_le_bytes();
    let with_nan = [&[0, 1, 0, 1][..], &nan, &nan, &[0, 0]].concat();
    let no_such_bucket = {
        let point = [&[1][..], &[0; 8], &[0; 4], &[0; 8], &[0, 1, 9, 1]].concat();
        [&[0, 1, 0, 0, 1][..], &point, &[0]].concat()
    };
    for body in [
        &[0][..],
        &[0, 0, 0],
        &[101, 0],
        &[0, 66],
        &[0xff; 12],
        &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[1, 0, 2, 0xff, 0xff, 0, 0],
        &with_nan,
        &no_such_bucket,
    ] {
        assert_eq!(Saved::from_bytes(&sealed(body)), Err(DamagedHistory));
    }
}

#[test]
fn a_history_has_a_largest_size() {
    let most = saved(1_000, MAX_BUCKETS, (1 << 55) - 1);
    let bytes = most.to_bytes();
    assert!(bytes.len() as u64 <= Saved::max_bytes(1), "{}", bytes.len());
    let read = Saved::from_bytes(&bytes).expect("it is whole");
    let day = &read.series[1].1.day;
    let newest = most.series[1].1.day.last();
    assert!(
        day.len() < DAY_POINTS && day.last() == newest,
        "the newest stay"
    );
    let usual = saved(1_000, 40, 300);
    assert!(usual.to_bytes().len() < 150_000);
}
