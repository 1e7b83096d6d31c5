//! The line without a server: who stands in it, and who is told what.

use std::rc::Rc;

use super::*;

fn signal(change: Change) -> Ask {
    let asker = Asker::Signal("USR1");
    Ask { change, asker }
}

fn command(change: Change) -> (Ask, watch::Receiver<Answer>) {
    let (client, answer) = watch::channel(Answer::Working);
    let asker = Asker::Command(client);
    (Ask { change, asker }, answer)
}

/// A line, and what it logs.
fn asks() -> (Asks, Rc<RefCell<Vec<String>>>) {
    let lines: Rc<RefCell<Vec<String>>> = Rc::default();
    let log = Rc::clone(&lines);
    let asks = Asks::new(move |line| RefCell::borrow_mut(&log).push(line.to_owned()));
    (asks, lines)
}

/// What a command was shown last, as it goes over the wire.
fn shown(client: &watch::Receiver<Answer>) -> String {
    serde_json::to_string(&*client.borrow()).expect("an answer is JSON")
}

#[test]
fn any_number_of_signals_is_one_of_each_kind_and_commands_are_all_answered() {
    let (asks, lines) = asks();
    let mut clients = Vec::new();
    for _ in 0..1000 {
        asks.push(signal(Change::Restart));
        asks.push(signal(Change::Upgrade(None)));
    }
    assert_eq!(lines.borrow().len(), 2);
    for _ in 0..1000 {
        // Its client leaves at once.
        asks.push(command(Change::Restart).0);
    }
    for _ in 0..3 {
        let (ask, client) = command(Change::Restart);
        asks.push(ask);
        clients.push(client);
    }
    assert_eq!(asks.take(&Change::Upgrade(None)).len(), 1);
    asks.begin(&Change::Restart, "a restart is under way");
    assert_eq!(asks.begun.borrow().len(), 1 + clients.len());
    asks.finish(&Answer::Error("told".to_owned()));
    for client in clients {
        assert_eq!(shown(&client), r#"{"error":"told"}"#);
    }
}

#[test]
fn whoever_comes_while_a_change_is_under_way_hears_at_once_what_it_waits_for_and_so_does_the_log() {
    let (asks, lines) = asks();
    let waits = |reason: &str| format!(r#"{{"waits":{{"reason":"{reason}"}}}}"#);
    let (ask, first) = command(Change::Restart);
    asks.push(ask);
    let (ask, reload) = command(Change::Reload);
    asks.push(ask);
    asks.begin(&Change::Restart, "the first is under way");
    asks.push(signal(Change::Restart));
    let (ask, second) = command(Change::Restart);
    asks.push(ask);
    assert_eq!(shown(&first), r#""working""#);
    for later in [&reload, &second] {
        assert_eq!(shown(later), waits("the first is under way"));
    }
    // What everybody waits for is no matter of the line.
    asks.tell("an old one ends");
    for client in [&first, &reload, &second] {
        assert_eq!(shown(client), waits("an old one ends"));
    }
    asks.tell("");
    asks.finish(&Answer::Error("done".to_owned()));
    assert_eq!(shown(&first), r#"{"error":"done"}"#);
    let (ask, free) = command(Change::Restart);
    asks.push(ask);
    assert_eq!(shown(&free), r#""working""#);
    let expected = [
        "a restart was asked for (highball restart)",
        "a reload of the settings was asked for (highball reload)",
        "a restart was asked for (signal USR1), and waits: the first is under way",
        "a restart was asked for (highball restart), and waits: the first is under way",
        "a restart was asked for (highball restart)",
    ];
    assert_eq!(*lines.borrow(), expected);
}

#[test]
fn whoever_asks_beyond_the_most_is_told_and_a_line_that_is_closed_stays_empty() {
    let (asks, lines) = asks();
    let upgrade = |number: usize| Change::Upgrade(Some(number.to_string().into()));
    for number in 0..MAX_ASKS {
        // Something else each time, and nobody waits for it.
        asks.push(command(upgrade(number)).0);
    }
    let (ask, client) = command(Change::Restart);
    asks.push(ask);
    assert!(shown(&client).contains("128"));
    asks.push(signal(Change::Restart));
    asks.close();
    assert!(asks.waiting.borrow().is_empty());
    let (ask, client) = command(Change::Restart);
    asks.push(ask);
    assert!(client.has_changed().is_err(), "nothing will come");
    asks.push(signal(Change::Restart));
    assert!(asks.waiting.borrow().is_empty());
    for text in ["(signal USR1), in vain: 128", "(signal USR1), too late"] {
        let count = lines
            .borrow()
            .iter()
            .filter(|line| line.contains(text))
            .count();
        assert_eq!(count, 1, "{text}");
    }
}
