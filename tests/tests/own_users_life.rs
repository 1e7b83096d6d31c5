//! Applications with users of their own, while processes start and end: deaths of each of them, restarts, reloads, upgrades,
//! idle applications, and what operators ask. All of these tests need root.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use highball_tests::own_users::{FRONT, SHOP, WIKI, command_line, give, launchers, start, uid};
use highball_tests::several::Several;
use rustix::process::Signal;
use test_support::{Application, Client, Process, Ran, TEST_TIMEOUT, until};

const WHO: &str = r##"run lambda { |env| Test.text(Process.uid.to_s) }"##;

fn both(settings: &str) -> Several {
    start([WHO, WHO].map(Application::new), settings, |builder| {
        builder
    })
}

/// The application of this name is served by its own user.
#[track_caller]
fn serves(several: &Several, name: &str) {
    let user = if name == "shop" { SHOP } else { WIKI };
    let response = several.get(&format!("{name}.test"), "/");
    assert_eq!(response.expect(200).text(), uid(user).to_string());
}

/// The processes of an application of one kind.
fn those(several: &Several, name: &str, role: &str) -> Vec<Process> {
    let status = several.status(name);
    let all = status["processes"].as_array().expect("a list").iter();
    let of_role = all.filter(|one| one["role"] == role && one["state"] == "ready");
    let pid = |one: &serde_json::Value| one["pid"].as_u64().expect("a number") as u32;
    of_role.map(pid).map(Process).collect()
}

#[track_caller]
fn is_replaced(several: &Several, role: &str, old: Process) {
    assert!(old.wait_gone(TEST_TIMEOUT));
    until("another one is there", || {
        let all = those(several, "shop", role);
        !all.is_empty() && !all.contains(&old)
    });
}

#[test]
fn killed_workers_and_templates_are_replaced() {
    let several = both("");
    for role in ["worker", "template", "worker"] {
        let old = those(&several, "shop", role)[0];
        old.kill();
        is_replaced(&several, role, old);
        let line = format!("(pid {}) ended with", old.0);
        several.server.log().wait(|text| text.contains(&line));
        serves(&several, "shop");
    }
    several.server.stop();
}

#[test]
fn a_stopped_worker_is_killed_by_its_launcher() {
    let settings = "request_timeout = \"1s\"\nrequest_grace = \"1s\"";
    let several = both(settings);
    let old = those(&several, "shop", "worker")[0];
    old.suspend();
    let mut client = several.ask("shop.test", "/");
    assert!(client.response().status() >= 500);
    is_replaced(&several, "worker", old);
    serves(&several, "shop");
}

#[test]
fn the_death_of_a_launcher_is_an_outage_of_its_application_alone() {
    let several = both("");
    let [shop, _] = launchers(&several);
    let front = several.server.process();
    let processes: Vec<Process> = several.processes("shop");
    shop.kill();
    let log = several.server.log();
    let line = log.wait(|line| line.contains("the launcher of user"));
    assert!(
        line.contains(&format!("user {SHOP} (pid {}) is there no more", shop.0)),
        "{line}"
    );
    assert!(
        line.contains("SIGKILL") && line.contains("started again as root"),
        "{line}"
    );
    for process in processes.into_iter().filter(|one| *one != front) {
        assert!(process.wait_gone(TEST_TIMEOUT), "{process:?}");
    }
    assert!(!shop.exists(), "it is reaped");
    until("its requests are refused", || {
        several.get("shop.test", "/").status() == 503
    });
    serves(&several, "wiki");
    let refused = |ran: Ran| {
        assert!(!ran.status.success(), "{}", ran.output());
        assert!(
            ran.output()
                .contains(&format!("the launcher of user {SHOP} is there no more")),
            "{}",
            ran.output()
        );
    };
    refused(
        several
            .server
            .command(&["restart", "--application", "shop"]),
    );
    refused(several.server.command(&["upgrade"]));
    let others = several
        .server
        .command(&["restart", "--application", "wiki"]);
    assert!(others.status.success(), "{}", others.output());
    serves(&several, "wiki");
    several.server.stop();
}

#[test]
fn a_launcher_that_is_stopped_delays_its_application_alone() {
    let several = both("");
    let [launcher, _] = launchers(&several);
    let template = those(&several, "shop", "template")[0];
    launcher.suspend();
    // Without its figures of memory.
    assert!(several.server.command(&["status"]).status.success());
    template.kill();
    let log = several.server.log();
    log.wait(|line| line.contains("the launcher did not answer within 10s"));
    for name in ["shop", "wiki"] {
        serves(&several, name);
    }
    launcher.signal(Signal::CONT);
    until("another template is there", || {
        let all = those(&several, "shop", "template");
        all.len() == 1 && all[0] != template
    });
    assert!(several.server.command(&["restart"]).status.success());
    several.server.stop();
}

