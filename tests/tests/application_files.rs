//! Files that the application names: by `to_path`, `X-Sendfile` and `X-Accel-Redirect`, whole, in parts, and not at all.

use std::os::unix::fs::symlink;
use std::path::Path;

use test_support::{Application, Response, Server};

/// Answers with the fields that the query names, and with a file as its body where the path begins with `/body/`.
const NAMING: &str = r##"
    class FileBody
      def initialize(path) = @path = path
      def to_path = @path
      def each = yield File.binread(@path)
    end
    run lambda { |env|
      fields = Rack::Utils.parse_query(env["QUERY_STRING"])
      status = fields.delete("status")&.to_i || 200
      if env["PATH_INFO"].start_with?("/body/")
        next [status, fields, FileBody.new(File.join(Dir.pwd, env["PATH_INFO"].delete_prefix("/body/")))]
      end
      fields["x-env"] = env.values_at("sendfile.type", "HTTP_X_ACCEL_MAPPING").inspect if env["PATH_INFO"] == "/env"
      [status, { "content-length" => "4" }.merge(fields), ["body"]]
    }
"##;

fn application() -> Application {
    let application = Application::without_lint(NAMING);
    let dir = application.dir();
    dir.write("storage/report.txt", "0123456789");
    dir.write("storage/large", vec![b'x'; 600_000]);
    dir.write("storage/empty", "");
    dir.write("secret.txt", "secret");
    symlink("../secret.txt", dir.join("storage/out")).expect("a link");
    symlink("report.txt", dir.join("storage/in")).expect("a link");
    let fifo = dir.join("storage/fifo");
    let made = std::process::Command::new("mkfifo").arg(fifo).status();
    assert!(made.expect("mkfifo runs").success());
    application
}

fn ask(server: &Server, method: &str, target: &str, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"
    ));
    client.response_to(method)
}

fn sendfile(folder: &Path, name: &str) -> String {
    format!("/?x-sendfile={}/{name}", folder.display())
}

#[test]
fn x_sendfile_sends_files_of_the_named_folders_alone() {
    let server = Server::application_of(application())
        .setting("sendfile_roots", "storage")
        .start();
    let folder = server.dir().to_owned();
    let get = |name: &str| ask(&server, "GET", &sendfile(&folder, name), "");
    let response = get("storage/report.txt");
    assert_eq!(response.expect(200).text(), "0123456789");
    assert_eq!(response.field("x-sendfile"), None);
    assert_eq!(response.field("content-length"), Some("10"));
    assert_eq!(response.field("accept-ranges"), Some("bytes"));
    assert_eq!(get("storage/large").expect(200).body.len(), 600_000);
    assert_eq!(get("storage/empty").expect(200).text(), "");
    assert_eq!(get("storage/in").expect(200).text(), "0123456789");
    assert_eq!(get("storage/../storage/in").expect(200).body.len(), 10);
    for name in [
        "secret.txt",
        "storage/out",
        "storage/../secret.txt",
        "storage/fifo",
        "storage",
        "storage/none",
        "storage-too",
    ] {
        let before = server.log().len();
        let response = get(name);
        assert!(!response.expect(500).text().contains("secret"), "{name}");
        let says = |line: &str| line.contains("cannot send the file");
        server.log().wait_after(before, says);
    }
    let relative = ask(&server, "GET", "/?x-sendfile=storage/report.txt", "");
    relative.expect(500);
    // The status stays, and what has no content gets none.
    let missing = format!("{}&status=404", sendfile(&folder, "storage/report.txt"));
    let response = ask(&server, "GET", &missing, "Range: bytes=0-1\r\n");
    assert_eq!(response.expect(404).text(), "0123456789");
    let none = format!("{}&status=204", sendfile(&folder, "storage/report.txt"));
    assert_eq!(ask(&server, "GET", &none, "").expect(204).text(), "");
    let head = ask(&server, "HEAD", &sendfile(&folder, "storage/in"), "");
    assert_eq!(head.expect(200).field("content-length"), Some("10"));
    let env = ask(&server, "GET", "/env", "");
    assert_eq!(env.field("x-env"), Some("[\"X-Sendfile\", nil]"));
}

#[test]
fn x_accel_redirect_sends_files_of_the_mapped_folders_alone() {
    let server = Server::application_of(application())
        .setting("accel_redirects", "/protected=storage")
        .start();
    let folder = server.dir().to_owned();
    let get = |path: &str| ask(&server, "GET", &format!("/?x-accel-redirect={path}"), "");
    for path in ["/protected/report.txt", "/protected/%2572eport.txt"] {
        let response = get(path);
        assert_eq!(response.expect(200).text(), "0123456789", "{path}");
        assert_eq!(response.field("x-accel-redirect"), None);
    }
    for path in [
        "/protected/out",
        "/protected/../secret.txt",
        "/protected/%252e%252e/secret.txt",
        "/protected/%252fetc/passwd",
        "/protected/fifo",
        "/protected",
        "/protectedreport.txt",
        "/other/report.txt",
    ] {
        assert!(!get(path).expect(500).text().contains("secret"), "{path}");
    }
    // The client itself may not ask for it.
    let response = ask(&server, "GET", "/protected/report.txt", "");
    assert_eq!(response.text(), "body");
    // Rack::Sendfile learns the folders from the server, whatever a proxy says.
    let asked = ask(&server, "GET", "/env", "X-Accel-Mapping: /=/protected/\r\n");
    let expected = format!("[nil, \"{}/storage/=/protected/\"]", folder.display());
    assert_eq!(asked.field("x-env"), Some(&expected[..]));
}

