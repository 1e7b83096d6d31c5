//! The supervisor over real processes: Ruby ones, that stand in for the template and the workers
//! (`fake/highball/template.rb`). Nothing here serves a request.

use std::cell::RefCell;
use std::future::Future;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use exchange::control::Start;
use highball_supervisor::{
    BootError, Dispatcher, Ending, Note, Plan, Role, StartError, Supervisor, Template,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, test_kill_process};
use tokio::sync::Notify;

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A front that writes down what it is told.
#[derive(Default)]
struct Recorder {
    calls: RefCell<Vec<String>>,
    notes: RefCell<Vec<String>>,
    sockets: RefCell<Vec<OwnedFd>>,
    /// Its end tells the workers to leave.
    stop: RefCell<Option<OwnedFd>>,
    changed: Notify,
}

impl Recorder {
    fn call(&self, text: String) {
        self.calls.borrow_mut().push(text);
        self.changed.notify_one();
    }

    async fn until(&self, what: &str, reached: impl Fn(&Self) -> bool) {
        let wait = async {
            while !reached(self) {
                self.changed.notified().await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            let (calls, notes) = (self.calls.borrow(), self.notes.borrow());
            panic!("no {what}: {calls:?} {notes:?}");
        }
    }

    async fn until_called(&self, what: &str, times: usize) {
        let count = |recorder: &Self| {
            let calls = recorder.calls.borrow();
            calls.iter().filter(|call| *call == what).count() >= times
        };
        self.until(what, count).await;
    }

    async fn until_noted(&self, what: &str) {
        let noted = |recorder: &Self| {
            let notes = recorder.notes.borrow();
            notes.iter().any(|note| note.contains(what))
        };
        self.until(what, noted).await;
    }
}

impl Dispatcher for Recorder {
    fn prepare(&self, worker: u16) {
        self.call(format!("prepare {worker}"));
    }

    fn worker_up(&self, worker: u16) {
        self.call(format!("up {worker}"));
    }

    fn worker_died(&self, worker: u16) {
        self.call(format!("died {worker}"));
    }

    fn stop_worker(&self, worker: u16) {
        self.call(format!("stop {worker}"));
        self.stop.borrow_mut().take();
    }

    fn hijacked(&self, worker: u16, slot: u32, sequence: u64, socket: OwnedFd) {
        self.sockets.borrow_mut().push(socket);
        self.call(format!("hijacked {worker} {slot} {sequence}"));
    }

    fn note(&self, note: &Note) {
        self.notes.borrow_mut().push(note.to_string());
        self.changed.notify_one();
    }
}

fn plan(mode: &str, app: &Path) -> (Plan, OwnedFd) {
    let (stop, release) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    let plan = Plan {
        ruby: "ruby".into(),
        library: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake"),
        workers: 2,
        boot_timeout: PATIENCE,
        start: Start {
            app: app.to_str().expect("a path in UTF-8").into(),
            config_ru: mode.into(),
            environment: "test".into(),
            threads: 1,
            generation: 1,
            ..Start::default()
        },
        exchange: [stop.try_clone().expect("a free descriptor"), stop],
    };
    (plan, release)
}

struct Case {
    supervisor: Supervisor,
    front: Rc<Recorder>,
    app: tempfile::TempDir,
}

impl Case {
    fn new(mode: &str, adjust: impl FnOnce(&mut Plan)) -> Self {
        let app = tempfile::tempdir().expect("a folder");
        let (mut plan, release) = plan(mode, app.path());
        adjust(&mut plan);
        let front = Rc::new(Recorder::default());
        *front.stop.borrow_mut() = Some(release);
        let supervisor = Supervisor::new(plan, Rc::clone(&front) as Rc<dyn Dispatcher>);
        Self {
            supervisor,
            front,
            app,
        }
    }

    fn pids(&self, role: Role) -> Vec<i32> {
        let rows = self.supervisor.processes();
        let rows = rows.iter().filter(|row| row.role == role);
        rows.map(|row| row.pid).collect()
    }
}

/// Runs a test on the runtime that the binary uses.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime");
    runtime.block_on(async {
        let ended = tokio::time::timeout(PATIENCE * 3, test).await;
        ended.expect("the test ends in time");
    });
}

fn pid(number: i32) -> Pid {
    Pid::from_raw(number).expect("a process id")
}

fn is_alive(number: i32) -> bool {
    test_kill_process(pid(number)).is_ok()
}

/// Waits for a process that is nobody's child here.
fn gone(number: i32) {
    let Ok(fd) = pidfd_open(pid(number), PidfdFlags::empty()) else {
        return;
    };
    let patience = Timespec::try_from(PATIENCE).expect("a short time");
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&patience)), Ok(1), "{number} goes on");
}

