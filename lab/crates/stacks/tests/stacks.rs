//! Every stack that comes with Highball on the real programs: it starts, answers like the others, its process tree is
//! whole, it listens on the loopback device alone, and nothing is left of it. A program that is missing fails its test
//! with the command that installs it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use loadgen::page;
use loadgen::plan::{ConnectionUse, End, Expected, Mode, Plan, Request, Target};
use stacks::{Catalogue, Definition, Deployment, Presence, Running};

const WORKERS: usize = 2;
/// Set in the process that is killed in [`a_killed_lab_leaves_nothing_behind`].
const ROLE: &str = "STACKS_TEST_ROLE";

macro_rules! every_stack {
    ($($test:ident: $id:literal,)*) => {
        /// What is tested here is what there is.
        const TESTED: &[&str] = &[$($id),*];

        $(#[test]
        fn $test() {
            check($id);
        })*
    };
}

every_stack! {
    apache_before_puma: "apache+puma",
    apache_before_thin_byrequests: "apache+thin-byrequests",
    apache_before_thin_bybusyness: "apache+thin-bybusyness",
    apache_prefork_before_puma: "apache-prefork+puma",
    apache_prefork_before_thin: "apache-prefork+thin",
    caddy_before_puma: "caddy+puma",
    caddy_with_tls_before_puma: "caddy-tls+puma",
    haproxy_before_thin: "haproxy+thin",
    highball: "highball",
    highball_with_tls: "highball-tls",
    lighttpd_before_thin: "lighttpd+thin",
    nginx_before_puma: "nginx+puma",
    nginx_with_a_cache_before_puma: "nginx-cache+puma",
    nginx_with_tls_before_puma: "nginx-tls+puma",
    nginx_before_thin: "nginx+thin",
    nginx_before_thin_on_unix_sockets: "nginx+thin-unix",
    nginx_before_unicorn: "nginx+unicorn",
    passenger_standalone: "passenger",
    passenger_in_apache_event: "passenger-apache-event",
    passenger_in_apache_prefork: "passenger-apache-prefork",
    pen_before_thin: "pen+thin",
    puma: "puma",
    puma_cluster: "puma-cluster",
    thin: "thin",
    thin_cluster: "thin-cluster",
    thin_cluster_on_unix_sockets: "thin-cluster-unix",
    unicorn: "unicorn",
    uwsgi: "uwsgi",
    webrick: "webrick",
}

#[test]
fn every_stack_that_can_be_installed_is_tested() {
    let catalogue = catalogue(&[]);
    let known: BTreeSet<&str> = catalogue.iter().map(|stack| stack.id.as_str()).collect();
    let untested: Vec<&str> = known
        .iter()
        .filter(|id| !TESTED.contains(id))
        .copied()
        .collect();
    // Debian has no package of these; nothing is started for an address; nginx alone runs no application and has a test of
    // its own.
    let expected = [
        "falcon",
        "iodine",
        "itsi",
        "mongrel",
        "mongrel-cluster",
        "nginx",
        "nginx+passenger",
        "nginx-tls",
        "pitchfork",
        "thruster+puma",
        "url",
    ];
    assert_eq!(untested, expected);
    let started = ["nginx", "nginx-tls", "url"];
    for id in expected.into_iter().filter(|id| !started.contains(id)) {
        let note = catalogue.get(id).unwrap().note_line().to_lowercase();
        assert!(note.contains("untried"), "{id}: {note}");
    }
    assert!(TESTED.iter().all(|id| known.contains(id)));
}

