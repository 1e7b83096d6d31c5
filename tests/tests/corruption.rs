//! Workers that write garbage into the memory that they share with the front: their generation starts again with fresh
//! memory, and the server serves on.

use rustix::process::Signal;
use test_support::{Application, Server, ServerBuilder, until};

/// `/write/AT/VALUE/TIMES` writes a word over the exchange, TIMES times 64 bytes apart, and then kills its own process;
/// `/write-on/...` answers instead. Anything else is answered with the path.
const SCRIBBLER: &str = r##"SCRIBBLE = lambda { |at, value, times|
  mapping = File.foreach("/proc/self/maps").find { |line| line.include?("highball-exchange") }
  File.open("/proc/self/mem", "r+b") { |memory|
    times.times { |line|
      memory.seek(mapping.to_i(16) + at + line * 64)
      memory.write([value].pack("Q"))
    }
    memory.flush
  }
}
run lambda { |env|
  _, what, at, value, times = env["PATH_INFO"].split("/")
  if what == "write" || what == "write-on"
    SCRIBBLE.call(at.to_i, value.to_i, times.to_i)
    Process.kill(:KILL, Process.pid) if what == "write"
  end
  Test.text(env["PATH_INFO"])
}"##;

/// Slots of [`server`]: two for each thread.
const SLOTS: usize = 4;
/// Where the exchange has its words: a header, a state for each slot, and the ready ring's start and end, each on a
/// cache line of its own.
const STATES: usize = 64;
const HEAD: usize = STATES + SLOTS * 64;
const TAIL: usize = HEAD + 64;

fn server() -> ServerBuilder {
    Server::application_of(Application::without_lint(SCRIBBLER))
        .workers(2)
        .threads(1)
        // No room for others: the words are where the constants above say.
        .setting("max_workers", "2")
}

/// Asserts that the server found `what`, and that it serves on with all its slots.
#[track_caller]
fn expect_renewed(server: &Server, what: &str) {
    let line = server
        .log()
        .wait(|line| line.contains("memory that the front shares"));
    assert!(line.contains(what), "{line}");
    assert!(line.contains("level=warn"), "{line}");
    assert!(line.contains("generation=1"), "{line}");
    for round in 0..20 {
        let path = format!("/after{round}");
        assert_eq!(server.get(&path).text(), path);
    }
    until("every slot has come back", || {
        server.status().number("/slots/free") == SLOTS as u64
    });
}

#[test]
fn an_end_of_the_ready_ring_out_of_range_and_a_death_stop_no_server() {
    let server = server().start();
    let mut client = server.ask("POST", &format!("/write/{TAIL}/{}/1", 1_u64 << 63));
    client.response().expect(502);
    expect_renewed(&server, "the end of the ready ring");
}

#[test]
fn a_start_of_the_ready_ring_out_of_range_stops_no_request_for_good() {
    let server = server().start();
    let mut client = server.ask("POST", &format!("/write-on/{HEAD}/{}/1", 1_u64 << 40));
    // Its own answer, or none where the damage was seen before it.
    let status = client.response().status();
    assert!(status == 200 || status == 502, "{status}");
    expect_renewed(&server, "the start of the ready ring");
}

#[test]
fn a_garbled_state_costs_no_slot() {
    let server = server().start();
    let garbage = u64::MAX;
    let mut client = server.ask("POST", &format!("/write/{STATES}/{garbage}/{SLOTS}"));
    client.response().expect(502);
    expect_renewed(&server, "the state of slot");
}

#[test]
fn a_generation_that_is_damaged_again_and_again_is_started_with_delays() {
    let server = server().start();
    let delayed = |line: &str| line.contains("no worker can serve") && line.contains("next start");
    for _ in 0..10 {
        if server.log().lines().iter().any(|line| delayed(line)) {
            break;
        }
        // While no worker is there it is 503.
        let path = format!("/write/{TAIL}/{}/1", 1_u64 << 63);
        server.ask("POST", &path).response();
    }
    server.log().wait(delayed);
    let stopped = server.stop_with(Signal::INT);
    assert!(stopped.status.success(), "{:?}", stopped.status);
}
