//! Another number of workers in place: by the command, the API and signals, within its bounds, and how long it lasts.

use std::collections::BTreeSet;

use highball_tests::several::{named, start};
use rustix::process::Signal;
use test_support::{Application, Gated, Process, Ran, Server, ServerBuilder, until};

const HELLO: &str = "run ->(_) { Test.text(Process.pid.to_s) }";

fn with_workers(workers: usize, most: u16) -> ServerBuilder {
    Server::app(HELLO)
        .workers(workers)
        .setting("max_workers", &most.to_string())
}

fn workers(server: &Server) -> BTreeSet<Process> {
    server.status().ready_workers().into_iter().collect()
}

#[track_caller]
fn scale(server: &Server, to: &str) -> Ran {
    let ran = server.command(&["scale", to]);
    assert!(ran.status.success(), "{}", ran.output());
    ran
}

#[track_caller]
fn until_there_are(server: &Server, count: usize) {
    until("so many workers serve", || {
        server.status().processes("worker").len() == count && workers(server).len() == count
    });
}

#[test]
fn scaling_adds_and_removes_workers_and_restarts_none() {
    let server = with_workers(2, 5).start();
    let before = workers(&server);
    let template = server.status().processes("template");
    let ran = scale(&server, "5");
    let text = "5 workers are wanted, 2 before (setting workers: 2); 5 serve";
    assert_eq!(ran.stdout, text);
    let more = workers(&server);
    assert_eq!(more.len(), 5);
    assert!(before.is_subset(&more));
    assert_eq!(server.status().number("/slots/total"), 10);
    let page = server.command(&["status"]).stdout;
    assert!(page.contains("\nworkers: 5 (scaled from 2)\n"), "{page}");
    // All of them are asked.
    let mut seen = BTreeSet::new();
    until("each has answered", || {
        let mut clients: Vec<_> = (0..10).map(|_| server.ask("GET", "/")).collect();
        seen.extend(clients.iter_mut().map(|one| one.response().text()));
        seen.len() == 5
    });
    scale(&server, "1");
    until_there_are(&server, 1);
    assert!(workers(&server).is_subset(&more));
    server.get("/").expect(200);
    scale(&server, "default");
    until_there_are(&server, 2);
    assert_eq!(server.status().processes("template"), template);
    assert_eq!(server.status().0["generations"][0]["number"], 1);
    assert!(!server.command(&["status"]).stdout.contains("scaled"));
}

#[test]
fn a_number_out_of_bounds_changes_nothing() {
    let server = with_workers(1, 2).start();
    for (to, reason) in [
        (
            "3",
            "there may be 1 to 2 workers here (setting max_workers)",
        ),
        ("0", "a number from 1"),
        ("many", "a number from 1"),
    ] {
        let ran = server.command(&["scale", to]);
        assert!(!ran.status.success(), "{to}");
        assert!(ran.stderr.contains(reason), "{to}: {}", ran.output());
    }
    let ran = server.command(&["scale", "2", "--application", "shop"]);
    let reason = "there is no application shop";
    assert!(ran.stderr.contains(reason), "{}", ran.output());
    assert_eq!(workers(&server).len(), 1);
}

#[test]
fn signals_ask_for_one_worker_more_or_less() {
    let server = with_workers(1, 3).start();
    server.process().signal(Signal::TTIN);
    until_there_are(&server, 2);
    server.process().signal(Signal::TTIN);
    until_there_are(&server, 3);
    // There is no fourth, and always one.
    server.process().signal(Signal::TTIN);
    let as_before = |line: &str| line.contains("wanted as before");
    server.log().wait(as_before);
    assert_eq!(workers(&server).len(), 3);
    for left in [2, 1] {
        server.process().signal(Signal::TTOU);
        until_there_are(&server, left);
    }
    server.process().signal(Signal::TTOU);
    server
        .log()
        .wait(|line| line.contains("1 worker is wanted as before"));
    server.get("/").expect(200);
}

#[test]
fn workers_that_are_too_many_finish_their_requests() {
    let source = r##"run lambda { |env| Test.pass("work", "call #{env["PATH_INFO"]} #{Process.pid}"); Test.text("done") }"##;
    let mut gated = Gated::start(Application::new(source), |builder| builder.workers(3));
    let mut clients: Vec<_> = (0..3)
        .map(|n| gated.server.ask("GET", &format!("/{n}")))
        .collect();
    let busy: BTreeSet<Process> = (0..3).map(|_| gated.called().1).collect();
    assert_eq!(busy.len(), 3);
    scale(&gated.server, "1");
    let state = |process: &serde_json::Value| process["state"] == "stopping";
    let stopping = || {
        let status = gated.server.status();
        let all = status.0["processes"].as_array().expect("a list").clone();
        all.into_iter().filter(state).count()
    };
    until("two leave", || stopping() == 2);
    gated.gate.open();
    for client in &mut clients {
        client.response().expect(200);
    }
    until_there_are(&gated.server, 1);
}

