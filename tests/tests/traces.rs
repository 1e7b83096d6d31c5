//! Traces: what a receiver gets of requests, what the application and the log are told, and a receiver that does not work.

use std::collections::HashMap;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use highball_tests::otel_collector::OtelCollector;
use highball_tests::receiver::take_request;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use serde_json::Value;
use test_support::{Application, Directory, Program, Server, ServerBuilder, TEST_TIMEOUT};

/// Answers with the trace that it got; fails, or takes its time.
const APPLICATION: &str = r##"
run lambda { |env|
  raise "boom" if env["PATH_INFO"] == "/fail"
  sleep 0.05 if env["PATH_INFO"] == "/slow"
  Test.text("#{env["HTTP_TRACEPARENT"]}\n#{env["HTTP_TRACESTATE"]}")
}"##;
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn application() -> ServerBuilder {
    let application = Application::without_lint(APPLICATION);
    Server::application_of(application).setting("log_format", "json")
}

/// A server whose requests are all traced, and sent there.
fn traced(collector: &Collector) -> ServerBuilder {
    sampled(collector, "1")
}

/// The same for this part of them.
fn sampled(collector: &Collector, part: &str) -> ServerBuilder {
    application()
        .setting("otlp_endpoint", &collector.url())
        .setting("trace_sample", part)
}

/// An export as it came.
struct Export {
    head: String,
    spans: Vec<Span>,
    resource: HashMap<String, String>,
}

/// Takes exports, and gives these answers, the last one again and again.
struct Collector {
    address: SocketAddr,
    exports: Receiver<Export>,
}

impl Collector {
    fn start(answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = listener.local_addr().expect("an address");
        let (sender, exports) = channel();
        thread::spawn(move || {
            let last = answers.last().expect("an answer");
            let mut answers = answers.iter();
            for stream in listener.incoming().flatten() {
                let answer = answers.next().unwrap_or(last);
                if Self::take(&stream, answer, &sender).is_none() {
                    return;
                }
            }
        });
        Self { address, exports }
    }