#[test]
fn nothing_is_left_behind_a_front_that_was_killed() {
    let several = both("");
    // It notices nothing by itself.
    those(&several, "shop", "worker")[0].suspend();
    several.server.stop_with(Signal::KILL);
}

#[test]
fn a_launcher_outlives_the_signals_that_stop_a_server() {
    let several = both("drain_timeout = \"20s\"");
    for launcher in launchers(&several) {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
            launcher.signal(signal);
        }
    }
    let ran = several.server.command(&["restart"]);
    assert!(ran.status.success(), "{}", ran.output());
    serves(&several, "shop");
    several.server.stop();
}

/// Asks both applications all the time while `change` is made, each time on a connection of its own. Returns how many answers
/// were wrong.
fn under_load(several: &Several, change: impl FnOnce()) -> usize {
    let (over, asked, wrong) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let address = several.server.address();
    std::thread::scope(|scope| {
        for (host, user) in [("shop.test", SHOP), ("wiki.test", WIKI)] {
            let (over, asked, wrong) = (&over, &asked, &wrong);
            scope.spawn(move || {
                let expect = uid(user).to_string();
                while !over.load(Ordering::Relaxed) {
                    let mut client = Client::connect(address);
                    client.send(format!(
                        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                    ));
                    let response = client.response();
                    let good = response.status() == 200 && response.text() == expect;
                    wrong.fetch_add(usize::from(!good), Ordering::Relaxed);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        change();
        let before = asked.load(Ordering::Relaxed);
        until("both were asked again", || {
            asked.load(Ordering::Relaxed) > before + 50
        });
        over.store(true, Ordering::Relaxed);
    });
    wrong.load(Ordering::Relaxed)
}

#[test]
fn a_restart_under_load_loses_no_request() {
    let several = both("");
    let wrong = under_load(&several, || {
        let ran = several.server.command(&["restart"]);
        assert!(ran.status.success(), "{}", ran.output());
    });
    assert_eq!(wrong, 0);
    for name in ["shop", "wiki"] {
        assert_eq!(several.status(name)["generations"][0]["number"], 2);
    }
}

#[test]
fn upgrades_under_load_hand_the_launchers_over() {
    let mut several = both("");
    let launchers = launchers(&several);
    for generation in 2..4 {
        let mut new = None;
        let wrong = under_load(&several, || {
            let ran = several.server.command(&["upgrade"]);
            assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
            new = Some(ran.process());
        });
        assert_eq!(wrong, 0);
        let old = several.server.replaced_by(new.expect("it serves"));
        assert!(old.wait_gone(TEST_TIMEOUT));
        for name in ["shop", "wiki"] {
            assert_eq!(several.status(name)["generations"][0]["number"], generation);
            serves(&several, name);
        }
        assert!(launchers.iter().all(|one| one.exists()));
    }
    // It starts, measures and kills processes as the first one did.
    let ran = several.server.command(&["restart"]);
    assert!(ran.status.success(), "{}", ran.output());
    let worker = those(&several, "shop", "worker")[0];
    until("it is measured", || {
        let status = several.status("shop");
        let all = status["processes"].as_array().expect("a list").clone();
        all.iter().all(|one| one["memory"]["pss_bytes"].is_u64())
    });
    worker.kill();
    is_replaced(&several, "worker", worker);
    several.server.stop();
    for launcher in launchers {
        assert!(launcher.wait_gone(TEST_TIMEOUT), "{launcher:?}");
    }
}

/// Writes another user into the table of the shop.
fn set_user(several: &Several, to: &str) {
    let path = several.server.dir().join("highball.toml");
    let text = std::fs::read_to_string(&path).expect("it was written");
    let text = text.replace(&format!("user = \"{SHOP}\""), &format!("user = \"{to}\""));
    std::fs::write(&path, text).expect("a folder of our own");
}

#[test]
fn another_user_needs_a_new_start_and_changes_nothing_before() {
    let several = both("");
    set_user(&several, "sync");
    let ran = several.server.command(&["reload"]);
    assert!(
        ran.output().contains(&format!(
            "shop: user: {SHOP} -> sync (not applied: stop the server and start it again as root)"
        )),
        "{}",
        ran.output()
    );
    serves(&several, "shop");
    let ran = several.server.command(&["upgrade"]);
    assert!(!ran.status.success(), "{}", ran.output());
    let text = "the running server has no launcher for that user, and an upgrade cannot start one: stop the server and start \
                it again as root";
    assert!(ran.output().contains(text), "{}", ran.output());
    assert!(
        ran.output()
            .contains("application shop: cannot run it as user sync"),
        "{}",
        ran.output()
    );
    serves(&several, "shop");
    // Back again, an upgrade takes the launchers.
    set_user(&several, "never");
    let path = several.server.dir().join("highball.toml");
    let text = std::fs::read_to_string(&path).expect("it was written");
    std::fs::write(&path, text.replace("\"sync\"", &format!("\"{SHOP}\""))).expect("ours");
    let mut several = several;
    let ran = several.server.command(&["upgrade"]);
    assert!(ran.status.success(), "{}", ran.output());
    several.server.replaced_by(ran.process());
    serves(&several, "shop");
}

#[test]
fn a_reload_with_a_new_generation_keeps_the_user() {
    let several = both("");
    let path = several.server.dir().join("highball.toml");
    let text = std::fs::read_to_string(&path).expect("it was written");
    std::fs::write(&path, text.replace("threads = 1", "threads = 2")).expect("ours");
    give(several.server.dir(), FRONT);
    let ran = several.server.command(&["reload"]);
    assert!(ran.status.success(), "{}", ran.output());
    for name in ["shop", "wiki"] {
        assert_eq!(several.status(name)["generations"][0]["number"], 2);
        serves(&several, name);
    }
}

#[test]
fn an_idle_application_is_stopped_and_started_by_its_launcher() {
    let several = both("idle_timeout = \"1s\"");
    let front = several.server.process();
    until("both are stopped", || {
        let own = |name: &str| {
            several
                .processes(name)
                .into_iter()
                .filter(|one| *one != front)
                .count()
        };
        own("shop") + own("wiki") == 0
    });
    serves(&several, "shop");
    several.server.stop();
}

#[test]
fn a_late_request_shows_where_it_is_and_operators_see_into_workers() {
    const SLEEPS: &str = r##"run lambda { |env|
      here_it_sleeps = ->(seconds) { sleep(seconds) }
      here_it_sleeps.call(env["PATH_INFO"] == "/late" ? 60 : 0)
      Test.text(Process.uid.to_s)
    }"##;
    let settings = "request_timeout = \"1s\"\nrequest_grace = \"1s\"";
    let several = start([SLEEPS, WHO].map(Application::new), settings, |builder| {
        builder
    });
    let old = those(&several, "shop", "worker")[0];
    let mut client = several.ask("shop.test", "/late");
    assert_eq!(client.response().status(), 504);
    several
        .server
        .log()
        .wait(|line| line.contains("config.ru") && line.contains("sleep"));
    is_replaced(&several, "worker", old);
    for command in [
        &["backtraces", "--application", "shop"][..],
        &["profile", "--application", "shop", "--seconds", "1"],
        &["memory"],
    ] {
        let ran = several.server.command(command);
        assert!(ran.status.success(), "{command:?}: {}", ran.output());
    }
}

#[test]
fn a_worker_above_its_memory_limit_is_replaced() {
    const GROWS: &str = r##"run lambda { |env|
      $held = "x" * (150 << 20) if env["PATH_INFO"] == "/grow"
      Test.text(Process.uid.to_s)
    }"##;
    let settings = "worker_max_memory = \"100MiB\"";
    let several = start([GROWS, WHO].map(Application::new), settings, |builder| {
        builder
    });
    let old = those(&several, "shop", "worker")[0];
    several.get("shop.test", "/grow").expect(200);
    is_replaced(&several, "worker", old);
    serves(&several, "shop");
}

#[test]
fn two_applications_of_one_user_share_a_launcher() {
    let applications = [WHO, WHO].map(Application::new);
    applications.iter().for_each(|one| give(one.path(), SHOP));
    let table = |name: &str| format!("hosts = [\"{name}.test\"]\nuser = \"{SHOP}\"");
    let (shop, wiki) = (table("shop"), table("wiki"));
    let tables = [("shop", &*shop), ("wiki", &*wiki)];
    let several = highball_tests::several::prepared(applications.into(), &tables, |builder| {
        builder.setting("user", FRONT)
    });
    several.until_all_serve();
    let children = several.server.process().children();
    assert_eq!(children.len(), 1, "{children:?}");
    assert!(command_line(children[0]).contains("launcher"));
    for name in ["shop", "wiki"] {
        let host = format!("{name}.test");
        assert_eq!(
            several.get(&host, "/").expect(200).text(),
            uid(SHOP).to_string()
        );
    }
    several.server.stop();
}
