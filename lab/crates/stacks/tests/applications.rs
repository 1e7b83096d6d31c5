//! The lab's applications under a real server (Puma on a UNIX socket), with real databases. They need the packages of
//! `scripts/install test`; a missing one fails the test.

#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use stacks::application::{Application, Prepared};
use tempfile::TempDir;

/// Long enough for a boot on two busy cores.
const BOOT_TIMEOUT: Duration = Duration::from_secs(90);
/// Bytes of the pages: in the study of 2008 (HTML transferred over complete requests), of the wiki in that of 2009 (content).
const STUDIES: [(&str, usize); 4] = [
    ("blog", 5_148),
    ("shop", 3_768),
    ("forum", 3_553),
    ("wiki", 4_930),
];
/// Nobody wants an end.
static UNSTOPPED: AtomicBool = AtomicBool::new(false);
/// Set for the process that [`a_database_ends_with_a_lab_that_is_killed`] kills.
const VICTIM: &str = "LAB_TEST_VICTIM";

fn app(name: &str) -> Application {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps");
    Application::open(apps.join(name)).unwrap()
}

/// A Puma that ends with the test.
struct Puma {
    child: Child,
    folder: TempDir,
}

impl Puma {
    fn start(prepared: &Prepared, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new("puma")
            .args([
                "--bind",
                &format!("unix://{}/socket", folder.path().display()),
            ])
            // Its own configuration file and state would go into the application.
            .args(["--config", "-", "--environment", "production"])
            .args(arguments)
            .current_dir(&prepared.folder)
            .envs(&prepared.environment)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("puma: scripts/install test");
        let mut puma = Self { child, folder };
        let deadline = Instant::now() + BOOT_TIMEOUT;
        // Puma binds before it loads: its first answer, and not the socket, says that it is ready.
        while puma.try_get("/").is_none() {
            assert!(puma.child.try_wait().unwrap().is_none(), "{}", puma.log());
            assert!(Instant::now() < deadline, "{}", puma.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        puma
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.try_get(path)
            .unwrap_or_else(|| panic!("no answer to {path}:\n{}", self.log()))
    }

    fn try_get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = UnixStream::connect(self.folder.path().join("socket")).ok()?;
        stream.set_read_timeout(Some(BOOT_TIMEOUT)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }
}

impl Drop for Puma {
    fn drop(&mut self) {
        // TERM: the workers of a cluster end with their parent.
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn pages_are_the_same_in_every_process_and_on_both_databases() {
    let work = tempfile::tempdir().unwrap();
    let on_sqlite = bodies("classics", &["blog", "forum", "wiki"], work.path());
    let on_mariadb = bodies("classics/shop", &["shop", "forum-mariadb"], work.path());
    // Each database was filled on its own.
    assert_eq!(on_sqlite["forum"], on_mariadb["forum-mariadb"]);
    assert!(on_mariadb["shop"].contains("Golden Retriever"));
}

/// What each page says, alone and in a cluster; and as much of it as in the studies.
fn bodies(name: &str, pages: &[&str], work: &Path) -> BTreeMap<String, String> {
    let application = app(name);
    let prepared = application.prepare(work, &UNSTOPPED).unwrap();
    assert!(prepared.same_body);
    let threaded = Puma::start(&prepared, &["--threads", "4:4"]);
    // Connections that the parent opened are of no use after the fork.
    let cluster = Puma::start(
        &prepared,
        &["--workers", "2", "--preload", "--threads", "1:1"],
    );
    let body = |page: &&str| {
        let path = &application
            .pages()
            .iter()
            .find(|known| known.name == *page)
            .unwrap()
            .path;
        let (status, body) = threaded.get(path);
        assert_eq!(status, 200, "{page}: {body}\n{}", threaded.log());
        let study = STUDIES
            .iter()
            .find(|(name, _)| page.starts_with(name))
            .unwrap()
            .1;
        assert!(
            body.len().abs_diff(study) * 5 <= study,
            "{page}: {} bytes",
            body.len()
        );
        assert_eq!(threaded.get(path), (200, body.clone()), "{page}, again");
        for _ in 0..6 {
            assert_eq!(
                cluster.get(path),
                (200, body.clone()),
                "{page}, in a cluster"
            );
        }
        ((*page).to_owned(), body)
    };
    pages.iter().map(body).collect()
}

#[test]
fn a_cached_page_costs_no_query_and_an_uncached_one_does() {
    let work = tempfile::tempdir().unwrap();
    let prepared = app("classics").prepare(work.path(), &UNSTOPPED).unwrap();
    names_versions(&prepared, &["ruby", "rack", "rails", "sqlite"]);
    let puma = Puma::start(&prepared, &["--threads", "1:1"]);
    assert_eq!(puma.get("/").0, 200);
    assert_eq!(puma.get("/wiki/list").0, 200);
    std::fs::write(prepared.folder.join("db/production.sqlite3"), "no database").unwrap();
    assert_eq!(puma.get("/").0, 200);
    assert_eq!(puma.get("/wiki/list").0, 500);
}

#[test]
fn a_page_on_mariadb_fails_once_mariadb_is_gone() {
    let work = tempfile::tempdir().unwrap();
    let prepared = app("classics/shop")
        .prepare(work.path(), &UNSTOPPED)
        .unwrap();
    let puma = Puma::start(&prepared, &["--threads", "1:1"]);
    let (path, socket) = (prepared.path.clone(), socket(&prepared.environment));
    assert_eq!(puma.get(&path).0, 200);
    names_versions(&prepared, &["ruby", "rack", "rails", "mysql2", "mariadb"]);
    drop(prepared);
    assert!(!socket.parent().unwrap().exists(), "{}", socket.display());
    assert_eq!(puma.get(&path).0, 500);
}

#[test]
fn answers_keep_to_the_rack_specification_and_versions_are_known() {
    let work = tempfile::tempdir().unwrap();
    let script = "require 'rack'
        request = Rack::MockRequest.new(Rack::Lint.new(Rack::Builder.parse_file('config.ru').first))
        ARGV.each { |path| 2.times { puts \"#{path} #{request.get(path, fatal: true).status}\" } }";
    names_versions(
        &app("sinatra_list")
            .prepare(work.path(), &UNSTOPPED)
            .unwrap(),
        &["ruby", "rack", "sinatra"],
    );
    let check = |name: &str, paths: &[&str], expect: &str| {
        let prepared = app(name).prepare(work.path(), &UNSTOPPED).unwrap();
        let output = Command::new("ruby")
            .args(["-e", script])
            .args(paths)
            .current_dir(&prepared.folder)
            .envs(&prepared.environment)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(lines.lines().count(), paths.len() * 2, "{name}: {errors}");
        assert!(
            lines.lines().all(|line| line.ends_with(expect)),
            "{name}: {lines}{errors}"
        );
    };
    let shop = "/shop/viewCategory.shtml?category=DOGS";
    check("classics/shop", &["/", "/users", "/wiki/list", shop], "200");
    check("classics/wiki", &["/", "/users", "/wiki/list", shop], "200");
    check(
        "classics",
        &["/none", "/shop/viewCategory.shtml?category=COWS"],
        "404",
    );
    check("hello", &["/"], "200");
    check("sinatra_list", &["/"], "200");
    check("mixed", &["/fast", "/slow"], "200");
}

#[test]
fn redmine_shows_its_projects_on_both_databases() {
    let work = tempfile::tempdir().unwrap();
    for page in ["redmine/sqlite", "redmine/mariadb"] {
        let prepared = app(page).prepare(work.path(), &UNSTOPPED).unwrap();
        let puma = Puma::start(&prepared, &["--threads", "1:1"]);
        let (status, body) = puma.get(&prepared.path);
        assert_eq!(status, 200, "{page}: {}", puma.log());
        for project in ["Timetable", "Rolling stock Maintenance"] {
            assert!(body.contains(project), "{page}: {project}");
        }
        assert!(!prepared.same_body);
        let on_mariadb = page.ends_with("mariadb");
        assert_eq!(!prepared.database_cpu().is_zero(), on_mariadb, "{page}");
    }
}

#[test]
fn a_copy_is_made_once_and_again_when_the_application_changes() {
    let source = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    let ready = work.path().join("ready");
    let write = |command: &str| {
        let prepare = format!("name = 'Counted'\nprepare = [\"\"\"{command}\"\"\"]\n");
        std::fs::write(source.path().join("app.toml"), prepare).unwrap();
    };
    std::fs::write(
        source.path().join("config.ru"),
        "run ->(_) { [200, {}, []] }",
    )
    .unwrap();
    let prepare = || {
        Application::open(source.path())
            .unwrap()
            .prepare(&ready, &UNSTOPPED)
    };
    write("echo $RACK_ENV >>made");
    let made = prepare().unwrap().folder.join("made");
    prepare().unwrap();
    assert_eq!(std::fs::read_to_string(&made).unwrap(), "production\n");
    assert!(!source.path().join("made").exists());

    write("echo twice >>made");
    prepare().unwrap();
    assert_eq!(std::fs::read_to_string(&made).unwrap(), "twice\n");

    write("seq 100; echo the disk is made of cheese >&2; exit 3");
    let error = format!("{:#}", prepare().unwrap_err());
    assert!(
        error.contains("exit status: 3") && error.ends_with("100\nthe disk is made of cheese"),
        "{error}"
    );
    // What failed is not taken for ready the next time.
    prepare().unwrap_err();

    write("sleep 600 & echo $! >made");
    prepare().unwrap();
    let pid = std::fs::read_to_string(&made).unwrap();
    let process = Path::new("/proc").join(pid.trim());
    assert!(!process.exists(), "{} is left", process.display());
}

#[test]
fn a_database_ends_with_a_lab_that_is_killed() {
    if std::env::var_os(VICTIM).is_some() {
        return victim();
    }
    let work = tempfile::tempdir().unwrap();
    let mut lab = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_database_ends_with_a_lab_that_is_killed",
            "--nocapture",
        ])
        .env(VICTIM, work.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(lab.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let socket = lines
        .into_iter()
        .find_map(|line| Some(PathBuf::from(line.strip_prefix("socket ")?)))
        .expect("the victim's database");
    let folder = socket.parent().unwrap();
    let pid = std::fs::read_to_string(folder.join("pid")).unwrap();
    let process = Path::new("/proc").join(pid.trim());
    assert!(process.exists());
    lab.kill().unwrap();
    lab.wait().unwrap();
    let deadline = Instant::now() + BOOT_TIMEOUT;
    while process.exists() || folder.exists() {
        assert!(
            Instant::now() < deadline,
            "{} or {} is left",
            process.display(),
            folder.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a database, says where it is, and waits to be killed.
fn victim() {
    let source = tempfile::tempdir().unwrap();
    std::fs::write(
        source.path().join("config.ru"),
        "run ->(_) { [200, {}, []] }",
    )
    .unwrap();
    std::fs::write(
        source.path().join("app.toml"),
        "name = 'V'\ndatabase = 'mariadb'\n",
    )
    .unwrap();
    let work = PathBuf::from(std::env::var_os(VICTIM).unwrap());
    let prepared = Application::open(source.path())
        .unwrap()
        .prepare(&work, &UNSTOPPED)
        .unwrap();
    println!("\nsocket {}", socket(&prepared.environment).display());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn names_versions(prepared: &Prepared, expect: &[&str]) {
    let versions = &prepared.description.versions;
    let is_version = |version: &String| version.starts_with(|first: char| first.is_ascii_digit());
    assert!(versions.values().all(is_version), "{versions:?}");
    let mut expect = expect.to_vec();
    expect.sort_unstable();
    assert!(versions.keys().eq(expect), "{versions:?}");
}

fn socket(environment: &BTreeMap<String, String>) -> PathBuf {
    PathBuf::from(&environment["MARIADB_SOCKET"])
}