#[test]
fn a_restart_and_an_upgrade_keep_the_number_and_the_setting_ends_it() {
    let file = "workers = 1\nmax_workers = 4\n";
    let mut server = Server::app(HELLO).settings_file(file).start();
    scale(&server, "3");
    assert!(server.command(&["restart"]).status.success());
    until_there_are(&server, 3);
    // Nothing of this concerns workers.
    let write = |text: &str| server.application().dir().write("highball.toml", text);
    write(&format!("{file}max_retries = 0\n"));
    let reloaded = server.command(&["reload"]);
    assert!(
        reloaded.stdout.contains("max_retries: 1 -> 0"),
        "{}",
        reloaded.output()
    );
    assert_eq!(workers(&server).len(), 3);
    let upgraded = server.command(&["upgrade"]);
    assert!(upgraded.status.success(), "{}", upgraded.output());
    let pid = server.status().number("/pid");
    let pid = u32::try_from(pid).expect("a pid");
    server.replaced_by(Process(pid));
    assert_eq!(workers(&server).len(), 3);
    let page = server.command(&["status"]).stdout;
    assert!(page.contains("workers: 3 (scaled from 1)"), "{page}");
    server
        .application()
        .dir()
        .write("highball.toml", "workers = 2\nmax_workers = 4\n");
    let reloaded = server.command(&["reload"]);
    assert!(
        reloaded.stdout.contains("workers: 1 -> 2"),
        "{}",
        reloaded.output()
    );
    until_there_are(&server, 2);
    assert!(!server.command(&["status"]).stdout.contains("scaled"));
}

#[test]
fn of_several_applications_one_is_named_and_may_be_stopped() {
    let idle = "hosts = [\"a.test\"]\nidle_timeout = \"1s\"\nworkers = 1\nmax_workers = 2";
    let (a, b) = (named("a"), named("b"));
    let several = start(&[("a", &a, idle), ("b", &b, "hosts = [\"b.test\"]")]);
    let unnamed = several.server.command(&["scale", "2"]);
    let reason = "name one with --application";
    assert!(unnamed.stderr.contains(reason), "{}", unnamed.output());
    until("it is stopped", || several.processes("a").is_empty());
    let ran = several
        .server
        .command(&["scale", "2", "--application", "a"]);
    assert!(
        ran.stdout.contains("the application starts with them"),
        "{}",
        ran.output()
    );
    several.get("a.test", "/").expect(200);
    assert_eq!(several.status("a")["workers"]["wanted"], 2);
    // A template and two workers.
    assert_eq!(several.processes("a").len(), 3);
    assert_eq!(several.status("b")["workers"]["wanted"], 1);
}

#[test]
fn workers_beyond_the_memory_budget_wait_until_it_has_room() {
    let application = Application::new(HELLO);
    // Each worker has 160 MiB for itself: two of them and the rest of the server fit, three do not.
    let hooks = "after_fork { $own = 'x' * (160 << 20) }\n";
    application.dir().write("config/highball.rb", hooks);
    let file = |budget: &str| {
        format!("workers = 1\nthreads = 1\nmax_workers = 4\nmemory_budget = \"{budget}\"\n")
    };
    let server = Server::application_of(application)
        .settings_file(&file("480MiB"))
        .start();
    let ran = scale(&server, "4");
    let text = "4 workers are wanted, 1 before (setting workers: 1); 1 of 4 serve now, the rest start one by one as \
                memory_budget allows";
    assert_eq!(ran.stdout, text);
    let counts = || {
        let workers = &server.status().0["workers"];
        let count = |key: &str| workers[key].as_u64().expect("a number");
        (count("wanted"), count("allowed"))
    };
    until("a second one has come", || {
        let now = server.status();
        assert!(now.processes("worker").len() <= 2, "{:#}", now.0);
        now.ready_workers().len() == 2
    });
    assert_eq!(counts(), (4, 2));
    let page = server.command(&["status"]).stdout;
    let shown = "workers: 2 of 4, for memory_budget has no room for more";
    assert!(page.contains(shown), "{page}");
    server
        .application()
        .dir()
        .write("highball.toml", file("none"));
    let reloaded = server.command(&["reload"]);
    let change = "memory_budget: 480MiB -> none";
    assert!(reloaded.stdout.contains(change), "{}", reloaded.output());
    until_there_are(&server, 4);
    assert_eq!(counts(), (4, 4));
}
