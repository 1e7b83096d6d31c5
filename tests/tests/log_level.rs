//! Which of the server's own lines are written: by the setting, by a command and by the API, and how long that lasts.

use rustix::process::Signal;
use test_support::{Application, Process, Ran, Server, until};

const APPLICATION: &str = r##"run lambda { |env|
  raise "broken" if env["PATH_INFO"].start_with?("/fail")
  Test.text("hello")
}"##;

#[track_caller]
fn choose(server: &Server, level: &str) -> Ran {
    let ran = server.command(&["log-level", level]);
    assert!(ran.status.success(), "{}", ran.output());
    ran
}

#[track_caller]
fn levels(server: &Server, setting: &str, current: &str) {
    let expected = serde_json::json!({"setting": setting, "current": current});
    assert_eq!(server.status().0["log_level"], expected);
    let page = server.command(&["status"]).stdout;
    let shown = format!("\n  log level {current} (setting: {setting})\n");
    assert_eq!(page.contains(&shown), setting != current, "{page}");
}

/// Whether the log tells of a restart, which is a line of the level `info`. The path's request must be the first of its kind.
#[track_caller]
fn tells_of_a_restart(server: &Server, path: &str) -> bool {
    let start = server.log().len();
    let ran = server.command(&["restart"]);
    assert!(ran.status.success(), "{}", ran.output());
    server.get(path);
    // Requests are logged at every level.
    let is_request = |line: &str| line.contains(path) && line.contains("outcome=");
    server.log().wait_after(start, is_request);
    let lines = server.log().lines();
    lines[start..]
        .iter()
        .any(|line| line.contains("restart requested"))
}

#[test]
fn an_operator_chooses_the_level_until_the_setting_changes() {
    let mut server = Server::app(APPLICATION)
        .settings_file("log_level = \"warn\"\n")
        .start();
    levels(&server, "warn", "warn");
    assert!(!tells_of_a_restart(&server, "/quiet"));
    let ran = choose(&server, "info");
    let text = "log level info, warn before (setting log_level: warn)";
    assert_eq!(ran.stdout, text);
    levels(&server, "warn", "info");
    assert!(tells_of_a_restart(&server, "/loud"));
    // A reload that changes something else keeps it, and an upgrade.
    let write = |text: &str| server.application().dir().write("highball.toml", text);
    write("log_level = \"warn\"\nmax_retries = 0\n");
    let reloaded = server.command(&["reload"]);
    assert!(reloaded.stdout.contains("max_retries: 1 -> 0"));
    levels(&server, "warn", "info");
    let upgraded = server.command(&["upgrade"]);
    assert!(upgraded.status.success(), "{}", upgraded.output());
    let pid = u32::try_from(server.status().number("/pid")).expect("a pid");
    server.replaced_by(Process(pid));
    levels(&server, "warn", "info");
    assert!(tells_of_a_restart(&server, "/upgraded"));
    server
        .application()
        .dir()
        .write("highball.toml", "log_level = \"error\"\n");
    let reloaded = server.command(&["reload"]);
    let text = "log_level: warn -> error";
    assert!(reloaded.stdout.contains(text), "{}", reloaded.output());
    levels(&server, "error", "error");
    assert!(!tells_of_a_restart(&server, "/fail-1"));
    server.log().wait(|line| line.contains("level=error"));
    choose(&server, "warn");
    choose(&server, "default");
    levels(&server, "error", "error");
}

#[test]
fn the_level_is_changed_at_once_also_while_code_is_loaded() {
    let source = format!("Test.pass('load', 'loading') if File.exist?('slow')\n{APPLICATION}");
    let application = Application::new(&source);
    let (mut events, gate) = (application.events(), application.gate("load"));
    let server = Server::application_of(application)
        .setting("front_threads", "2")
        .start();
    server.application().dir().write("slow", "");
    let start = server.log().len();
    server.process().signal(Signal::USR1);
    assert_eq!(events.wait(), "loading");
    choose(&server, "error");
    gate.open();
    // The restart tells no more how it ends, on whichever thread requests are served.
    until("the new code serves", || {
        server.status().0["generations"][0]["number"] == 2
    });
    let paths: Vec<String> = (0..8).map(|number| format!("/fail-{number}")).collect();
    for path in &paths {
        server.get(path).expect(500);
    }
    for path in &paths {
        let error = |line: &str| line.contains("level=error") && line.contains(&**path);
        server.log().wait_after(start, error);
    }
    let lines = server.log().lines();
    let told: Vec<_> = lines[start..]
        .iter()
        .filter(|line| line.contains("level=info"))
        .collect();
    let last = told.last().expect("a line");
    assert!(last.contains("log level: info -> error"), "{told:#?}");
}

#[test]
fn an_unknown_level_changes_nothing() {
    let server = Server::app(APPLICATION).start();
    let ran = server.command(&["log-level", "debug"]);
    assert!(!ran.status.success());
    assert!(
        ran.stderr.contains("info, warn, error, default"),
        "{}",
        ran.output()
    );
    levels(&server, "info", "info");
}
