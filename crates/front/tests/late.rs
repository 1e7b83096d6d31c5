//! Requests that run past their deadline: what the supervisor hears of them, and what the log says.

#[path = "support/front.rs"]
mod support;

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use config::Settings;
use exchange::response::Kind;
use highball_front::dispatch::Run;
use highball_front::{Alarm, Still, WorkerId};
use support::{Server, Taken};
use test_support::PATIENCE;

const FIRST: WorkerId = WorkerId {
    generation: 1,
    worker: 0,
};

/// A front that gives `/late` and `/mark` little time and all else its minute, and its alarms.
fn start(change: impl FnOnce(&mut Settings)) -> (Server, Receiver<Alarm>) {
    let server = Server::start(|settings| {
        // Enough to take it before.
        let late = ("/late", Duration::from_millis(500));
        let mark = ("/mark", Duration::from_millis(10));
        settings.request_timeouts = [late, mark].into_iter().collect();
        settings.request_grace = Duration::ZERO;
        change(settings);
    });
    let (tell, told) = channel();
    server.with(move |front| {
        front.on_alarm(move |alarm| {
            // Nobody may listen any more when the test is over.
            let _ = tell.send(alarm);
        });
    });
    (server, told)
}

/// The next alarm.
#[track_caller]
fn next(alarms: &Receiver<Alarm>) -> Alarm {
    alarms.recv_timeout(PATIENCE).expect("an alarm")
}

/// The request that a seat of the first worker has, as an alarm names it.
fn run(taken: &Taken<'_>, thread: u16) -> Run {
    let (slot, sequence) = taken.key();
    Run {
        by: FIRST,
        thread,
        slot: slot as u16,
        sequence: sequence as u32,
    }
}

/// Waits until the front has looked at every deadline after this moment: that of a request of its own has passed.
#[track_caller]
fn pass_a_deadline(server: &Server) {
    server.ask("/mark").response().expect(503);
}

#[test]
fn a_late_request_sounds_an_alarm_and_is_logged_with_the_backtrace_once() {
    let (server, alarms) = start(|settings| settings.request_grace = 2 * PATIENCE);
    let mut client = server.ask("/late?secret=1");
    let mut seat = server.seat();
    let taken = seat.take();
    client.response().expect(504);
    let late = run(&taken, 0);
    assert_eq!(next(&alarms), Alarm::Late(late));
    let backtrace = ["app.rb:7:in `call'", "rack.rb:1:in \x1b[31m'"].map(str::to_owned);
    let stranger = WorkerId { worker: 7, ..FIRST };
    server.with(move |front| {
        // Only of whom and of what it was asked.
        front.traced(stranger, late.slot, late.sequence, &backtrace);
        front.traced(FIRST, late.slot, late.sequence + 1, &backtrace);
        front.traced(FIRST, late.slot, late.sequence, &backtrace);
        front.traced(FIRST, late.slot, late.sequence, &backtrace);
    });
    taken.finish();
    server.until_quiet();
    pass_a_deadline(&server);
    let lines = server.wait_for_lines(|lines| lines.iter().any(|line| line.contains("mark")));
    let about = |line: &&String| line.contains("runs past its deadline");
    let found: Vec<_> = lines.iter().filter(about).collect();
    assert_eq!(found.len(), 1, "{lines:#?}");
    assert!(
        found[0].contains("level=warn") && found[0].contains("method=GET path=\"/late\" app_ms="),
        "{}",
        found[0]
    );
    assert!(found[0].ends_with("worker=0 generation=1"), "{}", found[0]);
    let at = lines.iter().position(|line| line == found[0]).unwrap();
    let frames = &lines[at + 1..at + 3];
    assert_eq!(
        frames,
        ["  | app.rb:7:in `call'", "  | rack.rb:1:in \\x1b[31m'"]
    );
    assert!(alarms.try_recv().is_err(), "one is enough");
}

#[test]
fn a_request_that_ended_before_its_worker_could_say_where_is_not_logged_again() {
    let (server, alarms) = start(|_| {});
    let mut client = server.ask("/late");
    let mut seat = server.seat();
    let taken = seat.take();
    client.response().expect(504);
    let late = run(&taken, 0);
    assert_eq!(next(&alarms), Alarm::Late(late));
    taken.finish();
    server.until_quiet();
    server.with(move |front| front.traced(FIRST, late.slot, late.sequence, &[]));
    pass_a_deadline(&server);
    let lines = server.wait_for_lines(|lines| lines.iter().any(|line| line.contains("mark")));
    assert!(
        !lines.iter().any(|line| line.contains("past its deadline")),
        "{lines:#?}"
    );
}

