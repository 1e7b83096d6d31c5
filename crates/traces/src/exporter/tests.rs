//! The thread's work without a receiver and without time.

use std::cell::RefCell;
use std::sync::Arc;

use super::*;
use crate::context::Context;
use crate::resource::Resource;

fn request() -> RequestSpans {
    let resource = Resource::new(None, None, None, "h", &|_| None).unwrap();
    RequestSpans {
        context: Context::new(None, true, [1; 32]),
        tracestate: String::new(),
        resource: Arc::new(resource),
        name: "GET".to_owned(),
        epoch_ns: 0,
        whole: (0, 1),
        queue: None,
        app: None,
        attributes: Vec::new(),
        app_attributes: Vec::new(),
        failed: false,
    }
}

fn refusal(again: bool, pause_s: Option<u64>) -> Result<Option<(u64, String)>, Undelivered> {
    Err(Undelivered {
        reason: "it answered 503".to_owned(),
        again,
        pause: pause_s.map(Duration::from_secs),
    })
}

/// Delivers exports of one span each, which get these answers, and returns pauses, complaints and counts. The queue is closed
/// in the pause with this number.
fn deliver(
    exports: usize,
    answers: Vec<Result<Option<(u64, String)>, Undelivered>>,
    closed_in: Option<usize>,
) -> (Vec<Duration>, Vec<String>, Vec<u64>) {
    let queue = Queue::default();
    let (pauses, complaints) = (RefCell::default(), RefCell::default());
    let mut answers = answers.into_iter();
    let mut work = Work {
        queue: &queue,
        send: &mut |_| answers.next().unwrap(),
        pause: &|pause| {
            let mut all: std::cell::RefMut<'_, Vec<_>> = pauses.borrow_mut();
            all.push(pause);
            closed_in == Some(all.len())
        },
        complain: &|text| {
            let mut all: std::cell::RefMut<'_, Vec<_>> = complaints.borrow_mut();
            all.push(text);
        },
        receiver: "c:4318",
        failing: false,
        lost: 0,
    };
    for _ in 0..exports {
        work.deliver(&[request()], 1);
    }
    assert!(answers.next().is_none());
    let counts = queue.counts().all().map(|(_, count)| count).to_vec();
    (pauses.take(), complaints.take(), counts)
}

#[test]
fn an_export_is_tried_again_and_then_dropped() {
    let answers = (0..5).map(|_| refusal(true, None)).collect();
    let (pauses, complaints, counts) = deliver(1, answers, None);
    assert_eq!(pauses.len(), 4);
    for (pause, least) in pauses.iter().zip(EXPORT_PAUSES_MS) {
        let least = Duration::from_millis(least);
        assert!((least..=least * 5 / 4).contains(pause), "{pause:?}");
    }
    assert_eq!(counts, [0, 0, 1, 0, 0]);
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].contains("c:4318") && complaints[0].contains("it answered 503"));
}

#[test]
fn a_receiver_that_says_when_is_left_alone_within_a_bound() {
    let answers = vec![
        refusal(true, Some(30)),
        refusal(true, Some(86_400)),
        Ok(None),
    ];
    let (pauses, complaints, counts) = deliver(1, answers, None);
    assert_eq!(pauses, [30, 60].map(Duration::from_secs));
    assert_eq!(counts, [1, 0, 0, 0, 0]);
    assert!(complaints[1].contains("takes them again"), "{complaints:?}");
}

#[test]
fn what_can_never_be_taken_is_dropped_at_once() {
    let answers = vec![refusal(false, None), Ok(None)];
    let (pauses, complaints, counts) = deliver(2, answers, None);
    assert!(pauses.is_empty());
    assert_eq!(counts, [1, 0, 1, 0, 0]);
    assert!(
        complaints[1].contains("1 spans could not"),
        "{complaints:?}"
    );
}

#[test]
fn nothing_is_tried_again_when_the_server_ends() {
    let answers = vec![refusal(true, None), refusal(true, None)];
    let (pauses, _, counts) = deliver(1, answers, Some(2));
    assert_eq!(pauses.len(), 2);
    assert_eq!(counts, [0, 0, 1, 0, 0]);
}

#[test]
fn spans_that_a_receiver_rejects_are_counted_and_said() {
    let rejected = || Ok(Some((7, "too old".to_owned())));
    let (_, complaints, counts) = deliver(2, vec![rejected(), rejected()], None);
    assert_eq!(counts, [0, 0, 0, 2, 0]);
    assert_eq!(complaints.len(), 1);
    assert!(
        complaints[0].contains("rejected 7 spans: too old"),
        "{complaints:?}"
    );
}
