//! What requests cost, as the log and the metrics show it, from applications of the frameworks that name routes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;

use highball_tests::operators::{address, get};
use highball_tests::prometheus::promtool;
use rustix::process::Signal;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use test_support::{Application, Client, Server, ServerBuilder, until};

/// The log's line of a request for this target.
fn logged(server: &Server, target: &str) -> Value {
    let wanted = format!("\"path\":{target:?}");
    let line = server
        .log()
        .wait(|line| line.contains(&wanted) && line.contains("\"outcome\""));
    serde_json::from_str(&line).expect("JSON")
}

/// Logs what each request cost.
fn measuring(server: ServerBuilder) -> ServerBuilder {
    server.setting("log_format", "json").setting(
        "log_fields",
        "route,db_ms,view_ms,gc_ms,cpu_ms,lock_ms,allocations,queries",
    )
}

#[test]
fn a_route_of_sinatra_is_logged_without_a_line_of_code() {
    let application = Application::new(
        r#"
        require "sinatra/base"
        class Books < Sinatra::Base
          set :environment, :production
          get("/books/:id") { params[:id] }
          get("/broken/:id") { raise "boom" }
        end
        run Books"#,
    );
    let server = measuring(Server::application_of(application)).start();
    assert_eq!(server.get("/books/1").text(), "1");
    let line = logged(&server, "/books/1");
    assert_eq!(line["route"], "/books/:id");
    assert!(line["allocations"].as_u64() > Some(10), "{line}");
    assert!(line["cpu_ms"].as_f64() > Some(0.0), "{line}");
    assert_eq!(
        (&line["queries"], &line["db_ms"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(server.get("/broken/2").status(), 500);
    assert_eq!(logged(&server, "/broken/2")["route"], "/broken/:id");
    assert_eq!(server.get("/none").status(), 404);
    assert_eq!(logged(&server, "/none")["route"], Value::Null);
    server.stop();
}

#[test]
fn nothing_is_measured_where_measure_requests_is_off() {
    let server = measuring(Server::app("run ->(_) { [200, {}, []] }"));
    let server = server.setting("measure_requests", "false").start();
    assert_eq!(server.get("/off").status(), 200);
    let line = logged(&server, "/off");
    for field in [
        "route",
        "gc_ms",
        "cpu_ms",
        "lock_ms",
        "allocations",
        "queries",
    ] {
        assert_eq!(line[field], Value::Null, "{field}");
    }
    server.stop();
}

/// The rows of the routes in the status, by their names.
fn routes(server: &Server) -> Vec<Value> {
    let status = server.status();
    status.0["routes"].as_array().expect("routes").clone()
}

fn route(server: &Server, name: &str) -> Value {
    let rows = routes(server);
    let found = rows.iter().find(|row| row["route"] == name);
    found
        .unwrap_or_else(|| panic!("no {name} in {rows:?}"))
        .clone()
}

/// Names the routes below `/named` as Sinatra does; the status is that of the query.
const ANY_PATH: &str = r#"run lambda { |env|
  path = env["PATH_INFO"]
  env["sinatra.route"] = "GET #{path}" if path.start_with?("/named")
  [env["QUERY_STRING"].to_i, {}, []]
}"#;

#[test]
fn ten_thousand_paths_are_at_most_201_routes() {
    let server = Server::application_of(Application::without_lint(ANY_PATH))
        .setting("access_log", "false")
        .setting("metrics_listen", "127.0.0.1:0")
        .start();
    let mut client = server.connect();
    for batch in 0..100 {
        let start = if batch % 2 == 0 { "/p" } else { "/named" };
        let requests: String = (0..100)
            .map(|number| {
                let status = [200, 302, 500][number % 3];
                let path = format!("{start}{batch}x{number}y?{status}");
                format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")
            })
            .collect();
        client.send(requests);
        (0..100).for_each(|number| {
            client.response().expect([200, 302, 500][number % 3]);
        });
    }
    client.get("/books/1?200").expect(200);
    let families = routes_by_family(&exposition(&server));
    for family in [
        "highball_request_duration_seconds",
        "highball_app_duration_seconds",
        "highball_route_errors_total",
        "highball_cpu_seconds_total",
    ] {
        assert!(families.contains_key(family), "{family}");
    }
    for (family, series) in families {
        let names: BTreeSet<_> = series.keys().map(|(route, _)| route).collect();
        assert_eq!(names.len(), 201, "{family}");
        let classes: BTreeSet<_> = series.keys().map(|(_, class)| class).collect();
        // A histogram has a sum, a count, a line for each bound and one for what is above.
        let lines = if family.ends_with("_total") { 1 } else { 17 };
        assert!(series.len() <= 201 * classes.len(), "{family}");
        assert!(series.values().all(|&one| one == lines), "{family}");
        let most = if family == "highball_request_duration_seconds" {
            3
        } else {
            1
        };
        assert_eq!(classes.len(), most, "{family}");
    }
    let rows = routes(&server);
    assert_eq!(rows.len(), 201);
    let requests: u64 = rows.iter().filter_map(|row| row["requests"].as_u64()).sum();
    assert_eq!(requests, 10_001);
    assert!(route(&server, "other")["requests"].as_u64() > Some(9_000));
    server.stop();
}

/// How many lines each route has in each class, by the family of the metric; families without routes are left out.
fn routes_by_family(text: &str) -> BTreeMap<String, BTreeMap<(String, String), usize>> {
    let mut families: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    let mut family = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().expect("a name");
        }
        let label = |name: &str| {
            let (_, rest) = line.split_once(&format!("{name}=\""))?;
            Some(rest.split('"').next()?.to_owned())
        };
        if let Some(route) = label("route") {
            let class = label("class").unwrap_or_default();
            let series = families.entry(family.to_owned()).or_default();
            *series.entry((route, class)).or_default() += 1;
        }
    }
    families
}