fn check(id: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let deployment = deployment(folder.path());
    let app_before = names_in(&deployment.app);
    let catalogue = catalogue(&[]);
    let definition = catalogue.get(id).expect("a stack that comes with Highball");
    let mut running = start(definition, &deployment);
    let stack = definition.describe(&deployment);
    let target = running.target();
    // Right after the start: every worker is up by then, not only the one that answered first.
    let members: BTreeMap<i32, String> = running
        .tree()
        .members()
        .into_iter()
        .map(|one| (one.pid, one.name))
        .collect();

    assert_eq!(running.first, (200, b"Hello World".to_vec()));
    assert_eq!(get(&target, "/environment"), "production production here");
    let workers = worker_pids(&target, stack.workers);
    assert!(
        workers.iter().all(|pid| members.contains_key(pid)),
        "workers {workers:?} in {members:?}"
    );
    assert!(running.tree().cpu() > Duration::ZERO);
    assert!(running.tree().memory().pss > 0);
    assert_eq!(
        listeners_beyond_loopback(members.keys()),
        Vec::<String>::new()
    );
    running.still_up().expect("nothing ended");
    let run = run_folder(members.keys());
    assert!(run.is_dir());

    let log = running.log_end();
    assert_eq!(running.stop().left_behind, 0, "{members:?}\n{log}");
    let left: Vec<_> = members
        .keys()
        .filter(|pid| Path::new("/proc").join(pid.to_string()).exists())
        .collect();
    assert!(left.is_empty(), "{left:?} of {members:?}");
    assert!(!run.exists());
    assert_eq!(names_in(&deployment.app), app_before);
}

#[test]
fn stacks_with_tls_are_loaded_by_http_1_1_and_http_2() {
    for id in ["highball-tls", "nginx-tls+puma", "caddy-tls+puma"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let running = start(catalogue(&[]).get(id).unwrap(), &deployment(folder.path()));
        for streams in [None, Some(5)] {
            let outcome = loadgen::run(
                &load(&running, streams),
                &mut |_| {},
                &AtomicBool::new(false),
            );
            let outcome = outcome.expect("a load");
            let name = format!("{id}, streams {streams:?}: {:?}", outcome.errors);
            assert_eq!(
                (outcome.good, outcome.errors.total()),
                (REQUESTS, 0),
                "{name}"
            );
            let server = outcome.sample.server.to_lowercase();
            let known = id.split('-').next().expect("a name");
            assert!(
                server.is_empty() || server.contains(known),
                "{name}: {server}"
            );
        }
        assert_eq!(running.stop().left_behind, 0, "{id}");
    }
}

#[test]
fn nginx_alone_sends_the_files_of_an_application() {
    for id in ["nginx", "nginx-tls"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("public")).expect("a folder");
        fs::write(folder.path().join("public/page.txt"), "a file").expect("a file");
        let deployment = Deployment {
            app: folder.path().to_owned(),
            path: "/page.txt".to_owned(),
            ..deployment(folder.path())
        };
        let mut running = start(catalogue(&[]).get(id).unwrap(), &deployment);
        assert_eq!(running.first, (200, b"a file".to_vec()), "{id}");
        let members: Vec<i32> = running.tree().members().iter().map(|one| one.pid).collect();
        assert_eq!(
            listeners_beyond_loopback(members.iter()),
            Vec::<String>::new()
        );
        assert_eq!(running.stop().left_behind, 0, "{id}");
    }
}

#[test]
fn the_cache_of_nginx_answers_in_place_of_the_application() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let application = lab_folder().join("apps/sizes");
    let deployment = Deployment {
        app: application,
        path: "/list".to_owned(),
        ..deployment(folder.path())
    };
    let mut running = start(catalogue(&[]).get("nginx-cache+puma").unwrap(), &deployment);
    let puma = |running: &mut Running| {
        let programs = running.tree().cpu_by_program();
        let ruby = programs.iter().filter(|(name, _)| !name.contains("nginx"));
        ruby.map(|(_, cpu)| *cpu).sum::<Duration>()
    };
    let before = puma(&mut running);
    for _ in 0..50 {
        get(&running.target(), "/list");
    }
    // The application takes a third of a millisecond for the page; the kernel counts CPU time in steps of ten.
    assert!(puma(&mut running) - before <= Duration::from_millis(10));
    assert_eq!(running.stop().left_behind, 0);
}

