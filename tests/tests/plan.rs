//! `highball plan` beside an application whose CPU times and waits are known.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use highball_tests::several::{named, start};
use serde_json::Value;
use test_support::{Ran, Server, ServerBuilder};

/// `/compute` takes 20 ms of CPU, `/wait` waits for 80 ms.
const KNOWN: &str = r##"
def cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)

run lambda { |env|
  case env["PATH_INFO"]
  when "/compute"
    finish = cpu + 0.02
    nil while cpu < finish
  when "/wait" then sleep(0.08)
  end
  Test.text("ok")
}
"##;

fn builder() -> ServerBuilder {
    Server::app(KNOWN).workers(1).threads(2)
}

/// A server that has recorded so many requests to each of the two routes.
fn recorded(each: usize) -> Server {
    let server = builder().start();
    for path in ["/compute", "/wait"] {
        for _ in 0..each {
            server.get(path).expect(200);
        }
    }
    server
}

#[track_caller]
fn json(ran: &Ran) -> Value {
    assert!(ran.status.success(), "{}", ran.output());
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// What `highball plan` says with these arguments, as JSON.
#[track_caller]
fn plan(server: &Server, arguments: &str) -> Value {
    let all: Vec<&str> = ["plan", "--json"]
        .into_iter()
        .chain(arguments.split_whitespace())
        .collect();
    json(&server.command(&all))
}

#[track_caller]
fn is_near(found: &Value, expected: f64, within: f64) {
    let found_number = found.as_f64().expect("a number");
    let off = found_number / expected - 1.0;
    assert!(off.abs() < within, "{found_number} is not {expected}");
}

#[test]
fn a_plan_is_made_of_the_recorded_times() {
    let server = recorded(30);
    let answer = plan(&server, "--rate 50 --p99 5s --cores 4");
    assert_eq!(answer["requests"], 60);
    // Half of the requests compute for 20 ms.
    is_near(&answer["needed_cores"], 50.0 * 0.01, 0.15);
    assert!(answer["alone_p99_s"].as_f64() >= Some(0.079), "{answer:#}");
    let chosen = answer["chosen"].as_u64().expect("one meets the target");
    let chosen = &answer["candidates"][chosen as usize];
    assert_eq!(chosen["meets"], true);
    assert!(chosen["p99_s"].as_f64() <= Some(5.0), "{answer:#}");
    assert!(
        chosen["memory_bytes"].as_u64() > Some(1 << 20),
        "{answer:#}"
    );
    let named = plan(&server, "--rate 10 --workers 3 --threads 2 --cores 4");
    assert_eq!(named["candidates"].as_array().map(Vec::len), Some(1));
    assert_eq!(named["candidates"][0]["workers"], 3);
}

#[test]
fn what_limits_is_named() {
    let server = recorded(10);
    let answer = plan(&server, "--rate 250 --p99 5s --cores 1");
    assert_eq!(answer["chosen"], Value::Null);
    assert_eq!(answer["limit"]["by"], "cores");
    assert!(answer["limit"]["enough"].as_u64() >= Some(3), "{answer:#}");
    let answer = plan(&server, "--rate 1 --p99 10ms --cores 4");
    assert_eq!(answer["limit"]["by"], "requests");
    let page = server.command(&["plan", "--rate", "250", "--p99", "5s", "--cores", "1"]);
    for text in [
        "250 requests a second, 99 % within 5000 ms; 1 core\n",
        "from 20 requests to 2 routes,",
        "cores, and there are 1.",
        "Warning: only 20 requests were recorded.",
    ] {
        assert!(page.stdout.contains(text), "{text}: {}", page.output());
    }
}

#[test]
fn without_a_rate_the_present_one_is_counted() {
    let server = recorded(1);
    let ends = AtomicBool::new(false);
    let mut client = server.connect();
    let answer = thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::SeqCst) {
                client.get("/wait").expect(200);
            }
        });
        let ran = server.command(&["plan", "--json", "--cores", "4"]);
        ends.store(true, Ordering::SeqCst);
        json(&ran)
    });
    let rate = answer["rate"].as_f64().expect("a number");
    assert!((0.5..12.6).contains(&rate), "{answer:#}");
    assert_eq!(answer["chosen"], Value::Null);
    let is_present = |one: &&Value| one["is_present"] == true;
    let candidates = answer["candidates"].as_array().expect("a list");
    let present = candidates.iter().find(is_present).expect("the present");
    let setup = (&present["workers"], &present["threads"]);
    assert_eq!(setup, (&1.into(), &2.into()));
}

#[test]
fn a_plan_without_requests_or_for_nobody_is_refused() {
    let server = builder().start();
    let ran = server.command(&["plan", "--rate", "10"]);
    assert!(!ran.status.success());
    assert!(
        ran.stderr.contains("no request was measured"),
        "{}",
        ran.output()
    );
    for wrong in ["--rate 0", "--rate many", "--p99 fast", "--workers 0"] {
        let words: Vec<_> = ["plan"].into_iter().chain(wrong.split(' ')).collect();
        assert!(!server.command(&words).status.success(), "{wrong}");
    }
}

#[test]
fn several_applications_are_planned_by_name() {
    let (shop, blog) = (named("shop"), named("blog"));
    let several = start(&[
        ("shop", &shop, "prefix = \"/shop\""),
        ("blog", &blog, "prefix = \"/blog\""),
    ]);
    several.server.get("/shop").expect(200);
    let ran = several.server.command(&["plan", "--rate", "10"]);
    assert!(
        ran.stderr.contains("name one with --application"),
        "{}",
        ran.output()
    );
    let answer = plan(&several.server, "--rate 10 --application shop");
    assert_eq!(
        (&answer["application"], &answer["requests"]),
        (&"shop".into(), &1.into())
    );
    let ran = several
        .server
        .command(&["plan", "--rate", "10", "--application", "none"]);
    assert!(
        ran.stderr.contains("no application of this name"),
        "{}",
        ran.output()
    );
}
