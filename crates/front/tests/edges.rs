//! Two edges on two threads and the dispatcher on a third: they talk by messages only, so that nothing else stands in the
//! way of more threads.

#[path = "support/front.rs"]
mod support;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use config::Settings;
use exchange::response::Kind;
use exchange::{Dispatcher as _, Geometry, Region, WorkerId};
use highball_front::dispatch::{Dispatcher, DispatcherStatus};
use highball_front::edge::Edge;
use highball_front::http::request::Request;
use highball_front::http::response_head::ResponseHead;
use highball_front::http::response_store::ResponseStore;
use highball_front::log::{AccessLog, Format};
use highball_front::messages::{Admission, Capacity, Dispatch, Reply, ResponseEnd, SubmissionId};
use highball_front::net::accept::Acceptors;
use highball_front::remote::{self, DispatcherEnd, EdgeEnd, Traffic};
use highball_front::{Failure, FileAccess, Listener, runtime, slot_bytes};
use support::Player;
use test_support::{Client, Response, TEST_TIMEOUT, until};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

type Task = Box<dyn FnOnce(&Rc<Dispatcher>) + Send>;

/// Two edges and a dispatcher. Their threads end when this is dropped.
struct Edges {
    addresses: Vec<SocketAddr>,
    dispatcher: Option<UnboundedSender<Task>>,
    stop_edges: Vec<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    traffic: Vec<Arc<Traffic>>,
}

fn log() -> Rc<AccessLog> {
    Rc::new(AccessLog::new(Format::Logfmt, std::io::sink()).expect("a thread"))
}

/// Runs the dispatcher until its tasks have no sender any more.
fn run_dispatcher(
    settings: &Settings,
    ends: Vec<DispatcherEnd>,
    mut tasks: UnboundedReceiver<Task>,
) {
    let built = runtime::build().expect("a runtime");
    built.block_on(async move {
        let (workers, threads) = (settings.workers.most(), settings.threads.most());
        let geometry = Geometry::new(workers, threads, slot_bytes(settings) as u32, 256 * 1024);
        let exchange = exchange::Front::new(geometry).expect("an exchange");
        let store = Rc::new(ResponseStore::new(settings, 1));
        let dispatcher = Dispatcher::new(0, exchange, 1, Rc::new(settings.clone()), log(), store);
        let [_, bell] = dispatcher.files(None).expect("descriptors");
        let _doorbell = runtime::watch(dispatcher.turns(), bell).expect("a doorbell");
        let intake: Rc<dyn Dispatch> = Rc::clone(dispatcher.intake()) as _;
        for end in ends {
            tokio::task::spawn_local(end.serve(Rc::clone(&intake)));
        }
        let turns = Rc::clone(dispatcher.turns());
        tokio::task::spawn_local(async move {
            let mut ticker = tokio::time::interval(Duration::from_millis(20));
            loop {
                ticker.tick().await;
                turns.check_deadlines();
            }
        });
        while let Some(task) = tasks.recv().await {
            task(&dispatcher);
        }
    });
}

/// Runs an edge until the sender of `stop` is dropped. Sends its address when it accepts.
fn run_edge(
    settings: Settings,
    end: EdgeEnd,
    accepting: &mpsc::Sender<SocketAddr>,
    stop: oneshot::Receiver<()>,
) {
    let built = runtime::build().expect("a runtime");
    built.block_on(async move {
        let dispatch = end.into_dispatch();
        let responses = Rc::new(ResponseStore::new(&settings, 1));
        responses.set_dispatcher(&dispatch);
        let listener =
            Listener::bind(&settings.listen[0], 1024, FileAccess::PRIVATE).expect("a listener");
        let address = listener.name();
        let address = address.strip_prefix("http://").expect("TCP");
        let edge = Edge::new(Rc::new(settings), log(), dispatch, responses).expect("an edge");
        Acceptors::new(&edge, &Rc::default())
            .accept(listener)
            .expect("it accepts");
        let _ = accepting.send(address.parse().expect("an address"));
        let ticks = Rc::clone(&edge);
        tokio::task::spawn_local(async move { ticks.run_ticks(|| {}).await });
        let _ = stop.await;
    });
}

