//! What the log tells: one line for each request, in text or JSON, with every error of the application, and never a control
//! character that a request or an application brought in.

use std::collections::HashMap;

use serde_json::Value;
use test_support::Server;

const APPLICATION: &str = r##"require "rack/utils"
def failing(query) = raise(ArgumentError, "bad #{Rack::Utils.unescape(query)}")
run lambda { |env|
  case env["PATH_INFO"]
  when "/fail" then failing(env["QUERY_STRING"])
  when "/missing" then Test.text("missing", status: 404)
  else Test.text("hello")
  end
}"##;

/// `key=value` pairs of a line of text, quotes taken off.
fn pairs(line: &str) -> HashMap<&str, &str> {
    let mut pairs = HashMap::new();
    let mut rest = line;
    while let Some((key, after)) = rest.split_once('=') {
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => {
                let end = quoted
                    .match_indices('"')
                    .map(|(at, _)| at)
                    .find(|&at| {
                        quoted[..at]
                            .chars()
                            .rev()
                            .take_while(|&c| c == '\\')
                            .count()
                            % 2
                            == 0
                    })
                    .unwrap_or(quoted.len());
                (&quoted[..end], quoted.get(end + 1..).unwrap_or_default())
            }
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        pairs.insert(key.trim(), value);
        rest = next.trim_start();
    }
    pairs
}

#[test]
fn each_request_is_one_line_with_every_key() {
    let server = Server::app(APPLICATION).start();
    let mut client = server.connect();
    client.get("/ok?secret=1").expect(200);
    client.get("/missing").expect(404);
    client.get("/fail").expect(500);
    client.send("GET / HTTP/1.1\r\n\r\n").response().expect(400);
    let log = server.stop().log;
    let lines: Vec<HashMap<&str, &str>> = log
        .iter()
        .filter(|line| line.contains("outcome="))
        .map(|line| pairs(line))
        .collect();
    assert_eq!(lines.len(), 4, "{log:#?}");
    for (line, (path, status, bytes, outcome)) in lines.iter().zip([
        ("/ok", "200", "5", "ok"),
        ("/missing", "404", "7", "ok"),
        ("/fail", "500", "", "app_error"),
        ("/", "400", "", "bad_request"),
    ]) {
        // Of a request that was refused nothing need be known.
        let known = outcome != "bad_request";
        assert!(!known || line["method"] == "GET", "{line:?}");
        assert!(
            !known || line["path"] == path || line["path"].starts_with("/ok?"),
            "{line:?}"
        );
        assert_eq!(line["status"], status);
        assert!(bytes.is_empty() || line["bytes"] == bytes, "{line:?}");
        assert_eq!(line["outcome"], outcome);
        assert!(line["time"].starts_with("20"), "{line:?}");
    }
    for line in &lines[..3] {
        assert!(
            line["queue_ms"]
                .parse::<f64>()
                .is_ok_and(|time| time >= 0.0),
            "{line:?}"
        );
        assert!(
            line["app_ms"].parse::<f64>().is_ok_and(|time| time >= 0.0),
            "{line:?}"
        );
        assert!(line["worker"].parse::<u32>().is_ok(), "{line:?}");
        assert_eq!(line["generation"], "1");
    }
}

#[test]
fn the_json_form_has_the_same_keys() {
    let server = Server::app(APPLICATION)
        .setting("log_format", "json")
        .start();
    server.get("/ok\"quote\\").expect(200);
    server.get("/fail?with%0Anewline%1B").expect(500);
    let log = server.stop().log;
    let mut requests = Vec::new();
    for line in log.iter().filter(|line| !line.is_empty()) {
        let value: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if value.get("outcome").is_some() {
            requests.push(value);
        }
    }
    assert_eq!(requests.len(), 2, "{log:#?}");
    for key in [
        "time",
        "method",
        "path",
        "status",
        "bytes",
        "queue_ms",
        "app_ms",
        "worker",
        "generation",
        "outcome",
    ] {
        assert!(
            requests[0].get(key).is_some(),
            "{key} is not in {}",
            requests[0]
        );
    }
    assert_eq!(requests[0]["status"], 200);
    assert_eq!(requests[0]["bytes"], 5);
    assert!(
        requests[0]["path"]
            .as_str()
            .is_some_and(|path| path.starts_with("/ok"))
    );
    assert_eq!(requests[1]["outcome"], "app_error");
}

