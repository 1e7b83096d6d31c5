//! Rows 24, 38 and 40 of the list of faults, and a front that is killed: paths that lead out of a folder, a system that
//! has no descriptors, disk or memory left, and clocks that jump. Nothing hangs, nothing spins, good traffic goes on.
//!
//! Some of them need rights that a container may lack (a mount of their own) or a program (libfaketime); they fail and
//! say so, and are never left out.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use h2::SendStream;
use highball_tests::http2::{Http2, read, run};
use http::Request;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;
use test_support::{
    Application, Client, Events, Probe, Process, Program, Server, ServerBuilder, fill_disk,
    under_small_disk, until,
};

/// `/sleep` takes two seconds by a clock that no test moves; `/work` waits at the gate; `/big` answers with more than
/// is held in memory for a client; `/memory` takes all there is; anything else answers with the length of its body.
const APPLICATION: &str = r##"run lambda { |env|
  case env["PATH_INFO"]
  when "/sleep" then sleep 2
  when "/work" then Test.pass("work", "call #{Process.pid}")
  when "/big" then next [200, {}, ["a" * 4_000_000]]
  when "/memory" then (hoard = []) && loop { hoard << ("a" * 10_000_000) }
  end
  Test.text(Test.input(env).bytesize.to_s)
}"##;

/// More than a front that spins would leave unused, and far more than one that waits needs, in two seconds.
const LITTLE: Duration = Duration::from_millis(700);

/// Asserts that the front waits while nothing happens: two seconds in which the application sleeps.
#[track_caller]
fn expect_rest(front: Process, client: &mut Client) {
    let before = front.cpu().expect("it runs");
    client.get("/sleep").expect(200);
    let used = front.cpu().expect("it runs") - before;
    assert!(used < LITTLE, "it used {used:?} of 2 s");
}

// ===== row 24 =====

#[test]
fn row_24_targets_that_lead_elsewhere_are_refused_or_reach_the_application_as_they_are() {
    let mut probe = Probe::default();
    for target in [
        "/%2e%2e/secret",
        "/%2E%2E%2Fsecret",
        "/..%2fsecret",
        "/..%5csecret",
        "/..%255csecret",
        "/../secret",
        "/a/../../secret",
        "/a//..//secret",
        "/./secret",
        "/secret%00.html",
        "/%00",
        "/..\\secret",
        "/....//secret",
        "/%c0%ae%c0%ae/secret",
        "/..;/secret",
    ] {
        let mut client = probe.server.connect();
        let response = client.get(target);
        if response.status() == 400 {
            probe.assert_untouched(target);
            continue;
        }
        // Nothing is decoded, removed or put together: what a path means is the application's to say.
        response.expect(200);
        probe.events.wait();
        let answer: Value = serde_json::from_str(&response.text()).expect("the answer is JSON");
        assert_eq!(answer["env"]["PATH_INFO"], target);
    }
}

#[test]
fn row_24_rack_files_over_to_path_never_leaves_its_root() {
    let application = Application::new(
        r##"require "rack/files"
        run Rack::Files.new(File.join(Dir.pwd, "public"))"##,
    );
    let dir = application.dir();
    dir.write("public/page.html", "public page");
    dir.write("public/deep/page.html", "deep page");
    dir.write("secret", "secret text");
    dir.write("public-secret/secret", "secret text");
    let link = dir.join("public/link");
    std::os::unix::fs::symlink(dir.join("secret"), link).expect("a link can be made");
    let server = Server::application_of(application).start();
    let get = |target: &str| server.connect().get(target);
    assert_eq!(get("/page.html").text(), "public page");
    // A user who puts a link there means it.
    assert_eq!(get("/link").text(), "secret text");
    assert_eq!(get("/deep/page%2ehtml").text(), "deep page");
    let up = [
        "/..",
        "/%2e%2e",
        "/.%2e",
        "/..%2f..",
        "/..%5c..",
        "/deep/../..",
        "/deep/%2e%2e/%2e%2e",
        "//..",
        "/.",
        "/..-secret",
        "/../public-secret",
        "/%2e%2e%2fpublic-secret",
    ];
    for up in up {
        for name in [
            "/secret",
            "%2fsecret",
            "%5csecret",
            "/secret%00.html",
            "\\secret",
        ] {
            let target = format!("{up}{name}");
            let response = get(&target);
            let (status, text) = (response.status(), response.text());
            assert!(matches!(status, 400 | 403 | 404), "{target}: {status}");
            assert!(!text.contains("secret text"), "{target}: {text}");
        }
    }
}