/// More than nginx takes on one connection.
const REQUESTS: u64 = 3000;

fn load(running: &Running, streams: Option<usize>) -> Plan {
    Plan {
        target: running.target(),
        host: "localhost".to_owned(),
        requests: vec![Request {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            weight: 1.0,
            expected: Some(Expected {
                status: 200,
                length: Some(11),
            }),
        }],
        login: None,
        mode: Mode::Closed {
            connections: 2,
            end: End::Requests(REQUESTS),
        },
        connections: ConnectionUse::KeepAlive,
        streams,
        timeout: test_support::TEST_TIMEOUT,
        threads: 1,
        cores: Vec::new(),
        seed: 1,
    }
}

#[test]
fn a_stack_can_be_bound_to_cores() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = Deployment {
        cores: vec![0],
        ..deployment(folder.path())
    };
    let mut running = start(catalogue(&[]).get("nginx+thin").unwrap(), &deployment);
    for member in running.tree().members() {
        let status = fs::read_to_string(format!("/proc/{}/status", member.pid)).unwrap();
        assert!(
            status.contains("Cpus_allowed_list:\t0\n"),
            "{}: {status}",
            member.name
        );
    }
}

#[test]
fn an_application_that_does_not_load_is_reported_with_its_log() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("config.ru"),
        "raise 'no such table: pets'\n",
    )
    .unwrap();
    let deployment = Deployment {
        app: folder.path().to_owned(),
        ..deployment(folder.path())
    };
    let error = catalogue(&[])
        .get("nginx+thin")
        .unwrap()
        .start(&deployment)
        .unwrap_err();
    let error = format!("{error:#}");
    for part in [
        "stack nginx+thin: waited for thin 1 to listen on 127.0.0.1:",
        " ended (exit status: 1)",
        "--- end of thin.",
        "no such table: pets",
    ] {
        assert!(error.contains(part), "{part:?} in {error}");
    }
}

/// A stack whose process sends itself `signal` at its first `times` starts.
fn that_ends_by(folder: &Path, signal: &str, times: usize) -> anyhow::Result<Running> {
    let command = format!(
        "cd {{{{ scratch }}}}; echo >> starts; [ $(wc -l < starts) -gt {times} ] || kill -{signal} $$; \
         exec python3 -m http.server --bind 127.0.0.1 {{{{ port }}}}"
    );
    let text = format!(
        "id = \"mortal\"\nname = \"Mortal\"\nabout = \"Ends at its start.\"\n\
         [[program]]\nname = \"python3\"\nversion = [\"--version\"]\ninstall = \"apt-get install python3\"\n\
         [[process]]\nname = \"server\"\ncommand = [\"sh\", \"-c\", \"{command}\"]\n"
    );
    let file = folder.join("mortal.toml");
    fs::write(&file, text).expect("a file");
    let catalogue = catalogue(&[file]);
    catalogue
        .get("mortal")
        .expect("it is there")
        .start(&deployment(folder))
}

#[test]
fn a_stack_that_crashes_at_its_start_is_started_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let running = that_ends_by(folder.path(), "ABRT", 1).unwrap();
    let crash = running.crashed_start.as_deref().unwrap_or_default();
    assert!(crash.contains("(SIGABRT"), "{crash}");
    assert_eq!(running.stop().left_behind, 0);

    for (signal, times) in [("ABRT", 2), ("KILL", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let error = that_ends_by(folder.path(), signal, times).unwrap_err();
        assert!(format!("{error:#}").contains(signal), "{error:#}");
    }
}

#[test]
fn a_page_without_status_200_is_reported_with_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = Deployment {
        path: "/missing".to_owned(),
        ..deployment(folder.path())
    };
    let error = catalogue(&[])
        .get("thin")
        .unwrap()
        .start(&deployment)
        .unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.starts_with("stack thin: GET /missing is answered with 404 and not with 200"),
        "{error}"
    );
}

