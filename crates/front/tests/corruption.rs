//! Workers that write garbage into the memory that they share with the front: what lay there is run again where that is
//! safe, a fresh memory takes its place, and the front serves on meanwhile.

#[path = "support/front.rs"]
mod support;

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::task::{Context, Poll, Waker};

use config::Settings;
use exchange::front::Word;
use exchange::response::Kind;
use exchange::worker::Worker;
use exchange::{Alarm, Dispatcher as _, WorkerId};
use exchange::{Geometry, Job, Region, WorkerThread};
use highball_front::Failure;
use highball_front::dispatch::Dispatcher;
use highball_front::http::incoming::{IncomingResponse, Piece};
use highball_front::http::request::{Peer, Request, RequestBody, RequestHead};
use highball_front::http::response_head::ResponseHead;
use highball_front::http::response_store::ResponseStore;
use highball_front::log::{AccessLog, Format};
use highball_front::messages::{Capacity, Dispatch, Reply, ResponseEnd, RunTimes, SubmissionId};
use support::Server;
use test_support::TEST_TIMEOUT;

/// Waits until the front says that the first generation's memory is damaged.
#[track_caller]
fn expect_corrupt(alarms: &Receiver<Alarm>, word: Word) {
    loop {
        match alarms.recv_timeout(TEST_TIMEOUT).expect("an alarm") {
            Alarm::Corrupt(1, found) => return assert_eq!(found.word, word, "{found}"),
            _ => continue,
        }
    }
}