// ===== row 38: descriptors =====

/// Sets how many descriptors a process may have, and gives what it was.
fn limit_descriptors(process: Process, current: Option<u64>) -> Option<u64> {
    let pid = Pid::from_raw(process.0 as i32);
    let limits = rustix::process::getrlimit(Resource::Nofile);
    let old = prlimit(
        pid,
        Resource::Nofile,
        Rlimit {
            current,
            maximum: limits.maximum,
        },
    );
    old.expect("a process of the same user").current
}

/// A client that has begun a request: such a one is not idle, and is not given up for others.
fn begun(server: &Server, line: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("{line} HTTP/1.1\r\n"));
    client
}

/// Sends the rest of such a request and expects an answer.
#[track_caller]
fn expect_answer(client: &mut Client) {
    client.send("Host: a\r\n\r\n");
    client.response().expect(200);
}

/// Asserts that the front waits while nothing happens, by a request for `/sleep` that was begun.
#[track_caller]
fn expect_rest_beside(front: Process, client: &mut Client) {
    let before = front.cpu().expect("it runs");
    expect_answer(client);
    let used = front.cpu().expect("it runs") - before;
    assert!(used < LITTLE, "it used {used:?} of 2 s");
}

fn post_to(client: &Http2) -> Request<()> {
    let request = client.request("POST", "/").body(());
    request.expect("a request")
}

/// Sends a body that needs a file.
fn send_large(body: &mut SendStream<Bytes>) {
    let sent = body.send_data(vec![b'a'; 200_000].into(), true);
    sent.expect("a stream");
}

#[test]
fn row_38_without_descriptors_accepting_pauses_and_goes_on_when_there_are_some() {
    let server = Server::app(APPLICATION).threads(2).start();
    let front = server.process();
    let open = front.descriptors().expect("it runs");
    let mut here = begun(&server, "GET /sleep");
    let mut upload = begun(&server, "POST /");
    let http2 = Http2::connect(server.address());
    let begin = || run(http2.send(post_to(&http2), false)).expect("a stream");
    let (answer, mut body) = begin();
    // With the answer the head of the request before has arrived too: a connection without one is given up for newcomers.
    let heard = run(http2.get("/")).expect("an answer");
    assert_eq!(heard.status, 200);
    until("all are accepted", || {
        front.descriptors().expect("it runs") == open + 3
    });
    let before = limit_descriptors(front, Some(open as u64 + 5));
    // The kernel takes more of them than the front can.
    let mut newcomers: Vec<Client> = (0..10).map(|_| begun(&server, "GET /")).collect();
    let line = server.log().wait(|line| line.contains("accepting pauses"));
    assert!(line.contains("reason="), "{line}");
    expect_rest_beside(front, &mut here);
    // A body that would need a file has no place; everybody else's connection goes on.
    upload.send("Host: a\r\nContent-Length: 200000\r\n\r\n");
    upload.send(vec![b'a'; 200_000]);
    let refused = upload.response();
    refused.expect(503);
    assert!(refused.field("retry-after").is_some());
    // That of a stream costs no connection.
    let (next_answer, mut next_body) = begin();
    send_large(&mut body);
    assert_eq!(run(read(answer)).expect("an answer").status, 503);
    limit_descriptors(front, before);
    for newcomer in &mut newcomers {
        expect_answer(newcomer);
    }
    send_large(&mut next_body);
    assert_eq!(run(read(next_answer)).expect("an answer").status, 200);
    let mut upload = server.connect();
    assert_eq!(upload.post("/", vec![b'a'; 200_000]).text(), "200000");
    // One line in a while, however often it was tried.
    let lines = server.log().lines();
    let lines = lines
        .iter()
        .filter(|line| line.contains("accepting pauses"));
    assert!(lines.count() < 5);
}