impl Edges {
    /// Two workers of one thread each, and otherwise the usual settings.
    fn start(change: impl Fn(&mut Settings)) -> Self {
        let settings = || {
            let mut settings = Settings::for_tests();
            (settings.workers, settings.threads) = (2.into(), 1.into());
            change(&mut settings);
            settings
        };
        let (ends, edge_ends): (Vec<_>, Vec<_>) =
            [remote::connect(), remote::connect()].into_iter().unzip();
        let (tasks, received) = unbounded_channel::<Task>();
        let traffic = edge_ends.iter().map(|end| Arc::clone(end.traffic()));
        let traffic = traffic.collect();
        let own = settings();
        let mut threads = vec![std::thread::spawn(move || {
            run_dispatcher(&own, edge_ends, received);
        })];
        let (mut addresses, mut stop_edges) = (Vec::new(), Vec::new());
        for end in ends {
            let (accepting, address) = mpsc::channel();
            let (stop, stopped) = oneshot::channel();
            let own = settings();
            threads.push(std::thread::spawn(move || {
                run_edge(own, end, &accepting, stopped);
            }));
            addresses.push(address.recv().expect("the edge starts"));
            stop_edges.push(stop);
        }
        Self {
            addresses,
            dispatcher: Some(tasks),
            stop_edges,
            threads,
            traffic,
        }
    }

    /// Runs `ask` on the dispatcher's thread.
    fn with<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Rc<Dispatcher>) -> T + Send + 'static,
    ) -> T {
        let (sender, answer) = mpsc::channel();
        let task: Task = Box::new(move |dispatcher| drop(sender.send(ask(dispatcher))));
        let dispatcher = self.dispatcher.as_ref().expect("it runs");
        assert!(dispatcher.send(task).is_ok(), "the dispatcher has ended");
        answer.recv().expect("the dispatcher lives")
    }

    /// Waits until the dispatcher is as wanted.
    fn until(
        &self,
        what: &str,
        wanted: impl Fn(&DispatcherStatus) -> bool + Send + Clone + 'static,
    ) {
        until(what, || {
            let wanted = wanted.clone();
            self.with(move |dispatcher| wanted(&dispatcher.status()))
        });
    }

    /// Waits until every slot has come back and no request waits.
    fn until_quiet(&self) {
        self.until("all slots are free", |now| {
            now.free_slots == now.slots && now.waiting == 0
        });
    }

    /// Starts a worker's life.
    fn worker(&self, worker: u16) -> Player {
        let [memory, bell] = self.with(move |dispatcher| {
            dispatcher.worker_starts(WorkerId::new(1, worker));
            dispatcher.worker_up(WorkerId::new(1, worker));
            dispatcher.files(None).expect("descriptors")
        });
        Player::of(Region::open(memory).expect("the memory"), bell, worker)
    }

    /// Starts a worker's life, in which it answers every request with its path until it is stopped.
    fn echo(&self, worker: u16) -> JoinHandle<usize> {
        let player = self.worker(worker);
        std::thread::spawn(move || {
            let (mut thread, mut count) = (player.thread(0), 0);
            while let Some(taken) = thread.take_or_stop() {
                taken.answer_path();
                count += 1;
            }
            count
        })
    }

    fn stop_worker(&self, worker: u16) {
        self.with(move |dispatcher| dispatcher.stop_worker(WorkerId::new(1, worker)));
    }

    fn connect(&self, edge: usize) -> Client {
        Client::connect(self.addresses[edge])
    }

    /// A client of an edge that has asked for `path`.
    fn ask(&self, edge: usize, path: &str) -> Client {
        let mut client = self.connect(edge);
        client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        client
    }
}

impl Drop for Edges {
    fn drop(&mut self) {
        self.stop_edges.clear();
        self.dispatcher = None;
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a thread died");
        }
    }
}