/// A controller of Rails on a database, without the rest of Rails.
const BOOKS: &str = r#"
ENV["RAILS_ENV"] ||= "production"
require "action_controller/railtie"
require "active_record/railtie"
class Shelf < Rails::Application
  config.eager_load = true
  config.logger = Logger.new(nil)
  config.secret_key_base = "x" * 64
  config.hosts.clear
  config.root = __dir__
  ENV["DATABASE_URL"] = "sqlite3:#{__dir__}/books.sqlite3"
  routes.append do
    get "/books" => "books#index"
    get "/books/:id" => "books#show"
    get "/broken" => "books#broken"
  end
end
Rails.application.initialize!
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define { create_table(:books, force: true) { |table| table.integer :shelf } }
class Book < ActiveRecord::Base; end
40.times { |number| Book.create!(shelf: number) }
class BooksController < ActionController::Base
  def index = render(plain: Book.ids.map { |id| Book.find(id).shelf }.join(" "))
  def show = render(plain: Book.find(params[:id]).shelf.to_s)
  def broken = raise("boom")
end
run Rails.application
"#;

#[test]
fn a_planted_n_plus_1_shows_in_the_routes_of_rails() {
    let application = Application::without_lint(BOOKS);
    let server = measuring(Server::application_of(application)).start();
    for _ in 0..3 {
        assert_eq!(server.get("/books").status(), 200);
        assert_eq!(server.get("/books/2").text(), "1");
    }
    assert_eq!(server.get("/broken").status(), 500);
    assert_eq!(server.get("/unknown").status(), 404);
    let rows = routes(&server);
    let names: Vec<_> = rows
        .iter()
        .filter_map(|row| row["route"].as_str())
        .collect();
    // The pattern where Rails says it (7.1), else the action.
    let name = |pattern: &str, action: &str| {
        let known = names.iter().find(|name| [pattern, action].contains(name));
        (*known.unwrap_or_else(|| panic!("{pattern} in {names:?}"))).to_owned()
    };
    let index = route(&server, &name("GET /books", "books#index"));
    let show = route(&server, &name("GET /books/:id", "books#show"));
    let broken = route(&server, &name("GET /broken", "books#broken"));
    assert!(index["queries"].as_f64() >= Some(41.0), "{index}");
    assert!(show["queries"].as_f64() < Some(3.0), "{show}");
    assert!(index["db_share"].as_f64() > Some(0.0), "{index}");
    assert_eq!(
        (&index["requests"], &index["errors"]),
        (&3.into(), &0.into())
    );
    assert_eq!(
        (&broken["requests"], &broken["errors"]),
        (&1.into(), &1.into())
    );
    assert_eq!(route(&server, "(none)")["requests"], 1);
    let line = logged(&server, "/books");
    let (db, view) = (line["db_ms"].as_f64(), line["view_ms"].as_f64());
    assert!(db > Some(0.0) && view.is_some(), "{line}");
    server.stop();
}

/// The text of the metrics.
fn exposition(server: &Server) -> String {
    get(&address(server, "metrics_listen"), "/metrics")
        .expect(200)
        .text()
}

/// The value of a sample; 0 where it is not there.
fn sample(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(' '))
    });
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or(0.0)
}

const OK: &str = "highball_requests_total{application=\"default\",outcome=\"ok\"}";

