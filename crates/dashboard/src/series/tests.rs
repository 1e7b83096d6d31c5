//! Readings and rings in tables; no clock runs.

use super::recorder::Recorder;
use super::*;

fn bucket(up_to_s: f64, count: u64) -> Bucket {
    Bucket {
        above_s: up_to_s / 2.0,
        up_to_s,
        count,
    }
}

fn reading(step: u64, requests: u64) -> Reading {
    Reading {
        at: 1_000_000 + step * STEP_S,
        monotonic_ms: step * STEP_S * 1000,
        requests,
        errors: requests / 10,
        latency: vec![bucket(0.010, requests)],
        queue: step % 3,
        busy: 2,
        threads: 4,
        memory_bytes: Some(100 + step),
    }
}

#[test]
fn a_point_is_the_difference_of_two_readings() {
    let mut series = Series::default();
    assert_eq!(series.record(reading(0, 1_000)), None, "none before it");
    let point = series.record(reading(1, 1_100)).expect("a point");
    assert_eq!((point.requests, point.errors), (100, 10));
    assert_eq!(point.rate(), 20.0);
    assert_eq!(point.error_share(), Some(0.1));
    assert_eq!(point.latency, [bucket(0.010, 100)]);
    assert_eq!(series.measured().recent, [point]);
}

#[test]
fn counters_that_begin_again_count_what_they_show() {
    let mut series = Series::default();
    series.record(reading(0, 1_000));
    let point = series.record(reading(1, 30)).expect("a point");
    assert_eq!((point.requests, point.errors), (30, 3));
    assert_eq!(point.latency, [bucket(0.010, 30)]);
    // More requests than before, but other buckets: no bucket is negative.
    let other = Reading {
        latency: vec![bucket(0.010, 3), bucket(0.020, 60)],
        ..reading(2, 90)
    };
    let point = series.record(other).expect("a point");
    assert_eq!(point.latency, [bucket(0.010, 3), bucket(0.020, 60)]);
}

#[test]
fn a_reading_without_time_since_the_last_one_is_no_point() {
    let mut series = Series::default();
    series.record(reading(3, 1_000));
    assert_eq!(series.record(reading(3, 2_000)), None);
    assert_eq!(
        series.record(reading(2, 3_000)),
        None,
        "a clock that went back"
    );
    assert!(series.record(reading(4, 3_001)).is_some());
}

#[test]
fn the_rings_keep_ten_minutes_and_a_day() {
    let mut series = Series::default();
    let steps = 2 * 86_400 / STEP_S;
    for step in 0..=steps {
        series.record(reading(step, step * 10));
    }
    let measured = series.measured();
    assert_eq!(measured.recent.len(), RECENT_POINTS);
    assert!((DAY_POINTS..=DAY_POINTS + 1).contains(&measured.day.len()));
    let last = measured.recent.last().expect("a point");
    assert_eq!(last.at, 1_000_000 + steps * STEP_S);
    let full = &measured.day[0];
    assert_eq!(full.seconds, DAY_STEP_S);
    assert_eq!(full.requests, 600);
    assert_eq!(full.queue, 2, "the most that waited");
    assert_eq!(full.busy, 2.0, "the average");
    assert_eq!(full.latency, [bucket(0.010, 600)]);
}

#[test]
fn buckets_of_a_reading_are_bounded() {
    let mut series = Series::default();
    series.record(reading(0, 0));
    let many = (1..10_000).map(|index| bucket(f64::from(index), 1));
    let flood = Reading {
        latency: many.collect(),
        ..reading(1, 9_999)
    };
    let point = series.record(flood).expect("a point");
    assert_eq!(point.latency.len(), MAX_BUCKETS);
}