#[test]
fn clients_of_two_edges_are_answered_by_the_workers_of_one_queue() {
    let edges = Edges::start(|_| {});
    let workers = [edges.echo(0), edges.echo(1)];
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let mut client = edges.connect(number % 2);
            std::thread::spawn(move || {
                for request in 0..200 {
                    let path = format!("/{number}/{request}");
                    assert_eq!(client.get(&path).text(), path);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("a client");
    }
    edges.until_quiet();
    edges.stop_worker(0);
    edges.stop_worker(1);
    let served = workers.map(|worker| worker.join().expect("a worker"));
    assert_eq!(served.iter().sum::<usize>(), 8 * 200);
}

#[test]
fn a_small_request_wakes_each_thread_once() {
    const REQUESTS: u64 = 200;
    let edges = Edges::start(|_| {});
    let workers = [edges.echo(0), edges.echo(1)];
    let traffic = |edge: usize| {
        let Traffic {
            to_dispatcher,
            dispatcher_turns,
            to_edge,
            edge_turns,
        } = &*edges.traffic[edge];
        [to_dispatcher, dispatcher_turns, to_edge, edge_turns]
            .map(|number| number.load(Ordering::Relaxed))
    };
    let mut client = edges.connect(0);
    for request in 0..REQUESTS {
        let path = format!("/{request}");
        assert_eq!(client.get(&path).text(), path);
    }
    edges.until_quiet();
    let [to_dispatcher, dispatcher_turns, to_edge, edge_turns] = traffic(0);
    println!(
        "one at a time, {REQUESTS} requests: {to_dispatcher} messages to the dispatcher in \
         {dispatcher_turns} turns, {to_edge} to the edge in {edge_turns} turns"
    );
    // Nothing but the request goes to the dispatcher. The response comes whole, and right behind it that the dispatcher has
    // let go of the request.
    assert_eq!([to_dispatcher, dispatcher_turns], [REQUESTS; 2]);
    assert!(to_edge <= 2 * REQUESTS && edge_turns <= to_edge);
    assert_eq!(traffic(1), [0; 4], "the other edge hears nothing of it");
    edges.stop_worker(0);
    edges.stop_worker(1);
    let served = workers.map(|worker| worker.join().expect("a worker"));
    assert_eq!(served.iter().sum::<usize>() as u64, REQUESTS);
}

#[test]
fn requests_of_two_edges_are_taken_in_the_order_in_which_they_came() {
    let edges = Edges::start(|settings| settings.workers = 1.into());
    let mut clients = Vec::new();
    for number in 0..6 {
        clients.push(edges.ask(number % 2, &format!("/{number}")));
        edges.until("it waits", move |now| now.waiting == number + 1);
    }
    let mut thread = edges.worker(0).thread(0);
    for (number, client) in clients.iter_mut().enumerate() {
        let taken = thread.take();
        assert_eq!(taken.path(), format!("/{number}"));
        taken.answer_path();
        assert_eq!(client.response().text(), format!("/{number}"));
    }
    edges.until_quiet();
}

#[test]
fn a_large_body_goes_both_ways_and_a_slow_client_holds_its_worker_up() {
    let edges = Edges::start(|settings| {
        settings.response_buffer_bytes = 64 * 1024;
        settings.response_spool_max_bytes = 512 * 1024;
    });
    let mut client = edges.connect(1);
    let body = vec![b'x'; 300 * 1024];
    client.send(format!(
        "POST /large HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(body);
    let written = Arc::new(AtomicUsize::new(0));
    let (player, count) = (edges.worker(0), Arc::clone(&written));
    let size = 32 * 1024 * 1024;
    let worker = std::thread::spawn(move || {
        let mut thread = player.thread(0);
        let mut taken = thread.take();
        assert_eq!(taken.fields()["CONTENT_LENGTH"], "307200");
        taken.head(200, &[]);
        for number in 0..size / 8192 {
            taken.chunk(&[number as u8; 8192]);
            count.fetch_add(8192, Ordering::SeqCst);
        }
        taken.end();
    });
    assert_eq!(client.head().status, 200);
    until("the worker waits for its client", || {
        let before = written.load(Ordering::SeqCst);
        for _ in 0..50 {
            edges.with(|dispatcher| dispatcher.turns().take_completed());
        }
        written.load(Ordering::SeqCst) == before
    });
    assert!(written.load(Ordering::SeqCst) < size, "nothing held it up");
    let mut whole = Vec::new();
    while let Some(chunk) = client.chunk() {
        whole.extend(chunk);
    }
    assert_eq!(whole.len(), size);
    let sound = (0..).zip(whole.chunks(8192));
    assert!(
        sound
            .into_iter()
            .all(|(number, chunk)| chunk.iter().all(|&byte| byte == (number as usize) as u8))
    );
    worker.join().expect("the worker");
    edges.until_quiet();
}

#[test]
fn a_client_that_leaves_takes_its_request_out_of_the_queue() {
    let edges = Edges::start(|_| {});
    let client = edges.ask(0, "/gone");
    edges.until("it waits", |now| now.waiting == 1);
    client.reset();
    edges.until_quiet();
    // One that runs goes on unwatched.
    let player = edges.worker(0);
    let mut thread = player.thread(0);
    let client = edges.ask(1, "/running");
    let taken = thread.take();
    client.reset();
    taken.until_abandoned();
    taken.finish();
    edges.until_quiet();
}

#[test]
fn requests_of_a_dead_worker_are_run_again_or_fail_at_their_edges() {
    let edges = Edges::start(|_| {});
    let (first, second) = (edges.worker(0), edges.worker(1));
    let mut safe = edges.ask(0, "/safe");
    let (mut one, mut other) = (first.thread(0), second.thread(0));
    edges.until("it is there", |now| now.waiting == 1);
    one.take();
    let mut unsafe_one = edges.connect(1);
    unsafe_one.send("POST /unsafe HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    edges.until("it is there", |now| now.waiting == 1);
    other.take();
    for worker in [0, 1] {
        edges.with(move |dispatcher| {
            dispatcher.worker_died(WorkerId::new(1, worker), Box::pin(async { None }))
        });
    }
    unsafe_one.response().expect(502);
    edges.worker(0).thread(0).take().answer("again");
    assert_eq!(safe.response().text(), "again");
    edges.until_quiet();
}

#[test]
fn a_run_that_replaces_one_whose_head_is_out_is_given_up() {
    let edges = Edges::start(|_| {});
    let (first, second) = (edges.worker(0), edges.worker(1));
    let mut client = edges.ask(0, "/endless");
    let mut thread = first.thread(0);
    let mut taken = thread.take();
    taken.head(200, &[]).chunk(b"some").flush();
    let mut thread = second.thread(0);
    let (mut client, thread, job) = edges.with(move |dispatcher| {
        dispatcher.turns().take_completed();
        // The edge has taken the head, and what it says of that waits until this thread has time for it.
        assert_eq!(client.head().status, 200);
        dispatcher.worker_died(WorkerId::new(1, 0), Box::pin(async { None }));
        // Before the edge hears of it, and gives the request up.
        let job = thread.claim();
        (client, thread, job)
    });
    let again = thread.taken(job);
    client.rest();
    again.until_abandoned();
    again.finish();
    edges.until_quiet();
}

#[test]
fn a_deadline_passes_in_the_queue_and_in_a_worker() {
    let edges = Edges::start(|settings| {
        settings.request_timeout = Some(Duration::from_millis(300));
        settings.workers = 1.into();
    });
    let player = edges.worker(0);
    let mut thread = player.thread(0);
    let mut running = edges.ask(0, "/running");
    let taken = thread.take();
    let mut waiting = edges.ask(1, "/waiting");
    waiting.response().expect(503);
    running.response().expect(504);
    taken.until_abandoned();
    taken.finish();
    edges.until_quiet();
}

#[test]
fn a_full_queue_refuses_at_both_edges_and_before_the_body() {
    let edges = Edges::start(|settings| {
        settings.workers = 1.into();
        settings.queue_limit = 1;
    });
    let first = edges.ask(0, "/runs");
    edges.until("it waits", |now| now.waiting == 1);
    let second = edges.ask(0, "/waits");
    edges.until("it waits", |now| now.waiting == 2);
    edges.ask(1, "/refused").response().expect(503);
    let mut expecting = edges.connect(1);
    expecting.send(
        "POST /refused HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    );
    expecting.response().expect(503);
    drop((first, second));
    edges.until_quiet();
    // Once there is room the client is asked for its body.
    let mut expecting = edges.connect(1);
    expecting.send(
        "POST /taken HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(expecting.head().status, 100);
    expecting.send("hello");
    let player = edges.worker(0);
    let mut thread = player.thread(0);
    let taken = thread.take();
    assert_eq!(taken.body(), b"hello");
    taken.answer_path();
    assert_eq!(expecting.response().text(), "/taken");
}

#[test]
fn an_application_takes_the_connection_of_another_thread_over() {
    let edges = Edges::start(|_| {});
    let mut client = edges.ask(1, "/hijack");
    let player = edges.worker(0);
    let mut thread = player.thread(0);
    let mut taken = thread.take();
    let (slot, sequence) = taken.key();
    let (mut ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    ours.set_read_timeout(Some(TEST_TIMEOUT)).expect("a socket");
    taken.frame(Kind::Hijacked, b"").expect("there is room");
    taken.finish();
    edges.with(move |dispatcher| {
        dispatcher.hijacked(WorkerId::new(1, 0), slot, sequence, theirs.into());
    });
    ours.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\nhello")
        .expect("the edge reads");
    assert_eq!(client.head().status, 101);
    assert_eq!(client.bytes(5), b"hello");
    client.send("more").half_close();
    let mut more = String::new();
    ours.read_to_string(&mut more).expect("the client's end");
    assert_eq!(more, "more");
    edges.until_quiet();
}

#[test]
fn what_runs_fails_at_its_edge_when_the_dispatcher_ends() {
    let mut edges = Edges::start(|_| {});
    let player = edges.worker(0);
    let mut thread = player.thread(0);
    let mut client = edges.ask(0, "/cut");
    let _taken = thread.take();
    edges.dispatcher = None;
    client.response().expect(502);
    let began = Instant::now();
    edges.ask(1, "/late").response().expect(503);
    assert!(began.elapsed() < TEST_TIMEOUT);
}

/// The edge whose dispatcher is played.
#[derive(Clone, Default)]
struct PlayedEdge(Arc<OnceLock<SocketAddr>>);

impl PlayedEdge {
    /// Returns when the edge has done all that it could do by now: it has answered clients of its own since.
    fn wait_turns(&self) {
        let address = self.0.get().expect("the edge accepts");
        for _ in 0..10 {
            let mut client = Client::connect(address);
            client.send("OPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n");
            client.response().expect(204);
        }
    }
}

/// In place of the dispatcher: does with the reply to a request what it says.
#[derive(Clone, Copy)]
struct Played {
    submitted: fn(&Rc<dyn Reply>, &PlayedEdge),
    /// When the edge has room again, for the first time; then it lets go of the request.
    consumed: fn(&Rc<dyn Reply>),
}

/// What it has of the request.
struct PlayedDispatcher {
    played: Played,
    edge: PlayedEdge,
    reply: RefCell<Option<Rc<dyn Reply>>>,
}

impl Dispatch for PlayedDispatcher {
    fn submit(&self, _request: Arc<Request>, reply: Rc<dyn Reply>) -> SubmissionId {
        (self.played.submitted)(&reply, &self.edge);
        reply.wake();
        self.reply.replace(Some(reply));
        SubmissionId::default()
    }

    fn consumed(&self, _id: SubmissionId) {
        if let Some(reply) = self.reply.take() {
            (self.played.consumed)(&reply);
        }
    }

    fn admits(&self, _application: u16, _path: &[u8]) -> Admission {
        Admission::Decided(Ok(()))
    }

    fn head_taken(&self, _id: SubmissionId) {}
    fn client_left(&self, _id: SubmissionId, _certain: bool) {}
    fn no_more(&self, _id: SubmissionId) {}
    fn abandon(&self, _id: SubmissionId) {}
    fn take_completed(&self) {}
}

/// Says the head, and then nothing until the edge could have taken it alone.
fn slow_head(reply: &Rc<dyn Reply>, edge: &PlayedEdge) {
    reply.head(ok());
    edge.wait_turns();
}

fn ok() -> ResponseHead {
    ResponseHead {
        status: http::StatusCode::OK,
        headers: http::HeaderMap::new(),
        declared: None,
        chunked_by_app: false,
        has_server_fields: false,
        unbuffered: false,
        named_file: None,
    }
}

/// What a client gets of an edge whose dispatcher is played.
fn played(played: Played) -> Response {
    let (end, dispatcher_end) = remote::connect();
    let (accepting, address) = mpsc::channel();
    let (stop, stopped) = oneshot::channel();
    let played_edge = PlayedEdge::default();
    let address_of_edge = Arc::clone(&played_edge.0);
    let dispatcher = std::thread::spawn(move || {
        let serve = dispatcher_end.serve(Rc::new(PlayedDispatcher {
            played,
            edge: played_edge,
            reply: RefCell::default(),
        }));
        runtime::build().expect("a runtime").block_on(serve);
    });
    let mut settings = Settings::for_tests();
    settings.response_buffer_bytes = 4096;
    settings.response_spool_max_bytes = 4096;
    let edge = std::thread::spawn(move || run_edge(settings, end, &accepting, stopped));
    let address = address.recv().expect("the edge starts");
    address_of_edge.set(address).expect("it starts once");
    let mut client = Client::connect(address);
    let response = client.get("/");
    drop((client, stop));
    edge.join().expect("the edge ends");
    dispatcher.join().expect("its dispatcher ends with it");
    response
}

#[test]
fn a_head_arrives_together_with_the_file_that_is_its_body() {
    let response = played(Played {
        submitted: |reply, edge| {
            slow_head(reply, edge);
            reply.file(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into());
            Rc::clone(reply).end(ResponseEnd::Complete);
        },
        consumed: |_| {},
    });
    assert_eq!(response.text(), include_str!("../Cargo.toml"));
}

#[test]
fn a_failure_right_behind_a_head_takes_its_place() {
    let response = played(Played {
        submitted: |reply, edge| {
            slow_head(reply, edge);
            reply.fail(Failure::AppError, None);
        },
        consumed: |_| {},
    });
    response.expect(500);
}

/// Answers with `again`.
fn answer_again(reply: &Rc<dyn Reply>) {
    reply.head(ok());
    reply.data(b"again".to_vec());
    Rc::clone(reply).end(ResponseEnd::Complete);
}

#[test]
fn what_is_withdrawn_leaves_its_room_to_the_next_run() {
    let response = played(Played {
        submitted: |reply, edge| {
            while Rc::clone(reply).capacity() == Capacity::Available {
                reply.data(vec![b'x'; 8192]);
            }
            // The edge has it, and has no room for more.
            reply.wake();
            edge.wait_turns();
            reply.withdraw();
        },
        consumed: answer_again,
    });
    assert_eq!(response.expect(200).text(), "again");
}

#[test]
fn early_hints_without_an_end_wait_until_their_edge_has_taken_some() {
    let response = played(Played {
        submitted: |reply, _| {
            let mut bytes = 0;
            while Rc::clone(reply).capacity() == Capacity::Available {
                reply.hints(b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec());
                bytes += 28;
                assert!(bytes < 1024 * 1024, "nothing holds them up");
            }
        },
        consumed: answer_again,
    });
    assert_eq!(response.expect(200).text(), "again");
}
