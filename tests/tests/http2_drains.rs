//! Row 39 of the list of faults for HTTP/2: restarts, upgrades and stops lose no request. A client opens no stream after
//! GOAWAY, and only what was refused is asked for again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use h2::Reason;
use highball_tests::http2::{Http2, RawHttp2, kind, read, run};
use test_support::{Application, Gated, Process, Server, TEST_TIMEOUT, until};

/// Writes down each request but `/`, and waits at `/long`.
const SOURCE: &str = r##"run lambda { |env|
  path = env["PATH_INFO"]
  Test.pass("work", "calls") if path == "/long"
  File.open("seen", "a") { |file| file.syswrite("#{path}\n") } unless path == "/"
  Test.text(path)
}"##;

const CLIENTS: usize = 4;
const STREAMS: usize = 5;

/// Whether the server has said that it did not begin the request.
fn was_refused(error: &h2::Error) -> bool {
    let goaway = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    goaway || (error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM))
}

/// Sends batches of requests on connections of its own until `over`, and returns what went wrong.
fn load(
    server: std::net::SocketAddr,
    number: usize,
    over: &AtomicBool,
    sent: &AtomicUsize,
) -> Option<String> {
    let mut client = Http2::connect(server);
    for count in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let mut left: Vec<String> = (0..STREAMS)
            .map(|one| format!("/{number}/{count}/{one}"))
            .collect();
        sent.fetch_add(STREAMS, Ordering::Relaxed);
        while !left.is_empty() {
            let answers = run(async {
                let mut begun = Vec::new();
                for path in &left {
                    let request = client.request("GET", path).body(()).expect("a request");
                    begun.push((path.clone(), client.send(request, true).await));
                }
                let mut answers = Vec::new();
                for (path, stream) in begun {
                    let answer = match stream {
                        Ok((response, _)) => read(response).await,
                        Err(error) => Err(error),
                    };
                    answers.push((path, answer));
                }
                answers
            });
            left.clear();
            for (path, answer) in answers {
                match answer {
                    Ok(answer) if answer.status == 200 && answer.text() == path => {}
                    Ok(answer) => return Some(format!("{path}: {answer:?}")),
                    Err(error) if was_refused(&error) => left.push(path),
                    Err(error) => return Some(format!("{path}: {error:?}")),
                }
            }
            if !left.is_empty() {
                client = Http2::connect(server);
            }
        }
    }
    None
}

#[test]
fn row_39_restarts_and_upgrades_under_load_lose_no_request_of_http_2() {
    let mut server = Server::application_of(Application::new(SOURCE))
        .workers(2)
        .threads(2)
        .start();
    let address = server.address();
    let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut old = Vec::new();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let (over, sent) = (&over, &sent);
        let loads: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || load(address, number, over, sent)))
            .collect();
        let progress = || {
            let more = sent.load(Ordering::Relaxed) + 200;
            until("more answers", || {
                sent.load(Ordering::Relaxed) > more || loads.iter().any(|load| load.is_finished())
            });
        };
        progress();
        for _ in 0..2 {
            let ran = server.command(&["restart"]);
            assert!(ran.status.success(), "{}", ran.output());
            progress();
            let ran = server.command(&["upgrade"]);
            assert!(ran.status.success(), "{}", ran.output());
            old.push(server.replaced_by(ran.process()));
            progress();
        }
        over.store(true, Ordering::Relaxed);
        let loads = loads
            .into_iter()
            .map(|load| load.join().expect("no load panics"));
        loads.flatten().collect()
    });
    assert_eq!(failures, [""; 0]);
    let seen = server.application().read("seen");
    let unique: BTreeSet<&str> = seen.lines().collect();
    assert_eq!(unique.len(), seen.lines().count(), "some ran twice");
    assert_eq!(unique.len(), sent.into_inner());
    for process in old {
        assert!(process.wait_gone(TEST_TIMEOUT), "{process:?}");
    }
}

/// Begins a request that waits in the application, has `end` begin the end of its server, and checks that the client hears
/// GOAWAY at once and gets its answer nevertheless.
fn expect_to_finish(end: impl FnOnce(&mut Gated) -> Option<Process>) {
    let mut waiting = Gated::start(Application::new(SOURCE), |builder| builder);
    let mut client = RawHttp2::connect(waiting.server.address(), &[]);
    assert!(client.get(1, "/long", true));
    assert_eq!(waiting.events.wait(), "calls");
    let old = end(&mut waiting);
    let goaway = client.next_of(&[kind::GOAWAY]).expect("GOAWAY");
    assert_eq!(goaway.payload[4..8], [0; 4], "NO_ERROR");
    waiting.gate.open();
    let data = client.next_of(&[kind::DATA]).expect("the answer");
    assert_eq!(data.payload, b"/long");
    // No more comes, although the client answers no PING.
    assert_eq!(client.goaway().unwrap_or(0), 0);
    if let Some(old) = old {
        assert!(old.wait_gone(TEST_TIMEOUT), "{old:?}");
    }
}

#[test]
fn a_stop_says_goaway_and_finishes_what_was_begun() {
    expect_to_finish(|waiting| {
        waiting
            .server
            .process()
            .signal(rustix::process::Signal::TERM);
        None
    });
}

#[test]
fn an_upgrade_says_goaway_and_the_old_server_finishes_what_was_begun() {
    expect_to_finish(|waiting| {
        let ran = waiting.server.command(&["upgrade"]);
        assert!(ran.status.success(), "{}", ran.output());
        Some(waiting.server.replaced_by(ran.process()))
    });
}
