//! A front in this process, and workers that a test plays itself: a [`Player`] claims a request when the test
//! says so and answers what the test says, which leaves no order of events to chance.

#![allow(
    dead_code,
    reason = "each file of tests is a program of its own and uses its part"
)]
#![allow(clippy::unwrap_used, reason = "it is a part of tests")]

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use config::Settings;
use exchange::Region;
use exchange::request::{ENV_KEYS, Record, Text};
use exchange::response::{Head, Kind, WriteError};
use exchange::worker::{Interrupt, Job, Worker, WorkerThread};
use exchange::{Alarm, Dispatcher as _, WorkerId};
use highball_front::log::{AccessLog, Format};
use highball_front::{FileAccess, Front, IdleConnection, Listener, Snapshot, runtime};
use test_support::{Client, TEST_TIMEOUT};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

type Task = Box<dyn FnOnce(&Rc<Front>) + Send>;

/// A running front. Its thread ends, with all connections, when it is dropped.
pub(crate) struct Server {
    tasks: UnboundedSender<Task>,
    thread: Option<JoinHandle<()>>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    lines: Lines,
    /// Ends the watch over this test.
    _alive: mpsc::Sender<()>,
}

/// What the front logged.
#[derive(Clone, Default)]
struct Lines(Arc<(Mutex<String>, Condvar)>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = std::str::from_utf8(bytes).expect("the log is ASCII");
        self.0.0.lock().unwrap().push_str(text);
        self.0.1.notify_all();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Server {
    /// One worker of one thread, and otherwise the usual settings.
    pub(crate) fn start(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::for_tests();
        (settings.workers, settings.threads) = (1.into(), 1.into());
        // Tests of other things hear no alarms of requests that wait for them.
        settings.slow_request = None;
        change(&mut settings);
        // No supervisor says how many of them shall serve.
        settings.max_workers = settings.workers.most();
        let lines = Lines::default();
        let output = lines.clone();
        let (tasks, mut received) = unbounded_channel::<Task>();
        let (receiver, address) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let built = runtime::build().unwrap();
            built.block_on(async move {
                let log = Rc::new(AccessLog::new(Format::Logfmt, output).unwrap());
                let listener =
                    Listener::bind(&settings.listen[0], 1024, FileAccess::PRIVATE).unwrap();
                let name = listener.name();
                let front = Front::new(Rc::new(settings), log, 1).unwrap();
                front.acceptors().accept(listener).unwrap();
                receiver.send(name).unwrap();
                while let Some(task) = received.recv().await {
                    task(&front);
                }
                front.end().await;
            });
        });
        let address: String = address.recv().expect("the front starts");
        let address = address.strip_prefix("http://").unwrap().parse().unwrap();
        Self {
            tasks,
            thread: Some(thread),
            address,
            lines,
            _alive: watch_over(),
        }
    }

    /// Runs `ask` on the front's thread.
    pub(crate) fn with<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Rc<Front>) -> T + Send + 'static,
    ) -> T {
        let (sender, receiver) = mpsc::channel();
        let task = Box::new(move |front: &Rc<Front>| drop(sender.send(ask(front))));
        assert!(self.tasks.send(task).is_ok(), "the front has ended");
        receiver.recv().expect("the front lives")
    }

    /// Asks for the state of the front until it is as wanted.
    #[track_caller]
    pub(crate) fn until(&self, wanted: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let snapshot = self.with(|front| front.snapshot());
            if wanted(&snapshot) {
                return snapshot;
            }
            assert!(Instant::now() < deadline, "{snapshot:#?}");
        }
    }

    /// Waits until no request waits or runs: every slot has come back.
    #[track_caller]
    pub(crate) fn until_quiet(&self) {
        self.until(|now| now.slots.free == now.slots.total && now.queue.length == 0);
    }

    /// A client's connection.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// A client that has asked for `path`.
    pub(crate) fn ask(&self, path: &str) -> Client {
        let mut client = self.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        client
    }

    /// A client whose request for `path` was answered by this thread. Its connection stays open.
    #[track_caller]
    pub(crate) fn served(&self, thread: &mut TestThread, path: &str) -> Client {
        let mut client = self.ask(path);
        thread.take().answer_path();
        client.response().expect(200);
        client
    }

    /// Starts a worker's life in the first generation. Its threads are the threads that [`Player::thread`] gives.
    pub(crate) fn worker(&self, worker: u16) -> Player {
        self.worker_of(1, worker)
    }

    /// Opens another generation.
    pub(crate) fn open(&self, generation: u32) {
        self.with(move |front| {
            let settings = front.settings();
            front.applications()[0]
                .open_generation(generation, &settings)
                .unwrap();
        });
    }

    /// Has requests go to these generations from now on.
    pub(crate) fn route_to(&self, generations: &'static [u32]) {
        self.with(move |front| front.applications()[0].dispatcher().route_to(generations));
    }

    /// Starts a worker's life in a generation, which must be the latest.
    pub(crate) fn worker_of(&self, generation: u32, worker: u16) -> Player {
        let [memory, bell] = self.with(move |front| {
            let files = front.applications()[0].dispatcher().files(None).unwrap();
            front.applications()[0]
                .dispatcher()
                .worker_starts(WorkerId::new(generation, worker));
            front.applications()[0]
                .dispatcher()
                .worker_up(WorkerId::new(generation, worker));
            files
        });
        let region = Region::open(memory).unwrap();
        Player(Worker::new(region, bell, worker).unwrap())
    }

    /// The only thread of the only worker.
    pub(crate) fn thread(&self) -> TestThread {
        self.worker(0).thread(0)
    }

    /// What the supervisor would hear from now on. Once at most.
    pub(crate) fn alarms(&self) -> mpsc::Receiver<Alarm> {
        let (sender, receiver) = mpsc::channel();
        self.with(move |front| {
            front.applications()[0].on_alarm(move |alarm| _ = sender.send(alarm))
        });
        receiver
    }

    /// The exchange's memory, to look at.
    pub(crate) fn region(&self) -> Region {
        let [memory, _] =
            self.with(|front| front.applications()[0].dispatcher().files(None).unwrap());
        Region::open(memory).unwrap()
    }

    /// Reports a worker's death to the front, with an unknown cause. Its threads must not be used any more.
    pub(crate) fn reclaim(&self, worker: u16) {
        drop(self.bury_unexplained(worker));
    }

    /// The same where it becomes known later: what is sent says how the worker ended.
    pub(crate) fn bury_unexplained(&self, worker: u16) -> oneshot::Sender<String> {
        let (explain, cause) = oneshot::channel();
        self.with(move |front| {
            let cause = Box::pin(async { cause.await.ok() });
            let worker = WorkerId::new(1, worker);
            front.applications()[0]
                .dispatcher()
                .worker_died(worker, cause);
        });
        explain
    }

    /// The same where it is known already.
    pub(crate) fn bury_explained(&self, worker: u16, cause: &str) {
        let explain = self.bury_unexplained(worker);
        explain.send(cause.to_owned()).expect("the front waits");
    }

    /// The only line of the access log about this path; waits for it.
    #[track_caller]
    pub(crate) fn logged(&self, path: &str) -> String {
        let path = format!("path=\"{path}\"");
        // The error log may name the path as well, and comes first.
        let is_wanted = |line: &&String| line.contains(&path) && line.contains("outcome=");
        let found = self.wait_for_lines(|lines| lines.iter().any(|line| is_wanted(&line)));
        let found: Vec<_> = found.iter().filter(is_wanted).collect();
        assert_eq!(found.len(), 1, "{found:#?}");
        found[0].clone()
    }

    /// Asserts the outcome of the request for this path.
    #[track_caller]
    pub(crate) fn expect_outcome(&self, path: &str, outcome: &str) {
        let line = self.logged(path);
        assert!(
            line.trim_end().ends_with(&format!("outcome={outcome}")),
            "{line}"
        );
    }

    /// The log, once it is as wanted.
    #[track_caller]
    pub(crate) fn wait_for_lines(&self, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut text = self.lines.0.0.lock().unwrap();
        loop {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if wanted(&lines) {
                return lines;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{lines:#?}");
            text = self.lines.0.1.wait_timeout(text, left).unwrap().0;
        }
    }

    /// Begins to drain the front, with no limit; what comes is whether all ended by itself.
    pub(crate) fn drain(&self) -> mpsc::Receiver<bool> {
        self.with(begin_drain)
    }

    /// Begins to give the front's connections to another one. `first` is called before each is given, while this front
    /// stands still, and may have it fail, until `room` gets a message if it failed for lack of room; the receiver gets how it ended.
    pub(crate) fn give_to(
        &self,
        other: &Self,
        first: impl Fn() -> std::io::Result<()> + Send + 'static,
        room: Arc<Notify>,
    ) -> mpsc::Receiver<std::io::Result<()>> {
        let tasks = other.tasks.clone();
        let (sender, receiver) = mpsc::channel();
        self.with(move |front| {
            let front = Rc::clone(front);
            tokio::task::spawn_local(async move {
                let give = |socket: BorrowedFd<'_>, kept: &IdleConnection| {
                    first()?;
                    let (socket, kept) = (socket.try_clone_to_owned()?, kept.clone());
                    let task: Task = Box::new(move |front| {
                        let front = Rc::clone(front);
                        tokio::task::spawn_local(async move {
                            front.acceptors().take_over(socket, &kept).await.unwrap();
                        });
                    });
                    assert!(tasks.send(task).is_ok(), "the other front has ended");
                    Ok(())
                };
                let room = async || {
                    room.notified().await;
                    Ok(())
                };
                let _ = sender.send(front.give_away(give, room).await);
            });
        });
        receiver
    }

    /// Ends everything now; the front's thread goes on.
    pub(crate) fn end_now(&self) {
        self.with(|front| {
            let front = Rc::clone(front);
            tokio::task::spawn_local(async move { front.end().await });
        });
    }

    /// Ends the front and returns how many lines it logged for requests.
    pub(crate) fn end(mut self) -> usize {
        self.stop();
        let text = self.lines.0.0.lock().unwrap();
        text.lines()
            .filter(|line| line.contains("outcome="))
            .count()
    }

    fn stop(&mut self) {
        let (closed, _) = unbounded_channel();
        drop(std::mem::replace(&mut self.tasks, closed));
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "the front panicked"
            );
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A test that hangs in a wait without a clock ends the process instead of the patience of its reader.
fn watch_over() -> mpsc::Sender<()> {
    let (alive, ended) = mpsc::channel::<()>();
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    std::thread::spawn(move || {
        if ended.recv_timeout(4 * TEST_TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs");
            std::process::abort();
        }
    });
    alive
}

/// A worker that the test plays.
pub(crate) struct Player(Arc<Worker>);

impl Player {
    /// A worker over these files.
    pub(crate) fn of(region: Region, bell: OwnedFd, worker: u16) -> Self {
        Self(Worker::new(region, bell, worker).unwrap())
    }

    /// One of its threads.
    pub(crate) fn thread(&self, thread: u16) -> TestThread {
        TestThread(self.0.thread(thread))
    }

    /// Whether it was asked to stop.
    pub(crate) fn stopping(&self) -> bool {
        self.0.stopping()
    }
}

/// A thread of a worker.
pub(crate) struct TestThread(WorkerThread);

impl TestThread {
    /// Waits for a request and takes it.
    pub(crate) fn take(&mut self) -> Taken<'_> {
        let job = self.claim();
        self.taken(job)
    }

    /// The same in two steps, for a request that is claimed in another place than it is answered.
    pub(crate) fn claim(&mut self) -> Job {
        loop {
            if self.0.worker().stopping() {
                panic!("the worker is to stop");
            }
            if let Some(job) = self.0.claim() {
                return job;
            }
            self.0.wait(&Interrupt::default());
        }
    }

    pub(crate) fn taken(&self, job: Job) -> Taken<'_> {
        Taken {
            job,
            thread: &self.0,
        }
    }

    /// The same, until the worker is to stop.
    pub(crate) fn take_or_stop(&mut self) -> Option<Taken<'_>> {
        loop {
            if let Some(job) = self.0.claim() {
                return Some(Taken {
                    job,
                    thread: &self.0,
                });
            }
            if self.0.worker().stopping() {
                return None;
            }
            self.0.wait(&Interrupt::default());
        }
    }

    /// Sleeps until it is woken, and takes nothing.
    pub(crate) fn sleep(&self) {
        self.0.wait(&Interrupt::default());
    }

    /// Takes a request if one waits.
    pub(crate) fn try_take(&mut self) -> Option<Taken<'_>> {
        let job = self.0.claim()?;
        Some(Taken {
            job,
            thread: &self.0,
        })
    }
}

