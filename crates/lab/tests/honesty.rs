//! What `highball compare` must never say: that equal stacks differ, that a slower one is equal, that one which fails,
//! lies or stalls is good. With real servers whose work is set by a clock, so that a busy machine changes no answer. How
//! often the statistics err is counted on simulated trials, in the verdict's own tests.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use lab::comparison::results::Results;
use lab::verdict::{Cause, Measure, Verdict, judge};
use test_support::Directory;

use run::Lab;

#[allow(dead_code, reason = "the other test asks for more")]
#[path = "compare/run.rs"]
mod run;

/// An application that works for as many milliseconds of CPU as `WORK` says, from its hundredth request on does what `LIE`
/// says, and stalls every three seconds for as many milliseconds as `STALL` says.
const APPLICATION: &str = r"
work = ENV.fetch('WORK', '0').to_f / 1000
stall = ENV.fetch('STALL', '0').to_f / 1000
lie = ENV['LIE']
count = 0
stalled = Process.clock_gettime(Process::CLOCK_MONOTONIC)
run(lambda do |env|
  finish = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + work
  nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < finish
  now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  if stall.positive? && now - stalled > 3
    stalled = now
    sleep stall
  end
  count += 1
  page = env['PATH_INFO'] == '/list' ? 'A list of everything' : 'Hello World'
  if count > 100
    next [500, {}, ['No']] if lie == 'status'
    next [200, {}, ['Hi']] if lie == 'body'

    page = page.sub('everything', 'it') if lie == 'list'
    page = page.tr('o', '0') if lie == 'letters'
  end
  [200, {}, [page]]
end)
";

/// Compares by this LAB.toml; gives the exit code and the results.
fn compare(lab: &str) -> (Option<i32>, Results) {
    let folder = Directory::new();
    folder.write("app/config.ru", APPLICATION);
    let file = folder.write(
        "LAB.toml",
        format!("app = \"app\"\nwarm_up = \"1s\"\n{lab}"),
    );
    let mut run = Lab::with(&folder, &[file.to_str().unwrap()]);
    let ended = run.run();
    let results = lab::comparison::read(&run.output);
    (
        ended.code,
        results.unwrap_or_else(|error| panic!("{error:#}\n{}", ended.text)),
    )
}

#[test]
fn equal_work_is_too_close_to_call_and_a_tenth_more_is_found() {
    let (code, results) = compare(
        "stacks = [\"one\", \"same\", \"more\"]\ntrials = 4\n\
         [[load]]\nconnections = 2\nrequests = 200\nwarm_up_requests = 20\n\
         [stack.one]\nkind = \"thin\"\nenvironment = { WORK = \"5\" }\n\
         [stack.same]\nkind = \"thin\"\nenvironment = { WORK = \"5\" }\n\
         [stack.more]\nkind = \"thin\"\nenvironment = { WORK = \"5.5\" }\n",
    );
    assert_eq!(code, Some(0));
    let judgement = judge(&results);
    let cpu = judgement.finding(Measure::Cpu, Some("c2")).unwrap();
    let check = |stack: &str, expect: Verdict| {
        let versus = cpu.versus(stack, "one").unwrap();
        assert_eq!(versus.verdict, expect, "{stack}: {versus:?}");
    };
    check("same", Verdict::TooClose);
    check("more", Verdict::Worse);
}

#[test]
fn a_server_that_begins_to_lie_under_load_does_not_rank() {
    let (code, results) = compare(
        "stacks = [\"failing\", \"short\", \"list\", \"honest\"]\ntrials = 1\n\
         [[load]]\nconnections = 4\nrequests = 1000\nwarm_up_requests = 50\n\
         [[request]]\npath = \"/\"\nweight = 9\n\
         [[request]]\npath = \"/list\"\n\
         [stack.failing]\nkind = \"thin\"\nenvironment = { LIE = \"status\" }\n\
         [stack.short]\nkind = \"thin\"\nenvironment = { LIE = \"body\" }\n\
         [stack.list]\nkind = \"thin\"\nenvironment = { LIE = \"list\" }\n\
         [stack.honest]\nkind = \"thin\"\n",
    );
    assert_eq!(code, Some(0));
    let judgement = judge(&results);
    let rate = judgement.finding(Measure::Rate, Some("c4")).unwrap();
    let ranking: Vec<&str> = rate.ranking().iter().map(|figure| figure.stack).collect();
    assert_eq!(ranking, ["honest"]);
    for stack in ["failing", "short", "list"] {
        let set_aside = judgement
            .set_aside
            .iter()
            .find(|one| one.stack == stack)
            .unwrap();
        assert_eq!(set_aside.cause, Cause::WrongResponses, "{set_aside:?}");
    }
}

