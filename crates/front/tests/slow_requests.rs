//! Slow requests: when the front asks for a sample, how often, and what it keeps.

#[path = "support/front.rs"]
mod support;

use std::sync::mpsc::Receiver;
use std::time::Duration;

use exchange::{Alarm, Dispatcher as _, Run, WorkerId};
use support::{Server, Taken};
use test_support::TEST_TIMEOUT;

const FIRST: WorkerId = WorkerId {
    generation: 1,
    worker: 0,
};

/// The next sample that is wanted.
#[track_caller]
fn next(alarms: &Receiver<Alarm>) -> Run {
    match alarms.recv_timeout(TEST_TIMEOUT) {
        Ok(Alarm::Slow(run)) => run,
        other => panic!("a sample is wanted, not {other:?}"),
    }
}

/// A thread has said where it is.
fn answer(server: &Server, run: Run, backtrace: &[&str]) {
    let lines: Vec<String> = backtrace.iter().map(|line| (*line).to_owned()).collect();
    server.with(move |front| {
        let dispatcher = front.applications()[0].dispatcher();
        dispatcher.traced(run.by, run.slot, run.sequence, &lines);
    });
}

/// The request that the first thread has, as an alarm names it.
fn run(taken: &Taken<'_>) -> Run {
    let (slot, sequence) = taken.key();
    Run {
        by: FIRST,
        thread: 0,
        slot: slot as u16,
        sequence: sequence as u32,
    }
}

#[test]
fn only_slow_requests_are_asked_for_and_so_often() {
    let server = Server::start(|settings| {
        settings.slow_request = Some(Duration::from_millis(20));
    });
    let alarms = server.alarms();
    let mut client = server.ask("/slow?page=2");
    let mut thread = server.thread();
    let taken = thread.take();
    let own = run(&taken);
    for number in 0..20 {
        assert_eq!(next(&alarms), own);
        // A worker that has not answered is not asked again, and a stranger's answer is none.
        let stranger = Run {
            by: WorkerId { worker: 7, ..FIRST },
            ..own
        };
        answer(&server, stranger, &["a.rb:1:in `stranger'"]);
        let innermost = if number % 2 == 0 {
            "a.rb:1:in `one'"
        } else {
            "a.rb:1:in `two'"
        };
        answer(&server, own, &[innermost, "a.rb:2:in `call'"]);
        answer(&server, own, &["a.rb:1:in `twice'"]);
    }
    taken.answer_path();
    client.response().expect(200);
    server.until_quiet();
    let kept = server.with(|front| front.applications()[0].slow_requests());
    assert_eq!(kept.len(), 1);
    assert_eq!(
        (&*kept[0].path, kept[0].outcome.as_str()),
        ("/slow?page=2", "ok")
    );
    let stacks = &kept[0].stacks;
    assert_eq!(stacks.samples(), 20);
    let methods: Vec<&str> = stacks.frames().iter().map(|frame| &*frame.method).collect();
    assert_eq!(methods, ["call", "one", "two"]);
    assert!(alarms.try_recv().is_err(), "20 samples are enough");
}

#[test]
fn a_worker_that_does_not_answer_is_asked_once() {
    let server = Server::start(|settings| {
        settings.slow_request = Some(Duration::from_millis(20));
        settings.request_timeout = Some(Duration::from_millis(800));
        settings.request_grace = 2 * TEST_TIMEOUT;
    });
    let alarms = server.alarms();
    let mut client = server.ask("/");
    let mut thread = server.thread();
    let taken = thread.take();
    let own = run(&taken);
    assert_eq!(next(&alarms), own);
    client.response().expect(504);
    let late = alarms.recv_timeout(TEST_TIMEOUT).expect("its deadline");
    assert_eq!(late, Alarm::Late(own));
    // It was answered and listed: nothing more is sampled. The answer is for the deadline's line.
    answer(&server, own, &["a.rb:1:in `call'"]);
    server.wait_for_lines(|lines| lines.iter().any(|line| line.contains("past its deadline")));
    taken.finish();
    server.until_quiet();
    let kept = server.with(|front| front.applications()[0].slow_requests());
    assert_eq!((kept.len(), kept[0].stacks.samples()), (1, 0));
    assert!(alarms.try_recv().is_err());
}

#[test]
fn nothing_is_kept_of_fast_requests() {
    let server = Server::start(|settings| {
        settings.slow_request = Some(2 * TEST_TIMEOUT);
    });
    let alarms = server.alarms();
    let mut client = server.ask("/");
    let mut thread = server.thread();
    thread.take().answer_path();
    client.response().expect(200);
    server.until_quiet();
    assert!(
        server
            .with(|front| front.applications()[0].slow_requests())
            .is_empty()
    );
    assert!(alarms.try_recv().is_err());
}
