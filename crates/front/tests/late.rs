//! Requests that run past their deadline, responses that stand still, and threads that do not come back from what follows
//! a response: what the supervisor hears of them, and what the log says.

#[path = "support/front.rs"]
mod support;

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use config::Settings;
use exchange::response::Kind;
use exchange::{Alarm, Dispatcher as _, Run, Stall, WorkerId};
use support::{Server, Taken};
use test_support::{Fault, TEST_TIMEOUT};

const FIRST: WorkerId = WorkerId {
    generation: 1,
    worker: 0,
};

/// A front that gives `/late` and `/mark` little time, `/stream` a little more and all else its minute, and its alarms.
fn start(change: impl FnOnce(&mut Settings)) -> (Server, Receiver<Alarm>) {
    let server = Server::start(|settings| {
        // Enough to take it before.
        let late = ("/late", Duration::from_millis(500));
        let mark = ("/mark", Duration::from_millis(10));
        // Enough for one piece after the other, also on a busy machine.
        let stream = ("/stream", Duration::from_secs(2));
        settings.request_timeouts = [late, mark, stream].into_iter().collect();
        settings.request_grace = Duration::ZERO;
        change(settings);
    });
    let (sender, receiver) = channel();
    server.with(move |front| {
        front.applications()[0].on_alarm(move |alarm| {
            // The receiver may be gone when the test is over.
            let _ = sender.send(alarm);
        });
    });
    (server, receiver)
}

/// The next alarm.
#[track_caller]
fn next(alarms: &Receiver<Alarm>) -> Alarm {
    alarms.recv_timeout(TEST_TIMEOUT).expect("an alarm")
}

/// The request that a thread of the first worker has, as an alarm names it.
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
    let (server, alarms) = start(|settings| settings.request_grace = 2 * TEST_TIMEOUT);
    let mut client = server.ask("/late?secret=1");
    let mut thread = server.thread();
    let taken = thread.take();
    client.response().expect(504);
    let late = run(&taken, 0);
    assert_eq!(next(&alarms), Alarm::Late(late));
    let backtrace = ["app.rb:7:in `call'", "rack.rb:1:in \x1b[31m'"].map(str::to_owned);
    let stranger = WorkerId { worker: 7, ..FIRST };
    server.with(move |front| {
        // Only of whom and of what it was asked.
        front.applications()[0]
            .dispatcher()
            .traced(stranger, late.slot, late.sequence, &backtrace);
        front.applications()[0].dispatcher().traced(
            FIRST,
            late.slot,
            late.sequence + 1,
            &backtrace,
        );
        front.applications()[0]
            .dispatcher()
            .traced(FIRST, late.slot, late.sequence, &backtrace);
        front.applications()[0]
            .dispatcher()
            .traced(FIRST, late.slot, late.sequence, &backtrace);
    });
    taken.finish();
    assert!(thread.try_take().is_none());
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
    let mut thread = server.thread();
    let taken = thread.take();
    client.response().expect(504);
    let late = run(&taken, 0);
    assert_eq!(next(&alarms), Alarm::Late(late));
    taken.finish();
    server.until_quiet();
    server.with(move |front| {
        front.applications()[0]
            .dispatcher()
            .traced(FIRST, late.slot, late.sequence, &[])
    });
    pass_a_deadline(&server);
    let lines = server.wait_for_lines(|lines| lines.iter().any(|line| line.contains("mark")));
    assert!(
        !lines.iter().any(|line| line.contains("past its deadline")),
        "{lines:#?}"
    );
}