#[test]
fn a_worker_is_stuck_after_the_grace_and_spent_when_it_runs_nothing_that_is_in_time() {
    let (server, alarms) = start(|settings| settings.threads = 2);
    let player = server.worker(0);
    let (mut first, mut second) = (player.seat(0), player.seat(1));
    let mut other = server.ask("/other");
    let useful = second.take();
    let mut client = server.ask("/late");
    let taken = first.take();
    client.response().expect(504);
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    assert_eq!(next(&alarms), Alarm::Stuck(FIRST));
    // However often the front looks: the other thread is in time.
    for _ in 0..2 {
        pass_a_deadline(&server);
        assert!(alarms.try_recv().is_err());
    }
    useful.answer_path();
    other.response().expect(200);
    assert_eq!(next(&alarms), Alarm::Spent(FIRST));
    pass_a_deadline(&server);
    assert!(alarms.try_recv().is_err(), "one is enough");
    server.bury(0);
    server.until_quiet();
    // Its successor begins anew.
    let mut client = server.ask("/late");
    let mut seat = server.seat();
    let taken = seat.take();
    client.response().expect(504);
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    assert_eq!(next(&alarms), Alarm::Stuck(FIRST));
    assert_eq!(next(&alarms), Alarm::Spent(FIRST));
}

#[test]
fn a_worker_that_was_woken_and_holds_nothing_stands_still_and_its_request_is_another_s_to_take() {
    let (server, alarms) = start(|settings| settings.workers = 2);
    let still = server.worker(0).seat(0);
    let region = server.region();
    std::thread::scope(|scope| {
        scope.spawn(move || still.sleep());
        while region.board().idle[0].load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let mut client = server.ask("/waits");
        assert_eq!(next(&alarms), Alarm::Still(FIRST, Still::Called));
        server.with(|front| front.stop_worker(1, 0));
        server.worker(1).seat(0).take().answer_path();
        assert_eq!(client.response().text(), "/waits");
    });
    server.until_quiet();
    assert_eq!(server.end(), 1);
}

#[test]
fn a_worker_that_does_something_else_while_requests_wait_stands_still() {
    let (server, alarms) = start(|settings| {
        settings.request_timeout = Duration::from_millis(500);
        settings.request_timeouts = [("/waits", 2 * PATIENCE)].into_iter().collect();
    });
    // None of its threads looks for a request.
    let player = server.worker(0);
    let mut client = server.ask("/waits");
    assert_eq!(next(&alarms), Alarm::Still(FIRST, Still::Between));
    player.seat(0).take().answer_path();
    assert_eq!(client.response().text(), "/waits");
}

#[test]
fn a_worker_whose_late_request_ends_within_the_grace_is_not_stuck() {
    let (server, alarms) = start(|settings| settings.request_grace = 2 * PATIENCE);
    let mut client = server.ask("/late");
    let mut seat = server.seat();
    let taken = seat.take();
    client.response().expect(504);
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    pass_a_deadline(&server);
    taken.finish();
    server.until_quiet();
    pass_a_deadline(&server);
    assert!(alarms.try_recv().is_err());
}

#[test]
fn a_request_whose_client_left_before_its_deadline_is_late_as_well() {
    let (server, alarms) = start(|_| {});
    let client = server.ask("/late");
    let mut seat = server.seat();
    let taken = seat.take();
    client.reset();
    taken.until_abandoned();
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    assert_eq!(next(&alarms), Alarm::Stuck(FIRST));
    server.expect_outcome("/late", "client_gone");
}

#[test]
fn a_response_that_has_begun_may_take_its_time() {
    let (server, alarms) = start(|_| {});
    let mut client = server.ask("/late");
    let mut seat = server.seat();
    let mut taken = seat.take();
    taken.head(200, &[("content-length", "4")]).flush();
    assert_eq!(client.head().status, 200);
    // Until it has passed, and some more.
    server.ask("/late").response().expect(503);
    for _ in 0..3 {
        pass_a_deadline(&server);
    }
    taken.chunk(b"done");
    taken.end();
    server.wait_for_lines(|lines| lines.iter().any(|line| line.ends_with("outcome=ok")));
    assert!(alarms.try_recv().is_err());
}

#[test]
fn a_connection_that_the_application_took_over_has_no_deadline() {
    let (server, alarms) = start(|_| {});
    let _client = server.ask("/late");
    let mut seat = server.seat();
    let mut taken = seat.take();
    let (slot, sequence) = taken.key();
    let (_ours, theirs) = UnixStream::pair().unwrap();
    taken.frame(Kind::Hijacked, b"").unwrap();
    taken.flush();
    server.with(move |front| front.hijacked(FIRST, slot, sequence, theirs.into()));
    // Until it has passed, and some more.
    server.ask("/late").response().expect(503);
    for _ in 0..3 {
        pass_a_deadline(&server);
    }
    taken.finish();
    assert!(alarms.try_recv().is_err());
}

#[test]
fn a_worker_that_dies_without_having_said_where_is_named_with_its_request() {
    let (server, alarms) = start(|_| {});
    let mut client = server.ask("/late");
    let mut seat = server.seat();
    let taken = seat.take();
    client.response().expect(504);
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    server.bury(0);
    let lines = server.wait_for_lines(|lines| {
        let told = |line: &String| line.contains("ran past its deadline");
        lines.iter().any(told)
    });
    let line = lines.iter().find(|line| line.contains("ran past"));
    let line = line.expect("it was waited for");
    assert!(line.contains("without having said where"), "{line}");
    assert!(line.contains("method=GET path=\"/late\""), "{line}");
    server.until_quiet();
    assert_eq!(server.end(), 1, "it has one outcome");
}
