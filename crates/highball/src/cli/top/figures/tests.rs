//! Rates, sums and orders from readings of the status.

use front::CertificateStatus;
use supervisor::{Generation, MemoryDetails};

use super::*;
use crate::control::report::NamedReport;

fn worker(number: u16, pid: i32, requests: u64, private: u64, started: u64) -> Process {
    Process {
        pid,
        role: Role::Worker,
        worker: Some(number),
        generation: Some(1),
        name: None,
        state: "ready".into(),
        forked_from: None,
        started,
        requests: Some(requests),
        memory_bytes: Some(private),
        first_memory_bytes: Some(100),
        memory: Some(MemoryDetails {
            pss_bytes: 1000,
            ..MemoryDetails::default()
        }),
    }
}

fn thread(worker: u16, state: &str, since_ms: Option<u64>) -> Thread {
    Thread {
        generation: 1,
        worker,
        state: state.into(),
        since_ms,
        ..Thread::default()
    }
}

fn counts(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let all = all.iter();
    all.map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

fn report(ok: u64, failed: u64) -> Report {
    let all = ApplicationReport {
        processes: vec![worker(0, 9, ok, 150, 20), worker(1, 10, 5, 400, 10)],
        generations: vec![Generation {
            number: 1,
            state: "serving".into(),
            ..Generation::default()
        }],
        threads: vec![
            thread(0, "running", Some(20)),
            thread(0, "idle", None),
            thread(1, "finishing", Some(900)),
        ],
        counters: counts(&[("ok", ok), ("app_error", failed), ("shed", 0)]),
        responses: counts(&[("2xx", ok), ("5xx", failed)]),
        ..ApplicationReport::default()
    };
    Report {
        pid: 7,
        certificates: Vec::<CertificateStatus>::new(),
        all,
        ..Report::default()
    }
}

fn readings(before: Report, now: Report, seconds: u64) -> (Reading, Reading) {
    let at = Instant::now();
    let reading = |report, at| Reading {
        report: Box::new(report),
        at,
    };
    (
        reading(before, at),
        reading(now, at + Duration::from_secs(seconds)),
    )
}

#[test]
fn rates_are_differences_over_the_time_between_two_readings() {
    let (before, now) = readings(report(100, 1), report(140, 3), 2);
    let figures = Figures::of(Some(&before), &now, None);
    assert_eq!(figures.rate, Some(21.0));
    let rates = [("2xx", 20.0), ("5xx", 1.0), ("app_error", 1.0)];
    assert_eq!(
        figures.rates,
        rates.map(|(name, rate)| (name.to_owned(), rate))
    );
    let of_workers: Vec<Option<f64>> = figures.workers.iter().map(|one| one.rate).collect();
    assert_eq!(of_workers, [Some(20.0), Some(0.0)]);
    assert_eq!(figures.memory, Some(2000));
    assert_eq!((figures.busy_threads, figures.threads), (2, 3));
    assert_eq!(figures.generations, "1 serving");
    let longest: Vec<_> = figures.running.iter().map(|one| one.since_ms).collect();
    assert_eq!(longest, [Some(900), Some(20)]);
}

#[test]
fn there_is_no_rate_without_two_readings_of_one_server() {
    let mut other = report(140, 3);
    other.pid = 8;
    let (before, now) = readings(report(100, 1), other, 2);
    let figures = Figures::of(Some(&before), &now, None);
    assert_eq!((figures.rate, &figures.rates[..]), (None, &[][..]));
    assert_eq!(Figures::of(None, &now, None).rate, None);
    let (before, now) = readings(report(100, 1), report(140, 3), 0);
    assert_eq!(Figures::of(Some(&before), &now, None).rate, None);
    // A worker that was replaced has begun at 0.
    let mut later = report(140, 3);
    later.all.processes[0] = worker(0, 11, 2, 0, 0);
    let (before, now) = readings(report(100, 1), later, 2);
    let figures = Figures::of(Some(&before), &now, None);
    assert_eq!(figures.workers[0].rate, None);
}

#[test]
fn one_of_several_applications_has_figures_of_its_own() {
    let with = |ok| {
        let mut report = report(ok, 0);
        let own = ApplicationReport {
            counters: counts(&[("ok", ok / 2)]),
            ..ApplicationReport::default()
        };
        report.applications = vec![NamedReport {
            own,
            ..NamedReport::default()
        }];
        report
    };
    let (before, now) = readings(with(100), with(140), 1);
    assert_eq!(Figures::of(Some(&before), &now, Some(0)).rate, Some(20.0));
    assert_eq!(Figures::of(Some(&before), &now, None).rate, Some(40.0));
    // One that has left with a reload.
    assert_eq!(Figures::of(Some(&before), &now, Some(5)).rate, Some(40.0));
}

#[test]
fn workers_are_sorted_by_each_order_and_back() {
    let (before, now) = readings(report(100, 1), report(140, 3), 2);
    let mut workers = Figures::of(Some(&before), &now, None).workers;
    let mut check = |order: Order, expect: [u16; 2]| {
        for reversed in [false, true] {
            order.sort(&mut workers, reversed);
            let numbers = workers.iter().filter_map(|one| one.process.worker);
            let mut numbers: Vec<u16> = numbers.collect();
            if reversed {
                numbers.reverse();
            }
            assert_eq!(numbers, expect, "{order:?} {reversed}");
        }
    };
    check(Order::Number, [0, 1]);
    check(Order::Requests, [0, 1]);
    check(Order::Rate, [0, 1]);
    check(Order::Memory, [1, 0]);
    check(Order::Grown, [1, 0]);
    check(Order::Age, [1, 0]);
}
