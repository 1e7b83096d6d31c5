//! Questions whose answers are known.

use super::*;
use crate::recording::RecordedRoute;
use crate::times::Times;

fn constant(seconds: f64) -> Times {
    Times {
        sum_s: seconds * 10_000.0,
        ranges: vec![(seconds, seconds, 10_000)],
    }
}

/// Recorded without a hurry, by two workers with three threads on two cores.
fn recording(cpu_s: f64, wait_s: f64) -> Recording {
    Recording {
        seconds: 1e6,
        workers: 2,
        threads: 3,
        cores: 2,
        worker_bytes: Some(100 << 20),
        shared_bytes: Some(200 << 20),
        routes: vec![RecordedRoute {
            route: "GET /".to_owned(),
            cpu: constant(cpu_s),
            wait: constant(wait_s),
            ..RecordedRoute::default()
        }],
    }
}

fn question(rate: f64, p99_s: f64) -> Question {
    Question {
        rate,
        p99_s: Some(p99_s),
        workers: None,
        threads: None,
        cores: 2,
    }
}

fn chosen(answer: &Answer) -> Candidate {
    answer.candidates[answer.chosen.expect("one meets the target")]
}

#[test]
fn requests_that_wait_need_threads_and_no_workers() {
    let answer = answer(&recording(0.001, 0.1), &question(100.0, 0.15)).expect("requests");
    let one = chosen(&answer);
    assert_eq!((one.workers, one.threads), (1, 16), "{answer:?}");
    assert_eq!(one.memory_bytes, Some(300 << 20));
    assert!(answer.limit.is_none() && one.p99_s.is_some_and(|p99| p99 < 0.15));
}

#[test]
fn requests_that_compute_need_workers_and_one_thread() {
    let answer = answer(&recording(0.02, 0.0), &question(60.0, 0.2)).expect("requests");
    let one = chosen(&answer);
    assert_eq!((one.workers, one.threads), (2, 1), "{answer:?}");
    assert!((answer.needed_cores - 1.2).abs() < 1e-6);
    assert!((one.cpu_use - 0.6).abs() < 0.03, "{one:?}");
    let present: Vec<_> = answer
        .candidates
        .iter()
        .filter(|one| one.is_present)
        .collect();
    assert_eq!(present.len(), 1);
}

#[test]
fn too_few_cores_are_named_with_how_many_suffice() {
    let answer = answer(&recording(0.02, 0.0), &question(160.0, 0.1)).expect("requests");
    assert_eq!(answer.chosen, None);
    let Some(Limit::Cores {
        enough: Some(cores),
    }) = answer.limit
    else {
        panic!("{answer:?}");
    };
    assert!((4..=6).contains(&cores), "{cores}");
}

#[test]
fn requests_that_are_slower_than_the_target_are_named() {
    let found = answer(&recording(0.05, 0.2), &question(1.0, 0.2)).expect("requests");
    assert_eq!((found.chosen, found.limit), (None, Some(Limit::Requests)));
    assert!((found.alone_p99_s - 0.25).abs() < 0.01);
}

#[test]
fn named_numbers_are_the_only_candidate() {
    let question = Question {
        workers: Some(1),
        threads: Some(1),
        ..question(45.0, 0.05)
    };
    let found = answer(&recording(0.02, 0.0), &question).expect("requests");
    assert_eq!(
        (found.candidates.len(), found.limit),
        (1, Some(Limit::Given))
    );
    assert!(found.candidates[0].p99_s.is_some_and(|p99| p99 > 0.05));
}

#[test]
fn without_a_target_the_neighbours_of_the_present_are_shown() {
    let question = Question {
        p99_s: None,
        ..question(10.0, 0.0)
    };
    let found = answer(&recording(0.02, 0.0), &question).expect("requests");
    let workers: Vec<u16> = found.candidates.iter().map(|one| one.workers).collect();
    assert_eq!((workers, found.chosen), (vec![1, 2, 3, 4], None));
    assert!(found.limit.is_none());
}

#[test]
fn without_requests_there_is_no_answer() {
    let found = answer(&Recording::default(), &question(10.0, 1.0));
    assert_eq!(found, Err(NothingRecorded));
}