#[test]
fn without_settings_the_fields_that_name_files_are_fields_like_others() {
    let server = Server::application_of(application()).start();
    let folder = server.dir().to_owned();
    let target = sendfile(&folder, "storage/report.txt");
    let response = ask(&server, "GET", &target, "");
    assert_eq!(response.expect(200).text(), "body");
    assert!(response.field("x-sendfile").is_some());
    let response = ask(&server, "GET", "/env?x-accel-redirect=/protected/a", "");
    assert_eq!(response.expect(200).text(), "body");
    assert_eq!(response.field("x-accel-redirect"), Some("/protected/a"));
    assert_eq!(response.field("x-env"), Some("[nil, nil]"));
}

#[test]
fn a_part_of_the_applications_file_is_sent_and_an_unchanged_one_is_not() {
    let server = Server::application_of(application())
        .setting("sendfile_roots", "storage")
        .start();
    let folder = server.dir().to_owned();
    let by_field = sendfile(&folder, "storage/report.txt");
    let kept = "cache-control=private";
    for target in [
        format!("/body/storage/report.txt?{kept}"),
        format!("{by_field}&{kept}"),
    ] {
        let get = |fields: &str| ask(&server, "GET", &target, fields);
        let whole = get("");
        assert_eq!(whole.expect(200).text(), "0123456789");
        let (tag, date) = (whole.field("etag"), whole.field("last-modified"));
        let (tag, date) = (tag.expect("a tag"), date.expect("a date"));
        for (fields, status, text) in [
            ("Range: bytes=2-4\r\n".to_owned(), 206, "234"),
            ("Range: bytes=-3\r\n".to_owned(), 206, "789"),
            ("Range: bytes=10-\r\n".to_owned(), 416, ""),
            ("Range: lines=1-2\r\n".to_owned(), 200, "0123456789"),
            (format!("If-None-Match: {tag}\r\n"), 304, ""),
            (format!("If-None-Match: \"{tag}\r\n"), 200, "0123456789"),
            (format!("If-Modified-Since: {date}\r\n"), 304, ""),
            (format!("If-Match: {tag}\r\n"), 200, "0123456789"),
            ("If-Match: \"other\"\r\n".to_owned(), 412, ""),
            (
                format!("If-Range: {tag}\r\nRange: bytes=2-4\r\n"),
                206,
                "234",
            ),
            (
                format!("If-Range: {date}\r\nRange: bytes=2-4\r\n"),
                206,
                "234",
            ),
            (
                "If-Range: \"other\"\r\nRange: bytes=2-4\r\n".to_owned(),
                200,
                "0123456789",
            ),
        ] {
            let response = get(&fields);
            assert_eq!(response.expect(status).text(), text, "{target} {fields}");
        }
        let part = get("Range: bytes=2-4\r\n");
        assert_eq!(part.field("content-range"), Some("bytes 2-4/10"));
        assert_eq!(part.field("content-length"), Some("3"));
        let parts = get("Range: bytes=0-1,4-5\r\n");
        let text = parts.expect(206).text();
        assert!(text.contains("bytes 0-1/10\r\n\r\n01\r\n--"), "{text}");
        assert!(text.contains("bytes 4-5/10\r\n\r\n45\r\n--"), "{text}");
        let other = ask(
            &server,
            "POST",
            &target,
            "Content-Length: 0\r\nRange: bytes=2-4\r\n",
        );
        assert_eq!(other.expect(200).text(), "0123456789");
    }
    let large = ask(
        &server,
        "GET",
        "/body/storage/large",
        "Range: bytes=500000-\r\n",
    );
    assert_eq!(large.expect(206).body.len(), 100_000);
    assert_eq!(large.field("last-modified"), None);
}

#[test]
fn a_part_of_a_file_is_never_stored_as_the_whole() {
    let server = Server::application_of(application())
        .setting("cache_bytes", "1MiB")
        .start();
    let target = "/body/storage/report.txt?cache-control=public,max-age=60";
    for (fields, status, text) in [
        ("Range: bytes=0-1,4-5\r\n", 206, None),
        ("", 200, Some("0123456789")),
        ("If-Match: \"other\"\r\n", 412, Some("")),
        ("", 200, Some("0123456789")),
    ] {
        let response = ask(&server, "GET", target, fields);
        response.expect(status);
        assert!(text.is_none_or(|text| response.text() == text), "{fields}");
    }
}