#[test]
fn a_worker_is_stuck_after_the_grace_and_spent_when_it_runs_nothing_that_is_in_time() {
    let (server, alarms) = start(|settings| settings.threads = 2.into());
    let player = server.worker(0);
    let (mut first, mut second) = (player.thread(0), player.thread(1));
    let mut other = server.ask("/other");
    let useful = second.take();
    let mut client = server.ask("/late");
    let taken = first.take();
    client.response().expect(504);
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    assert_eq!(next(&alarms), Alarm::Stalled(FIRST, Stall::LateRequest));
    // However often the front looks: the other thread is in time.
    for _ in 0..2 {
        pass_a_deadline(&server);
        assert!(alarms.try_recv().is_err());
    }
    useful.answer_path();
    other.response().expect(200);
    // Also with what follows its response.
    pass_a_deadline(&server);
    assert!(alarms.try_recv().is_err());
    assert!(second.try_take().is_none());
    assert_eq!(next(&alarms), Alarm::OnlyLateWork(FIRST));
    pass_a_deadline(&server);
    assert!(alarms.try_recv().is_err(), "one is enough");
    server.reclaim(0);
    server.until_quiet();
    // Its successor begins again.
    let mut client = server.ask("/late");
    let mut thread = server.thread();
    let taken = thread.take();
    client.response().expect(504);
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    assert_eq!(next(&alarms), Alarm::Stalled(FIRST, Stall::LateRequest));
    assert_eq!(next(&alarms), Alarm::OnlyLateWork(FIRST));
}

#[test]
fn a_worker_that_was_woken_and_holds_nothing_stands_still_and_its_request_is_another_s_to_take() {
    let (server, alarms) = start(|settings| settings.workers = 2.into());
    let still = server.worker(0).thread(0);
    let region = server.region();
    std::thread::scope(|scope| {
        scope.spawn(move || still.sleep());
        while region.coordination().availability.idle.words[0].load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let mut client = server.ask("/waits");
        assert_eq!(next(&alarms), Alarm::Stalled(FIRST, Stall::Unresponsive));
        server.with(|front| {
            front.applications()[0]
                .dispatcher()
                .stop_worker(WorkerId::new(1, 0))
        });
        server.worker(1).thread(0).take().answer_path();
        assert_eq!(client.response().text(), "/waits");
    });
    server.until_quiet();
    assert_eq!(server.end(), 1);
}

#[test]
fn a_worker_that_does_something_else_while_requests_wait_stands_still() {
    let (server, alarms) = start(|settings| {
        settings.request_timeout = Some(Duration::from_millis(500));
        settings.request_timeouts = [("/waits", 2 * TEST_TIMEOUT)].into_iter().collect();
    });
    // None of its threads looks for a request.
    let player = server.worker(0);
    let mut client = server.ask("/waits");
    assert_eq!(
        next(&alarms),
        Alarm::Stalled(FIRST, Stall::BusyBetweenRequests)
    );
    player.thread(0).take().answer_path();
    assert_eq!(client.response().text(), "/waits");
}

#[test]
fn a_worker_whose_work_while_idle_does_not_end_stands_still_once_requests_wait() {
    let (server, alarms) = start(|settings| {
        settings.request_timeout = Some(Duration::from_millis(500));
        settings.request_timeouts = [("/waits", 2 * TEST_TIMEOUT)].into_iter().collect();
    });
    let player = server.worker(0);
    let idle = player.thread(0);
    let region = server.region();
    std::thread::scope(|scope| {
        scope.spawn(move || idle.sleep());
        while region.coordination().availability.idle.words[0].load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        // As a thread of the process does that runs no requests.
        assert!(region.coordination().begin_out_of_band(0, None));
        let mut client = server.ask("/waits");
        assert_eq!(
            next(&alarms),
            Alarm::Stalled(FIRST, Stall::BusyBetweenRequests)
        );
        region.coordination().end_out_of_band(0);
        player.thread(0).take().answer_path();
        assert_eq!(client.response().text(), "/waits");
    });
}

#[test]
fn a_worker_whose_late_request_ends_within_the_grace_is_not_stuck() {
    let (server, alarms) = start(|settings| settings.request_grace = 2 * TEST_TIMEOUT);
    let mut client = server.ask("/late");
    let mut thread = server.thread();
    let taken = thread.take();
    client.response().expect(504);
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    pass_a_deadline(&server);
    taken.finish();
    assert!(thread.try_take().is_none());
    server.until_quiet();
    pass_a_deadline(&server);
    assert!(alarms.try_recv().is_err());
}

