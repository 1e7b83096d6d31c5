//! The supervisor over real processes: Ruby ones, that stand in for the template and the workers
//! (`fake/highball/template.rb`). Nothing here serves a request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use exchange::control::Start;
use exchange::dispatcher::{Cause, ReadyCheck};
use exchange::front::{Corrupt, Word};
use exchange::{Alarm, Dispatcher, Run, Stall, WorkerId};
use highball_supervisor::{
    BootError, Booted, Bound, ExitStatus, Limits, Load, Note, Plan, Role, StartError, Supervisor,
    TemplateProcess,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, test_kill_process};
use tokio::sync::Notify;

/// How long anything may take before a test fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A front that writes down what it is told.
#[derive(Default)]
struct Recorder {
    calls: RefCell<Vec<String>>,
    notes: RefCell<Vec<String>>,
    sockets: RefCell<Vec<OwnedFd>>,
    /// How each worker ended that died.
    causes: RefCell<Vec<(String, Cause)>>,
    /// For each generation: its end tells the workers to leave.
    stops: RefCell<BTreeMap<u32, OwnedFd>>,
    /// The generation of each note.
    noted: RefCell<Vec<u32>>,
    /// Requests that workers have finished.
    finished: RefCell<BTreeMap<u16, u64>>,
    /// Whether each worker has finished a request.
    served: Cell<bool>,
    /// Until when what they run is in time.
    deadlines: RefCell<BTreeMap<u16, std::time::Instant>>,
    /// A process of which is written down whether it is there when a worker's death is told.
    watched: Cell<Option<i32>>,
    /// Whether generations pass their check.
    fit: Cell<bool>,
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
        if tokio::time::timeout(TEST_TIMEOUT, wait).await.is_err() {
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

/// A worker of the first generation goes by its number alone.
fn name(WorkerId { generation, worker }: WorkerId) -> String {
    match generation {
        1 => worker.to_string(),
        generation => format!("{generation}.{worker}"),
    }
}

impl Dispatcher for Recorder {
    fn resize(&self, generation: u32, workers: u16) {
        self.call(format!("resize {generation} to {workers}"));
    }

    fn worker_starts(&self, id: WorkerId) {
        self.call(format!("prepare {}", name(id)));
    }

    fn worker_up(&self, id: WorkerId) {
        self.call(format!("up {}", name(id)));
    }

    fn renewed_exchange(&self, generation: u32) -> std::io::Result<[OwnedFd; 2]> {
        self.call(format!("exchange {generation}"));
        let (one, other) = std::os::unix::net::UnixStream::pair()?;
        Ok([one.into(), other.into()])
    }

    fn finished(&self, id: WorkerId) -> u64 {
        self.finished.borrow().get(&id.worker).copied().unwrap_or(0)
    }

    fn has_served(&self, _: WorkerId) -> bool {
        self.served.get()
    }

    fn worker_died(&self, id: WorkerId, cause: Cause) {
        if self.watched.get().is_some_and(is_alive) {
            self.call("died before its end".to_owned());
        }
        self.call(format!("died {}", name(id)));
        self.causes.borrow_mut().push((name(id), cause));
    }

    fn deadline(&self, id: WorkerId) -> Option<std::time::Instant> {
        self.deadlines.borrow().get(&id.worker).copied()
    }

    fn cut(&self, generation: u32) -> usize {
        self.call(format!("cut {generation}"));
        1
    }

    fn stop_worker(&self, id: WorkerId) {
        self.call(format!("stop {}", name(id)));
        self.stops.borrow_mut().remove(&id.generation);
    }

    fn hijacked(&self, id: WorkerId, slot: u32, sequence: u64, socket: OwnedFd) {
        self.sockets.borrow_mut().push(socket);
        let worker = name(id);
        self.call(format!("hijacked {worker} {slot} {sequence}"));
    }

    fn body(&self, _: WorkerId, _: u16, _: u32) -> Option<OwnedFd> {
        None
    }

    fn traced(&self, id: WorkerId, slot: u16, sequence: u32, backtrace: &[String]) {
        let (worker, backtrace) = (name(id), backtrace.join(" "));
        self.call(format!("traced {worker} {slot} {sequence} {backtrace}"));
    }

    fn route_to(&self, generations: &[u32]) {
        self.call(format!("feed {generations:?}"));
    }

    fn outage(&self, until: Option<std::time::Instant>) {
        self.call(match until {
            Some(_) => "outage".to_owned(),
            None => "outage over".to_owned(),
        });
    }

    fn check(&self, generation: u32, check: String) -> ReadyCheck {
        self.call(format!("check {generation} {check}"));
        let fit = self.fit.get();
        Box::pin(async move { fit.then_some(()).ok_or("not fit".to_owned()) })
    }

    fn close(&self, generation: u32) {
        self.call(format!("close {generation}"));
    }
}

impl Recorder {
    fn note(&self, generation: u32, note: &Note) {
        self.notes.borrow_mut().push(note.to_string());
        self.noted.borrow_mut().push(generation);
        self.changed.notify_one();
    }
}

/// A thread of this worker runs a request past its deadline.
fn late(by: WorkerId, thread: u16, slot: u16, sequence: u32) -> Alarm {
    Alarm::Late(Run {
        by,
        thread,
        slot,
        sequence,
    })
}

fn plan() -> Plan {
    Plan {
        ruby: "ruby".into(),
        library: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake"),
        workers: 2,
        most_by_load: 2,
        most_workers: 4,
        boot_timeout: TEST_TIMEOUT,
        drain_timeout: TEST_TIMEOUT,
        limits: Limits::default(),
        budget: Bound::None,
        worker_by_worker: false,
        check: None,
        refork: Vec::new(),
        own_variables: vec!["OWN_VARIABLE".into()],
        variables: Vec::new(),
        descriptors: None,
    }
}

fn load(plan: &Plan, generation: u32, mode: &str, app: &Path) -> (Load, OwnedFd) {
    let (stop, release) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    let load = Load {
        start: Start {
            app: app.to_str().expect("a path in UTF-8").into(),
            config_ru: mode.into(),
            environment: "test".into(),
            threads: 1,
            generation,
            ..Start::default()
        },
        exchange: [stop.try_clone().expect("a free descriptor"), stop],
        plan: plan.clone(),
    };
    (load, release)
}

struct Case {
    supervisor: Supervisor,
    plan: Plan,
    front: Rc<Recorder>,
    mode: String,
    app: tempfile::TempDir,
}

impl Case {
    fn new(mode: &str, adjust: impl FnOnce(&mut Plan)) -> Self {
        let mut plan = plan();
        adjust(&mut plan);
        let front = Rc::new(Recorder::default());
        let supervisor = {
            let noted = Rc::clone(&front);
            Supervisor::new(
                Rc::clone(&front) as Rc<dyn Dispatcher>,
                move |generation, note| {
                    noted.note(generation, note);
                },
                || false,
            )
        };
        Self {
            supervisor,
            plan,
            front,
            mode: mode.to_owned(),
            app: tempfile::tempdir().expect("a folder"),
        }
    }

    /// Brings the first generation up.
    async fn start(&self) -> Result<Booted, StartError> {
        self.launch(1, &self.mode).await
    }

    /// Brings another generation up.
    async fn launch(&self, generation: u32, mode: &str) -> Result<Booted, StartError> {
        let (load, release) = load(&self.plan, generation, mode, self.app.path());
        self.front.stops.borrow_mut().insert(generation, release);
        self.supervisor.launch(load).await
    }

    fn pids(&self, role: Role) -> Vec<i32> {
        let rows = self.supervisor.processes();
        let rows = rows.iter().filter(|row| row.role == role);
        rows.map(|row| row.pid).collect()
    }

    /// Where the front was called so.
    #[track_caller]
    fn position(&self, call: &str) -> usize {
        let calls = self.front.calls.borrow();
        let found = calls.iter().position(|one| one == call);
        found.unwrap_or_else(|| panic!("no {call}: {calls:?}"))
    }
}

/// Runs a test on the runtime that the binary uses.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime");
    runtime.block_on(async {
        let ended = tokio::time::timeout(TEST_TIMEOUT * 3, test).await;
        ended.expect("the test ends in time");
    });
}

fn pid(number: i32) -> Pid {
    Pid::from_raw(number).expect("a process id")
}

fn is_alive(number: i32) -> bool {
    test_kill_process(pid(number)).is_ok()
}

/// Waits for the end of a process that is no child of this one.
fn gone(number: i32) {
    let Ok(fd) = pidfd_open(pid(number), PidfdFlags::empty()) else {
        return;
    };
    let patience = Timespec::try_from(TEST_TIMEOUT).expect("a short time");
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&patience)), Ok(1), "{number} goes on");
}

