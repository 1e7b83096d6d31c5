//! What a StatsD server is told (setting `statsd`).

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use highball_tests::operators::{address, get};
use highball_tests::prometheus::promtool;
use highball_tests::several::{by_host, settings_file};
use test_support::{Application, Directory, Program, Server, ServerBuilder, TEST_TIMEOUT};

const COUNTS: &str = r#"
ORDERS = Highball.metrics.counter("orders", "Orders", labels: [:kind])
CARTS = Highball.metrics.gauge("carts_open")
IMPORT = Highball.metrics.histogram("import_seconds", buckets: [1, 2])
run lambda { |env|
  ORDERS.add(3, kind: "web shop")
  CARTS.set(-4)
  4.times { IMPORT.observe(1.5) }
  Test.text("counted")
}"#;

/// A StatsD server that adds up what it is told.
#[derive(Default)]
struct Told {
    counters: BTreeMap<String, f64>,
    gauges: BTreeMap<String, f64>,
    longest: usize,
}

impl Told {
    /// Takes a datagram in.
    fn take(&mut self, datagram: &[u8]) {
        self.longest = self.longest.max(datagram.len());
        let text = str::from_utf8(datagram).expect("text");
        for line in text.split('\n') {
            let (name, rest) = line.split_once(':').expect("a name");
            let mut parts = rest.split('|');
            let value: f64 = parts.next().expect("a value").parse().expect("a number");
            let kind = parts.next().expect("a type");
            let tags = parts.next().unwrap_or_default();
            let name = format!("{name}{tags}");
            match kind {
                "c" => *self.counters.entry(name).or_default() += value,
                "g" => drop(self.gauges.insert(name, value)),
                _ => panic!("{line}"),
            }
        }
    }

    /// Takes in what comes until this counter has so much.
    fn until(&mut self, counter: &str, value: f64, mut receive: impl FnMut(&mut [u8]) -> usize) {
        let mut buffer = [0; 65_536];
        while self.counters.get(counter) != Some(&value) {
            let length = receive(&mut buffer);
            self.take(&buffer[..length]);
            let now = self.counters.get(counter);
            assert!(now <= Some(&value), "{counter} is {now:?}, and not {value}");
        }
    }
}

fn udp() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket
        .set_read_timeout(Some(TEST_TIMEOUT))
        .expect("a time-out");
    let address = socket.local_addr().expect("an address").to_string();
    (socket, address)
}

fn telling(server: ServerBuilder, address: &str) -> Server {
    let server = server.setting("statsd", address);
    server.setting("statsd_interval", "1s").start()
}

#[test]
fn statsd_is_told_counters_as_differences_and_gauges() {
    let (socket, address) = udp();
    let server = telling(Server::app(COUNTS).workers(2), &address);
    let receive = |buffer: &mut [u8]| socket.recv(buffer).expect("a datagram");
    let mut told = Told::default();
    server.get("/").expect(200);
    told.until("highball.requests#outcome:ok", 1.0, receive);
    told.until("orders#kind:web_shop", 3.0, receive);
    server.get("/").expect(200);
    told.until("highball.requests#outcome:ok", 2.0, receive);
    told.until("orders#kind:web_shop", 6.0, receive);
    told.until("import_seconds.count", 8.0, receive);
    assert_eq!(
        told.gauges["highball.ready_workers"], 2.0,
        "{:?}",
        told.gauges
    );
    // What nothing has told yet comes when the server stops.
    server.get("/").expect(200);
    server.stop();
    told.until("orders#kind:web_shop", 9.0, receive);
    told.until("import_seconds.count", 12.0, receive);
    assert_eq!(told.gauges["import_seconds.p50"], 1.5, "{:?}", told.gauges);
    assert!(
        told.gauges["highball.request_duration_ms.p95"] > 0.0,
        "{:?}",
        told.gauges
    );
    let carts = told.gauges["carts_open"];
    assert!(carts == -4.0 || carts == -8.0, "{carts}");
    assert!(told.longest <= 1432, "{}", told.longest);
}

#[test]
fn statsd_without_tags_gets_labels_as_parts_of_names() {
    let directory = Directory::new();
    let path = directory.path().join("statsd.sock");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket
        .set_read_timeout(Some(TEST_TIMEOUT))
        .expect("a time-out");
    let server = Server::app(COUNTS).setting("statsd_tags", "false");
    let server = telling(server, &path.display().to_string());
    server.get("/").expect(200);
    let mut told = Told::default();
    let receive = |buffer: &mut [u8]| socket.recv(buffer).expect("a datagram");
    told.until("orders.web_shop", 3.0, receive);
    told.until("highball.requests.ok", 1.0, receive);
    server.stop();
}

#[test]
fn a_receiver_that_is_not_there_is_told_all_when_it_comes() {
    let directory = Directory::new();
    let path = directory.path().join("statsd.sock");
    let server = telling(Server::app(COUNTS), &path.display().to_string());
    let mut client = server.connect();
    let mut told = Told::default();
    let (mut orders, mut start) = (0.0, 0);
    // It comes late, and is gone for a while later.
    for requests in [2, 200] {
        client.get("/").expect(200);
        server
            .log()
            .wait_after(start, |line| line.contains("cannot send metrics to StatsD"));
        for _ in 1..requests {
            client.get("/").expect(200);
        }
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a time-out");
        orders += 3.0 * f64::from(requests);
        told.until("orders#kind:web_shop", orders, |buffer| {
            socket.recv(buffer).expect("a datagram")
        });
        start = server.log().len();
        drop(socket);
        std::fs::remove_file(&path).expect("its file");
    }
    let stopped = server.stop();
    let complaints = stopped
        .log
        .iter()
        .filter(|line| line.contains("cannot send metrics"));
    // Once each time, and once more where it had time for that before its end.
    assert!((2..=3).contains(&complaints.count()));
}

