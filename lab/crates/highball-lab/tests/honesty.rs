//! What `highball compare` must never say: that equal stacks differ, that a slower one is equal, that one which fails,
//! lies or stalls is good. With real servers whose work is set by a clock, so that a busy machine changes no answer. How
//! often the statistics err is counted on simulated trials, in the verdict's own tests; how often they do with real servers
//! that are as fast as the machine lets them is counted where `HONESTY=full` (`make honesty`), and asserted nowhere.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use compare::results::Results;
use compare::verdict::{Cause, Measure, Verdict, Versus, judge};
use test_support::Directory;

use run::Lab;

#[allow(dead_code, reason = "the other test asks for more")]
#[path = "compare/run.rs"]
mod run;

/// An application that works for as many milliseconds of CPU as `WORK` says, answers a request of a load each `PACE`
/// milliseconds, from its hundredth request on does what `LIE` says, and stalls each `EVERY` milliseconds for as many as
/// `STALL` says. Its pace is that of a clock and catches up with it; the clock starts again with each load, before which the
/// lab asks on connections that it closes.
const APPLICATION: &str = r"
work = ENV.fetch('WORK', '0').to_f / 1000
pace = ENV.fetch('PACE', '0').to_f / 1000
stall = ENV.fetch('STALL', '0').to_f / 1000
every = ENV.fetch('EVERY', '0').to_f / 1000
lie = ENV['LIE']
count = 0
due = nil
stalled = Process.clock_gettime(Process::CLOCK_MONOTONIC)
run(lambda do |env|
  if pace.positive?
    now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    due = env['HTTP_CONNECTION'] == 'close' ? nil : (due || now) + pace
    sleep [due - now, 0].max if due
  end
  finish = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + work
  nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < finish
  now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  if stall.positive? && now - stalled > every
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
    let results = compare::read(&run.output);
    let mut results = results.unwrap_or_else(|error| panic!("{error:#}\n{}", ended.text));
    // Other programs of the machine would leave no verdict. The pace and the CPU time of these servers don't depend on them.
    for trial in &mut results.trials {
        trial.other_cores = 0.0;
    }
    (ended.code, results)
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

/// Compares a server with the same one again and with one that takes a tenth longer; gives what the rate says of these
/// two. `takes` is the variable that says how long, `load` and `seed` are LAB.toml's.
fn versus_of(takes: &str, load: &str, seed: u64) -> [(&'static str, Versus); 2] {
    let stack = |id: &str, milliseconds: f64| {
        format!("[stack.{id}]\nkind = \"thin\"\nenvironment = {{ {takes} = \"{milliseconds}\" }}\n")
    };
    let (code, results) = compare(&format!(
        "stacks = [\"one\", \"same\", \"slower\"]\nseed = {seed}\n{load}{}{}{}",
        stack("one", 5.0),
        stack("same", 5.0),
        stack("slower", 5.5),
    ));
    assert_eq!(code, Some(0));
    let judgement = judge(&results);
    let rate = judgement.finding(Measure::Rate, Some("load")).unwrap();
    ["same", "slower"].map(|stack| (stack, rate.versus(stack, "one").unwrap()))
}

#[test]
fn the_rate_of_equal_servers_is_too_close_to_call_and_a_tenth_slower_is_found() {
    if full() {
        return count_false_verdicts();
    }
    let load = "trials = 4\n[[load]]\nid = \"load\"\nconnections = 8\nrequests = 300\nwarm_up_requests = 20\n";
    let [same, slower] = versus_of("PACE", load, 1);
    assert_eq!(same.1.verdict, Verdict::TooClose, "{same:?}");
    assert_eq!(slower.1.verdict, Verdict::Worse, "{slower:?}");
}

/// Comparisons of the long form.
const COMPARISONS: u64 = 20;

/// Whether the long form was asked for.
fn full() -> bool {
    std::env::var("HONESTY").is_ok_and(|form| form == "full")
}

/// The same with servers that do nothing but compute, as fast as the machine lets them. What comes of it is the machine's
/// doing too: it is written down and not asserted.
fn count_false_verdicts() {
    let load = "trials = 5\nduration = \"3s\"\n[[load]]\nid = \"load\"\nconnections = 4\nwarm_up_requests = 200\n";
    let mut table = String::from("comparison,stack,ratio,low,high,verdict\n");
    let (mut close, mut worse) = (0, 0);
    for comparison in 1..=COMPARISONS {
        for (stack, versus) in versus_of("WORK", load, comparison) {
            close += usize::from(stack == "same" && versus.verdict == Verdict::TooClose);
            worse += usize::from(stack == "slower" && versus.verdict == Verdict::Worse);
            let ratio = versus.ratio.unwrap();
            let line = format!(
                "{comparison},{stack},{:.4},{:.4},{:.4},{:?}\n",
                ratio.value, ratio.low, ratio.high, versus.verdict
            );
            eprint!("{line}");
            table.push_str(&line);
        }
    }
    eprintln!(
        "of {COMPARISONS} comparisons {close} found equal servers too close to call, and {worse} a tenth more work slower"
    );
    let folder = test_support::workspace().join("docs/internals/method");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("honesty.csv"), table).unwrap();
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
        let expect = "its page (11 bytes) is not the one of others (11 bytes); ";
        assert_eq!(
            failure.starts_with(expect) && failure.contains(", after the load"),
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
    let results = compare::read(&run.output).unwrap();
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
    let failures: Vec<_> = results
        .trials
        .iter()
        .filter_map(|trial| trial.failure.as_ref())
        .collect();
    assert_eq!(code, Some(0), "{failures:?}");
    for t in &results.trials {
        eprintln!("{:?}", t.outcome);
    }
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
    // The same tenth of the time, in less of it.
    let (stall, every, duration) = if full() {
        (1000, 10_000, 30)
    } else {
        (300, 3000, 7)
    };
    let (code, results) = compare(&format!(
        "stacks = [\"stalling\"]\ntrials = 1\nduration = \"{duration}s\"\n[[load]]\nrate = 150\n\
         [stack.stalling]\nkind = \"thin\"\nenvironment = {{ STALL = \"{stall}\", EVERY = \"{every}\" }}\n",
    ));
    let failures: Vec<_> = results
        .trials
        .iter()
        .filter_map(|trial| trial.failure.as_ref())
        .collect();
    assert_eq!(code, Some(0), "{failures:?}");
    let outcome = &results.trials[0].outcome;
    // A tenth of the requests come due in a stall and wait for its end: of those a tenth wait longer than nine tenths of it.
    // That the requests themselves were answered at once, once they were sent, must not hide it.
    let p99 = outcome.latency.percentile_ms(99.0).unwrap();
    assert!(p99 > f64::from(stall) * 0.65, "p99 {p99} ms of {stall}");
}
