//! `highball profile`, `backtraces` and `gc`: what workers say of themselves, also where they lie or die.

use highball_tests::stacks::share;
use rustix::process::Signal;
use serde_json::Value;
use test_browser::Browser;
use test_support::{Application, Events, Process, Program, Server, ServerBuilder, until};

/// `/hot` computes until its worker ends; `/lie/...` has the worker answer something else.
const BUSY: &str = r##"
def hot
  Test.tell("hot")
  loop { @turns = @turns.to_i + 1 }
end

def wait_for_others
  Test.tell("wait")
  sleep
end

LIES = {
  "long" => "t x\n" + ("l " + "y" * 500 + "\n") * 20_000,
  "wrong" => "\e[2Jnonsense",
  "terminal" => "t \e[2J\u202ename\nl /a\e]0;x\a.rb:1:in `m'",
}.freeze

run lambda { |env|
  hot if env["PATH_INFO"] == "/hot"
  wait_for_others if env["PATH_INFO"] == "/wait"
  if (lie = LIES[env["PATH_INFO"].delete_prefix("/lie/")])
    Highball::Inspection.define_method(:backtraces) { lie }
  end
  Test.text("ok")
}
"##;

/// The schema of speedscope's files, from its package 1.25.0 (MIT licence).
const SPEEDSCOPE_SCHEMA: &str = include_str!("profiles/speedscope-file-format.schema.json");

/// What a browser has drawn: for each frame its title and its width on the page.
const DRAWN: &str = r#"
const drawn = [...document.querySelectorAll("g")].map(group => ({
  title: group.querySelector("title")?.textContent,
  width: group.querySelector("rect").getBoundingClientRect().width,
}));
return {
  all: drawn.find(frame => /^\d+ samples/.test(frame.title))?.width,
  without_title: drawn.filter(frame => !frame.title || !(frame.width > 0)).length,
  frames: drawn.slice(0, 60),
};
"#;

struct Busy {
    server: Server,
    events: Events,
}