#[test]
fn a_response_without_content_never_shows_the_name_of_a_file() {
    let server = Server::application_of(application())
        .setting("sendfile_roots", "storage")
        .setting("accel_redirects", "/protected=storage")
        .setting("cache_bytes", "1MiB")
        .start();
    let named = sendfile(server.dir(), "storage/report.txt");
    for status in [204, 205, 304] {
        let target = format!(
            "{named}&x-accel-redirect=/protected/in&status={status}&cache-control=public,max-age=60"
        );
        for method in ["GET", "GET", "HEAD"] {
            let response = ask(&server, method, &target, "");
            response.expect(status);
            assert_eq!(response.field("x-sendfile"), None, "{method} {status}");
            assert_eq!(
                response.field("x-accel-redirect"),
                None,
                "{method} {status}"
            );
        }
    }
}

/// Expects that Rack::Sendfile leaves a file in `storage` to the server.
fn expect_by_rack_sendfile(application: Application, server: impl FnOnce(Application) -> Server) {
    application.dir().write("storage/report.txt", "0123456789");
    let server = server(application);
    for (range, status, text) in [("", 200, "0123456789"), ("Range: bytes=1-2\r\n", 206, "12")] {
        let response = ask(&server, "GET", "/storage/report.txt", range);
        assert_eq!(response.expect(status).text(), text);
        // The body of the application was replaced.
        assert_eq!(response.field("x-body"), Some("replaced"));
        assert_eq!(response.field("x-sendfile"), None);
    }
}

/// Names the file of the path by its body, below Rack::Sendfile, and tells whether that replaced the body.
const BELOW_RACK_SENDFILE: &str = r##"
    require "rack/sendfile"
    require "rack/files"
    use(Class.new do
      def initialize(app) = @app = app
      def call(env)
        status, headers, body = @app.call(env)
        [status, headers.merge("x-body" => body.respond_to?(:to_path) ? "a file" : "replaced"), body]
      end
    end)
    use Rack::Sendfile
    run lambda { |env| Rack::Files.new(Dir.pwd).call(env.except("HTTP_RANGE")) }
"##;

#[test]
fn rack_sendfile_of_rack_2_and_rack_3_sends_by_the_server() {
    let rack_3 = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/rack-3/lib");
    assert!(rack_3.join("rack.rb").exists(), "run scripts/rack-3 first");
    for search_path in [String::new(), format!("RUBYLIB={}", rack_3.display())] {
        let application = Application::without_lint(BELOW_RACK_SENDFILE);
        expect_by_rack_sendfile(application, |application| {
            let builder = Server::application_of(application).setting("sendfile_roots", "storage");
            match search_path.is_empty() {
                true => builder.start(),
                false => builder.under(&["env", &search_path]).start(),
            }
        });
    }
}

/// A Rails application that sends files in the way of this field.
fn rails(field: &str) -> Application {
    Application::without_lint(&format!(
        r#"
        require "action_controller/railtie"
        class Example < Rails::Application
          config.root = Dir.pwd
          config.eager_load = false
          config.consider_all_requests_local = false
          config.secret_key_base = "a secret of the test"
          config.logger = Logger.new(nil)
          config.hosts.clear
          config.action_dispatch.x_sendfile_header = "{field}"
        end
        class FilesController < ActionController::Base
          def show
            send_file Rails.root.join("storage/report.txt"), type: "text/plain"
          end
        end
        Rails.application.initialize!
        Rails.application.routes.draw {{ get "*path", to: "files#show" }}
        use(Class.new do
          def initialize(app) = @app = app
          def call(env)
            status, headers, body = @app.call(env)
            [status, headers.merge("x-body" => body.respond_to?(:to_path) ? "a file" : "replaced"), body]
          end
        end)
        run Rails.application
        "#
    ))
}

#[test]
fn rails_sends_files_by_either_field() {
    for (field, setting, value) in [
        ("X-Sendfile", "sendfile_roots", "storage"),
        ("X-Accel-Redirect", "accel_redirects", "/internal=storage"),
    ] {
        expect_by_rack_sendfile(rails(field), |application| {
            let builder = Server::application_of(application);
            // Rails takes the folder without links in its path.
            let folder = builder.application().path().canonicalize();
            let builder = builder.folder(folder.expect("a path"));
            builder.setting(setting, value).start()
        });
    }
}

#[test]
fn a_reload_changes_which_files_may_be_sent() {
    let server = Server::application_of(application())
        .settings_file("")
        .start();
    let folder = server.dir().to_owned();
    let target = sendfile(&folder, "storage/report.txt");
    assert_eq!(ask(&server, "GET", &target, "").text(), "body");
    let lines = "sendfile_roots = [\"storage\"]\n";
    server.application().dir().write("highball.toml", lines);
    let ran = server.command(&["reload"]);
    assert_eq!(ran.status.code(), Some(0), "{}", ran.output());
    let response = ask(&server, "GET", &target, "");
    assert_eq!(response.expect(200).text(), "0123456789");
    let env = ask(&server, "GET", "/env", "");
    assert_eq!(env.field("x-env"), Some("[\"X-Sendfile\", nil]"));
}
