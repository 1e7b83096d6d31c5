//! The unit files under a real systemd, and control groups that limit memory: in a virtual machine, as neither may be
//! started on the machine of the tests. What a server tells a manager is seen closer in `systemd.rs`.

mod inside;
mod service;

use std::path::Path;

use inside::{inside, install};
use rustix::process::Signal;
use service::{
    CURRENT, SERVICE, SOCKET, Service, Traffic, connect, deploy, run, systemctl, try_systemctl,
};
use test_support::{Application, Process, TEST_TIMEOUT, until};

const HELLO: &str = r##"run lambda { |env| Test.text("hello") }"##;

/// A service that its socket has started.
fn activated(application: Application) -> Service {
    let service = Service::of(application);
    run("systemctl", &["start", SOCKET]);
    systemctl("start");
    service
}

#[test]
fn the_unit_files_are_sound() {
    inside(|| {
        for name in [SERVICE, SOCKET] {
            let path = format!("/etc/systemd/system/{name}");
            let verified = test_support::Program::new("systemd-analyze")
                .args(["verify", "--man=no", &path])
                .run();
            assert!(verified.status.success(), "{name}: {}", verified.output());
            let lines = verified.stderr.lines();
            let about_ours: Vec<_> = lines.filter(|line| line.contains("highball")).collect();
            assert_eq!(about_ours, [""; 0]);
        }
    });
}

#[test]
fn the_service_is_active_once_it_serves_and_not_before() {
    inside(|| {
        let application = Application::new(
            r##"Test.pass("load")
            run lambda { |env| Test.text(ENV.values_at("USER", "SECRET_KEY_BASE", "RACK_ENV").join(" ")) }"##,
        );
        let (mut events, gate) = (application.events(), application.gate("load"));
        let service = Service::of(application);
        std::thread::scope(|scope| {
            let starting = scope.spawn(|| systemctl("start"));
            assert_eq!(events.wait(), "at load");
            assert_eq!(service.state(), "activating");
            assert!(!starting.is_finished());
            gate.admit(1);
        });
        let answer = service.connect().get("/");
        assert_eq!(answer.expect(200).text(), "shop whispered production");
        assert_eq!(service.state(), "active");
        let status = service.property("StatusText");
        assert_eq!(status, "ready: 1 worker x 2 threads, generation 1");
    });
}

#[test]
fn a_client_that_comes_before_the_server_is_answered_by_it() {
    inside(|| {
        let service = Service::of(Application::new(HELLO));
        run("systemctl", &["start", SOCKET]);
        assert_eq!(service.state(), "inactive");
        connect().get("/").expect(200);
        until("systemd knows", || service.state() == "active");
        let facts = run("stat", &["--format=%U %G %a", service::PATH]);
        assert_eq!(facts.trim(), "shop www-data 660");
    });
}

#[test]
fn over_stops_and_starts_with_a_socket_no_client_is_refused() {
    inside(|| {
        let service = activated(Application::new(HELLO));
        let traffic = Traffic::start();
        for command in ["restart", "restart", "stop"] {
            let before = service.main();
            systemctl(command);
            // After the stop it is the next client that starts it.
            traffic.more();
            assert_ne!(service.main(), before);
        }
        traffic.end();
        assert_eq!(service.property("NRestarts"), "0");
    });
}

#[test]
fn systemctl_reload_takes_new_settings_and_refuses_broken_ones() {
    inside(|| {
        let service = Service::of(Application::new(HELLO));
        systemctl("start");
        let main = service.main();
        service.settings("workers = 1\nthreads = 2\ndrain_timeout = \"20s\"\n");
        systemctl("reload");
        service.logged("drain_timeout: 30s");
        service.settings("workers = 1\nthreads = 2\nnonsense = 1\n");
        assert!(!try_systemctl("reload").status.success());
        service.logged("nonsense");
        assert_eq!((service.state(), service.main()), ("active".into(), main));
        service.connect().get("/").expect(200);
    });
}