#[test]
fn what_is_no_address_of_statsd_is_an_error_at_the_start() {
    let directory = Directory::new();
    std::fs::write(directory.join("config.ru"), "run ->(_) { [200, {}, []] }").expect("a file");
    for wrong in ["localhost:8125", "8125", "statsd.sock"] {
        let program = Program::highball(["serve"]).arg(directory.path());
        let ran = program
            .arg("--statsd")
            .arg(wrong)
            .arg("--listen")
            .arg("127.0.0.1:0")
            .run();
        assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
        let text = format!("statsd: \"{wrong}\" is neither an IP address with a port");
        assert!(ran.stderr.contains(&text), "{}", ran.output());
    }
}

/// Counts orders, and defines `mixed` as the query says.
fn shop(orders: u32, mixed: &str) -> String {
    format!(
        r#"
ORDERS = Highball.metrics.counter("orders", "Orders of this one", labels: [:kind])
CARTS = Highball.metrics.gauge("carts_open", "Carts")
MIXED = Highball.metrics.{mixed}
run lambda {{ |env|
  ORDERS.add({orders}, kind: "web")
  CARTS.set({orders})
  MIXED.add(1)
  Test.text("counted")
}}"#
    )
}

/// The name of a metric of an application with a label, as a StatsD server sees it.
type Named = fn(&str, &str, &str) -> String;

fn with_tags(metric: &str, application: &str, label: &str) -> String {
    format!("{metric}#application:{application}{label}")
}

fn in_name(metric: &str, application: &str, label: &str) -> String {
    match label.split_once(':') {
        Some((_, value)) => format!("{metric}.{application}.{value}"),
        None => format!("{metric}.{application}"),
    }
}

#[test]
fn figures_of_two_applications_do_not_mix() {
    for (tags, nobody, name) in [
        ("true", "(none)", with_tags as Named),
        ("false", "_none_", in_name as Named),
    ] {
        let (socket, receiver) = udp();
        let several = by_host(&[
            ("a", &shop(3, "counter('mixed', 'Mixed')")),
            ("b", &shop(5, "gauge('mixed', 'Mixed')")),
        ]);
        let several = several
            .setting("statsd", &receiver)
            .setting("statsd_interval", "1s")
            .setting("statsd_tags", tags)
            .setting("metrics_listen", "127.0.0.1:0")
            .start_all();
        for host in ["a.test", "b.test", "b.test"] {
            several.get(host, "/").expect(200);
        }
        several.get("c.test", "/").expect(421);
        let mut told = Told::default();
        for (metric, application, label, value) in [
            ("orders", "a", ",kind:web", 3.0),
            ("orders", "b", ",kind:web", 10.0),
            ("highball.requests", "a", ",outcome:ok", 1.0),
            ("highball.requests", "b", ",outcome:ok", 2.0),
            ("highball.requests", nobody, ",outcome:no_application", 1.0),
            ("mixed", "a", "", 1.0),
        ] {
            told.until(&name(metric, application, label), value, |buffer| {
                socket.recv(buffer).expect("a datagram")
            });
        }
        expect_apart(&several.server);
        several.server.stop();
        let mut buffer = [0; 65_536];
        socket.set_nonblocking(true).expect("a socket");
        while let Ok(length) = socket.recv(&mut buffer) {
            told.take(&buffer[..length]);
        }
        for (metric, application, value) in [
            ("carts_open", "a", 3.0),
            ("carts_open", "b", 5.0),
            ("mixed", "b", 2.0),
        ] {
            let gauge = told.gauges.get(&name(metric, application, ""));
            assert_eq!(gauge, Some(&value), "{metric} {:?}", told.gauges);
        }
        // Whatever is told names an application, but for what the server has only once.
        let all = told.counters.keys().chain(told.gauges.keys());
        for metric in all.filter(|metric| *metric != "highball.connections") {
            let mut words = metric.split(['.', ':', ',']);
            assert!(
                words.any(|word| ["a", "b", nobody].contains(&word)),
                "{metric}"
            );
        }
    }
}

/// The same with Prometheus, for which a name has one type: that of the first application.
fn expect_apart(server: &Server) {
    let text = get(&address(server, "metrics_listen"), "/metrics");
    let text = text.expect(200).text();
    promtool(&text);
    for line in [
        "orders_total{application=\"a\",kind=\"web\"} 3\n",
        "orders_total{application=\"b\",kind=\"web\"} 10\n",
        "carts_open{application=\"a\"} 3\n",
        "carts_open{application=\"b\"} 5\n",
        "mixed_total{application=\"a\"} 1\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(!text.contains("mixed{"), "{text}");
}

#[test]
fn applications_that_are_one_in_names_are_an_error_at_the_start() {
    let folder = Application::new("raise 'nobody runs this one'");
    let applications =
        ["a", "b"].map(|name| Application::new(&shop(1, &format!("counter('{name}')"))));
    let tables = [
        ("shop.2", "hosts = [\"a.test\"]"),
        ("shop_2", "hosts = [\"b.test\"]"),
    ];
    let file = settings_file(&applications, &tables);
    let statsd = "statsd = \"127.0.0.1:1\"\nstatsd_tags = false\n";
    folder
        .dir()
        .write("highball.toml", format!("{statsd}{file}"));
    let arguments = ["serve", "--listen", "127.0.0.1:0"];
    let ran = Program::highball(arguments).arg(folder.path()).run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.output());
    let text = "the applications shop.2 and shop_2 would be one to it";
    assert!(ran.stderr.contains(text), "{}", ran.output());
}