#[test]
fn a_request_whose_client_left_before_its_deadline_is_late_as_well() {
    let (server, alarms) = start(|_| {});
    let client = server.ask("/late");
    let mut thread = server.thread();
    let taken = thread.take();
    client.reset();
    taken.until_abandoned();
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    assert_eq!(next(&alarms), Alarm::Stalled(FIRST, Stall::LateRequest));
    server.expect_outcome("/late", "client_closed");
}

/// Begins a response and goes on with it until the deadline is over that its request had at first.
fn stream_past_its_deadline(server: &Server, taken: &mut Taken<'_>) {
    taken.head(200, &[]).flush();
    // Came later, so it expires later.
    let mut later = server.ask("/stream/later");
    loop {
        taken.chunk(b"piece").flush();
        pass_a_deadline(server);
        let lines = server.wait_for_lines(|_| true);
        if lines.iter().any(|line| line.contains("/stream/later")) {
            break;
        }
    }
    later.response().expect(503);
}

#[test]
fn a_response_that_goes_on_outlives_the_deadline_of_its_request() {
    let (server, alarms) = start(|_| {});
    let mut client = server.ask("/stream");
    let mut thread = server.thread();
    let mut taken = thread.take();
    stream_past_its_deadline(&server, &mut taken);
    taken.end();
    assert!(client.response().text().ends_with("piece"));
    server.expect_outcome("/stream", "ok");
    assert!(alarms.try_recv().is_err());
}

#[test]
fn a_response_that_stands_still_is_cut_and_its_thread_is_late() {
    // The client sees in each that it is not whole: fewer bytes than promised, or no last chunk.
    for fields in [&[("content-length", "9")][..], &[]] {
        let (server, alarms) = start(|_| {});
        let mut client = server.ask("/late");
        let mut thread = server.thread();
        let mut taken = thread.take();
        taken.head(200, fields).chunk(b"begun").flush();
        match client.try_response("GET") {
            Err(Fault::Truncated { response, .. }) => assert_eq!(response.body, b"begun"),
            other => panic!("{other:?}"),
        }
        assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
        taken.until_abandoned();
        assert_eq!(next(&alarms), Alarm::Stalled(FIRST, Stall::LateRequest));
        assert_eq!(next(&alarms), Alarm::OnlyLateWork(FIRST));
        assert!(server.logged("/late").contains("status=200"));
        server.expect_outcome("/late", "deadline_exceeded");
    }
}

#[test]
fn an_application_that_waits_for_its_client_is_not_late() {
    let (server, alarms) = start(|settings| {
        settings.response_buffer_bytes = 4096;
        settings.response_spool_max_bytes = 1 << 20;
    });
    let mut client = server.ask("/late");
    let mut thread = server.thread();
    let mut taken = thread.take();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            taken.head(200, &[]);
            for _ in 0..1000 {
                taken.chunk(&[b'x'; 16 * 1024]);
            }
            taken.end();
        });
        assert_eq!(client.head().status, 200);
        // Until its time has passed, and some more.
        for _ in 0..2 {
            server.ask("/late/later").response().expect(503);
        }
        assert!(!writer.is_finished());
        assert!(alarms.try_recv().is_err());
        let mut bytes = 0;
        while let Some(chunk) = client.chunk() {
            bytes += chunk.len();
        }
        assert_eq!(bytes, 1000 * 16 * 1024);
    });
    server.expect_outcome("/late", "ok");
}

#[test]
fn a_thread_has_its_time_once_more_to_notice_that_the_client_of_its_response_left() {
    let (server, alarms) = start(|_| {});
    let mut client = server.ask("/stream");
    let mut thread = server.thread();
    let mut taken = thread.take();
    stream_past_its_deadline(&server, &mut taken);
    assert_eq!(client.head().status, 200);
    client.reset();
    taken.until_abandoned();
    pass_a_deadline(&server);
    assert!(alarms.try_recv().is_err(), "it is late at once");
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    assert_eq!(next(&alarms), Alarm::Stalled(FIRST, Stall::LateRequest));
    server.expect_outcome("/stream", "client_closed");
}

/// Has the application take the connection of a request over; its end of it.
fn take_over(server: &Server, taken: &mut Taken<'_>) -> UnixStream {
    let (slot, sequence) = taken.key();
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    taken.frame(Kind::Hijacked, b"").expect("there is room");
    taken.flush();
    server.with(move |front| {
        front.applications()[0]
            .dispatcher()
            .hijacked(FIRST, slot, sequence, theirs.into())
    });
    ours
}