    fn take(stream: &TcpStream, answer: &str, exports: &Sender<Export>) -> Option<()> {
        let (head, body) = take_request(stream, answer)?;
        let export = ExportTraceServiceRequest::decode(&*body).expect("an export");
        for one in export.resource_spans {
            let spans = one.scope_spans.into_iter().flat_map(|scope| scope.spans);
            let export = Export {
                head: head.clone(),
                spans: spans.collect(),
                resource: attributes(&one.resource.expect("a resource").attributes),
            };
            exports.send(export).ok()?;
        }
        Some(())
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn next(&self) -> Export {
        let export = self.exports.recv_timeout(TEST_TIMEOUT);
        export.expect("an export")
    }

    /// The spans of requests that have come so far: those of the server, by their paths.
    fn servers(&self) -> Vec<(String, Span)> {
        let spans = self.exports.try_iter().flat_map(|export| export.spans);
        let servers = spans.filter(|span| span.kind == SpanKind::Server as i32);
        servers
            .map(|span| (attribute(&span, "url.path"), span))
            .collect()
    }
}

fn attributes(all: &[KeyValue]) -> HashMap<String, String> {
    let text = |value: &any_value::Value| match value {
        any_value::Value::StringValue(text) => text.clone(),
        any_value::Value::IntValue(number) => number.to_string(),
        any_value::Value::DoubleValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let all = all.iter();
    let value = |one: &KeyValue| {
        one.value
            .as_ref()
            .and_then(|value| value.value.as_ref().map(text))
    };
    all.map(|one| (one.key.clone(), value(one).expect("a value")))
        .collect()
}

fn attribute(span: &Span, name: &str) -> String {
    let mut all = attributes(&span.attributes);
    all.remove(name).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the application got as `traceparent` and `tracestate` of a request with these fields.
fn ask(server: &Server, path: &str, fields: &str) -> (String, String) {
    let mut client = server.connect();
    client.send(format!(
        "GET {path} HTTP/1.1\r\nHost: test:81\r\n{fields}\r\n"
    ));
    let text = client.response().expect(200).text();
    let (parent, state) = text.split_once('\n').expect("two lines");
    (parent.to_owned(), state.to_owned())
}

/// The line of the access log for a path.
fn logged(server: &Server, path: &str) -> Value {
    let wanted = format!("\"path\":\"{path}\"");
    let line = server.log();
    let line = line.wait(|line| line.contains(&wanted) && line.contains("outcome"));
    serde_json::from_str(&line).expect("JSON")
}

/// The number of spans with this fate, by the status.
fn spans(server: &Server, fate: &str) -> u64 {
    let ran = server.command(&["status", "--json"]);
    let status: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    status["spans"][fate].as_u64().expect("a number")
}

#[test]
fn a_request_is_a_span_with_its_queue_and_its_application() {
    let collector = Collector::start(&["200 OK"]);
    let server = traced(&collector).setting("trace_service", "shop").start();
    let (parent, _) = ask(
        &server,
        "/a/b?password=hidden&x=1",
        "User-Agent: test/1\r\n",
    );
    server.stop();
    let export = collector.next();
    assert!(
        export.head.starts_with("POST /v1/traces HTTP/1.1\r\n"),
        "{}",
        export.head
    );
    assert!(
        export
            .head
            .to_ascii_lowercase()
            .contains("content-type: application/x-protobuf")
    );
    assert_eq!(export.resource["service.name"], "shop");
    assert!(
        export.resource.contains_key("process.pid"),
        "{:?}",
        export.resource
    );
    let [request, queue, app] = &export.spans[..] else {
        panic!("{:?}", export.spans);
    };
    let found = attributes(&request.attributes);
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/a/b"),
        ("url.query", "password=[FILTERED]&x=1"),
        ("url.scheme", "http"),
        ("http.response.status_code", "200"),
        ("server.address", "test"),
        ("server.port", "81"),
        ("client.address", "127.0.0.1"),
        ("network.protocol.version", "1.1"),
        ("user_agent.original", "test/1"),
        ("highball.outcome", "ok"),
    ] {
        assert_eq!(
            found.get(name).map(String::as_str),
            Some(value),
            "{name} in {found:?}"
        );
    }
    assert!(!found.contains_key("error.type") && request.status.is_none());
    assert_eq!(
        (&*request.name, &*queue.name, &*app.name),
        ("GET", "queue", "app")
    );
    let times = [
        request.start_time_unix_nano,
        queue.start_time_unix_nano,
        queue.end_time_unix_nano,
        app.end_time_unix_nano,
    ];
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(queue.end_time_unix_nano, app.start_time_unix_nano);
    assert!(app.end_time_unix_nano <= request.end_time_unix_nano);
    // The application's own spans are below `app`.
    let expected = format!("00-{}-{}-01", hex(&request.trace_id), hex(&app.span_id));
    assert_eq!(parent, expected);
    for child in [queue, app] {
        assert_eq!(child.parent_span_id, request.span_id);
    }
}

#[test]
fn a_real_collector_takes_the_spans() {
    let collector = OtelCollector::start();
    let server = application()
        .setting("otlp_endpoint", &collector.url())
        .setting("trace_sample", "1")
        .start();
    let (parent, _) = ask(&server, "/a", "");
    server.get("/fail").expect(500);
    // It sends what is left.
    server.stop();
    let spans = collector.stop();
    let servers = spans.iter().filter(|span| span.field("Kind") == "Server");
    let servers: Vec<_> = servers.collect();
    let [fine, failed] = servers[..] else {
        panic!("{spans:?}");
    };
    assert_eq!(fine.field("Name"), "GET");
    assert_eq!(fine.attribute("url.path"), "Str(/a)");
    assert_eq!(fine.attribute("http.response.status_code"), "Int(200)");
    assert_eq!(failed.attribute("http.response.status_code"), "Int(500)");
    assert_eq!(
        (fine.field("Status code"), failed.field("Status code")),
        ("Unset", "Error")
    );
    let children = spans.iter();
    let children = children.filter(|span| span.field("Parent ID") == fine.field("ID"));
    let children: Vec<_> = children.collect();
    let [queue, app] = children[..] else {
        panic!("{spans:?}");
    };
    assert_eq!((queue.field("Name"), app.field("Name")), ("queue", "app"));
    let (trace, app) = (app.field("Trace ID"), app.field("ID"));
    assert_eq!(parent, format!("00-{trace}-{app}-01"));
}

#[test]
fn a_trace_goes_from_the_client_into_ruby_and_into_the_log() {
    let collector = Collector::start(&["200 OK"]);
    let server = sampled(&collector, "0")
        .setting("log_fields", "trace_id,span_id")
        .start();
    let fields = format!("traceparent: {PARENT}\r\ntracestate: a=1\r\ntracestate: b=2\r\n");
    let (parent, state) = ask(&server, "/x", &fields);
    assert!(
        parent.starts_with(&PARENT[..36]) && parent.ends_with("-01"),
        "{parent}"
    );
    assert_eq!(state, "a=1,b=2");
    let line = logged(&server, "/x");
    // Both are wrong: a new trace begins, and the client's state is none of that.
    let wrong = format!("traceparent: {}0\r\ntracestate: a=1\r\n", &PARENT[..53]);
    let (begun, none) = ask(&server, "/new", &wrong);
    assert!(
        !begun.starts_with(&PARENT[..36]) && begun.ends_with("-00"),
        "{begun}"
    );
    assert_eq!(none, "");
    let long = format!(
        "traceparent: {PARENT}\r\ntracestate: a={}\r\n",
        "x".repeat(600)
    );
    assert_eq!(ask(&server, "/long", &long).1, "");
    server.stop();
    let export = collector.next();
    let request = &export.spans[0];
    assert_eq!(hex(&request.trace_id), PARENT[3..35]);
    assert_eq!(hex(&request.parent_span_id), PARENT[36..52]);
    assert_eq!(request.trace_state, "a=1,b=2");
    assert_eq!(line["trace_id"], hex(&request.trace_id));
    assert_eq!(line["span_id"], hex(&request.span_id));
}

#[test]
fn errors_and_slow_requests_are_kept_within_a_rate() {
    let collector = Collector::start(&["200 OK"]);
    let server = sampled(&collector, "0")
        .setting("slow_request", "10ms")
        .start();
    server.get("/fast").expect(200);
    server.get("/fail").expect(500);
    let (parent, _) = ask(&server, "/slow", "");
    assert!(parent.ends_with("-00"), "{parent}");
    server.stop();
    let servers: HashMap<_, _> = collector.servers().into_iter().collect();
    let mut paths: Vec<_> = servers.keys().collect();
    paths.sort();
    // On a busy machine the first one may be slow.
    paths.retain(|path| *path != "/fast");
    assert_eq!(paths, ["/fail", "/slow"]);
    let failed = &servers["/fail"];
    assert_eq!(attribute(failed, "error.type"), "500");
    let status = failed.status.as_ref().expect("a status");
    assert_eq!(status.code, StatusCode::Error as i32);
    assert!(servers["/slow"].status.is_none());

    let server = sampled(&collector, "0").setting("trace_limit", "0").start();
    server.get("/fail").expect(500);
    logged(&server, "/fail");
    assert_eq!(spans(&server, "rate_limited"), 1);
    server.stop();
    assert!(collector.servers().is_empty());
}

#[test]
fn a_client_that_nobody_trusts_decides_nothing() {
    let collector = Collector::start(&["200 OK"]);
    let server = sampled(&collector, "0")
        .setting("slow_request", "none")
        .setting("trusted_proxies", "none")
        .start();
    let (parent, _) = ask(&server, "/x", &format!("traceparent: {PARENT}\r\n"));
    assert!(
        parent.starts_with(&PARENT[..36]) && parent.ends_with("-00"),
        "{parent}"
    );
    server.stop();
    assert!(collector.servers().is_empty());
}

#[test]
fn a_receiver_that_hangs_costs_no_request_and_no_memory() {
    // Nothing accepts there: the kernel takes connections, and nobody answers.
    let hangs = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = hangs.local_addr().expect("an address");
    let server = application()
        .setting("otlp_endpoint", &format!("http://{address}"))
        .setting("trace_sample", "1")
        .setting("access_log", "false")
        .start();
    let mut client = server.connect();
    // More than one export and a full queue.
    for _ in 0..2_800 {
        client.get("/x").expect(200);
    }
    let lost = spans(&server, "queue_full");
    // At most four exports fit in the queue, and one is on its way.
    assert!((600..=1_000).contains(&lost), "{lost}");
    assert_eq!(spans(&server, "sent"), 0);
    assert_eq!(server.stop().status.code(), Some(0));
}

#[test]
fn a_receiver_that_is_busy_gets_the_same_spans_again() {
    let busy = "429 Too Many Requests\r\nretry-after: 2";
    let collector = Collector::start(Box::leak(Box::new([
        busy,
        "503 Service Unavailable",
        "200 OK",
    ])));
    let server = traced(&collector).start();
    server.get("/x").expect(200);
    let all: Vec<_> = (0..3).map(|_| collector.next().spans).collect();
    assert!(all[0] == all[1] && all[1] == all[2]);
    let line = server.log().wait(|line| line.contains("takes them again"));
    assert!(line.contains("0 spans could not"), "{line}");
    let first = server
        .log()
        .wait(|line| line.contains("does not take them"));
    assert!(
        first.contains(&collector.address.to_string()) && first.contains("429"),
        "{first}"
    );
    assert_eq!(spans(&server, "sent"), 3);
    server.stop();
}

#[test]
fn an_upgrade_and_a_stop_send_what_is_left() {
    let collector = Collector::start(&["200 OK"]);
    let mut server = traced(&collector).start();
    server.get("/before").expect(200);
    let ran = server.command(&["upgrade"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    server.replaced_by(ran.process());
    let first = collector.next();
    server.get("/after").expect(200);
    server.stop();
    let second = collector.next();
    assert_eq!(attribute(&first.spans[0], "url.path"), "/before");
    assert_eq!(attribute(&second.spans[0], "url.path"), "/after");
    assert_ne!(
        first.resource["process.pid"],
        second.resource["process.pid"]
    );
}

#[test]
fn variables_of_open_telemetry_name_the_receiver() {
    let collector = Collector::start(&["200 OK"]);
    let server = application()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())
        .env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hidden%3D1")
        .env("OTEL_SERVICE_NAME", "by-variable")
        .env(
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        )
        .setting("trace_sample", "1")
        .start();
    server.get("/x").expect(200);
    let stopped = server.stop();
    let export = collector.next();
    assert!(
        export.head.contains("api-key: hidden=1\r\n"),
        "{}",
        export.head
    );
    assert_eq!(export.resource["service.name"], "by-variable");
    assert_eq!(export.resource["deployment.environment.name"], "test");
    assert!(!stopped.log.iter().any(|line| line.contains("hidden")));
}

#[test]
fn without_a_receiver_the_trace_of_a_client_passes_as_it_is() {
    let server = application()
        .setting("log_fields", "trace_id,span_id")
        .start();
    let (parent, state) = ask(
        &server,
        "/x",
        &format!("traceparent: {PARENT}\r\ntracestate: any\r\n"),
    );
    assert_eq!((&*parent, &*state), (PARENT, "any"));
    let line = logged(&server, "/x");
    assert_eq!(line["trace_id"], PARENT[3..35]);
    assert_eq!(line["span_id"], PARENT[36..52]);
    assert_eq!(ask(&server, "/none", "").0, "");
    assert_eq!(logged(&server, "/none")["trace_id"], Value::Null);
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process().0)).expect("threads");
    let names = tasks.map(|task| fs::read_to_string(task.expect("a thread").path().join("comm")));
    for name in names.flatten() {
        assert!(!name.contains("traces"), "{name}");
    }
    server.stop();
}

#[test]
fn settings_of_traces_that_cannot_be_used_end_the_start() {
    let file = ("otlp_headers_file", "fields", "others can read");
    for (name, value, said) in [
        (
            "otlp_endpoint",
            "collector:4317",
            "otlp_endpoint: write the address",
        ),
        (
            "otlp_endpoint",
            "http://u:hidden@h",
            "otlp_endpoint: write the address",
        ),
        file,
    ] {
        let directory = Directory::new();
        directory.write("config.ru", "run ->(_) { [200, {}, []] }");
        directory.write("fields", "Authorization: hidden\n");
        let flags = [
            "--otlp-endpoint",
            "http://127.0.0.1:1",
            "--listen",
            "127.0.0.1:0",
        ];
        // A flag may be given once.
        let flags = &flags[if name == "otlp_endpoint" { 2 } else { 0 }..];
        let flag = format!("--{}", name.replace('_', "-"));
        let ran = Program::highball(["serve", &flag, value])
            .args(flags)
            .current_dir(directory.path())
            .run();
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
        assert!(ran.stderr.contains(said), "{ran:?}");
        assert!(!ran.stderr.contains("hidden"), "{ran:?}");
    }
}
