//! What a server passes on to the programs that its workers start.

use rustix::process::Signal;
use test_support::{Application, Server};

/// Answers with the status of a program.
const STATUS: &str =
    r##"run lambda { |env| Test.text(`grep -E "SigIgn|Cap(Prm|Eff|Amb)" /proc/self/status`) }"##;

/// A set of bits in a process's status.
#[track_caller]
fn field(status: &str, name: &str) -> u64 {
    let mut lines = status.lines().filter_map(|line| line.strip_prefix(name));
    u64::from_str_radix(lines.next().expect(name).trim(), 16).expect("a number")
}

#[test]
fn programs_that_a_worker_starts_ignore_no_signal() {
    let server = Server::app(STATUS)
        .under(&["env", "--default-signal"])
        .start();
    let text = server.get("/status").text();
    let ignored = field(&text, "SigIgn:");
    // Signals 32 and 33 are glibc's own, whose posix_spawn has programs ignore them.
    assert_eq!(ignored & !(0b11 << 31), 0, "{text}");
}

#[test]
fn an_interrupt_of_a_worker_ends_no_request() {
    let application = Application::new(
        r##"run lambda { |env| Test.pass("work", Process.pid.to_s); sleep(0.01); Test.text("done") }"##,
    );
    let (mut events, gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application).start();
    let mut client = server.ask("POST", "/");
    let worker = test_support::Process(events.wait().parse().expect("a process"));
    for _ in 0..3 {
        worker.signal(Signal::INT);
    }
    gate.admit(1);
    assert_eq!(client.response().text(), "done");
    assert!(worker.is_alive());
}