#[test]
fn percentiles_lie_within_their_bucket() {
    let buckets = [bucket(0.010, 90), bucket(0.100, 9), bucket(1.0, 1)];
    let check = |share, expect: f64| {
        let found = percentile(&buckets, share).expect("a percentile");
        assert!((found - expect).abs() < 1e-9, "{share}: {found}");
    };
    check(0.0, 0.005 + 0.005 / 90.0);
    check(0.9, 0.010);
    check(0.99, 0.100);
    check(1.0, 1.0);
    assert_eq!(percentile(&[], 0.5), None);
    assert_eq!(percentile(&[bucket(1.0, 0)], 0.5), None);
}

#[test]
fn all_applications_together_are_their_sum() {
    let mut recorder = Recorder::default();
    let both = |step, requests| {
        let shop = ("shop".to_owned(), reading(step, requests));
        [shop, ("wiki".to_owned(), reading(step, requests * 2))]
    };
    recorder.record(both(0, 100));
    recorder.record(both(1, 200));
    let all = recorder.all().recent;
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].requests, all[0].threads), (300, 8));
    assert_eq!(all[0].memory_bytes, Some(202));
    assert_eq!(all[0].latency, [bucket(0.010, 300)]);
    assert_eq!(recorder.of("wiki").recent[0].requests, 200);
    // One is gone, one is new, one has begun again.
    recorder.record([
        ("shop".to_owned(), reading(2, 5)),
        ("blog".to_owned(), reading(2, 7_000)),
    ]);
    assert_eq!(recorder.all().recent[1].requests, 5);
    assert_eq!(recorder.of("wiki"), Measured::default());
    assert_eq!(
        recorder.of("blog"),
        Measured::default(),
        "no second reading"
    );
}

#[test]
fn a_later_server_goes_on_where_the_earlier_one_ended() {
    let mut earlier = Recorder::default();
    for step in 0..=100 {
        earlier.record([("shop".to_owned(), reading(step, step * 10))]);
    }
    let saved = earlier.series();
    let end = 1_000_000 + 100 * STEP_S;
    let restored = |pause_s: u64| {
        let mut later = Recorder::default();
        later.restore(saved.clone(), end + pause_s);
        for step in 0..=1 {
            let next = reading(step, step * 10);
            let at = end + pause_s + step * STEP_S;
            later.record([("shop".to_owned(), Reading { at, ..next })]);
        }
        later.of("shop")
    };
    let soon = restored(60);
    assert_eq!(soon.recent.len(), 101);
    assert_eq!((soon.recent[99].at, soon.recent[100].at), (end, end + 65));
    assert_eq!(soon.day.len(), 2, "one full, and one that goes on");
    assert_eq!(soon.day[1].seconds, 205.0, "the pause is not measured");
    let later = restored(1_000);
    assert_eq!(
        later.recent.len(),
        1,
        "the others are older than ten minutes"
    );
    assert_eq!(later.day.len(), 3, "what was open has ended");
    assert_eq!(
        restored(2 * 86_400).day.len(),
        1,
        "all are older than a day"
    );
}

#[test]
fn restored_points_lie_before_those_that_are_there() {
    let mut series = Series::default();
    for step in 0..=70 {
        series.record(reading(step, step));
    }
    let first = series.measured().recent[0].at;
    let at = |at: u64| Point {
        at,
        seconds: DAY_STEP_S,
        ..Point::default()
    };
    let points: Vec<Point> = [first - 300, first - 200, first - 250, first, first + 10]
        .map(at)
        .into();
    let earlier = Measured {
        recent: points.clone(),
        day: points,
    };
    series.restore(earlier, first + 350);
    let measured = series.measured();
    let times = |points: &[Point]| points.iter().take(3).map(|one| one.at).collect::<Vec<_>>();
    assert_eq!(times(&measured.recent), [first - 200, first, first + 5]);
    assert_eq!(times(&measured.day)[..2], [first - 300, first - 200]);
    assert!(measured.day.is_sorted_by_key(|one| one.at));
    assert!(measured.recent.len() <= RECENT_POINTS);
}
