//! `rack.response_finished`: when it is called, and that what an application holds for a request is free again before the
//! same thread takes the next one. Rails 8.1 gives back database connections there (ActionDispatch::Executor).

use test_support::{Application, Server};

/// A pool with a connection for each thread, held as Rails 8.1 holds them. A request that finds none free is an error.
const EXECUTOR: &str = r##"
class Executor
  CONNECTIONS = Queue.new.tap { |pool| Integer(ENV.fetch("THREADS")).times { |number| pool << number } }

  def initialize(app) = @app = app

  def call(env)
    connection = CONNECTIONS.pop(true)
    env["rack.response_finished"] << lambda { |_env, status, _headers, error|
      Test.tell("#{env["PATH_INFO"]} #{status.inspect} #{error.class}")
      CONNECTIONS << connection
    }
    @app.call(env)
  end
end
use Executor
APPLICATION = {
  "/array" => ->(_) { [200, {}, ["ok"]] },
  "/each" => ->(_) { [200, {}, Enumerator.new { |to| to << "o" << "k" }] },
  "/file" => ->(_) { [200, {}, File.open("config.ru", "rb")] },
  "/stream" => ->(_) { [200, {}, ->(stream) { stream << "ok" and stream.close }] },
  "/raise" => ->(_) { raise ArgumentError, "broken" },
  "/raise_late" => ->(_) { [200, {}, Enumerator.new { |to| to << "o" and raise ArgumentError, "broken" }] },
  "/close" => ->(_) { [200, {}, Class.new { def each = yield("ok"); def close = raise(ArgumentError) }.new] },
  "/invalid" => ->(_) { [200, { "a b" => "c" }, []] },
  "/exit" => ->(_) { exit },
  "/kill" => ->(_) { Thread.current.kill },
  "/hijack" => lambda { |env|
    env["rack.hijack"].call.then { |io| io.write("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n") and io.close }
    [-1, {}, []]
  },
  "/partial_hijack" => lambda { |_|
    [200, { "rack.hijack" => ->(io) { io.write("ok") and io.close } }, []]
  },
  "/gone" => lambda { |_|
    Test.tell("begun")
    [200, {}, Enumerator.new { |to| loop { to << "x" * 65_536 } }]
  }
}
run ->(env) { APPLICATION.fetch(env["PATH_INFO"]).call(env) }
"##;

/// Every way in which a request may end, with what its callable is called with.
const ENDS: [(&str, &str); 11] = [
    ("/array", "200 NilClass"),
    ("/each", "200 NilClass"),
    ("/file", "200 NilClass"),
    ("/stream", "200 NilClass"),
    ("/raise", "nil ArgumentError"),
    ("/raise_late", "200 ArgumentError"),
    ("/close", "200 ArgumentError"),
    ("/invalid", "200 Highball::InvalidResponse"),
    ("/exit", "nil SystemExit"),
    ("/hijack", "-1 NilClass"),
    ("/partial_hijack", "200 NilClass"),
];

fn server(threads: usize) -> Server {
    Server::application_of(Application::without_lint(EXECUTOR))
        .threads(threads)
        .env("THREADS", &threads.to_string())
        .start()
}

#[test]
fn a_connection_is_free_before_its_thread_takes_the_next_request() {
    for threads in [1, 2] {
        let server = server(threads);
        let mut events = server.application().events();
        for (path, end) in ENDS.iter().cycle().take(3 * ENDS.len()) {
            // Sent at once, so that a thread has the next one to take while it ends this.
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let mut clients: Vec<_> = (0..threads * 2).map(|_| server.connect()).collect();
            for client in &mut clients {
                client.send(&*request);
            }
            for client in &mut clients {
                client.rest();
            }
            for _ in clients {
                assert_eq!(events.wait(), format!("{path} {end}"), "{threads} threads");
            }
        }
    }
}

#[test]
fn a_connection_is_free_after_a_client_has_left() {
    let server = server(1);
    let mut events = server.application().events();
    for _ in 0..3 {
        let client = server.ask("GET", "/gone");
        assert_eq!(events.wait(), "begun");
        client.reset();
        assert_eq!(events.wait(), "/gone 200 Highball::ClientGone");
        assert_eq!(server.get("/array").expect(200).text(), "ok");
        assert_eq!(events.wait(), "/array 200 NilClass");
    }
}

#[test]
fn a_connection_is_free_after_a_thread_was_killed() {
    let server = server(2);
    let mut events = server.application().events();
    for _ in 0..4 {
        assert_eq!(server.get("/kill").status(), 500);
        assert_eq!(events.wait(), "/kill nil NilClass");
    }
    assert_eq!(server.get("/array").expect(200).text(), "ok");
}

#[test]
fn callables_run_in_reverse_whatever_each_of_them_does() {
    let server = Server::application_of(Application::without_lint(
        r##"run lambda { |env|
          finished = env["rack.response_finished"]
          finished << ->(*arguments) { Test.tell("first #{arguments.size}") }
          finished << ->(*) { exit }
          finished << ->(*) { raise NoMemoryError, "broken" }
          finished << ->(*) { Test.tell("last") }
          [200, {}, ["ok"]]
        }"##,
    ))
    .start();
    let mut events = server.application().events();
    for _ in 0..2 {
        assert_eq!(server.get("/").text(), "ok");
        assert_eq!(events.wait(), "last");
        assert_eq!(events.wait(), "first 4");
    }
    server.log().wait(|line| line.contains("NoMemoryError"));
    server.log().wait(|line| line.contains("SystemExit"));
}