#[test]
fn what_lay_in_damaged_memory_is_run_again_where_that_is_safe() {
    let server =
        Server::start(|settings| (settings.workers, settings.threads) = (2.into(), 1.into()));
    let alarms = server.alarms();
    let mut old = server.thread();
    let mut unsafe_one = server.connect();
    unsafe_one.send("POST /unsafe HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    old.take();
    let mut other = server.worker(1).thread(0);
    let mut safe_one = server.ask("/safe");
    other.take();
    // No worker has these two yet: they wait in a slot.
    let mut waiting = server.connect();
    waiting.send("POST /waiting HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    server.until(|now| now.queue.length == 1);
    let region = server.region();
    region
        .coordination()
        .ring
        .tail
        .store(1 << 63, Ordering::SeqCst);
    expect_corrupt(&alarms, Word::Tail);
    unsafe_one.response().expect(502);
    // The supervisor kills them only now.
    server.reclaim(0);
    server.reclaim(1);
    let mut fresh = server.thread();
    for _ in 0..2 {
        fresh.take().answer_path();
    }
    assert_eq!(safe_one.response().text(), "/safe");
    assert_eq!(waiting.response().text(), "/waiting");
    server.until_quiet();
}

#[test]
fn nothing_more_is_read_from_damaged_memory() {
    let server = Server::start(|settings| settings.workers = 2.into());
    let alarms = server.alarms();
    let mut thread = server.thread();
    let mut client = server.ask("/torn");
    let mut taken = thread.take();
    let region = server.region();
    region.coordination().ring.tail.store(0, Ordering::SeqCst);
    taken
        .head(200, &[])
        .chunk(b"of a worker that is not to be believed");
    expect_corrupt(&alarms, Word::Tail);
    // It has lost its claim.
    assert!(taken.frame(Kind::End, b"").is_err());
    taken.finish();
    server.reclaim(0);
    server.thread().take().answer("sound");
    assert_eq!(client.response().text(), "sound");
    server.until_quiet();
}

#[test]
fn frames_that_make_no_sense_end_the_generation_and_not_the_others() {
    let server = Server::start(|_| {});
    let alarms = server.alarms();
    let mut thread = server.thread();
    let mut client = server.ask("/broken");
    let _taken = thread.take();
    let region = server.region();
    server.open(2);
    server.route_to(&[2]);
    let mut other = server.worker_of(2, 0).thread(0);
    let mut sound = server.ask("/sound");
    let held = other.take();
    // More bytes than the ring holds, under its own claim.
    let most = u64::from(u32::MAX);
    region.words(0).put.fetch_or(most, Ordering::SeqCst);
    let _ = region.coordination().completions.notify(0);
    client.response().expect(500);
    expect_corrupt(&alarms, Word::Frame);
    held.answer_path();
    assert_eq!(sound.response().text(), "/sound");
}

/// An edge that only counts messages.
#[derive(Default)]
struct Answered {
    bytes: Cell<usize>,
    ended: Cell<bool>,
}

impl Reply for Answered {
    fn claimed(&self, _by: WorkerId, _times: RunTimes) {}
    fn hints(&self, _bytes: Vec<u8>) {}
    fn head(&self, _head: ResponseHead) {}
    fn capacity(self: Rc<Self>) -> Capacity {
        Capacity::Available
    }
    fn data(&self, bytes: Vec<u8>) {
        self.bytes.set(self.bytes.get() + bytes.len());
    }
    fn file(&self, _path: PathBuf) {}
    fn measured(&self, _payload: Vec<u8>) {}
    fn end(self: Rc<Self>, _end: ResponseEnd) {
        self.ended.set(true);
    }
    fn fail(&self, _failure: Failure, _error: Option<String>) {
        self.ended.set(true);
    }
    fn hijacked(&self, _socket: OwnedFd) {}
    fn withdraw(&self) {}
    fn wake(&self) -> bool {
        false
    }
    fn forget_waiter(&self) {}
}

/// A dispatcher on this thread, with a request that its only worker has taken.
fn dispatching() -> (Rc<Dispatcher>, Rc<Answered>, WorkerThread, Job, Region) {
    let answered = Rc::new(Answered::default());
    let (dispatcher, _, thread, job, region) = dispatching_to(Rc::clone(&answered) as _);
    (dispatcher, answered, thread, job, region)
}

/// The same where the response goes to this reply.
#[allow(clippy::unwrap_used, reason = "it is a part of tests")]
fn dispatching_to(
    reply: Rc<dyn Reply>,
) -> (Rc<Dispatcher>, SubmissionId, WorkerThread, Job, Region) {
    let mut settings = Settings::for_tests();
    (settings.queue_limit, settings.max_retries) = (10, 1);
    (settings.request_timeout, settings.request_grace) = (Some(TEST_TIMEOUT), TEST_TIMEOUT);
    settings.batch_scheduling = false;
    let exchange = exchange::Front::new(Geometry::new(1, 1, 1 << 16, 1 << 18)).unwrap();
    let (memory, bell) = exchange.files();
    let [memory, bell] = [memory, bell].map(|file| file.try_clone_to_owned().unwrap());
    let again = memory.try_clone().unwrap();
    let worker = Worker::new(Region::open(memory).unwrap(), bell, 0).unwrap();
    let store = Rc::new(ResponseStore::new(&settings, 1));
    let log = Rc::new(AccessLog::new(Format::Logfmt, std::io::sink()).unwrap());
    let dispatcher = Dispatcher::new(0, exchange, 1, Rc::new(settings), log, store);
    dispatcher.worker_starts(WorkerId::new(1, 0));
    dispatcher.worker_up(WorkerId::new(1, 0));
    let id = dispatcher.intake().submit(request(), reply);
    let thread = worker.thread(0);
    let job = thread.claim().unwrap();
    (dispatcher, id, thread, job, Region::open(again).unwrap())
}

/// A GET of `/`, whole.
#[allow(clippy::unwrap_used, reason = "it is a part of tests")]
fn request() -> Arc<Request> {
    let head = RequestHead {
        id: None,
        method: http::Method::GET,
        uri: "/".parse().unwrap(),
        version: http::Version::HTTP_11,
        headers: http::HeaderMap::new(),
        raw_target: None,
    };
    let peer = Peer {
        address: "127.0.0.1".to_owned(),
        port: 0,
        local_host: "127.0.0.1".to_owned(),
        local_port: 80,
        trusted: true,
        tls: None,
        proxied: false,
    };
    let request = Arc::new(Request::new(head, Arc::new(peer)));
    request.arrive(RequestBody::Inline(bytes::Bytes::new()), TEST_TIMEOUT);
    request
}

#[test]
fn one_turn_takes_so_many_frames_and_the_front_comes_back_for_more() {
    let (dispatcher, answered, thread, mut job, region) = dispatching();
    for _ in 0..10_000 {
        thread.try_frame(&mut job, Kind::Chunk, &[b"a"]).unwrap();
    }
    thread.try_frame(&mut job, Kind::End, &[]).unwrap();
    thread.finish(&job);
    dispatcher.turns().take_completed();
    let taken = answered.bytes.get();
    assert!((1..=1000).contains(&taken), "{taken} frames in one turn");
    for _ in 0..100 {
        dispatcher.turns().park();
        let sleeps = region
            .coordination()
            .completions
            .front_sleeps
            .load(Ordering::SeqCst)
            == 1;
        if answered.ended.get() {
            break;
        }
        assert!(
            !sleeps,
            "the front sleeps with {} frames",
            answered.bytes.get()
        );
        dispatcher.turns().unpark();
    }
    assert!(answered.ended.get());
    assert_eq!(answered.bytes.get(), 10_000);
    let status = dispatcher.status();
    assert_eq!((status.slots, status.free_slots), (2, 2));
}

#[test]
fn a_response_of_many_small_chunks_arrives_whole() {
    let server = Server::start(|_| {});
    let mut client = server.ask("/many");
    let mut thread = server.thread();
    let mut taken = thread.take();
    taken.head(200, &[]);
    for number in 0..5000 {
        taken.chunk(format!("{number},").as_bytes());
    }
    taken.end();
    let whole: String = (0..5000).map(|number| format!("{number},")).collect();
    assert_eq!(client.response().text(), whole);
    server.until_quiet();
}

#[test]
fn a_response_whose_completion_bit_is_lost_arrives_all_the_same() {
    let (dispatcher, answered, thread, mut job, region) = dispatching();
    thread.try_frame(&mut job, Kind::End, &[]).unwrap();
    thread.finish(&job);
    region.coordination().completions.bits.words[0].store(0, Ordering::SeqCst);
    dispatcher.turns().take_completed();
    assert!(!answered.ended.get());
    assert!(dispatcher.turns().check_deadlines().is_empty());
    assert!(answered.ended.get());
    let status = dispatcher.status();
    assert_eq!((status.slots, status.free_slots), (2, 2));
}

#[test]
fn a_waiter_that_wants_no_more_does_not_count_as_woken() {
    let store = Rc::new(ResponseStore::new(&Settings::for_tests(), 1));
    let response = Rc::new(IncomingResponse::new(&store));
    let (dispatcher, id, thread, mut job, _region) = dispatching_to(Rc::clone(&response) as _);
    response.answers(id);
    thread
        .try_frame(&mut job, Kind::Chunk, &[b"all"])
        .expect("there is room");
    thread.flush(&job);
    // It finds the piece only after it has left its waker.
    let mut cx = Context::from_waker(Waker::noop());
    let piece = response.poll_piece(&**dispatcher.intake(), &mut cx);
    assert!(matches!(piece, Poll::Ready(Piece::Data(_))), "{piece:?}");
    dispatcher.intake().no_more(id);
    thread
        .try_frame(&mut job, Kind::End, &[])
        .expect("there is room");
    thread.finish(&job);
    assert!(!dispatcher.turns().take_completed(), "it woke no task");
    let status = dispatcher.status();
    assert_eq!((status.slots, status.free_slots), (2, 2));
}

#[test]
fn a_slot_that_comes_back_with_a_later_turn_goes_to_the_next_of_the_queue() {
    // As that of an edge of another thread its reply wakes no task of this one.
    let (dispatcher, answered, thread, mut job, _region) = dispatching();
    for _ in 0..2 {
        dispatcher
            .intake()
            .submit(request(), Rc::new(Answered::default()));
    }
    assert_eq!(dispatcher.status().free_slots, 0);
    for _ in 0..300 {
        thread
            .try_frame(&mut job, Kind::Chunk, &[b"a"])
            .expect("there is room");
    }
    thread
        .try_frame(&mut job, Kind::End, &[])
        .expect("there is room");
    thread.finish(&job);
    dispatcher.turns().take_completed();
    assert!(!answered.ended.get(), "it has one turn only");
    dispatcher.turns().take_completed();
    assert!(answered.ended.get());
    let status = dispatcher.status();
    assert_eq!((status.free_slots, status.waiting), (0, 2));
}