#[test]
fn no_control_character_reaches_the_log_raw() {
    for format in ["text", "logfmt", "json"] {
        let server = Server::app(APPLICATION)
            .setting("log_format", format)
            .start();
        for request in [
            "GET /\x1b[31mred HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\x07\x08\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
            "\x1b]0;title\x07 / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\x1b[2J\r\n\r\n",
            "GET / HTTP/1.1\rtime=forged\r\nHost: a\r\n\r\n",
        ] {
            server.connect().send(request).response().expect(400);
        }
        server
            .get("/fail?%1B%5B31mred%0Atime%3Dforged%20outcome%3Dok%0D%08%C2%9B%7F")
            .expect(500);
        server
            .log()
            .wait(|line| line.contains("red") && line.contains("bad"));
        let log = server.stop().log;
        for line in &log {
            assert!(!line.chars().any(char::is_control), "{line:?}");
            assert!(!line.starts_with("time=forged"), "{log:#?}");
        }
    }
}

#[test]
fn an_error_of_the_application_is_logged_with_its_backtrace() {
    let server = Server::app(APPLICATION).start();
    let mut client = server.connect();
    client.send("POST /fail?marker HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    client.response().expect(500);
    let error = server.log().wait(|line| line.contains("bad marker"));
    assert!(error.contains("ArgumentError"), "{error}");
    let text = server.stop().log.join("\n");
    for part in ["config.ru:4:in ", "failing'", "config.ru:7", "/fail"] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[test]
fn the_access_log_can_be_turned_off_and_errors_stay() {
    let server = Server::app(APPLICATION)
        .setting("access_log", "false")
        .start();
    server.get("/").expect(200);
    server.get("/fail?marker").expect(500);
    server.log().wait(|line| line.contains("bad marker"));
    let log = server.stop().log;
    assert!(
        !log.iter().any(|line| line.contains("outcome=")),
        "{log:#?}"
    );
}

#[test]
fn what_the_application_prints_comes_through() {
    let server = Server::app(
        r##"$stdout.sync = true
        run lambda { |env| puts "printed by puts"; warn "printed by warn"; Test.text("hello") }"##,
    )
    .start();
    server.get("/").expect(200);
    server.log().wait(|line| line.contains("printed by puts"));
    server.log().wait(|line| line.contains("printed by warn"));
}

#[test]
fn a_raw_target_is_escaped_in_the_log() {
    let server = Server::app(APPLICATION).start();
    // A terminal would read right to left from U+202E on, and U+009B begins its commands.
    let raw = b"GET /caf\xc3\xa9\xe2\x80\xae\xc2\x9b\xff\" HTTP/1.1\r\nHost: a\r\n\r\n";
    server.connect().send(raw).response().expect(200);
    let line = server.log().wait(|line| line.contains("/caf"));
    let shown =
        r#"path="/caf\u{e9}\u{202e}\u{009b}\xff\"" status=200"#.replace(r"\u{e9}", "\u{e9}");
    assert!(line.contains(&shown), "{line}");
}

#[test]
fn secret_parameters_are_filtered_in_the_log() {
    let server = Server::app(APPLICATION).start();
    let mut client = server.connect();
    client
        .get("/ok?page=2&user[Password]=geheim&x=1&reset%5Ft%6Fken=geheim;geheim&y")
        .expect(200);
    client.get("/ok?api_key=geheim").expect(200);
    client.get("/ok?plain=1&tokens").expect(200);
    client.get("/ok?password").expect(200);
    client
        .send("GET /ok?secret=geheim HTTP/1.1\r\nBad Field: x\r\n\r\n")
        .response()
        .expect(400);
    let log = server.stop().log;
    let paths: Vec<&str> = log
        .iter()
        .filter(|line| line.contains("outcome="))
        .map(|line| pairs(line)["path"])
        .collect();
    assert_eq!(
        paths,
        [
            "/ok?page=2&user[Password]=[FILTERED]&x=1&reset%5Ft%6Fken=[FILTERED]&y",
            "/ok?api_key=[FILTERED]",
            "/ok?plain=1&tokens",
            "/ok?password",
            "/ok?secret=[FILTERED]",
        ]
    );
}

#[test]
fn the_parameters_that_are_filtered_are_a_setting() {
    for (setting, expect) in [
        (
            "pin,Card",
            "/ok?PIN=[FILTERED]&card_no=[FILTERED]&password=1",
        ),
        ("none", "/ok?PIN=1&card_no=1&password=1"),
    ] {
        let server = Server::app(APPLICATION)
            .setting("log_filter_parameters", setting)
            .start();
        server.get("/ok?PIN=1&card_no=1&password=1").expect(200);
        let line = server.log().wait(|line| line.contains("outcome="));
        assert_eq!(pairs(&line)["path"], expect);
    }
}

#[test]
fn fields_that_were_chosen_are_in_each_line() {
    let server = Server::app(APPLICATION)
        .setting("log_format", "json")
        .setting(
            "log_fields",
            "client,host,protocol,user_agent,referer,bytes_in",
        )
        .start();
    let mut client = server.connect();
    client.send(
        "POST /chosen HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: a \"b\"\r\n\
         Referer: http://x/?token=t1&a=1\r\nContent-Length: 3\r\n\r\nabc",
    );
    client.response().expect(200);
    let line = server.log().wait(|line| line.contains("/chosen"));
    let line: Value = serde_json::from_str(&line).expect("JSON");
    for (key, value) in [
        ("client", Value::from("127.0.0.1")),
        ("host", Value::from("shop.example")),
        ("protocol", Value::from("HTTP/1.1")),
        ("user_agent", Value::from("a \"b\"")),
        ("referer", Value::from("http://x/?token=[FILTERED]&a=1")),
        ("bytes_in", Value::from(3)),
    ] {
        assert_eq!(line[key], value, "{key}");
    }
    for key in ["bytes", "queue_ms", "app_ms", "request_id"] {
        assert!(line.get(key).is_none(), "{key}");
    }
    server.stop();
}

#[test]
fn a_generation_is_a_number_in_every_line() {
    let server = Server::app(APPLICATION)
        .setting("log_format", "json")
        .start();
    server.get("/").expect(200);
    server.log().wait(|line| line.contains("outcome"));
    let log = server.stop().log;
    let lines = log
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let found: Vec<Value> = lines
        .filter_map(|line: Value| line.get("generation").cloned())
        .collect();
    assert!(
        found.len() > 1 && found.iter().all(|value| value == 1),
        "{found:?}"
    );
}

#[test]
fn a_log_file_takes_the_log_and_stdout_none_of_it() {
    let server = Server::app(APPLICATION)
        .setting("log_file", "server.log")
        .start();
    server.get("/").expect(200);
    server.get("/fail?marker").expect(500);
    let path = server.dir().join("server.log");
    let read = || std::fs::read_to_string(&path).expect("the log file");
    test_support::until("both are logged", || {
        read().matches("outcome=").count() == 2
    });
    assert!(read().contains("bad marker"));
    let log = server.stop().log;
    assert!(
        !log.iter().any(|line| line.contains("outcome=")),
        "{log:#?}"
    );
}

#[test]
fn a_hangup_opens_the_log_file_again() {
    let server = Server::app(APPLICATION)
        .setting("log_file", "server.log")
        .start();
    let (path, old) = (
        server.dir().join("server.log"),
        server.dir().join("server.log.1"),
    );
    server.get("/first").expect(200);
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    test_support::until("it is logged", || read(&path).contains("/first"));
    std::fs::rename(&path, &old).expect("a file");
    server.process().signal(rustix::process::Signal::HUP);
    test_support::until("a new file is there", || path.exists());
    server.get("/second").expect(200);
    test_support::until("it is logged there", || read(&path).contains("/second"));
    assert!(!read(&old).contains("/second"));
    server.stop();
}

#[test]
fn a_log_file_that_cannot_be_opened_ends_the_start() {
    let application = test_support::Application::new(APPLICATION);
    let ran = test_support::Program::highball(["serve", "--log-file", "missing/server.log"])
        .args(["--listen", "127.0.0.1:0"])
        .current_dir(application.path())
        .run();
    assert!(!ran.status.success());
    let text = ran.output();
    assert!(text.contains("cannot open the log file"), "{text}");
    assert!(text.contains("missing/server.log"), "{text}");
}

#[test]
fn responses_are_counted_by_the_class_of_their_status() {
    let server = Server::app(APPLICATION).start();
    server.get("/").expect(200);
    server.get("/").expect(200);
    server.get("/missing").expect(404);
    server.get("/fail").expect(500);
    server
        .connect()
        .send("GET / HTTP/1.1\r\n\r\n")
        .response()
        .expect(400);
    test_support::until("all are counted", || {
        let status = server.status();
        let count = |class: &str| status.number(&format!("/responses/{class}"));
        ["1xx", "2xx", "3xx", "4xx", "5xx"].map(count) == [0, 2, 0, 2, 1]
    });
    let page = server.command(&["status"]).stdout;
    assert!(page.contains("responses 2xx 2, 4xx 2, 5xx 1"), "{page}");
    server.stop();
}

#[test]
fn parameters_that_rails_filters_are_filtered_here_too() {
    let source = format!(
        "module Rails\n  CONFIG = Struct.new(:filter_parameters).new([:iban])\n  \
         def self.application = Struct.new(:config).new(CONFIG)\nend\n{APPLICATION}"
    );
    let server = Server::app(&source).start();
    server
        .get("/?iban=secret1&token=secret2&page=3")
        .expect(200);
    let line = server.log().wait(|line| line.contains("outcome="));
    assert!(
        line.contains("/?iban=[FILTERED]&token=[FILTERED]&page=3"),
        "{line}"
    );
    server.stop();
}