#[test]
fn a_start_forks_every_worker_and_a_stop_leaves_no_process() {
    run(async {
        let case = Case::new("serves", |_| ());
        let booted = case.start().await.unwrap();
        assert_eq!((booted.seconds, &*booted.rack), (0.5, "test"));
        case.front
            .until_noted("thread \"poller\" started at config.ru:7")
            .await;
        case.front
            .until("line of worker 1", |front| {
                // Its process may not be known yet.
                let told = |note: &String| {
                    note.starts_with("worker 1") && note.ends_with(": hello\nfrom 1")
                };
                front.notes.borrow().iter().any(told)
            })
            .await;
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
        case.supervisor.stop(TEST_TIMEOUT).await;
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
        case.front.served.set(true);
        case.start().await.unwrap();
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
            let (worker, cause) = case.front.causes.borrow_mut().pop().expect("it died");
            assert_eq!(
                (worker.as_str(), cause.await.as_deref()),
                ("0", Some("signal 9 (KILL)"))
            );
        }
        case.supervisor.kill_worker(1, 1);
        case.front.until_called("up 1", 2).await;
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn a_worker_at_its_limit_leaves_when_its_successor_is_ready() {
    run(async {
        let case = Case::new("stubborn", |plan| {
            plan.drain_timeout = Duration::from_millis(100);
            plan.limits.requests = Some(100);
        });
        case.front.finished.borrow_mut().insert(0, 1000);
        case.start().await.unwrap();
        let before = case.pids(Role::Worker);
        case.front.until_called("died 0", 1).await;
        let order = ["up 0", "prepare 2", "up 2", "stop 0", "died 0"];
        let order = order.map(|call| case.position(call));
        assert!(order.is_sorted(), "{:?}", case.front.calls.borrow());
        case.front
            .until_noted(&format!(
                "worker 0 (pid {}): 1000 requests reach its limit of ",
                before[0]
            ))
            .await;
        case.front
            .until_noted(" (setting worker_max_requests); worker 2 will replace it")
            .await;
        let left = format!("worker 0 (pid {}) was asked to exit and ended", before[0]);
        case.front.until_noted(&left).await;
        let rows = case.supervisor.processes();
        let workers: Vec<_> = rows.iter().filter_map(|row| row.worker).collect();
        assert_eq!(workers, [1, 2]);
        assert_eq!(case.pids(Role::Worker)[0], before[1]);
        case.supervisor.stop(Duration::ZERO).await;
    });
}

#[test]
fn a_worker_that_holds_too_much_memory_is_replaced() {
    run(async {
        let case = Case::new("stubborn", |plan| {
            plan.workers = 1;
            plan.drain_timeout = Duration::from_millis(100);
            // Any process holds more, so each is replaced in its turn.
            plan.limits.memory = Some(1);
        });
        case.start().await.unwrap();
        for (worker, times) in [(0, 1), (1, 1), (0, 2)] {
            let died = format!("died {worker}");
            case.front.until_called(&died, times).await;
        }
        case.front.until_noted(" exceeds worker_max_memory ").await;
        case.supervisor.stop(Duration::ZERO).await;
    });
}

#[test]
fn workers_go_on_when_their_template_dies_and_the_next_one_replaces_them() {
    run(async {
        let case = Case::new("serves", |_| ());
        let first = case.start().await.unwrap();
        let workers = case.pids(Role::Worker);
        kill_process(pid(first.pid), Signal::KILL).unwrap();
        case.front
            .until_noted("ended with signal 9 (KILL); workers continue")
            .await;
        kill_process(pid(workers[1]), Signal::KILL).unwrap();
        case.front.until_called("up 1", 2).await;
        let after = case.pids(Role::Worker);
        assert_eq!(after[0], workers[0]);
        assert_ne!(after[1], workers[1]);
        assert_ne!(case.pids(Role::Template), [first.pid]);
        case.supervisor.stop(TEST_TIMEOUT).await;
        for number in workers.into_iter().chain(after) {
            gone(number);
        }
    });
}

#[test]
fn every_process_of_a_corrupt_exchange_is_replaced() {
    run(async {
        let case = Case::new("serves", |_| ());
        let first = case.start().await.unwrap();
        let workers = case.pids(Role::Worker);
        let corrupt = Corrupt {
            word: Word::Head,
            index: None,
            value: 7,
        };
        case.supervisor.alarm(Alarm::Corrupt(1, corrupt));
        case.front.until_noted(&corrupt.to_string()).await;
        case.front.until_called("exchange 1", 1).await;
        for worker in ["up 0", "up 1"] {
            case.front.until_called(worker, 2).await;
        }
        for number in workers.into_iter().chain([first.pid]) {
            gone(number);
        }
        assert_eq!(case.pids(Role::Worker).len(), 2);
        case.supervisor.stop(Duration::ZERO).await;
    });
}

#[test]
fn a_template_that_cannot_boot_again_is_logged_and_tried_again() {
    run(async {
        let case = Case::new("boots_once", |_| ());
        let first = case.start().await.unwrap();
        kill_process(pid(first.pid), Signal::KILL).unwrap();
        case.front
            .until_noted("ruby ended with exit 6; its message is in the server's output; retrying")
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
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn a_fork_that_fails_is_a_death_of_that_worker_and_not_of_the_template() {
    run(async {
        let case = Case::new("serves", |_| ());
        let first = case.start().await.unwrap();
        let mark = case.app.path().join("unforkable");
        std::fs::write(&mark, "").unwrap();
        case.supervisor.kill_worker(1, 0);
        case.front
            .until_noted("worker 0 cannot be forked: no memory")
            .await;
        case.front
            .until_noted("worker 0 ended 5 times in a row")
            .await;
        assert_eq!(case.pids(Role::Worker).len(), 1);
        std::fs::remove_file(mark).unwrap();
        case.front.until_called("up 0", 2).await;
        assert_eq!(case.pids(Role::Template), [first.pid]);
        case.supervisor.stop(TEST_TIMEOUT).await;
        assert_eq!(case.supervisor.processes().len(), 1);
    });
}

#[test]
fn the_front_is_told_that_nothing_can_serve_until_a_worker_does_again() {
    run(async {
        let case = Case::new("boots_once", |_| ());
        let first = case.start().await.unwrap();
        let workers = case.pids(Role::Worker);
        kill_process(pid(first.pid), Signal::KILL).unwrap();
        case.front.until_noted("; retrying").await;
        for worker in workers {
            kill_process(pid(worker), Signal::KILL).unwrap();
        }
        case.front.until_called("outage", 1).await;
        case.front.until_noted("no worker can serve").await;
        std::fs::remove_file(case.app.path().join("booted")).unwrap();
        case.front.until_called("outage over", 1).await;
        case.front.until_noted("a worker serves again").await;
        let calls = case.front.calls.borrow().clone();
        let over = case.position("outage over");
        assert!(
            calls[..over]
                .iter()
                .filter(|call| call.starts_with("up"))
                .count()
                > 2
        );
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn a_start_that_fails_says_why_and_leaves_nothing() {
    fn check(mode: &str, adjust: impl FnOnce(&mut Plan), expect: &str) {
        run(async {
            let case = Case::new(mode, adjust);
            let error = case.start().await.unwrap_err();
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
    run(async {
        let case = Case::new("serves", |_| ());
        let (load, _release) = load(&case.plan, 1, "serves", Path::new("/nowhere"));
        let error = case.supervisor.launch(load).await.unwrap_err().to_string();
        assert!(error.contains("in /nowhere: No such file"), "{error}");
    });
    check("dies", |_| (), "ended 5 times in a row when it was started");
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
        case.start().await.unwrap();
        pids = case.pids(Role::Worker);
        pids.extend(case.pids(Role::Template));
        assert_eq!(pids.len(), 3);
    });
    pids.into_iter().for_each(gone);
}

#[test]
fn a_worker_tells_where_its_thread_is() {
    run(async {
        let case = Case::new("traces", |_| ());
        case.start().await.unwrap();
        case.supervisor
            .alarm(late(WorkerId::new(1, 1), 2, 3, u32::MAX));
        let answer = format!("traced 1 3 {} thread 2 of 1", u32::MAX);
        case.front.until_called(&answer, 1).await;
        // A worker that is not there is not asked.
        case.supervisor.alarm(late(WorkerId::new(1, 9), 2, 3, 4));
        case.supervisor.alarm(late(WorkerId::new(2, 1), 2, 3, 4));
        // The other one still waits to be asked.
        case.supervisor.stop(Duration::ZERO).await;
    });
}

#[test]
fn a_stopped_worker_gives_no_backtrace_and_is_replaced() {
    run(async {
        let case = Case::new("stubborn", |_| ());
        case.start().await.unwrap();
        let stuck = case.pids(Role::Worker)[0];
        kill_process(pid(stuck), Signal::STOP).unwrap();
        // However often: asking never blocks.
        for sequence in 0..5000 {
            case.supervisor
                .alarm(late(WorkerId::new(1, 0), 0, 0, sequence));
        }
        case.supervisor
            .alarm(Alarm::Stalled(WorkerId::new(1, 0), Stall::LateRequest));
        case.front
            .until_noted(&format!(
                "worker 0 (pid {stuck}) is stuck with a request past its deadline"
            ))
            .await;
        case.front.until_called("stop 0", 1).await;
        // Its successor does not wait for its death.
        case.front.until_called("up 2", 1).await;
        case.front
            .until_noted(&format!(
                "worker 0 (pid {stuck}) is still running; starting its replacement, worker 2"
            ))
            .await;
        assert!(is_alive(stuck));
        case.supervisor
            .alarm(Alarm::OnlyLateWork(WorkerId::new(1, 0)));
        case.front.until_called("died 0", 1).await;
        gone(stuck);
        assert_eq!(case.pids(Role::Worker).len(), 2);
        case.supervisor.stop(Duration::ZERO).await;
    });
}

#[test]
fn a_stuck_worker_is_replaced_after_its_death_where_memory_is_short() {
    run(async {
        let case = Case::new("stubborn", |plan| plan.budget = Bound::Bytes(1));
        case.start().await.unwrap();
        case.supervisor
            .alarm(Alarm::Stalled(WorkerId::new(1, 0), Stall::LateRequest));
        case.front.until_called("stop 0", 1).await;
        case.supervisor
            .alarm(Alarm::OnlyLateWork(WorkerId::new(1, 0)));
        case.front.until_called("up 0", 2).await;
        let again = |call: &String| call == "prepare 0";
        let again = case.front.calls.borrow().iter().rposition(again);
        assert!(again > Some(case.position("died 0")));
        case.supervisor.stop(Duration::ZERO).await;
        let calls = case.front.calls.borrow();
        assert!(!calls.contains(&"prepare 2".to_owned()), "{calls:?}");
    });
}

#[test]
fn workers_that_do_not_leave_are_killed_after_the_grace() {
    run(async {
        let case = Case::new("stubborn", |_| ());
        case.start().await.unwrap();
        let workers = case.pids(Role::Worker);
        case.supervisor.stop(Duration::from_millis(100)).await;
        case.front
            .until_noted("did not exit within 0.1 s and were killed")
            .await;
        assert_eq!(case.supervisor.processes().len(), 1);
        for number in workers {
            gone(number);
        }
    });
}

#[test]
fn a_stop_with_no_grace_kills_without_asking() {
    run(async {
        let case = Case::new("stubborn", |_| ());
        case.start().await.unwrap();
        case.supervisor.stop(Duration::ZERO).await;
        assert_eq!(case.supervisor.processes().len(), 1);
        let calls = case.front.calls.borrow();
        assert!(!calls.iter().any(|call| call.starts_with("stop")));
    });
}

#[test]
fn processes_that_the_application_started_end_with_the_server() {
    run(async {
        let case = Case::new("helper", |_| ());
        case.start().await.unwrap();
        let helper = std::fs::read_to_string(case.app.path().join("helper")).unwrap();
        let helper: i32 = helper.parse().unwrap();
        assert!(is_alive(helper));
        case.supervisor.stop(TEST_TIMEOUT).await;
        gone(helper);
    });
}

#[test]
fn a_hijacked_connection_reaches_the_front() {
    run(async {
        let case = Case::new("hijack", |plan| plan.workers = 1);
        case.start().await.unwrap();
        case.front.until_called("hijacked 0 5 77", 1).await;
        let socket = case.front.sockets.borrow_mut().pop().unwrap();
        let mut socket = UnixStream::from(socket);
        // Ruby made it non-blocking.
        socket.set_nonblocking(false).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        assert_eq!(text, "from the application");
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn a_worker_that_talks_nonsense_is_killed_and_named() {
    run(async {
        let case = Case::new("misbehaves", |plan| plan.workers = 1);
        case.start().await.unwrap();
        case.front
            .until("line about worker 0", |front| {
                let told = |note: &String| {
                    note.starts_with("worker 0")
                        && note.contains(": malformed control message")
                        && note.ends_with("; killing it")
                };
                front.notes.borrow().iter().any(told)
            })
            .await;
        case.front.until_called("died 0", 1).await;
        case.supervisor.stop(Duration::ZERO).await;
    });
}

#[test]
fn a_check_boots_the_template_alone() {
    run(async {
        let app = tempfile::tempdir().unwrap();
        let (load, _release) = load(&plan(), 1, "serves", app.path());
        let mut template = TemplateProcess::spawn(&load, None).await.unwrap();
        let booted = template.boot(&load, false, TEST_TIMEOUT).await.unwrap();
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
        let error = case.start().await.unwrap_err();
        assert!(matches!(
            error,
            StartError::Boot(BootError::Ended(ExitStatus::Exit(5)))
        ));
    });
}

#[test]
fn a_second_generation_takes_over_and_the_first_one_leaves() {
    run(async {
        let case = Case::new("serves", |_| ());
        let first = case.start().await.unwrap();
        let before = case.pids(Role::Worker);
        let second = case.launch(2, "serves").await.unwrap();
        assert_ne!(first.pid, second.pid);
        case.supervisor.settled().await;
        assert!(before.iter().all(|pid| !is_alive(*pid)));
        assert!(!is_alive(first.pid));
        assert_eq!(case.pids(Role::Template), [second.pid]);
        assert_eq!(case.pids(Role::Worker).len(), 2);
        let up = case.position("up 2.0").max(case.position("up 2.1"));
        assert!(up < case.position("feed [2]"));
        assert!(case.position("feed [2]") < case.position("stop 0"));
        assert!(case.position("died 0").max(case.position("died 1")) < case.position("close 1"));
        case.front.until_noted("the new generation serves").await;
        case.supervisor.stop(TEST_TIMEOUT).await;
        assert_eq!(case.supervisor.processes().len(), 1);
    });
}

#[test]
fn a_second_generation_that_fails_leaves_the_first_one_as_it_was() {
    async fn check(mode: &str, adjust: impl FnOnce(&mut Plan), expect: &str) {
        let case = Case::new("serves", adjust);
        let first = case.start().await.unwrap();
        let before = case.pids(Role::Worker);
        let error = case.launch(2, mode).await.unwrap_err().to_string();
        assert!(error.contains(expect), "{mode}: {error}");
        case.supervisor.settled().await;
        assert_eq!(case.pids(Role::Template), [first.pid]);
        assert_eq!(case.pids(Role::Worker), before);
        let calls = case.front.calls.borrow().clone();
        assert!(
            !calls.iter().any(|call| call.contains("feed [2")),
            "{calls:?}"
        );
        assert!(
            !calls.iter().any(|call| call.starts_with("stop")),
            "{calls:?}"
        );
        assert_eq!(calls.last().map(String::as_str), Some("close 2"));
        let given_up = format!("the old one continues to serve: {error}");
        case.front.until_noted(&given_up).await;
        // And there may be another try.
        case.front.fit.set(true);
        case.launch(3, "serves").await.unwrap();
        case.supervisor.stop(TEST_TIMEOUT).await;
        assert_eq!(case.supervisor.processes().len(), 1);
    }
    run(async {
        check(
            "raises",
            |_| (),
            "no database (RuntimeError)\n    from config.ru:1",
        )
        .await;
        check("exits", |_| (), "ruby ended with exit 5").await;
        check("dies", |_| (), "ended 5 times in a row when it was started").await;
        check(
            "serves",
            |plan| plan.check = Some("/up".into()),
            "the check failed (setting `ready_check`): not fit",
        )
        .await;
    });
    let hurry = |plan: &mut Plan| plan.boot_timeout = Duration::from_secs(2);
    run(async move {
        check("hangs", hurry, "did not boot within 2s").await;
        check("never_forks", hurry, "the workers were not ready within 2s").await;
        check("never_ready", hurry, "the workers were not ready within 2s").await;
    });
}

#[test]
fn a_change_waits_for_a_failed_generation_and_not_for_the_serving_one() {
    run(async {
        let case = Case::new("serves", |plan| plan.check = Some("/up".into()));
        case.start().await.unwrap();
        case.launch(2, "stubborn").await.unwrap_err();
        let awaited = case
            .supervisor
            .unsettled()
            .map(|(generation, _)| generation);
        assert_eq!(awaited, Some(2), "its processes are being killed");
        case.supervisor.settled().await;
        assert_eq!(case.supervisor.unsettled(), None);
        let said = |note: &String| note.contains("times in a row before");
        case.launch(3, "dies").await.unwrap_err();
        assert!(!case.front.notes.borrow().iter().any(said), "another start");
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn one_by_one_workers_are_replaced_with_one_too_many_at_most() {
    run(async {
        let case = Case::new("serves", |plan| {
            plan.worker_by_worker = true;
            plan.workers = 3;
        });
        case.start().await.unwrap();
        case.launch(2, "serves").await.unwrap();
        case.supervisor.settled().await;
        assert_eq!(case.pids(Role::Worker).len(), 3);
        let mut workers = 0_usize;
        for call in case.front.calls.borrow().iter() {
            match call.split(' ').next() {
                Some("prepare") => workers += 1,
                Some("died") => workers -= 1,
                _ => {}
            }
            assert!(workers <= 4, "{:?}", case.front.calls.borrow());
        }
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn old_workers_that_do_not_finish_are_killed_after_the_drain() {
    run(async {
        let short = Duration::from_millis(100);
        let case = Case::new("stubborn", |plan| plan.drain_timeout = short);
        let first = case.start().await.unwrap();
        let before = case.pids(Role::Worker);
        case.launch(2, "serves").await.unwrap();
        case.supervisor.settled().await;
        for number in before {
            gone(number);
        }
        assert!(!is_alive(first.pid));
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn requests_before_their_deadline_are_awaited_until_a_change_waits() {
    run(async {
        let short = Duration::from_millis(100);
        let case = Case::new("stubborn", |plan| plan.drain_timeout = short);
        case.start().await.unwrap();
        let now = std::time::Instant::now();
        let deadline = now + Duration::from_secs(3600);
        case.front.deadlines.borrow_mut().insert(1, deadline);
        case.launch(2, "serves").await.unwrap();
        // The other one runs nothing.
        case.front.until_called("died 0", 1).await;
        let old = case.pids(Role::Worker)[0];
        let noted = format!("worker 1 (pid {old}): its time to exit is over");
        case.front.until_noted(&noted).await;
        case.front.until_noted("; waiting 35").await;
        assert_eq!(case.supervisor.unsettled(), Some((1, short)));
        assert_eq!(case.pids(Role::Worker).len(), 3);
        case.supervisor.kill_draining();
        case.front.until_called("cut 1", 1).await;
        let noted =
            "old generation killed because another change is waiting; unexpired requests lost: 1";
        case.front.until_noted(noted).await;
        case.supervisor.settled().await;
        assert_eq!(case.supervisor.unsettled(), None);
        // Its deadline comes.
        case.front.deadlines.borrow_mut().clear();
        case.launch(3, "stubborn").await.unwrap();
        case.supervisor.settled().await;
        let deadline = std::time::Instant::now() + 2 * short;
        case.front.deadlines.borrow_mut().insert(0, deadline);
        case.launch(4, "serves").await.unwrap();
        case.front.until_called("died 3.1", 1).await;
        case.front.until_called("died 3.0", 1).await;
        case.supervisor.settled().await;
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn an_old_template_that_hangs_in_a_fork_is_killed_and_holds_nothing_up() {
    let short = Duration::from_millis(100);
    // The successor of a worker that reached its limit has its place until it is known not to come.
    run(async {
        let case = Case::new("serves", |plan| plan.limits.requests = Some(100));
        case.start().await.unwrap();
        std::fs::write(case.app.path().join("forks_hang_1"), "").unwrap();
        case.front.finished.borrow_mut().insert(0, 1000);
        case.front.until_called("prepare 2", 1).await;
        case.front.finished.borrow_mut().clear();
        let killed = async {
            case.front.until_called("up 2.0", 1).await;
            case.supervisor.apply_settings(short, TEST_TIMEOUT);
            case.front.until_noted("signal 9 (KILL)").await;
            case.supervisor.apply_settings(TEST_TIMEOUT, TEST_TIMEOUT);
        };
        let (launched, ()) = tokio::join!(case.launch(2, "serves"), killed);
        launched.unwrap();
        case.front.until_called("close 1", 1).await;
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
    // A worker that died does not come back where all are to leave.
    run(async {
        let case = Case::new("serves", |_| ());
        let first = case.start().await.unwrap();
        std::fs::write(case.app.path().join("forks_hang_1"), "").unwrap();
        case.supervisor.kill_worker(1, 0);
        case.front.until_called("prepare 0", 2).await;
        case.launch(2, "serves").await.unwrap();
        case.supervisor.apply_settings(short, TEST_TIMEOUT);
        case.front.until_called("close 1", 1).await;
        assert!(!is_alive(first.pid));
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn other_times_are_for_generations_that_are_there_as_well() {
    run(async {
        let case = Case::new("stubborn", |_| ());
        case.start().await.unwrap();
        let short = Duration::from_millis(100);
        case.supervisor.apply_settings(short, short);
        // Its plan says otherwise.
        case.launch(2, "serves").await.unwrap();
        case.supervisor.settled().await;
        case.front.until_called("died 1", 1).await;
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn workers_without_room_start_when_the_other_server_is_gone() {
    run(async {
        let case = Case::new("serves", |plan| {
            plan.workers = 3;
            plan.budget = Bound::Bytes(1 << 40);
        });
        let other = std::process::Command::new("sleep").arg("1000").spawn();
        let mut other = other.unwrap();
        let pid = i32::try_from(other.id()).unwrap();
        case.supervisor.start_alongside(&case.plan, Some(1), pid);
        case.start().await.unwrap();
        assert_eq!(case.pids(Role::Worker).len(), 1);
        assert_eq!(case.supervisor.room_for_other_server().await, Ok(None));
        other.kill().unwrap();
        other.wait().unwrap();
        for worker in 1..3 {
            case.front.until_called(&format!("up {worker}"), 1).await;
        }
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn of_another_server_nothing_fits_where_this_one_has_the_whole_budget() {
    run(async {
        let case = Case::new("serves", |plan| plan.budget = Bound::Bytes(1 << 20));
        // There is no worker that it could judge.
        assert_eq!(case.supervisor.room_for_other_server().await, Ok(None));
        case.start().await.unwrap();
        let held = case.supervisor.room_for_other_server().await.unwrap_err();
        assert!(held.held > held.budget, "{held}");
        case.supervisor.stop(TEST_TIMEOUT).await;
    });
}

#[test]
fn a_launch_while_another_is_under_way_is_refused() {
    run(async {
        let case = Case::new("serves", |_| ());
        case.start().await.unwrap();
        let (second, third) = tokio::join!(case.launch(2, "serves"), case.launch(3, "serves"));
        assert!(second.is_ok());
        assert!(matches!(third, Err(StartError::Busy)));
        case.supervisor.stop(Duration::ZERO).await;
    });
}

#[test]
fn a_stop_within_a_launch_leaves_nothing() {
    run(async {
        for mode in ["hangs", "never_ready", "serves"] {
            let case = Case::new("serves", |_| ());
            case.start().await.unwrap();
            let mut pids = case.pids(Role::Worker);
            let stop = async {
                while case.pids(Role::Template).len() < 2 {
                    tokio::task::yield_now().await;
                }
                pids.extend(case.pids(Role::Template));
                case.supervisor.cancel_launch();
                case.supervisor.stop(TEST_TIMEOUT).await;
            };
            let (launched, ()) = tokio::join!(case.launch(2, mode), stop);
            assert!(
                matches!(launched, Err(StartError::CalledOff)),
                "{launched:?}"
            );
            assert_eq!(case.supervisor.processes().len(), 1);
            pids.into_iter().for_each(gone);
        }
    });
}

/// Runs a test in a process of its own, for what a process has once. True in that process.
fn alone(test: &str) -> bool {
    const MARK: &str = "TEST_ALONE";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let own = std::env::current_exe().expect("this program");
    let mut command = std::process::Command::new(own);
    let status = command
        .args(["--exact", test, "--nocapture"])
        .env(MARK, "1")
        .status();
    assert!(
        status.expect("it starts").success(),
        "{test} failed on its own"
    );
    false
}

/// Takes every descriptor that this process may still open, until they are dropped.
fn take_descriptors() -> Vec<OwnedFd> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(128);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("a lower limit");
    let null = || std::fs::File::open("/dev/null").map(OwnedFd::from);
    std::iter::from_fn(|| null().ok()).collect()
}

#[test]
fn without_descriptors_a_worker_is_dead_when_the_kernel_has_ended_it() {
    if !alone("without_descriptors_a_worker_is_dead_when_the_kernel_has_ended_it") {
        return;
    }
    run(async {
        let case = Case::new("stubborn", |plan| plan.workers = 1);
        case.front.served.set(true);
        case.start().await.unwrap();
        let template = case.pids(Role::Template);
        // From here on the template waits before it names a worker.
        let path = case.app.path().join("name");
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &path, FileType::Fifo, mode, 0).unwrap();
        let mut both = std::fs::File::options();
        let mut name = both.read(true).write(true).open(&path).unwrap();
        case.supervisor.kill_worker(1, 0);
        case.front.until_called("up 0", 2).await;
        let worker = case.pids(Role::Worker)[0];
        case.front.watched.set(Some(worker));
        let taken = take_descriptors();
        // Its pidfd comes when there is no room for it.
        name.write_all(b"1").unwrap();
        case.front.until_called("died 0", 2).await;
        let calls = case.front.calls.borrow().join(", ");
        assert!(!calls.contains("died before its end"), "{calls}");
        // Its template works as before.
        drop(taken);
        name.write_all(b"1").unwrap();
        case.front.until_called("up 0", 3).await;
        assert_eq!(case.pids(Role::Template), template);
        case.supervisor.stop(Duration::ZERO).await;
    });
}