#[test]
fn a_start_forks_every_worker_and_a_stop_leaves_no_process() {
    run(async {
        let case = Case::new("serves", |_| ());
        let booted = case.supervisor.start().await.unwrap();
        assert_eq!((booted.seconds, &*booted.rack), (0.5, "test"));
        case.front
            .until_noted("thread \"poller\" started at config.ru:7")
            .await;
        case.front.until_noted("worker 1: hello\nfrom 1").await;
        let rows = case.supervisor.processes();
        let kinds: Vec<_> = rows
            .iter()
            .map(|row| (row.role, row.worker, &*row.state))
            .collect();
        assert_eq!(
            kinds,
            [
                (Role::Front, None, "ready"),
                (Role::Template, None, "ready"),
                (Role::Worker, Some(0), "ready"),
                (Role::Worker, Some(1), "ready"),
            ]
        );
        assert_eq!(rows[1].pid, booted.pid);
        case.supervisor.stop(PATIENCE).await;
        assert_eq!(case.supervisor.processes().len(), 1);
        assert!(rows[1..].iter().all(|row| !is_alive(row.pid)));
        let calls = case.front.calls.borrow();
        for worker in 0..2 {
            let prepared = calls.iter().position(|c| *c == format!("prepare {worker}"));
            let up = calls.iter().position(|c| *c == format!("up {worker}"));
            assert!(prepared < up && prepared.is_some());
            assert!(calls.contains(&format!("stop {worker}")));
            assert!(calls.contains(&format!("died {worker}")));
        }
    });
}

#[test]
fn a_killed_worker_is_replaced() {
    run(async {
        let case = Case::new("serves", |_| ());
        case.supervisor.start().await.unwrap();
        let before = case.pids(Role::Worker);
        for round in 1..=10 {
            let victim = case.pids(Role::Worker)[0];
            kill_process(pid(victim), Signal::KILL).unwrap();
            case.front.until_called("died 0", round).await;
            case.front.until_called("up 0", round + 1).await;
            let noted = format!("worker 0 (pid {victim}) ended with signal 9 (KILL)");
            case.front.until_noted(&noted).await;
            assert!(!is_alive(victim));
            assert_eq!(case.pids(Role::Worker)[1], before[1]);
        }
        case.supervisor.kill_worker(1);
        case.front.until_called("up 1", 2).await;
        case.supervisor.stop(PATIENCE).await;
    });
}

#[test]
fn workers_go_on_when_their_template_dies_and_the_next_one_replaces_them() {
    run(async {
        let case = Case::new("serves", |_| ());
        let first = case.supervisor.start().await.unwrap();
        let workers = case.pids(Role::Worker);
        kill_process(pid(first.pid), Signal::KILL).unwrap();
        case.front
            .until_noted("ended with signal 9 (KILL); workers go on")
            .await;
        kill_process(pid(workers[1]), Signal::KILL).unwrap();
        case.front.until_called("up 1", 2).await;
        let after = case.pids(Role::Worker);
        assert_eq!(after[0], workers[0]);
        assert_ne!(after[1], workers[1]);
        assert_ne!(case.pids(Role::Template), [first.pid]);
        case.supervisor.stop(PATIENCE).await;
        for number in workers.into_iter().chain(after) {
            gone(number);
        }
    });
}

#[test]
fn a_template_that_cannot_boot_again_is_logged_and_tried_again() {
    run(async {
        let case = Case::new("boots_once", |_| ());
        let first = case.supervisor.start().await.unwrap();
        kill_process(pid(first.pid), Signal::KILL).unwrap();
        case.front
            .until_noted("ruby ended with exit 6; its own message is above; another try follows")
            .await;
        std::fs::remove_file(case.app.path().join("booted")).unwrap();
        let booted_again = |front: &Recorder| {
            let notes = front.notes.borrow();
            notes
                .iter()
                .filter(|note| note.contains("loaded in"))
                .count()
                == 2
        };
        case.front.until("second boot", booted_again).await;
        case.supervisor.stop(PATIENCE).await;
    });
}