#[test]
fn row_38_clients_that_want_every_descriptor_leave_some_for_commands_and_workers() {
    const ALL: usize = 160;
    let limit = format!("--nofile={ALL}");
    let builder = Server::app(APPLICATION).threads(2);
    let builder = builder.setting("header_timeout", "1h");
    let server = builder.under(&["prlimit", &limit]).start();
    let mut here = begun(&server, "GET /sleep");
    let mut after_death = begun(&server, "GET /");
    let mut after_restart = begun(&server, "GET /");
    let mut upload = begun(&server, "POST /");
    let all: Vec<Client> = (0..ALL).map(|_| begun(&server, "GET /")).collect();
    let line = server.log().wait(|line| line.contains("accepting pauses"));
    assert!(line.contains("Too many open files"), "{line}");
    expect_rest_beside(server.process(), &mut here);
    assert!(server.process().descriptors().expect("it runs") < ALL);
    // A body that would need a file is a client's as well.
    upload.send("Host: a\r\nContent-Length: 200000\r\n\r\n");
    upload.send(vec![b'a'; 200_000]);
    upload.response().expect(503);
    let worker = server.status().processes("worker")[0];
    worker.kill();
    until("a worker takes its place", || {
        let workers = server.status().processes("worker");
        !workers.is_empty() && workers[0] != worker
    });
    expect_answer(&mut after_death);
    let ran = server.command(&["restart"]);
    assert!(ran.status.success(), "{}", ran.output());
    expect_answer(&mut after_restart);
    let mut newcomer = server.connect();
    newcomer.ask("GET", "/");
    drop(all);
    newcomer.response().expect(200);
    assert_eq!(newcomer.post("/", vec![b'a'; 200_000]).text(), "200000");
}

#[test]
fn row_38_idle_clients_beyond_the_descriptors_give_way_to_newcomers() {
    const ALL: usize = 160;
    let limit = format!("--nofile={ALL}");
    let server = Server::app(APPLICATION)
        .setting("keep_alive_timeout", "1h")
        .setting("header_timeout", "1h")
        .under(&["prlimit", &limit])
        .start();
    let mut longest = server.connect();
    longest.get("/").expect(200);
    // Each finds a place, and far more than there is room for stay.
    let idle: Vec<Client> = (0..2 * ALL)
        .map(|_| {
            let mut client = server.connect();
            client.get("/").expect(200);
            client
        })
        .collect();
    longest.expect_end();
    let last = idle.last().expect("the newest one");
    assert!(last.is_idle());
    // The reserve stays for commands and workers.
    let descriptors = server.process().descriptors().expect("it runs");
    assert!(descriptors < ALL * 3 / 4 + 5, "{descriptors}");
}

// ===== row 38: a full disk =====

/// A file system of so many bytes in a folder of the application, for the processes of its server alone.
struct SmallDisk {
    folder: PathBuf,
    wrapper: Vec<String>,
}

impl SmallDisk {
    /// `run` is what the shell does with the server's command line (`"$@"`) once the disk is at `$0`.
    #[track_caller]
    fn new(application: &Application, bytes: usize, run: &str) -> Self {
        let folder = application.dir().join("small");
        std::fs::create_dir(&folder).expect("a folder can be made");
        Self {
            wrapper: under_small_disk(&folder, bytes, run),
            folder,
        }
    }

    fn server(&self, builder: ServerBuilder) -> ServerBuilder {
        let wrapper: Vec<&str> = self.wrapper.iter().map(String::as_str).collect();
        builder.under(&wrapper)
    }

    /// A file on it, as its server sees it.
    fn path(&self, server: &Server, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", server.process().0));
        let below = self.folder.strip_prefix("/").expect("an absolute path");
        root.join(below).join(name)
    }

    /// Fills it, and gives the file that does.
    #[track_caller]
    fn fill(&self, server: &Server) -> PathBuf {
        let path = self.path(server, "fill");
        fill_disk(&path);
        path
    }
}

