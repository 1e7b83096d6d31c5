//! How Ruby itself runs: the compiler and the allocator that workers have, what an operator decides, and what `check` and
//! `status` say of it. Debian's packages: libjemalloc2.

use std::fs;

use highball_tests::own_users;
use highball_tests::several::{self, by_host};
use serde_json::Value;
use test_support::{Application, Process, Program, Server, ServerBuilder, until};

/// Says whether YJIT compiles, and which variables there are.
const SHOWS: &str = r##"run lambda { |env|
  yjit = defined?(RubyVM::YJIT) ? RubyVM::YJIT.enabled? : "missing"
  own = ENV.slice("LD_PRELOAD", "MALLOC_ARENA_MAX", "MALLOC_CONF").merge(ENV.select { |name,| name.include?("TEMPLATE") })
  Test.text("#{yjit} #{own.map { |pair| pair.join("=") }.sort.join(" ")}".strip)
}"##;

/// What jemalloc is told.
const OPTIONS: &str = "MALLOC_CONF=dirty_decay_ms:1000,narenas:2";

/// The names of libraries that a process has mapped.
fn maps(process: Process) -> String {
    fs::read_to_string(format!("/proc/{}/maps", process.0)).expect("a process of our own")
}

/// Asserts that all workers have jemalloc, or that none has.
#[track_caller]
fn expect_jemalloc(server: &Server, expect: bool) {
    let workers = server.status().ready_workers();
    assert!(!workers.is_empty());
    for worker in workers {
        let found = maps(worker).contains("/libjemalloc.so.2");
        assert_eq!(found, expect, "{}", maps(worker));
    }
}

/// What the status says of this option: its value, and why.
#[track_caller]
fn option(status: &Value, name: &str) -> (String, String) {
    let all = status["generations"][0]["runtime"]
        .as_array()
        .expect("a list");
    let one = all.iter().find(|one| one["name"] == name).expect(name);
    let text = |key: &str| one[key].as_str().expect("a text").to_owned();
    (text("value"), text("reason"))
}