#[test]
fn a_start_that_fails_says_why_and_leaves_nothing() {
    fn check(mode: &str, adjust: impl FnOnce(&mut Plan), expect: &str) {
        run(async {
            let case = Case::new(mode, adjust);
            let error = case.supervisor.start().await.unwrap_err();
            let text = error.to_string();
            assert!(text.contains(expect), "{mode}: {text}");
            let calls = case.front.calls.borrow();
            assert!(!calls.iter().any(|call| call.starts_with("up")));
        });
    }
    check(
        "raises",
        |_| (),
        "no database (RuntimeError)\n    from config.ru:1:in `block'\n    from config.ru:1",
    );
    check("exits", |_| (), "ruby ended with exit 5");
    let short = Duration::from_millis(300);
    let hurry = |plan: &mut Plan| plan.boot_timeout = short;
    check(
        "hangs",
        hurry,
        "did not boot within 300ms (setting `boot_timeout`)",
    );
    let absent = |plan: &mut Plan| plan.ruby = "/nowhere/ruby".into();
    check("serves", absent, "cannot run \"/nowhere/ruby\"");
    let absent = |plan: &mut Plan| plan.start.app = "/nowhere".into();
    check("serves", absent, "in /nowhere: No such file");
    check("dies", |_| (), "ended 5 times before it was ready");
    let hurry = |plan: &mut Plan| plan.boot_timeout = Duration::from_secs(2);
    check("never_forks", hurry, "the workers were not ready within 2s");
    let hurry = |plan: &mut Plan| plan.boot_timeout = Duration::from_secs(2);
    check("never_ready", hurry, "the workers were not ready within 2s");
}

#[test]
fn a_supervisor_that_is_dropped_takes_its_processes_along() {
    let mut pids = Vec::new();
    run(async {
        let case = Case::new("stubborn", |_| ());
        case.supervisor.start().await.unwrap();
        pids = case.pids(Role::Worker);
        pids.extend(case.pids(Role::Template));
        assert_eq!(pids.len(), 3);
    });
    pids.into_iter().for_each(gone);
}

#[test]
fn workers_that_do_not_leave_are_killed_after_the_grace() {
    run(async {
        let case = Case::new("stubborn", |_| ());
        case.supervisor.start().await.unwrap();
        let workers = case.pids(Role::Worker);
        case.supervisor.stop(Duration::from_millis(100)).await;
        case.front
            .until_noted("did not leave within 0.1 s and were killed")
            .await;
        assert_eq!(case.supervisor.processes().len(), 1);
        for number in workers {
            gone(number);
        }
    });
}

#[test]
fn a_stop_with_no_grace_asks_nobody() {
    run(async {
        let case = Case::new("stubborn", |_| ());
        case.supervisor.start().await.unwrap();
        case.supervisor.stop(Duration::ZERO).await;
        assert_eq!(case.supervisor.processes().len(), 1);
        let calls = case.front.calls.borrow();
        assert!(!calls.iter().any(|call| call.starts_with("stop")));
    });
}

#[test]
fn what_the_application_started_beside_the_workers_ends_with_the_server() {
    run(async {
        let case = Case::new("helper", |_| ());
        case.supervisor.start().await.unwrap();
        let helper = std::fs::read_to_string(case.app.path().join("helper")).unwrap();
        let helper: i32 = helper.parse().unwrap();
        assert!(is_alive(helper));
        case.supervisor.stop(PATIENCE).await;
        gone(helper);
    });
}

#[test]
fn a_hijacked_connection_reaches_the_front() {
    run(async {
        let case = Case::new("hijack", |plan| plan.workers = 1);
        case.supervisor.start().await.unwrap();
        case.front.until_called("hijacked 0 5 77", 1).await;
        let socket = case.front.sockets.borrow_mut().pop().unwrap();
        let mut socket = UnixStream::from(socket);
        // Ruby made it non-blocking.
        socket.set_nonblocking(false).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        assert_eq!(text, "from the application");
        case.supervisor.stop(PATIENCE).await;
    });
}

#[test]
fn a_worker_that_talks_nonsense_is_killed_and_named() {
    run(async {
        let case = Case::new("misbehaves", |plan| plan.workers = 1);
        case.supervisor.start().await.unwrap();
        case.front
            .until_noted("worker 0 is killed: malformed control message")
            .await;
        case.front.until_called("died 0", 1).await;
        case.supervisor.stop(Duration::ZERO).await;
    });
}

#[test]
fn a_check_boots_the_template_alone() {
    run(async {
        let app = tempfile::tempdir().unwrap();
        let (plan, _release) = plan("serves", app.path());
        let mut template = Template::spawn(&plan).unwrap();
        let booted = template.boot(&plan).await.unwrap();
        assert_eq!(booted.held.len(), 1);
        assert!(is_alive(booted.pid));
        template.leave().await;
        assert!(!is_alive(booted.pid));
    });
}

#[test]
fn errors_can_be_told_apart() {
    run(async {
        let case = Case::new("exits", |_| ());
        let error = case.supervisor.start().await.unwrap_err();
        assert!(matches!(
            error,
            StartError::Boot(BootError::Ended(Ending::Exit(5)))
        ));
    });
}