#[test]
fn row_38_a_full_disk_refuses_the_body_that_needs_it_and_nothing_else() {
    let application = Application::new(APPLICATION);
    let disk = SmallDisk::new(&application, 8_000_000, "exec \"$@\"");
    let builder = Server::application_of(application).threads(2);
    // Named, for it is memory, which is not taken otherwise.
    let builder = builder.setting("spool_dir", &disk.folder.display().to_string());
    let server = disk.server(builder).start();
    let post = |bytes: usize| server.connect().post("/", vec![b'a'; bytes]);
    assert_eq!(post(500_000).text(), "500000");
    let mut good = server.connect();
    good.get("/").expect(200);
    let http2 = Http2::connect(server.address());
    let post_http2 = |bytes: usize| {
        let request = http2.request("POST", "/");
        let answer = run(http2.ask(request, vec![b'a'; bytes]));
        answer.expect("an answer").status
    };
    assert_eq!(post_http2(500_000), 200);
    let fill = disk.fill(&server);
    assert_eq!([post_http2(500_000), post_http2(60_000)], [503, 200]);
    let refused = post(500_000);
    refused.expect(503);
    assert!(refused.field("retry-after").is_some());
    let line = server
        .log()
        .wait(|line| line.contains("could not be stored"));
    assert!(line.contains("no space left for bodies in "), "{line}");
    server.log().wait(|line| line.contains("outcome=shed"));
    // What fits into memory needs no disk. A response that does not waits for its client.
    assert_eq!(good.post("/", vec![b'a'; 60_000]).text(), "60000");
    let mut slow = server.connect();
    slow.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    expect_rest(server.process(), &mut good);
    let big = slow.response();
    big.expect(200);
    assert!(big.body.len() == 4_000_000 && big.body.iter().all(|&byte| byte == b'a'));
    std::fs::remove_file(fill).expect("the server's disk can be reached");
    assert_eq!(post(500_000).text(), "500000");
    // One that never fits has kept nothing.
    post(9_000_000).expect(503);
    assert_eq!(post(7_000_000).text(), "7000000");
}

#[test]
fn row_38_a_log_on_a_full_disk_loses_lines_counts_them_and_holds_nobody_up() {
    const REQUESTS: usize = 300;
    let application = Application::new(APPLICATION);
    // Whatever reaches the disk is shown to the test.
    let run = ": > \"$0/log\"; tail -n +1 -f --pid=$$ \"$0/log\" & exec \"$@\" >> \"$0/log\"";
    let disk = SmallDisk::new(&application, 65_536, run);
    let builder = Server::application_of(application).threads(2);
    let server = disk.server(builder).start();
    let mut client = server.connect();
    // More than the disk holds, and no file beside the log that could take its place.
    let long = format!("/{}", "long".repeat(200));
    for _ in 0..REQUESTS {
        client.get(&long).expect(200);
    }
    expect_rest(server.process(), &mut client);
    let log = disk.path(&server, "log");
    let facts = std::fs::metadata(&log).expect("the server's disk can be reached");
    assert!(facts.len() <= 65_536);
    let shown = server.log().len();
    File::options()
        .write(true)
        .truncate(true)
        .open(&log)
        .expect("the server's disk can be reached");
    let line = server.log().wait_after(shown.saturating_sub(1), |line| {
        line.contains("were dropped")
    });
    let (_, lines) = line.split_once(" lines=").expect("a count");
    let dropped: usize = lines.trim().parse().expect("a number");
    let complete = |line: &&String| line.contains(&long) && line.ends_with("outcome=ok");
    client.get("/last").expect(200);
    server.log().wait(|line| line.contains("\"/last\""));
    let kept = server.log().lines().iter().filter(complete).count();
    // The one of `/sleep`, and one that was cut after its last letter, may be among either.
    let all = kept + dropped;
    assert!(
        (REQUESTS..=REQUESTS + 2).contains(&all),
        "{kept} + {dropped}"
    );
    assert!(dropped > REQUESTS / 2, "{dropped}");
}

// ===== row 38: memory =====