#[test]
fn a_port_in_use_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let file = folder.path().join("fixed.toml");
    let text = fs::read_to_string(lab_folder().join("stacks/thin.toml")).unwrap();
    let text = text
        .replace("id = \"thin\"", "id = \"fixed\"")
        .replace("[[process]]\n", &format!("[[process]]\nport = {port}\n"));
    fs::write(&file, text).expect("a file");
    let catalogue = catalogue(&[file]);
    let definition = catalogue.get("fixed").unwrap();
    let error = definition.start(&deployment(folder.path())).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        format!(
            "stack fixed: port {port} of 127.0.0.1, which thin needs, is in use by another program"
        )
    );
    drop(listener);
    let running = start(definition, &deployment(folder.path()));
    assert_eq!(address(&running).port(), port);
}

#[test]
fn a_process_that_dies_under_load_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = start(
        catalogue(&[]).get("nginx+thin").unwrap(),
        &deployment(folder.path()),
    );
    running.still_up().unwrap();
    let thin = running
        .tree()
        .members()
        .into_iter()
        .find(|one| one.name == "thin")
        .unwrap();
    test_support::Process(thin.pid as u32).kill();
    let deadline = Instant::now() + test_support::TEST_TIMEOUT;
    let error = loop {
        match running.still_up() {
            Err(error) => break format!("{error:#}"),
            Ok(()) => assert!(Instant::now() < deadline, "its death was never reported"),
        }
        thread::yield_now();
    };
    assert!(
        error.starts_with("thin ") && error.contains(" ended (signal: 9 (SIGKILL))"),
        "{error}"
    );
}

#[test]
fn an_address_stands_for_a_server_that_runs_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let deployment = deployment(folder.path());
    let mut catalogue = catalogue(&[]);
    assert!(matches!(
        catalogue.get("url").unwrap().presence(),
        Presence::Missing { install: None, .. }
    ));
    let thin = start(catalogue.get("thin").unwrap(), &deployment);
    catalogue
        .add_external("litespeed", &format!("http://{}", address(&thin)))
        .unwrap();
    let mut running = start(catalogue.get("litespeed").unwrap(), &deployment);
    assert_eq!(running.first, (200, b"Hello World".to_vec()));
    assert_eq!(running.target(), thin.target());
    assert!(running.tree().members().is_empty());
    assert_eq!(running.stop().left_behind, 0);
    assert_eq!(get(&thin.target(), "/"), "Hello World");
}

/// The test starts itself once more, as the lab that is killed.
#[test]
fn a_killed_lab_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    if std::env::var_os(ROLE).is_some() {
        let mut running = start(
            catalogue(&[]).get("passenger").unwrap(),
            &deployment(folder.path()),
        );
        let pids: Vec<String> = running
            .tree()
            .members()
            .iter()
            .map(|one| one.pid.to_string())
            .collect();
        println!("\nup {} {}", folder.path().display(), pids.join(" "));
        loop {
            thread::park();
        }
    }
    let mut lab = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_killed_lab_leaves_nothing_behind",
            "--nocapture",
        ])
        .env(ROLE, "lab")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(lab.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let line = lines
        .find(|line| line.starts_with("up "))
        .expect("the stack came up");
    let mut words = line.split(' ').skip(1);
    let scratch = PathBuf::from(words.next().unwrap());
    let pids: Vec<i32> = words.map(|pid| pid.parse().unwrap()).collect();
    let family: Vec<_> = pids
        .iter()
        .map(|pid| test_support::Family::of(test_support::Process(*pid as u32), "no such mark"))
        .collect();
    let run = run_folder(pids.iter());
    assert!(
        pids.len() >= 4 && run.is_dir(),
        "{pids:?} {}",
        run.display()
    );

    lab.kill().unwrap();
    lab.wait().unwrap();
    for member in family {
        assert_eq!(member.wait_gone(test_support::TEST_TIMEOUT), []);
    }
    let deadline = Instant::now() + test_support::TEST_TIMEOUT;
    while run.exists() {
        assert!(
            Instant::now() < deadline,
            "{} is still there",
            run.display()
        );
        thread::yield_now();
    }
    fs::remove_dir_all(scratch).unwrap();
}

