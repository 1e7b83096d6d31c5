//! The queue without a server: which requests wait, and what their requesters get as an answer.

use std::rc::Rc;

use super::*;

fn signal(change: Change) -> ChangeRequest {
    let requester = Requester::Signal("USR1");
    ChangeRequest { change, requester }
}

fn command(change: Change) -> (ChangeRequest, watch::Receiver<Progress>) {
    let (client, answer) = watch::channel(Progress::Working);
    let requester = Requester::Command(client);
    (ChangeRequest { change, requester }, answer)
}

/// A queue, and what it logs.
fn queue() -> (ChangeQueue, Rc<RefCell<Vec<String>>>) {
    let lines: Rc<RefCell<Vec<String>>> = Rc::default();
    let log = Rc::clone(&lines);
    let queue = ChangeQueue::new(
        move |line| RefCell::borrow_mut(&log).push(line.to_owned()),
        || {},
    );
    (queue, lines)
}

/// The last answer to a command, as it goes over the wire.
fn shown(client: &watch::Receiver<Progress>) -> String {
    serde_json::to_string(&*client.borrow()).expect("an answer is JSON")
}

#[test]
fn signals_of_a_kind_are_one_request_and_commands_are_all_answered() {
    let (queue, lines) = queue();
    let mut clients = Vec::new();
    for _ in 0..1000 {
        queue.push(signal(Change::Restart(None)));
        queue.push(signal(Change::Upgrade(None)));
    }
    assert_eq!(lines.borrow().len(), 2);
    for _ in 0..1000 {
        // Its client leaves at once.
        queue.push(command(Change::Restart(None)).0);
    }
    for _ in 0..3 {
        let (request, client) = command(Change::Restart(None));
        queue.push(request);
        clients.push(client);
    }
    assert_eq!(queue.take(&Change::Upgrade(None)).len(), 1);
    queue.begin(&Change::Restart(None), "restart in progress".to_owned());
    assert_eq!(queue.current.borrow().len(), 1 + clients.len());
    queue.finish(&Progress::refused("refused"));
    for client in clients {
        assert_eq!(shown(&client), r#"{"state":"refused","message":"refused"}"#);
    }
}

#[test]
fn requesters_and_the_log_hear_at_once_what_a_change_waits_for() {
    let (queue, lines) = queue();
    let waits = |reason: &str| format!(r#"{{"state":"waiting","reason":"{reason}"}}"#);
    let (request, first) = command(Change::Restart(None));
    queue.push(request);
    let (request, reload) = command(Change::Reload);
    queue.push(request);
    queue.begin(
        &Change::Restart(None),
        "the first is in progress".to_owned(),
    );
    queue.push(signal(Change::Restart(None)));
    let (request, second) = command(Change::Restart(None));
    queue.push(request);
    assert_eq!(shown(&first), r#"{"state":"working"}"#);
    for later in [&reload, &second] {
        assert_eq!(shown(later), waits("the first is in progress"));
    }
    // What all changes wait for is not logged here.
    queue.block("an old one ends".to_owned());
    for client in [&first, &reload, &second] {
        assert_eq!(shown(client), waits("an old one ends"));
    }
    queue.unblock();
    queue.finish(&Progress::refused("done"));
    assert_eq!(shown(&first), r#"{"state":"refused","message":"done"}"#);
    let (request, free) = command(Change::Restart(None));
    queue.push(request);
    assert_eq!(shown(&free), r#"{"state":"working"}"#);
    let expected = [
        "restart requested (highball restart)",
        "reload requested (highball reload)",
        "restart requested (signal USR1); waiting: the first is in progress",
        "restart requested (highball restart); waiting: the first is in progress",
        "restart requested (highball restart)",
    ];
    assert_eq!(*lines.borrow(), expected);
}

#[test]
fn requests_beyond_the_limit_are_refused_and_a_closed_queue_stays_empty() {
    let (queue, lines) = queue();
    let upgrade = |number: usize| Change::Upgrade(Some(number.to_string().into()));
    for number in 0..MAX_CHANGE_REQUESTS {
        // Another change each time, and no client waits for it.
        queue.push(command(upgrade(number)).0);
    }
    let (request, client) = command(Change::Restart(None));
    queue.push(request);
    assert!(shown(&client).contains("128"));
    queue.push(signal(Change::Restart(None)));
    queue.close();
    assert!(queue.waiting.borrow().is_empty());
    let (request, client) = command(Change::Restart(None));
    queue.push(request);
    assert!(client.has_changed().is_err(), "nothing will come");
    queue.push(signal(Change::Restart(None)));
    assert!(queue.waiting.borrow().is_empty());
    for text in ["(signal USR1); refused: 128", "(signal USR1); ignored"] {
        let count = lines
            .borrow()
            .iter()
            .filter(|line| line.contains(text))
            .count();
        assert_eq!(count, 1, "{text}");
    }
}