#[test]
fn a_server_that_begins_to_send_another_page_of_the_same_length_is_found_after_the_load() {
    let (code, results) = compare(
        "stacks = [\"lying\", \"honest\"]\ntrials = 1\n\
         [[load]]\nconnections = 4\nrequests = 500\nwarm_up_requests = 50\n\
         [stack.lying]\nkind = \"thin\"\nenvironment = { LIE = \"letters\" }\n\
         [stack.honest]\nkind = \"thin\"\n",
    );
    assert_eq!(code, Some(1));
    for trial in &results.trials {
        let failure = trial.failure.clone().unwrap_or_default();
        let expect = "its page (11 bytes) is not the one of others (11 bytes), after the load";
        assert_eq!(
            failure.starts_with(expect),
            trial.stack == "lying",
            "{failure}"
        );
    }
}

#[test]
fn a_server_that_answers_something_else_from_the_start_is_left_out() {
    let folder = Directory::new();
    folder.write(
        "app/config.ru",
        "body = ENV.fetch('BODY', 'Hello World')\nrun ->(_env) { [200, {}, [body]] }\n",
    );
    let file = folder.write(
        "LAB.toml",
        "app = \"app\"\nstacks = [\"one\", \"short\", \"two\"]\ntrials = 1\nduration = \"500ms\"\nwarm_up = \"500ms\"\n\
         [stack.one]\nkind = \"thin\"\n\
         [stack.short]\nkind = \"thin\"\nenvironment = { BODY = \"Hi\" }\n\
         [stack.two]\nkind = \"thin\"\n",
    );
    let mut run = Lab::with(&folder, &[file.to_str().unwrap()]);
    let ended = run.run();
    assert_eq!(ended.code, Some(1));
    let expect = "short, c12 in round 1: its page (2 bytes) is not the one of others (11 bytes)";
    assert!(ended.text.contains(expect), "{}", ended.text);
    let results = lab::comparison::read(&run.output).unwrap();
    let failed: Vec<bool> = ["one", "short", "two"]
        .iter()
        .map(|id| {
            results
                .trials
                .iter()
                .any(|trial| trial.stack == *id && trial.failure.is_some())
        })
        .collect();
    assert_eq!(failed, [false, true, false]);
}

/// A server whose pages cost less to send than to take: they come in chunks of one byte.
fn serve_crumbs() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let page = format!("{head}{}0\r\n\r\n", "1\r\nx\r\n".repeat(50_000));
    let page: Arc<str> = page.into();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let page = Arc::clone(&page);
            thread::spawn(move || answer(&stream, &page));
        }
    });
    address
}

fn answer(mut stream: &TcpStream, page: &str) {
    let mut reader = BufReader::new(stream);
    loop {
        // A head ends with an empty line; the client with nothing.
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if !matches!(reader.read_line(&mut line), Ok(1..)) {
                return;
            }
        }
        if stream.write_all(page.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_saturated_generator_refuses_to_rank() {
    let url = format!("http://{}", serve_crumbs());
    let (code, results) = compare(&format!(
        "stacks = [\"one\", \"other\"]\ntrials = 3\nduration = \"1s\"\n\
         [[load]]\nconnections = 8\n\
         [stack.one]\nurl = \"{url}\"\n[stack.other]\nurl = \"{url}\"\n",
    ));
    assert_eq!(code, Some(0));
    let judgement = judge(&results);
    let rate = judgement.finding(Measure::Rate, Some("c8")).unwrap();
    assert!(rate.ranking().is_empty(), "{:?}", judgement.set_aside);
    let versus = rate.versus("one", "other").unwrap();
    assert_eq!(versus.verdict, Verdict::Unknown);
    let causes: Vec<Cause> = judgement.set_aside.iter().map(|one| one.cause).collect();
    assert_eq!(causes, [Cause::Client; 6]);
}

#[test]
fn a_server_that_stalls_shows_it_in_p99() {
    let (code, results) = compare(
        "stacks = [\"stalling\"]\ntrials = 1\nduration = \"7s\"\n[[load]]\nrate = 150\n\
         [stack.stalling]\nkind = \"thin\"\nenvironment = { STALL = \"300\" }\n",
    );
    assert_eq!(code, Some(0));
    let outcome = &results.trials[0].outcome;
    // A tenth of the requests come due in a stall and wait for its end: of those a tenth wait longer than 270 ms. That the
    // requests themselves were answered at once, once they were sent, must not hide it.
    let p99 = outcome.latency.percentile_ms(99.0).unwrap();
    assert!(p99 > 200.0, "p99 {p99} ms");
}
