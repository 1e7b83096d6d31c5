//! Receivers that fail, and queues that are full.

use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use exceptions::{Groups, Report, Seen};

use super::*;

fn notice(class: &str) -> Notice {
    let report = Report {
        class: class.to_owned(),
        ..Report::default()
    };
    let notice = Groups::default().add(report, Seen::default());
    notice.expect("the first of a group is told")
}

/// Fails so often, and keeps what it delivers.
struct Failing {
    times: usize,
    again: bool,
    delivered: Vec<String>,
}

impl Receiver for Failing {
    fn name(&self) -> String {
        "the receiver".to_owned()
    }

    fn deliver(&mut self, notice: &Notice) -> Result<(), Undelivered> {
        if self.times > 0 {
            self.times -= 1;
            let reason = "it is dead".to_owned();
            let again = self.again;
            return Err(Undelivered { reason, again });
        }
        self.delivered.push(notice.class.clone());
        Ok(())
    }
}

#[test]
fn an_attempt_that_failed_is_made_again_after_a_pause() {
    let expected = RETRY_PAUSES_MS.map(Duration::from_millis);
    let rows = [(0, 0, true), (2, 2, true), (3, 3, true), (4, 3, false)];
    for (times, pauses, delivered) in rows {
        let mut receiver = Failing {
            times,
            again: true,
            delivered: Vec::new(),
        };
        let paused = RefCell::new(Vec::new());
        let told = tell(&mut receiver, &notice("A"), |length| {
            paused.borrow_mut().push(length)
        });
        assert_eq!(
            (told.is_ok(), &paused.borrow()[..]),
            (delivered, &expected[..pauses])
        );
    }
}

#[test]
fn what_no_attempt_can_deliver_is_given_up_at_once() {
    let mut receiver = Failing {
        times: 1,
        again: false,
        delivered: Vec::new(),
    };
    let told = tell(&mut receiver, &notice("A"), |_| panic!("a pause"));
    assert_eq!(told, Err("it is dead".to_owned()));
}

#[test]
fn the_next_notice_is_told_after_one_that_failed() {
    let (sender, queue) = sync_channel(2);
    for class in ["A", "B"] {
        sender.send(Arc::new(notice(class))).expect("there is room");
    }
    drop(sender);
    let complaints = Mutex::new(Vec::new());
    let mut receiver = Failing {
        times: 4,
        again: true,
        delivered: Vec::new(),
    };
    let complain = |text: String| complaints.lock().expect("no panic").push(text);
    run(&mut receiver, &queue, &complain, |_| ());
    assert_eq!(receiver.delivered, ["B"]);
    let complaints = complaints.into_inner().expect("no panic");
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].starts_with("could not tell the receiver of exception group "));
}

/// Waits for a permit before it returns.
struct Slow(Queue<()>);

impl Receiver for Slow {
    fn name(&self) -> String {
        "a slow one".to_owned()
    }

    fn deliver(&mut self, _: &Notice) -> Result<(), Undelivered> {
        // The end of the test lets it go.
        let _ = self.0.recv();
        Ok(())
    }
}

#[test]
fn what_a_full_queue_cannot_take_is_refused_without_waiting() {
    let (go, permits) = channel();
    let queue = start(Slow(permits), Arc::new(|text| panic!("{text}"))).expect("a thread");
    let notice = Arc::new(notice("A"));
    // One may be with the receiver.
    let taken = (0..MAX_WAITING + 2).filter(|_| queue.try_send(Arc::clone(&notice)).is_ok());
    let taken = taken.count();
    assert!((MAX_WAITING..MAX_WAITING + 2).contains(&taken), "{taken}");
    drop(go);
}
