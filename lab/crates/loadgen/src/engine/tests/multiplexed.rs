//! Loads by HTTP/2.

use std::sync::atomic::Ordering;

use super::http2::{Answer, serve};
use super::*;

fn page(body: &str) -> Answer {
    Answer::Page(body.into())
}

fn plan(address: SocketAddr, mode: Mode, streams: usize) -> Plan {
    Plan {
        streams: Some(streams),
        ..super::plan(address, mode)
    }
}

#[test]
fn a_connection_carries_as_many_requests_at_a_time_as_it_has_streams() {
    let address = serve(|_| page("hello"));
    let outcome = load(&plan(address, closed(2, 500), 5));
    assert_eq!((outcome.completed, outcome.good), (500, 500));
    assert_eq!(outcome.errors.total(), 0);
    assert_eq!(outcome.connections, 2);
    assert_eq!(outcome.peak_in_flight, 10);
    assert_eq!(outcome.latency.count(), 500);
    assert_eq!(outcome.sample.server, "small");
    assert_eq!((outcome.sample.length, outcome.bytes.bodies), (5, 2500));
    assert!(outcome.bytes.received > 2500 && outcome.bytes.sent > 500);
}

#[test]
fn an_open_loop_by_http_2_sends_what_its_schedule_holds() {
    let address = serve(|_| page("hello"));
    let outcome = load(&plan(address, open(500.0, 600), 4));
    assert_eq!(outcome.completed + outcome.late, outcome.demanded);
    assert_eq!(outcome.sent, outcome.demanded);
    assert_eq!(outcome.errors.total(), 0);
}

#[test]
fn several_threads_share_the_connections_of_http_2() {
    let address = serve(|_| page("hello"));
    let mut plan = plan(address, closed(3, 300), 3);
    plan.threads = 2;
    let outcome = load(&plan);
    assert_eq!((outcome.completed, outcome.connections), (300, 3));
}

#[test]
fn a_request_of_http_2_has_what_the_plan_says() {
    let seen = Arc::new(Mutex::new(None));
    let witness = Arc::clone(&seen);
    let address = serve(move |request| {
        let head = &request.head;
        let fields = ["accept", "content-length"].map(|name| head.headers()[name].clone());
        let what = (
            head.method().clone(),
            head.uri().to_string(),
            fields,
            request.body.len(),
        );
        *witness.lock().unwrap() = Some(what);
        page("thanks")
    });
    let mut plan = plan(address, closed(1, 1), 1);
    plan.requests = vec![Request {
        // More than the window of a stream at first.
        body: vec![b'x'; 300_000],
        headers: vec![("Accept".to_owned(), "text/html".to_owned())],
        ..request("POST", "/new?a=b")
    }];
    assert_eq!(load(&plan).good, 1);
    let (method, uri, fields, length) = seen.lock().unwrap().take().unwrap();
    assert_eq!(method, http::Method::POST);
    assert_eq!(uri, format!("http://{address}/new?a=b"));
    assert_eq!(fields, ["text/html", "300000"]);
    assert_eq!(length, 300_000);
}

#[test]
fn a_long_response_comes_whole_through_the_windows() {
    let address = serve(|_| Answer::Page(vec![b'x'; 20_000_000]));
    let outcome = load(&plan(address, closed(1, 3), 3));
    assert_eq!(outcome.good, 3, "{:?}", outcome.errors);
    assert_eq!(outcome.bytes.bodies, 60_000_000);
}

#[test]
fn a_stream_that_is_reset_is_an_error_and_the_others_go_on() {
    let address = serve(|request| match request.number % 10 {
        9 => Answer::Reset,
        _ => page("hello"),
    });
    let outcome = load(&plan(address, closed(1, 100), 5));
    assert_eq!((outcome.good, outcome.errors.reset), (90, 10));
    assert_eq!(outcome.connections, 1);
}

#[test]
fn requests_that_a_leaving_connection_refuses_go_to_the_next() {
    let address = serve(|request| match request.number {
        20 => Answer::Last(b"hello".to_vec()),
        _ => page("hello"),
    });
    let outcome = load(&plan(address, closed(2, 300), 6));
    assert_eq!(outcome.good, 300, "{:?}", outcome.errors);
    assert!(outcome.connections > 4, "{}", outcome.connections);
}

#[test]
fn a_connection_that_ends_fails_what_is_under_way_on_it() {
    let closed_once = AtomicBool::new(false);
    let address = serve(move |request| {
        if request.number == 30 && !closed_once.swap(true, Ordering::Relaxed) {
            return Answer::Close;
        }
        page("hello")
    });
    let outcome = load(&plan(address, closed(1, 200), 4));
    let errors = outcome.errors.total();
    // The stream itself, which is reset, then the four that were on their way.
    assert!((1..=5).contains(&errors), "{:?}", outcome.errors);
    assert_eq!(outcome.good + errors, 200);
    assert_eq!(outcome.connections, 2);
}

#[test]
fn a_stream_without_an_answer_times_out_alone() {
    let address = serve(|request| match (request.connection, request.number) {
        (0, 3) => Answer::Silence,
        _ => page("hello"),
    });
    let mut plan = plan(address, closed(1, 50), 2);
    plan.timeout = Duration::from_millis(200);
    let outcome = load(&plan);
    assert_eq!((outcome.errors.timeout, outcome.connections), (1, 1));
    assert_eq!(outcome.good, 49, "{:?}", outcome.errors);
}

#[test]
fn a_connection_for_each_request_works_by_http_2_too() {
    let address = serve(|_| page("hello"));
    let mut plan = plan(address, closed(2, 40), 1);
    plan.connections = ConnectionUse::PerRequest;
    let outcome = load(&plan);
    assert_eq!((outcome.good, outcome.connections), (40, 40));
    plan.streams = Some(2);
    let error = run(&plan, &mut |_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("one stream each"), "{error}");
}

#[test]
fn nobody_who_listens_is_a_refused_connection_for_each_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let outcome = load(&plan(address, closed(1, 6), 3));
    assert_eq!(outcome.errors.connect_refused, 6, "{:?}", outcome.errors);
}

#[test]
fn throughput_times_latency_is_what_was_in_flight_by_http_2() {
    let address = serve(|_| page("hello"));
    let outcome = load(&plan(address, closed(3, 900), 4));
    assert_eq!(outcome.contradiction(), None);
}

#[test]
fn a_request_that_http_2_can_not_send_is_refused_before_the_load() {
    let mut plan = plan("127.0.0.1:1".parse().unwrap(), closed(1, 1), 1);
    plan.requests[0].headers = vec![("a b".to_owned(), "c".to_owned())];
    let error = run(&plan, &mut |_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(format!("{error:#}").contains("a b"), "{error:#}");
}