fn lab_folder() -> PathBuf {
    test_support::workspace().join("lab")
}

fn catalogue(extra: &[PathBuf]) -> Catalogue {
    Catalogue::load_from(&lab_folder(), extra).expect("files without a mistake")
}

fn deployment(folder: &Path) -> Deployment {
    let ruby = test_support::ruby_library().display().to_string();
    Deployment {
        app: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stacks"),
        highball: test_support::binary(),
        scratch: folder.join("scratch"),
        workers: WORKERS,
        threads: 1,
        environment: BTreeMap::from(
            [
                ("STACK_TEST", "here".to_owned()),
                ("HIGHBALL_RUBY_LIB", ruby),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        ),
        path: "/".to_owned(),
        boot_timeout: Duration::from_secs(60),
        cores: Vec::new(),
    }
}

fn start(definition: &Definition, deployment: &Deployment) -> Running {
    definition
        .start(deployment)
        .unwrap_or_else(|error| panic!("{error:#}"))
}

fn address(running: &Running) -> SocketAddr {
    match running.target() {
        Target::Tcp(address) => address,
        other => panic!("{other:?}"),
    }
}

fn get(target: &Target, path: &str) -> String {
    let response = page::get(target, path, test_support::TEST_TIMEOUT).expect("an answer");
    assert_eq!(response.status, 200, "GET {path}");
    String::from_utf8(response.body).expect("text")
}

/// Asks on several connections at once until so many processes have answered.
fn worker_pids(target: &Target, count: usize) -> BTreeSet<i32> {
    let deadline = Instant::now() + test_support::TEST_TIMEOUT;
    let mut pids = BTreeSet::new();
    while pids.len() < count {
        assert!(
            Instant::now() < deadline,
            "{pids:?} alone answer, {count} should"
        );
        let askers: Vec<_> = (0..4)
            .map(|_| target.clone())
            .map(|target| {
                thread::spawn(move || get(&target, "/pid").parse::<i32>().expect("a number"))
            })
            .collect();
        pids.extend(
            askers
                .into_iter()
                .map(|asker| asker.join().expect("it got an answer")),
        );
    }
    assert_eq!(pids.len(), count);
    pids
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect()
}

/// The folder that the members' keeper removes: the first argument of what adopted them.
fn run_folder<'a>(pids: impl Iterator<Item = &'a i32>) -> PathBuf {
    let folders: BTreeSet<PathBuf> = pids
        .filter_map(|pid| {
            let parent = test_support::Process(*pid as u32).parent()?;
            let command = fs::read_to_string(format!("/proc/{}/cmdline", parent.0)).ok()?;
            let (program, folder) = command.split_once('\0')?;
            program
                .ends_with("highball-keeper")
                .then(|| folder.split('\0').next().expect("there is one").into())
        })
        .collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders.into_iter().next().expect("there is one")
}

/// Local addresses that the processes listen on and that another machine could reach.
fn listeners_beyond_loopback<'a>(pids: impl Iterator<Item = &'a i32>) -> Vec<String> {
    let links = pids.flat_map(|pid| {
        fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
    });
    let sockets: BTreeSet<String> = links
        .filter_map(|link| fs::read_link(link.path()).ok()?.to_str().map(str::to_owned))
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|table| fs::read_to_string(table).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    // local address, peer, state (0A listens), ..., inode (proc(5)); the address is in the order of this machine.
    let fields = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields
        .filter(|fields| fields[3] == "0A" && sockets.contains(fields[9]))
        .map(|fields| fields[1].to_owned())
        .filter(|local| {
            !local.starts_with("0100007F:")
                && !local.starts_with("00000000000000000000000001000000:")
        })
        .collect()
}