fn start(settings: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Server {
    let application = Application::without_lint(SHOWS);
    settings(Server::application_of(application).workers(2)).start()
}

/// Whether the Ruby of these tests was built with YJIT, as an answer says.
fn has_yjit(answer: &str) -> bool {
    !answer.starts_with("missing")
}

#[test]
fn workers_have_jemalloc_and_the_programs_that_they_start_have_not() {
    let server = start(|builder| builder);
    expect_jemalloc(&server, true);
    let text = server.get("/").text();
    assert!(text.ends_with(&format!(" {OPTIONS}")), "{text}");
    let (value, reason) = option(&server.status().0, "allocator");
    assert_eq!(value, "jemalloc");
    assert!(
        reason.starts_with("version 5.") && reason.contains("/libjemalloc.so.2"),
        "{reason}"
    );
    let page = server.command(&["status"]).stdout;
    let line = page.lines().find(|line| line.starts_with("  runtime "));
    assert!(
        line.expect(&page).contains("allocator jemalloc, compact "),
        "{page}"
    );
}

#[test]
fn a_plain_runtime_leaves_ruby_as_it_is() {
    let server = start(|builder| builder.setting("runtime", "plain"));
    expect_jemalloc(&server, false);
    let text = server.get("/").text();
    assert!(["false", "missing"].contains(&&*text), "{text}");
    let said = ["jit", "allocator"].map(|name| option(&server.status().0, name).1);
    assert_eq!(said, ["runtime = \"plain\""; 2]);
    // As it is where nobody named an environment: a developer's machine.
    let server = start(|builder| builder.environment(None));
    expect_jemalloc(&server, false);
}

#[test]
fn what_is_named_is_there_with_a_plain_runtime_too() {
    let server = start(|builder| {
        let builder = builder.setting("runtime", "plain").setting("jit", "yjit");
        builder.setting("allocator", "jemalloc")
    });
    expect_jemalloc(&server, true);
    let text = server.get("/").text();
    let expect = if has_yjit(&text) { "yjit" } else { "none" };
    assert_eq!(text.starts_with("true "), has_yjit(&text), "{text}");
    assert_eq!(option(&server.status().0, "jit").0, expect);
    let server = start(|builder| builder.setting("allocator", "system"));
    expect_jemalloc(&server, false);
    let text = server.get("/").text();
    assert!(text.ends_with(" MALLOC_ARENA_MAX=2"), "{text}");
}

#[test]
fn a_library_and_arenas_of_the_operator_hold() {
    let library = maps(Process(std::process::id()));
    let library = library.lines().find(|line| line.contains("/libc.so.6"));
    let library = library
        .expect("the C library")
        .split(' ')
        .next_back()
        .unwrap()
        .to_owned();
    let server = start(|builder| {
        let builder = builder.env("LD_PRELOAD", &library);
        builder.env("MALLOC_ARENA_MAX", "3")
    });
    expect_jemalloc(&server, false);
    let text = server.get("/").text();
    let expect = format!(" LD_PRELOAD={library} MALLOC_ARENA_MAX=3");
    assert!(text.ends_with(&expect), "{text}");
    let (value, reason) = option(&server.status().0, "allocator");
    assert_eq!(
        (&*value, &*reason),
        (
            "system",
            "your LD_PRELOAD holds; your MALLOC_ARENA_MAX holds"
        )
    );
}

#[test]
fn options_of_ruby_hold_whatever_the_setting_says() {
    for (wanted, options, expect) in [
        ("yjit", "--disable-yjit", "false"),
        ("none", "--yjit", "true"),
        ("none", "-W0", "false"),
    ] {
        let server = start(|builder| builder.setting("jit", wanted).env("RUBYOPT", options));
        let text = server.get("/").text();
        if !has_yjit(&text) {
            return;
        }
        assert!(text.starts_with(expect), "{wanted} {options}: {text}");
    }
}

#[test]
fn each_application_has_a_runtime_of_its_own() {
    let several = by_host(&[("shop", SHOWS), ("wiki", SHOWS)])
        .keys("shop", "jit = \"yjit\"\nallocator = \"system\"")
        .keys(
            "wiki",
            "variables = { MALLOC_ARENA_MAX = \"7\" }\nruntime = \"plain\"",
        )
        .start_all();
    let shop = several.get("shop.test", "/").text();
    assert_eq!(
        shop,
        format!(
            "{} MALLOC_ARENA_MAX=2",
            if has_yjit(&shop) { "true" } else { "missing" }
        )
    );
    let wiki = several.get("wiki.test", "/").text();
    assert!(wiki.ends_with(" MALLOC_ARENA_MAX=7"), "{wiki}");
    let status = several.server.status().0;
    let values: Vec<_> = (0..2)
        .map(|at| option(&status["applications"][at], "allocator").1)
        .collect();
    assert_eq!(
        values,
        [
            "allocator = \"system\"; MALLOC_ARENA_MAX=2",
            "runtime = \"plain\""
        ]
    );
}

#[test]
fn applications_with_users_of_their_own_have_jemalloc() {
    let applications = [SHOWS, SHOWS].map(Application::without_lint);
    let several = own_users::start(applications, "jit = \"yjit\"", |builder| builder);
    expect_jemalloc(&several.server, true);
    for host in ["shop.test", "wiki.test"] {
        let text = several.get(host, "/").text();
        assert!(text.ends_with(&format!(" {OPTIONS}")), "{text}");
        assert_eq!(text.starts_with("true"), has_yjit(&text), "{text}");
    }
}

#[test]
fn an_empty_library_of_an_application_turns_jemalloc_off() {
    let several = several::start(&[
        (
            "plain",
            SHOWS,
            "hosts = [\"a.test\"]\nvariables = { LD_PRELOAD = \"\" }",
        ),
        ("usual", SHOWS, "hosts = [\"b.test\"]"),
    ]);
    let allocator = |name| option(&several.status(name), "allocator");
    let (value, reason) = allocator("plain");
    assert_eq!(value, "system");
    assert!(reason.starts_with("your LD_PRELOAD holds"), "{reason}");
    assert_eq!(allocator("usual").0, "jemalloc");
}

#[test]
fn a_reload_brings_another_runtime_with_a_new_generation() {
    let server = Server::application_of(Application::without_lint(SHOWS))
        .settings_file("workers = 1\nthreads = 1\nruntime = \"plain\"\n")
        .start();
    expect_jemalloc(&server, false);
    let file = "workers = 1\nthreads = 1\nallocator = \"jemalloc\"\n";
    server.application().dir().write("highball.toml", file);
    let ran = server.command(&["reload"]);
    assert!(
        ran.stdout.contains("generation 2 serves"),
        "{}",
        ran.output()
    );
    until("the old worker is gone", || {
        server.status().processes("worker").len() == 1
    });
    expect_jemalloc(&server, true);
}

#[test]
fn check_says_of_each_part_what_it_does_and_why() {
    let application = Application::new(SHOWS);
    let check = |settings: &[(&str, &str)]| {
        let program = Program::highball(["check", "-e", "production"]).arg(application.path());
        let program = settings
            .iter()
            .fold(program, |program, (name, value)| program.env(name, value));
        let ran = program.run();
        assert!(ran.status.success(), "{}", ran.output());
        ran.stdout
    };
    let line = |text: &str, name: &str| {
        let all = text[text.find(" loads in ").expect(text)..].lines();
        let mut found = all.filter(|line| line.trim_start().starts_with(name));
        let line = found
            .next()
            .unwrap_or_else(|| panic!("no {name} in {text}"));
        line.trim_start()[name.len()..].trim_start().to_owned()
    };
    let text = check(&[]);
    assert!(
        line(&text, "allocator").starts_with("jemalloc: version 5."),
        "{text}"
    );
    assert!(line(&text, "jit").contains(": "), "{text}");
    assert!(line(&text, "compact").contains("Process.warmup"), "{text}");
    assert_eq!(line(&text, "merge_pages"), "off: merge_pages = false");
    let text = check(&[
        ("HIGHBALL_RUNTIME", "plain"),
        ("HIGHBALL_MERGE_PAGES", "true"),
    ]);
    assert_eq!(line(&text, "allocator"), "system: runtime = \"plain\"");
    assert_eq!(line(&text, "jit"), "none: runtime = \"plain\"");
    let merging = line(&text, "merge_pages");
    let known = [
        "on: the kernel's ksmd runs",
        "on: allowed, but ",
        "off: the kernel refuses it: ",
    ];
    assert!(
        known.iter().any(|known| merging.starts_with(known)),
        "{merging}"
    );
}