fn start(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Busy {
    let application = Application::new(BUSY);
    let events = application.events();
    // What computes for ever is not waited for at the end.
    let builder = Server::application_of(application)
        .workers(1)
        .setting("drain_timeout", "0");
    let server = settings(builder).start();
    Busy { server, events }
}

/// What a command says, as JSON.
#[track_caller]
fn json(server: &Server, arguments: &[&str]) -> Value {
    let all: Vec<&str> = arguments.iter().chain(&["--json"]).copied().collect();
    let ran = server.command(&all);
    assert!(ran.status.success(), "{}", ran.output());
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// What a command that fails says.
#[track_caller]
fn failure(server: &Server, arguments: &[&str]) -> String {
    let ran = server.command(arguments);
    assert!(!ran.status.success(), "{}", ran.output());
    ran.stderr
}

fn worker(server: &Server) -> Process {
    server.status().ready_workers()[0]
}

#[test]
fn a_profile_names_the_hot_method_and_writes_its_files() {
    let Busy { server, mut events } = start(|server| server);
    let _client = server.ask("GET", "/hot");
    assert_eq!(events.wait(), "hot");
    let files = ["--svg", "a.svg", "--speedscope", "a.json"];
    let ran = server.command(&[&["profile", "--seconds", "1"][..], &files].concat());
    assert!(ran.status.success(), "{}", ran.output());
    let line = ran
        .stdout
        .lines()
        .find(|line| line.contains(" hot  config.ru") || line.contains("#hot  config.ru"));
    let total: f64 = line
        .and_then(|line| {
            line.split_whitespace()
                .nth(1)?
                .trim_end_matches('%')
                .parse()
                .ok()
        })
        .unwrap_or_else(|| panic!("{}", ran.output()));
    assert!(total >= 90.0, "{}", ran.output());
    assert!(ran.stdout.contains("of a core"), "{}", ran.output());
    let svg = server.application().read("a.svg");
    assert!(
        svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("hot"),
        "{svg}"
    );
    let file: Value = serde_json::from_str(&server.application().read("a.json")).expect("JSON");
    let schema: Value = serde_json::from_str(SPEEDSCOPE_SCHEMA).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<_> = schema
        .iter_errors(&file)
        .map(|one| one.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{file:#}");
    assert!(!schema.is_valid(&serde_json::json!({"profiles": 1})));
    let profile = &file["profiles"][0];
    let (samples, weights) = (&profile["samples"], &profile["weights"]);
    assert_eq!(
        samples.as_array().map(Vec::len),
        weights.as_array().map(Vec::len)
    );
}

#[test]
fn a_browser_shows_the_flame_graph_with_a_title_on_each_frame() {
    let Busy { server, mut events } = start(|server| server);
    let _client = server.ask("GET", "/hot");
    assert_eq!(events.wait(), "hot");
    let ran = server.command(&["profile", "--seconds", "1", "--svg", "a.svg"]);
    assert!(ran.status.success(), "{}", ran.output());
    let picture = server.dir().join("a.svg");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let seen = runtime.block_on(async {
        let browser = Browser::open().await?;
        browser.visit(&picture).await?;
        let seen = browser.run(DRAWN).await?;
        browser.keep_picture("profile_flame_graph", 1200).await?;
        browser.close().await?;
        anyhow::Ok(seen)
    });
    let seen = seen.expect("a browser");
    assert_eq!(seen["without_title"], 0, "{seen}");
    let hot = seen["frames"].as_array().expect("frames").iter();
    let hot: Vec<&Value> = hot
        .filter(|frame| {
            frame["title"]
                .as_str()
                .is_some_and(|title| title.contains("hot\n"))
        })
        .collect();
    // It takes nearly the whole picture.
    let wide = |frame: &&Value| frame["width"].as_f64() > seen["all"].as_f64().map(|all| 0.9 * all);
    assert!(hot.iter().any(wide), "{seen}");
}

#[test]
fn what_waits_is_in_wall_time_and_not_in_cpu_time() {
    let Busy { server, mut events } = start(|server| server.threads(2));
    let _hot = server.ask("GET", "/hot");
    assert_eq!(events.wait(), "hot");
    let _waits = server.ask("GET", "/wait");
    assert_eq!(events.wait(), "wait");
    let wall = json(&server, &["profile", "--seconds", "1", "--mode", "wall"]);
    assert!(share(&wall["stacks"], "wait_for_others") >= 0.4, "{wall}");
    assert!(share(&wall["stacks"], "hot") >= 0.4, "{wall}");
    let cpu = json(&server, &["profile", "--seconds", "2"]);
    assert_eq!(cpu["mode"], "cpu");
    assert!(share(&cpu["stacks"], "wait_for_others") <= 0.01, "{cpu}");
    assert!(share(&cpu["stacks"], "hot") >= 0.9, "{cpu}");
    let figure = |name: &str| cpu[name].as_f64().expect("a number");
    let a_second = figure("stacks_read") / figure("cpu_seconds");
    assert!(
        a_second >= 70.0,
        "{a_second} stacks for a second of CPU time: {cpu}"
    );
}

#[test]
fn a_worker_that_waits_has_no_profile_of_cpu_time() {
    let Busy { server, mut events } = start(|server| server);
    let _waits = server.ask("GET", "/wait");
    assert_eq!(events.wait(), "wait");
    let ran = server.command(&["profile", "--seconds", "1"]);
    assert!(ran.status.success(), "{}", ran.output());
    assert!(
        ran.stdout.contains("--mode wall shows what they wait for"),
        "{}",
        ran.output()
    );
}

#[test]
fn a_second_profile_is_refused_and_a_dead_worker_ends_the_first() {
    let Busy { server, .. } = start(|server| server);
    let pid = worker(&server);
    let dir = server.dir().to_owned();
    let first = std::thread::spawn(move || {
        let command = Program::highball(["profile", "--seconds", "200"]);
        command.current_dir(dir).run()
    });
    until("the first profile runs", || {
        let all = json(&server, &["backtraces"]).to_string();
        all.contains("highball profiler")
    });
    let second = failure(&server, &["profile"]);
    assert!(second.contains("is being profiled already"), "{second}");
    pid.kill();
    let first = first.join().expect("the first profile");
    assert!(
        first.stderr.contains("ended before it had answered"),
        "{}",
        first.output()
    );
}

#[test]
fn backtraces_name_the_threads_and_their_methods() {
    let Busy { server, mut events } = start(|server| server.threads(2));
    let _client = server.ask("GET", "/hot");
    assert_eq!(events.wait(), "hot");
    let all = json(&server, &["backtraces"]);
    let threads = all[0]["answer"].to_string();
    assert!(
        threads.contains("\"hot\"") || threads.contains("#hot"),
        "{all}"
    );
    assert!(threads.contains("request thread 1"), "{all}");
    assert_eq!(
        failure(&server, &["gc", "--worker", "9"])
            .matches("no worker 9")
            .count(),
        1
    );
}

#[test]
fn figures_of_garbage_collectors_are_a_table_and_json() {
    let Busy { server, .. } = start(|server| server.workers(2));
    let all = json(&server, &["gc"]);
    assert_eq!(all.as_array().map(Vec::len), Some(2), "{all}");
    assert!(
        all[1]["answer"]["heap_live_slots"].as_u64() > Some(1000),
        "{all}"
    );
    let table = server.command(&["gc"]).stdout;
    assert_eq!(table.matches("worker ").count(), 2, "{table}");
    assert!(table.contains("slots"), "{table}");
}

#[test]
fn answers_of_a_worker_that_lies_are_bounded_and_escaped() {
    let Busy { server, .. } = start(|server| server);
    for (lie, said) in [
        ("long", "more than"),
        ("wrong", "line 1 of the worker's report cannot be read"),
        ("terminal", "name"),
    ] {
        server.get(&format!("/lie/{lie}")).expect(200);
        let ran = server.command(&["backtraces"]);
        assert!(ran.stdout.contains(said), "{lie}: {}", ran.output());
        assert!(
            !ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\u{202e}'),
            "{lie}"
        );
    }
    // It is asked again as before, and serves.
    assert!(json(&server, &["gc"])[0]["answer"]["count"].is_u64());
    server.get("/").expect(200);
}

#[test]
fn workers_that_hang_are_named_and_the_others_shown() {
    let Busy { server, .. } = start(|server| server.workers(3));
    let workers = server.status().ready_workers();
    for hung in &workers[..2] {
        hung.signal(Signal::STOP);
    }
    for command in ["backtraces", "gc"] {
        // The command itself gives a silent server up after a bounded time: two are not waited for one after the other.
        let all = json(&server, &[command]);
        let all = all.as_array().expect("a list");
        assert_eq!(all.len(), 3, "{command}: {all:#?}");
        let hung = all.iter().filter(|one| one["error"].is_string());
        let hung: Vec<String> = hung.map(|one| one["error"].to_string()).collect();
        assert_eq!(hung.len(), 2, "{command}: {all:#?}");
        assert!(
            hung.iter().all(|one| one.contains("not answered in time")),
            "{command}: {hung:?}"
        );
        let shown = server.command(&[command]).stdout;
        let named = shown
            .lines()
            .filter(|line| line.trim_start().starts_with("worker "));
        assert_eq!(named.count(), 3, "{command}: {shown}");
    }
    for hung in &workers[..2] {
        hung.signal(Signal::CONT);
    }
}