#[test]
fn promtool_finds_no_fault_in_the_metrics() {
    let source = "run ->(env) { env['PATH_INFO'] == '/fail' ? raise('boom') : [200, {}, []] }";
    let server = Server::app(source)
        .workers(2)
        .setting("metrics_listen", "127.0.0.1:0")
        .setting("cache_bytes", "1MiB")
        .start();
    server.get("/books/1").expect(200);
    server.get("/fail").expect(500);
    let text = exposition(&server);
    promtool(&text);
    let labels = "application=\"default\",route=\"GET /books/:id\"";
    for name in [
        OK.to_owned(),
        format!("highball_request_duration_seconds_count{{{labels},class=\"2xx\"}}"),
        format!("highball_app_duration_seconds_bucket{{{labels},le=\"+Inf\"}}"),
        "highball_route_errors_total{application=\"default\",route=\"GET /fail\"}".to_owned(),
    ] {
        assert_eq!(sample(&text, &name), 1.0, "{name}\n{text}");
    }
    assert_eq!(
        sample(&text, "highball_ready_workers{application=\"default\"}"),
        2.0
    );
    let front = "highball_process_pss_bytes{application=\"\",role=\"front\",worker=\"\"}";
    assert!(sample(&text, front) > 1e6, "{text}");
    // Nothing of it is on the address of the application.
    assert!(
        !server
            .get("/metrics")
            .expect(200)
            .text()
            .contains("highball_")
    );
    server.stop();
}

#[test]
fn the_age_of_the_queue_is_that_of_its_oldest_request() {
    let application = Application::new("run ->(_) { Test.pass('work'); [200, {}, []] }");
    let (mut events, gate) = (application.events(), application.gate("work"));
    let server = Server::application_of(application)
        .setting("metrics_listen", "127.0.0.1:0")
        .start();
    let age = || {
        let name = "highball_queue_age_seconds{application=\"default\"}";
        sample(&exposition(&server), name)
    };
    let mut running = server.ask("GET", "/");
    events.wait();
    assert_eq!(age(), 0.0);
    let mut waiting = server.ask("GET", "/");
    until("a request waits", || age() > 0.0);
    let first = age();
    until("it waits longer", || age() > first);
    for client in [&mut running, &mut waiting] {
        gate.admit(1);
        client.response().expect(200);
    }
    assert_eq!(age(), 0.0);
    server.stop();
}

/// Scrapers that ask for more than any buffer of a socket holds, and read nothing.
fn silent_scrapers(address: &str) -> Vec<Client> {
    let address: std::net::SocketAddr = address.parse().expect("an address");
    let scrape = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let scraper = |_| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        socket.connect(&address.into()).expect("it listens");
        let socket = TcpStream::from(socket);
        let mut client: Client = socket.try_clone().expect("a descriptor").into();
        client.send(scrape.repeat(100));
        // It has begun to answer.
        socket.peek(&mut [0]).expect("a byte");
        client
    };
    (0..8).map(scraper).collect()
}

#[test]
fn scrapers_that_read_nothing_hold_up_nobody_and_no_memory() {
    let server = Server::app("run ->(_) { [200, {}, []] }")
        .setting("metrics_listen", "127.0.0.1:0")
        .start();
    let mut client = server.connect();
    // So many routes that a text has half a megabyte.
    for number in 0..100 {
        client.get(&format!("/p{number}x")).expect(200);
    }
    let bytes = exposition(&server).len() as u64;
    let before = server.process().pss().expect("it runs");
    let scrapers = silent_scrapers(&address(&server, "metrics_listen"));
    for _ in 0..200 {
        client.get("/").expect(200);
    }
    until("another scraper has the counts", || {
        sample(&exposition(&server), OK) == 300.0
    });
    let after = server.process().pss().expect("it runs");
    let grown = after.saturating_sub(before);
    // All that was asked for would be 800 texts.
    assert!(grown < 64 * bytes, "{grown} bytes for texts of {bytes}");
    drop(scrapers);
    server.stop();
}

#[test]
fn counters_survive_restarts_and_killed_workers_and_equal_the_log() {
    let server = Server::app("run ->(_) { [200, {}, []] }")
        .workers(2)
        .setting("metrics_listen", "127.0.0.1:0")
        .start();
    let mut last = 0.0;
    let mut sent = 0;
    for _ in 0..2 {
        for _ in 0..10 {
            server.get("/counted").expect(200);
            sent += 1;
        }
        let now = sample(&exposition(&server), OK);
        assert!(now >= last, "{now} after {last}");
        last = now;
        assert!(server.command(&["restart"]).status.success());
        let workers = server.status().ready_workers();
        let start = server.log().len();
        workers[0].signal(Signal::KILL);
        server
            .log()
            .wait_after(start, |line| line.contains("signal 9"));
    }
    assert_eq!(sample(&exposition(&server), OK), f64::from(sent));
    let stopped = server.stop();
    let lines = stopped
        .log
        .iter()
        .filter(|line| line.contains("path=\"/counted\""));
    assert_eq!(lines.count(), sent as usize);
}