#[test]
fn new_code_behind_the_link_is_taken_by_a_restart() {
    inside(|| {
        let service = activated(Application::new(HELLO));
        let (main, traffic) = (service.main(), Traffic::start());
        let release = Application::new(r##"run lambda { |env| Test.text("good day") }"##);
        deploy(&release);
        run(
            "runuser",
            &["-u", "shop", "--", "highball", "restart", CURRENT],
        );
        assert_eq!(connect().get("/").text(), "good day");
        // Root has not the service's variables either.
        let status = run("highball", &["status", CURRENT]);
        assert!(status.contains(&main.0.to_string()), "{status}");
        let folder = run("stat", &["--format=%U %a", "/run/highball-shop/highball"]);
        assert_eq!(folder.trim(), "shop 700");
        traffic.end();
        assert_eq!((service.state(), service.main()), ("active".into(), main));
    });
}

#[test]
fn after_an_upgrade_the_new_process_is_the_service() {
    inside(|| {
        let service = activated(Application::new(HELLO));
        let (old, traffic) = (service.main(), Traffic::start());
        let failed = service.command("upgrade", &["--binary", "/bin/false"]);
        assert!(!failed.status.success());
        assert_eq!(service.main(), old);
        install("2");
        let ran = service.command("upgrade", &[]);
        install("1");
        assert!(ran.status.success(), "{}", ran.output());
        until("systemd knows", || service.main() != old);
        let new = service.main();
        assert!(old.wait_gone(TEST_TIMEOUT));
        traffic.more();
        traffic.end();
        let program = std::fs::read_link(format!("/proc/{}/exe", new.0)).unwrap();
        assert_eq!(program, Path::new("/opt/highball-2/libexec/highball"));
        let is = |name: &str| service.property(name);
        assert_eq!(
            (is("ActiveState"), is("NRestarts")),
            ("active".into(), "0".into())
        );
        // It is the new one that is watched: its signs of life are heard, and so is its end.
        let heard = is("WatchdogTimestampMonotonic");
        until("a sign of life", || {
            is("WatchdogTimestampMonotonic") != heard
        });
        new.kill();
        connect().patience(2 * TEST_TIMEOUT).get("/").expect(200);
        assert_eq!(is("NRestarts"), "1");
    });
}

#[test]
fn a_front_that_is_killed_leaves_nothing_and_is_started_again() {
    inside(|| {
        // What the application started itself has its own end otherwise.
        let source = format!("spawn('sleep', '1000')\n{HELLO}");
        let service = activated(Application::new(&source));
        connect().get("/").expect(200);
        let all = service.processes();
        assert!(all.len() >= 4, "front, template, worker, sleep: {all:?}");
        service.main().kill();
        // It waits instead of being refused.
        connect().patience(2 * TEST_TIMEOUT).get("/").expect(200);
        let left: Vec<&Process> = all.iter().filter(|one| one.exists()).collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(service.property("NRestarts"), "1");
        until("systemd knows", || service.state() == "active");
    });
}

#[test]
fn a_front_that_stands_still_is_killed_by_the_watchdog_and_started_again() {
    inside(|| {
        let service = activated(Application::new(HELLO));
        let all = service.processes();
        service.main().signal(Signal::STOP);
        connect().patience(2 * TEST_TIMEOUT).get("/").expect(200);
        service.logged("Watchdog timeout (limit 10s)!");
        assert!(all.iter().all(|one| !one.exists()));
        assert_eq!(service.property("NRestarts"), "1");
    });
}

#[test]
fn an_application_that_does_not_load_fails_the_start_with_the_reason_and_is_tried_again() {
    inside(|| {
        let service = Service::of(Application::new(r#"raise "the moon is full""#));
        assert!(!try_systemctl("start").status.success());
        service.logged("the moon is full");
        service.logged("config.ru:");
        // Nobody has to start it again.
        let source = format!("require './support'\n{HELLO}");
        service.application.dir().write("config.ru", source);
        until("it loads", || service.state() == "active");
        service.connect().get("/").expect(200);
    });
}

#[test]
fn logrotate_moves_the_log_away_and_no_line_is_lost() {
    inside(|| {
        let folder = Path::new("/var/log/highball/shop");
        let log = folder.join("production.log");
        let service = activated(Application::new(HELLO));
        service.settings(&format!(
            "workers = 1\nthreads = 2\nlog_file = \"{}\"\n",
            log.display()
        ));
        systemctl("restart");
        let traffic = Traffic::start();
        // The second time compresses what the first has moved.
        for _ in 0..2 {
            let rules = "/etc/logrotate.d/highball";
            run("logrotate", &["--force", "--state=/srv/rotation", rules]);
            until("the log is opened again", || log.exists());
            traffic.more();
        }
        let answered = traffic.end();
        systemctl("stop");
        let compressed = folder.join("production.log.2.gz").display().to_string();
        let texts = [
            run("zcat", &[&compressed]),
            std::fs::read_to_string(folder.join("production.log.1")).unwrap(),
            std::fs::read_to_string(&log).unwrap(),
        ];
        let requests = texts.map(|text| text.matches(" status=200 ").count());
        assert!(requests.iter().all(|&count| count > 0), "{requests:?}");
        assert_eq!(requests.iter().sum::<usize>(), answered);
    });
}

#[test]
fn a_stop_waits_for_what_runs() {
    inside(|| {
        let application =
            Application::new(r##"run lambda { |env| Test.pass("request"); Test.text("hello") }"##);
        let (mut events, gate) = (application.events(), application.gate("request"));
        let service = Service::of(application);
        systemctl("start");
        let mut client = service.connect();
        client.ask("POST", "/");
        assert_eq!(events.wait(), "at request");
        std::thread::scope(|scope| {
            let stopping = scope.spawn(|| systemctl("stop"));
            until("it stops", || service.state() == "deactivating");
            service.logged("draining");
            assert!(!stopping.is_finished());
            gate.admit(1);
            client.response().expect(200);
        });
        let is = |name: &str| service.property(name);
        assert_eq!(
            (is("ActiveState"), is("Result")),
            ("inactive".into(), "success".into())
        );
    });
}

#[test]
fn a_worker_that_the_kernel_kills_for_its_memory_harms_its_own_request_alone() {
    inside(|| {
        let service = Service::of(Application::new(
            r##"run lambda { |env|
                next Test.text("hello") unless env["PATH_INFO"] == "/eat"
                eaten = []
                loop { eaten << "x" * (4 << 20) }
            }"##,
        ));
        service.settings("workers = 2\nthreads = 1\n");
        service.edit("[Service]\nMemoryMax=256M\n");
        systemctl("start");
        let (front, workers) = (service.main(), service.status().processes("worker"));
        let mut eater = service.connect();
        eater.ask("POST", "/eat");
        for _ in 0..20 {
            service.connect().get("/").expect(200);
        }
        eater.response().expect(502);
        service.connect().get("/").expect(200);
        // Not only the server has noticed.
        service.logged("killed by the OOM killer");
        assert_eq!(service.figure("memory.events", "oom_kill "), 1);
        until("the worker is replaced", || {
            let now = service.status().processes("worker");
            now.len() == 2 && now != workers
        });
        service.connect().get("/").expect(200);
        let is = |name: &str| service.property(name);
        assert_eq!(
            (is("ActiveState"), is("NRestarts")),
            ("active".into(), "0".into())
        );
        assert_eq!(service.main(), front);
    });
}

#[test]
fn the_budget_keeps_away_from_the_limit_of_the_control_group() {
    inside(|| {
        let service = Service::of(Application::new(
            r##"held = []
            run lambda { |env|
                held << "x" * (env["QUERY_STRING"].to_i << 20)
                Test.text("held")
            }"##,
        ));
        service.settings("workers = 2\nthreads = 1\nmemory_budget = \"auto\"\n");
        service.edit("[Service]\nMemoryMax=400M\n");
        systemctl("start");
        let workers = service.status().processes("worker");
        // What the group uses, those cached pages aside that the kernel gives up first: 380 MiB are a twentieth below
        // the limit.
        let cached = service.figure("memory.stat", "inactive_file ");
        let used = (service.figure("memory.current", "") - cached) >> 20;
        let hold = service.connect().post(&format!("/?{}", 388 - used), "");
        hold.expect(200);
        service.logged("stopping it without a replacement");
        until("a worker has left", || {
            workers.iter().any(|one| !one.exists())
        });
        service.connect().get("/").expect(200);
        assert_eq!(service.figure("memory.events", "oom_kill "), 0);
    });
}