/// A request that a thread has.
pub(crate) struct Taken<'a> {
    job: Job,
    thread: &'a WorkerThread,
}

impl Taken<'_> {
    /// The slot and its publication.
    pub(crate) fn key(&self) -> (u32, u64) {
        (self.job.claim.slot.into(), self.job.claim.sequence.into())
    }

    fn record(&self) -> Record<'_> {
        Record::parse(self.thread.record(&self.job)).unwrap()
    }

    /// The path, where the record makes sense.
    pub(crate) fn try_path(&self) -> Option<String> {
        let record = Record::parse(self.thread.record(&self.job)).ok()?;
        String::from_utf8(record.text(Text::Path).to_vec()).ok()
    }

    /// One of the record's texts.
    pub(crate) fn text(&self, text: Text) -> String {
        String::from_utf8(self.record().text(text).to_vec()).unwrap()
    }

    /// The path.
    pub(crate) fn path(&self) -> String {
        self.text(Text::Path)
    }

    /// The server's port.
    pub(crate) fn port(&self) -> u16 {
        self.record().fixed.server_port
    }

    /// The fields, by env key.
    pub(crate) fn fields(&self) -> BTreeMap<String, String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let fields = self.record().fields().map(|(key, name, value)| {
            let name = match key {
                0 => text(name),
                key => ENV_KEYS[usize::from(key) - 1].1.to_owned(),
            };
            (name, text(value))
        });
        fields.collect()
    }

    /// The body, where it came in the slot.
    pub(crate) fn body(&self) -> Vec<u8> {
        let record = self.record();
        let mut fields = record.fields();
        fields.by_ref().for_each(drop);
        fields.body().to_vec()
    }

    /// Writes a frame; waits where the ring is full. Visible with the next [`Taken::flush`] or at the end.
    ///
    /// # Errors
    /// The frame is not wanted any more, or never fits.
    pub(crate) fn frame(&mut self, kind: Kind, payload: &[u8]) -> Result<(), WriteError> {
        loop {
            match self.thread.try_frame(&mut self.job, kind, &[payload]) {
                Err(WriteError::Full) => {
                    self.thread.flush(&self.job);
                    self.thread.wait_for_room(&self.job, &Interrupt::default());
                }
                other => return other,
            }
        }
    }

    /// Writes a head.
    pub(crate) fn head(&mut self, status: u16, fields: &[(&str, &str)]) -> &mut Self {
        let mut head = Head::default();
        head.begin(status);
        for (name, value) in fields {
            head.field(name.as_bytes(), value.as_bytes());
        }
        let kind = if status == 103 {
            Kind::Hints
        } else {
            Kind::Head
        };
        self.frame(kind, head.bytes()).unwrap();
        self
    }

    /// Writes a chunk that fits into a frame.
    pub(crate) fn chunk(&mut self, bytes: &[u8]) -> &mut Self {
        self.frame(Kind::Chunk, bytes).unwrap();
        self
    }

    /// Makes what was written visible.
    pub(crate) fn flush(&mut self) -> &mut Self {
        self.thread.flush(&self.job);
        self
    }

    /// Waits until the front wants no more of the response.
    pub(crate) fn until_abandoned(&self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !self.thread.abandoned(&self.job) {
            assert!(Instant::now() < deadline, "the response is not abandoned");
            std::thread::yield_now();
        }
    }

    /// Hands the slot back as it is.
    pub(crate) fn finish(self) {
        self.thread.finish(&self.job);
    }

    /// Ends the response and hands the slot back.
    pub(crate) fn end(mut self) {
        self.frame(Kind::End, b"").unwrap();
        self.finish();
    }

    /// Answers with this text.
    pub(crate) fn answer(mut self, text: &str) {
        self.head(200, &[("content-type", "text/plain")]);
        self.chunk(text.as_bytes());
        self.end();
    }

    /// Answers with its own path.
    pub(crate) fn answer_path(self) {
        let path = self.path();
        self.answer(&path);
    }
}

/// As [`Server::drain`], in a task of the front.
pub(crate) fn begin_drain(front: &Rc<Front>) -> mpsc::Receiver<bool> {
    let (sender, receiver) = mpsc::channel();
    let front = Rc::clone(front);
    tokio::task::spawn_local(async move {
        let _ = sender.send(front.drain(4 * TEST_TIMEOUT).await);
    });
    receiver
}