#[test]
fn a_thread_that_does_not_notice_the_end_of_the_connection_it_took_over_is_late() {
    let (server, alarms) = start(|_| {});
    let client = server.ask("/late");
    let mut thread = server.thread();
    let mut taken = thread.take();
    let _ours = take_over(&server, &mut taken);
    server.expect_outcome("/late", "hijacked");
    client.reset();
    taken.until_abandoned();
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    assert_eq!(next(&alarms), Alarm::Stalled(FIRST, Stall::LateRequest));
}

#[test]
fn a_thread_that_does_not_come_back_from_what_follows_a_response_is_late() {
    let (server, alarms) = start(|_| {});
    let mut client = server.ask("/late");
    let mut thread = server.thread();
    let taken = thread.take();
    let late = run(&taken, 0);
    taken.answer_path();
    client.response().expect(200);
    // It does not look for work again.
    let now = server.until(|now| !now.finishing.is_empty());
    assert_eq!((now.finishing[0].worker, now.finishing[0].thread), (0, 0));
    assert_eq!(next(&alarms), Alarm::Late(late));
    let backtrace = vec!["mailer.rb:7:in `deliver'".to_owned()];
    server.with(move |front| {
        front.applications()[0]
            .dispatcher()
            .traced(FIRST, late.slot, late.sequence, &backtrace)
    });
    let text = "message=\"what follows a response runs past its deadline\"";
    let is_told = |lines: &[String]| {
        let at = lines.iter().position(|line| line.contains(text));
        at.is_some_and(|at| lines[at + 1].contains("mailer.rb:7"))
    };
    server.wait_for_lines(is_told);
    assert_eq!(next(&alarms), Alarm::Stalled(FIRST, Stall::LateRequest));
    assert_eq!(next(&alarms), Alarm::OnlyLateWork(FIRST));
    server.reclaim(0);
    assert!(server.with(|front| front.snapshot().finishing.is_empty()));
    pass_a_deadline(&server);
    assert!(alarms.try_recv().is_err(), "one is enough");
}

#[test]
fn a_thread_that_came_back_from_what_follows_a_response_is_not_late() {
    let (server, alarms) = start(|settings| settings.threads = 2.into());
    let player = server.worker(0);
    let (mut first, mut second) = (player.thread(0), player.thread(1));
    // One looks for work and finds none, the other one runs the next request.
    for _ in 0..2 {
        let mut client = server.ask("/late");
        first.take().answer_path();
        client.response().expect(200);
    }
    assert!(first.try_take().is_none());
    let mut client = server.ask("/late");
    second.take().answer_path();
    client.response().expect(200);
    let mut other = server.ask("/other");
    let taken = second.take();
    assert!(server.with(|front| front.snapshot().finishing.is_empty()));
    // Until their time has passed, and some more.
    for _ in 0..2 {
        server.ask("/late/later").response().expect(503);
    }
    assert!(alarms.try_recv().is_err());
    taken.answer_path();
    other.response().expect(200);
}

#[test]
fn a_connection_that_the_application_took_over_has_no_deadline() {
    let (server, alarms) = start(|_| {});
    let _client = server.ask("/late");
    let mut thread = server.thread();
    let mut taken = thread.take();
    let _ours = take_over(&server, &mut taken);
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
    let mut thread = server.thread();
    let taken = thread.take();
    client.response().expect(504);
    assert_eq!(next(&alarms), Alarm::Late(run(&taken, 0)));
    server.reclaim(0);
    let lines = server.wait_for_lines(|lines| {
        let logged = |line: &String| line.contains("ran past its deadline");
        lines.iter().any(logged)
    });
    let line = lines.iter().find(|line| line.contains("ran past"));
    let line = line.expect("it was waited for");
    assert!(line.contains("without having said where"), "{line}");
    assert!(line.contains("method=GET path=\"/late\""), "{line}");
    server.until_quiet();
    assert_eq!(server.end(), 1, "it has one outcome");
}