/// Where a server's worker is at `/work`.
fn at_work(server: &Server, events: &mut Events) -> (Client, Process) {
    let mut client = server.connect();
    client.send("POST /work HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let event = events.wait();
    let pid = event.strip_prefix("call ").expect("a call");
    (client, Process(pid.parse().expect("a number")))
}

#[test]
fn row_38_a_worker_out_of_memory_harms_its_own_requests_alone() {
    let application = Application::new(APPLICATION);
    let (mut events, _gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application).workers(2).start();
    // A limit of the address space: Ruby raises in the request that asks for too much, or ends. Limits of control groups
    // are not at hand where tests run: their tree belongs to the user who runs the container.
    for worker in server.status().processes("worker") {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", worker.0)).unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        let most = Some(pages * 4096 + 300_000_000);
        let limit = Rlimit {
            current: most,
            maximum: most,
        };
        let pid = Pid::from_raw(worker.0 as i32);
        prlimit(pid, Resource::As, limit).expect("a process of the same user");
    }
    let mut client = server.connect();
    client.send("POST /memory HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let response = client.response();
    assert!(matches!(response.status(), 500 | 502), "{response:?}");
    let mut beside = server.connect();
    for _ in 0..20 {
        beside.get("/").expect(200);
    }
    // What the kernel does when a control group or the machine is full: SIGKILL, without a word.
    let (mut held, worker) = at_work(&server, &mut events);
    worker.kill();
    held.response().expect(502);
    beside.get("/").expect(200);
    server.log().wait(|line| line.contains("signal 9 (KILL)"));
    expect_rest(server.process(), &mut beside);
}

// ===== row 40 =====

/// The library of Debian's package `faketime`.
#[track_caller]
fn faketime() -> PathBuf {
    let folders = ["/usr/lib", "/usr/local/lib"];
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let found = folders.iter().flat_map(|folder| {
        let folder = Path::new(folder);
        [folder.join(&triple), folder.to_owned()].map(|dir| dir.join("faketime/libfaketime.so.1"))
    });
    let mut found = found.filter(|path| path.is_file());
    let text =
        "this test moves a server's clock with libfaketime: apt-get install faketime (libfaketime)";
    found.next().expect(text)
}

/// A server whose calendar is moved by what stands in a file.
struct Shifted {
    server: Server,
    offset: PathBuf,
}

impl Shifted {
    fn start(application: Application, settings: &[(&str, &str)]) -> Self {
        let offset = application.dir().write("offset", "+0\n");
        let variables = [
            format!("LD_PRELOAD={}", faketime().display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", offset.display()),
            // Read at every look at the clock. Only the calendar moves: files keep their times.
            "FAKETIME_NO_CACHE=1".to_owned(),
            "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
            "FAKETIME_DONT_RESET=1".to_owned(),
            "FAKETIME_DISABLE_SHM=1".to_owned(),
            "NO_FAKE_STAT=1".to_owned(),
        ];
        let wrapper: Vec<&str> = ["env"]
            .into_iter()
            .chain(variables.iter().map(String::as_str))
            .collect();
        let mut builder = Server::application_of(application)
            .threads(4)
            .under(&wrapper);
        for (name, value) in settings {
            builder = builder.setting(name, value);
        }
        Self {
            server: builder.start(),
            offset,
        }
    }

    /// Moves the clock to so many seconds from the real one, and sees in the log that it moved.
    #[track_caller]
    fn shift(&self, seconds: i64) {
        let before = self.server.log().len();
        let new = self.offset.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}\n")).expect("the folder is the test's");
        std::fs::rename(new, &self.offset).expect("the folder is the test's");
        self.server.get("/shifted").expect(200);
        let log = self.server.log();
        let line = log.wait_after(before, |line| line.contains("\"/shifted\""));
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("it is after 1970").as_secs() as i64;
        let apart = (minute_of_day(&line) * 60 - now - seconds).rem_euclid(24 * 3600);
        // The stamp's seconds are left out, and the log was written a little before.
        let apart = apart.min(24 * 3600 - apart);
        assert!(apart < 600, "the clock did not move by {seconds} s: {line}");
    }
}

/// From the stamp of a line, `time=2026-01-01T12:34:56.789Z`.
#[track_caller]
fn minute_of_day(line: &str) -> i64 {
    let (_, time) = line.split_once('T').expect("a stamp");
    let number = |at: usize| time[at..at + 2].parse::<i64>().expect("two digits");
    number(0) * 60 + number(3)
}

#[test]
fn row_40_a_calendar_that_jumps_an_hour_fires_no_timeout_and_makes_nothing_spin() {
    let application = Application::new(APPLICATION);
    let (mut events, gate) = (application.events(), application.gate("work"));
    // All far below the hour, and above what the test takes.
    let settings = [
        ("header_timeout", "600s"),
        ("body_timeout", "600s"),
        ("send_timeout", "600s"),
        ("keep_alive_timeout", "600s"),
        ("request_timeout", "600s"),
    ];
    let shifted = Shifted::start(application, &settings);
    let server = &shifted.server;
    for seconds in [3600, -3600, 0] {
        let mut idle = server.connect();
        idle.get("/").expect(200);
        let mut slow_head = server.connect();
        slow_head.send("GET / HTTP/1.1\r\nHost:");
        let mut slow_body = server.connect();
        slow_body.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
        let mut running = server.connect();
        running.send("POST /work HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        assert!(events.wait().starts_with("call "));
        shifted.shift(seconds);
        let mut other = server.connect();
        expect_rest(server.process(), &mut other);
        for client in [&mut idle, &mut slow_head, &mut slow_body, &mut running] {
            client.expect_silence();
        }
        gate.admit(1);
        running.response().expect(200);
        slow_head.send(" a\r\n\r\n").response().expect(200);
        slow_body.send("cd").response().expect(200);
        idle.get("/").expect(200);
    }
    assert_eq!(server.status().processes("worker").len(), 1);
    let log = shifted.server.stop().log;
    let ended = log.iter().filter(|line| line.contains("outcome="));
    for line in ended {
        assert!(line.ends_with("outcome=ok"), "{line}");
    }
}

#[test]
fn row_40_time_outs_count_by_a_clock_that_does_not_jump() {
    let application = Application::new(APPLICATION);
    let (mut events, gate) = (application.events(), application.gate("work"));
    let settings = [("request_timeout", "2s"), ("header_timeout", "2s")];
    let shifted = Shifted::start(application, &settings);
    // Backwards: by the calendar the deadline would be an hour away.
    let mut late = shifted.server.connect();
    late.send("POST /work HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert!(events.wait().starts_with("call "));
    let mut slow = shifted.server.connect();
    slow.send("GET / HTTP/1.1\r\nHost:");
    shifted.shift(-3600);
    late.response().expect(504);
    slow.response().expect(408);
    gate.admit(1);
}

// ===== kill -9 of the front =====

#[test]
fn a_front_killed_within_a_restart_under_load_leaves_nothing_after_two_seconds() {
    let application = Application::without_lint(
        r##"Test.pass("load") if File.exist?("gated")
        run lambda { |env| Test.text("hello") }"##,
    );
    let (mut events, _gate) = (application.events(), application.gate("load"));
    let server = Server::application_of(application)
        .workers(3)
        .threads(2)
        .start();
    let address = server.address();
    server.application().dir().write("gated", "");
    std::thread::scope(|scope| {
        let loads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    let mut served = 0;
                    while client.try_get("/").is_ok() {
                        served += 1;
                    }
                    served
                })
            })
            .collect();
        let dir = server.dir().to_owned();
        let restart = scope.spawn(move || Program::highball(["restart"]).current_dir(dir).run());
        // Two generations: one serves, one boots.
        assert_eq!(events.wait(), "at load");
        let family = server.family();
        assert!(family.members().len() >= 6, "{:?}", family.members());
        server.process().kill();
        assert_eq!(family.wait_gone(Duration::from_secs(2)), []);
        assert!(!restart.join().expect("it ran").status.success());
        for load in loads {
            assert!(load.join().expect("no load panics") > 0);
        }
    });
    assert!(Client::try_connect(address).is_err(), "somebody listens");
    server.wait_end();
}
