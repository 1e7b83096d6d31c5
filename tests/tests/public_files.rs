//! Files of the public folder: as Rails answers them, and without Ruby. Rails is Debian's.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use test_support::{Application, Response, Server, ServerBuilder, until};

/// A Rails application in one file; `configuration` is Ruby within its class.
fn rails(configuration: &str) -> Application {
    let application = Application::without_lint(&format!(
        r#"
        require "action_controller/railtie"
        class Example < Rails::Application
          config.root = Dir.pwd
          config.eager_load = false
          config.consider_all_requests_local = false
          config.secret_key_base = "a secret of the test"
          config.logger = Logger.new(nil)
          config.hosts.clear
          config.public_file_server.enabled = true
          config.public_file_server.headers = {{ "Cache-Control" => "public, max-age=60", "X-Served" => "file" }}
          {configuration}
        end
        Rails.application.initialize!
        Rails.application.routes.draw {{ match "*path", to: ->(env) {{ [200, {{ "X-App" => "1" }}, ["application"]] }}, via: :all }}
        run Rails.application
        "#
    ));
    write(application.path(), "public/robots.txt", "nobody");
    application
}

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, content).expect("a file");
}

fn age(folder: &Path, name: &str, seconds: u64) {
    let file = File::options().write(true).open(folder.join(name));
    let time = SystemTime::now() - Duration::from_secs(seconds);
    file.expect("a file").set_modified(time).expect("a time");
}

/// All that the tests ask for.
fn fill(folder: &Path) {
    let public = folder.join("public");
    let text =
        |length: usize| -> Vec<u8> { (0..length).map(|at| b'a' + (at % 26) as u8).collect() };
    for (name, content) in [
        ("index.html", &b"<p>index</p>"[..]),
        ("about.html", b"<p>about</p>"),
        ("folder/index.html", b"<p>folder</p>"),
        ("folder/page.html", b"<p>page</p>"),
        ("plain", b"no ending"),
        ("empty.txt", b""),
        ("a.css", b"a { color: red }"),
        ("a.css.br", b"not really brotli"),
        ("a.css.gz", b"not really gzip"),
        ("b.js", b"b()"),
        ("b.js.gz", b"b, compressed"),
        ("caf\u{e9} au lait.txt", b"coffee"),
        ("image.png", b"\x89PNG"),
        ("font.woff2", b"font"),
        ("data.json", b"{}"),
        ("archive.tar", b"tar"),
        ("archive.tar.gz", b"another"),
        ("both", b"file"),
        ("both.html", b"page"),
        ("UPPER.TXT", b"upper"),
        ("v1.2", b"version"),
        ("assets/application-1a2b3c4d.css", b"digested"),
        (".hidden", b"hidden"),
        ("folder/.env", b"hidden"),
        ("script.rb", b"puts 1"),
        ("assets/manifest-0123456789.json", b"{}"),
    ] {
        write(&public, name, content);
        age(&public, name, 100);
    }
    for (name, length) in [
        ("hundred.bin", 100_000),
        ("large.bin", 300_000),
        ("kib.txt", 2048),
    ] {
        write(&public, name, text(length));
        age(&public, name, 100);
    }
    write(folder, "secret.txt", "secret");
    symlink("a.css", public.join("link.css")).expect("a link");
    symlink("../secret.txt", public.join("out.txt")).expect("a link");
    symlink(folder, public.join("up")).expect("a link");
}

/// Sends a request with these fields.
fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"
    ));
    client.response_to(method)
}

fn start(application: Application, public_files: &str) -> Server {
    builder(application)
        .setting("public_files", public_files)
        .start()
}

fn builder(application: Application) -> ServerBuilder {
    Server::application_of(application)
}

/// What must be equal. A 304 of Rails has no fields.
fn facts(response: &Response) -> Vec<(String, Option<String>)> {
    let names = match response.status() {
        304 | 404 => &[][..],
        416 => &["content-range"],
        // The framing of what Ruby answers depends on when it comes.
        _ if response.field("x-app").is_some() => &["content-type", "cache-control"],
        _ => &[
            "content-type",
            "cache-control",
            "last-modified",
            "content-encoding",
            "content-length",
            "content-range",
            "x-served",
            "vary",
        ],
    };
    // Rails 7.2 writes the name of a field in small letters.
    let field = |name: &&str| {
        let value = response.field(name).map(str::to_owned);
        (
            name.to_string(),
            value.map(|text| {
                if *name == "vary" {
                    text.to_lowercase()
                } else {
                    text
                }
            }),
        )
    };
    names.iter().map(field).collect()
}

#[test]
fn files_are_answered_as_rails_answers_them() {
    let (one, other) = (rails(""), rails(""));
    fill(one.path());
    // The same times in both.
    fs::remove_dir_all(other.path().join("public")).expect("a folder");
    symlink(one.path().join("public"), other.path().join("public")).expect("a link");
    let (front, rails) = (start(one, "auto"), start(other, "none"));
    let paths = [
        "/",
        "//",
        "/index.html",
        "/index",
        "/about",
        "/about/",
        "/about.html",
        "/about.html/",
        "/folder",
        "/folder/",
        "/folder/index.html",
        "/folder/page",
        "/folder//page.html",
        "/./folder/./page.html",
        "/plain",
        "/plain/",
        "/empty.txt",
        "/a.css",
        "/%61.css",
        "/a%2Ecss",
        "/b.js",
        "/caf%C3%A9%20au%20lait.txt",
        "/image.png",
        "/font.woff2",
        "/data.json",
        "/archive.tar",
        "/archive.tar.gz",
        "/a.css.gz",
        "/both",
        "/both.html",
        "/UPPER.TXT",
        "/upper.txt",
        "/v1.2",
        "/kib.txt",
        "/hundred.bin",
        "/large.bin",
        "/link.css",
        "/none",
        "/none.css",
        "/folder/none",
        "/a.css?query=1",
        "/folder%2Fpage.html",
        "/plain/below",
        "/robots.txt",
        // What is left to the application must be what it was.
        "/.hidden",
        "/folder/.env",
        "/script.rb",
        "/out.txt",
        "/up/secret.txt",
        "/up/config.ru",
        "/../secret.txt",
        "/folder/../a.css",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e%2fsecret.txt",
        "/..%5csecret.txt",
        "/a.css%00",
        "/%00",
        "/a%0a.css",
        "/%",
        "/%zz",
        "/%ff.css",
        "/%c0%ae%c0%ae/secret.txt",
        "/a%5cb.css",
        "/assets/manifest-0123456789.json",
        "/....//secret.txt",
        "/folder/%2e%2e/%2e%2e/secret.txt",
    ];
    let mut requests: Vec<(&str, &str, String)> = Vec::new();
    for path in paths {
        requests.push(("GET", path, String::new()));
        requests.push(("HEAD", path, String::new()));
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        requests.push((method, "/a.css", "Content-Length: 0\r\n".to_owned()));
    }
    for accept in ["gzip", "br", "gzip, deflate, br", "identity", "deflate"] {
        for path in ["/a.css", "/b.js", "/about", "/archive.tar"] {
            requests.push(("GET", path, format!("Accept-Encoding: {accept}\r\n")));
        }
    }
    for range in [
        "bytes=0-0",
        "bytes=0-99",
        "bytes=100-",
        "bytes=-5",
        "bytes=-100000000",
        "bytes=99999999-",
        "bytes=5-4",
        "lines=0-1",
        "bytes=2000-9999999",
    ] {
        for path in ["/kib.txt", "/large.bin"] {
            requests.push(("GET", path, format!("Range: {range}\r\n")));
        }
    }
    assert!(requests.len() > 160);
    for (method, path, fields) in &requests {
        let ours = ask(&front, method, path, fields);
        let theirs = ask(&rails, method, path, fields);
        let request = format!("{method} {path} {fields:?}");
        assert_eq!(ours.status(), theirs.status(), "{request}");
        assert!(ours.body == theirs.body, "{request}: other bytes");
        assert_eq!(facts(&ours), facts(&theirs), "{request}");
    }
    let modified = ask(&rails, "GET", "/kib.txt", "");
    let modified = modified.field("last-modified").expect("a time");
    let fields = format!("If-Modified-Since: {modified}\r\n");
    for server in [&front, &rails] {
        assert_eq!(ask(server, "GET", "/kib.txt", &fields).status(), 304);
    }
    assert_eq!(answered_by_workers(front, "/kib.txt"), 0);
    assert!(answered_by_workers(rails, "/kib.txt") > 0);
}

/// How many GET requests for the path a worker answered, by the log.
fn answered_by_workers(server: Server, path: &str) -> usize {
    let stopped = server.stop();
    let of_path = stopped
        .log
        .iter()
        .filter(|line| line.contains(&format!("path=\"{path}\"")));
    let by_worker = of_path.filter(|line| line.contains("worker=0"));
    by_worker.count()
}

#[test]
fn middleware_that_may_keep_files_from_somebody_keeps_them_ruby_s() {
    let guarded = "config.middleware.insert_before 0, Rack::Runtime";
    let server = start(rails(guarded), "auto");
    assert_eq!(ask(&server, "GET", "/robots.txt", "").text(), "nobody");
    assert_eq!(answered_by_workers(server, "/robots.txt"), 1);

    let wrapped = rails("");
    let path = wrapped.path().join("config.ru");
    let source = fs::read_to_string(&path).expect("the application");
    let source = source.replace(
        "run Rails.application",
        "use Rack::ContentLength\nrun Rails.application",
    );
    fs::write(path, source).expect("the application");
    let server = start(wrapped, "auto");
    assert_eq!(ask(&server, "GET", "/robots.txt", "").text(), "nobody");
    assert_eq!(answered_by_workers(server, "/robots.txt"), 1);
}

#[test]
fn an_application_that_wants_https_redirects_to_it_before_files() {
    let server = builder(rails("config.force_ssl = true"))
        .setting("trusted_proxies", "127.0.0.1")
        .start();
    let plain = ask(&server, "GET", "/robots.txt", "");
    assert_eq!(plain.status(), 301);
    let secure = ask(
        &server,
        "GET",
        "/robots.txt",
        "X-Forwarded-Proto: https\r\n",
    );
    assert_eq!(secure.text(), "nobody");
    assert_eq!(answered_by_workers(server, "/robots.txt"), 1);
}

/// An application of Rack whose server answers from the folder `static`.
fn plain(files: &[(&str, &str)]) -> Server {
    let server = Server::app("run ->(env) { [200, { 'x-app' => '1' }, ['application']] }");
    write(server.application().path(), "public/a.css", "not published");
    for (name, content) in files {
        write(
            server.application().path(),
            &format!("static/{name}"),
            content,
        );
    }
    server.setting("public_files", "static").start()
}

#[test]
fn a_folder_of_another_application_is_public_only_where_it_is_named() {
    let server = Server::app("run ->(env) { [200, { 'x-app' => '1' }, ['application']] }");
    write(server.application().path(), "public/a.css", "not published");
    let server = server.start();
    assert_eq!(server.get("/a.css").text(), "application");
    let server = plain(&[("a.css", "published")]);
    assert_eq!(server.get("/a.css").text(), "published");
    assert_eq!(server.get("/b.css").text(), "application");
}

#[test]
fn a_file_has_validators_and_answers_conditions() {
    let server = plain(&[("a.css", "a { }"), ("assets/a-1a2b3c4d.css", "a { }")]);
    let first = server.get("/a.css");
    let etag = first.field("etag").expect("a tag").to_owned();
    let modified = first.field("last-modified").expect("a time").to_owned();
    assert_eq!(first.field("cache-control"), None);
    assert_eq!(first.field("accept-ranges"), Some("bytes"));
    for (fields, status) in [
        (format!("If-None-Match: {etag}\r\n"), 304),
        (format!("If-None-Match: W/{etag}\r\n"), 304),
        ("If-None-Match: \"other\"\r\n".to_owned(), 200),
        (
            format!("If-None-Match: \"other\"\r\nIf-Modified-Since: {modified}\r\n"),
            200,
        ),
        (format!("If-Modified-Since: {modified}\r\n"), 304),
        (format!("If-Match: {etag}\r\n"), 200),
        ("If-Match: \"other\"\r\n".to_owned(), 412),
        (
            "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".to_owned(),
            412,
        ),
        (format!("If-Range: {etag}\r\nRange: bytes=0-1\r\n"), 206),
        (
            "If-Range: \"other\"\r\nRange: bytes=0-1\r\n".to_owned(),
            200,
        ),
    ] {
        let response = ask(&server, "GET", "/a.css", &fields);
        assert_eq!(response.status(), status, "{fields:?}");
        assert_eq!(response.field("etag"), Some(&*etag), "{fields:?}");
    }
    let digested = server.get("/assets/a-1a2b3c4d.css");
    let immutable = Some("public, max-age=31536000, immutable");
    assert_eq!(digested.field("cache-control"), immutable);
}

#[test]
fn several_ranges_are_one_body_and_too_many_are_the_file() {
    let large: String = (0..300_000)
        .map(|at| char::from(b'a' + (at % 26) as u8))
        .collect();
    let server = plain(&[("a.txt", "0123456789"), ("large.txt", &large)]);
    for (path, content) in [("/a.txt", "0123456789"), ("/large.txt", &large)] {
        let response = ask(&server, "GET", path, "Range: bytes=0-1,4-5\r\n");
        assert_eq!(response.status(), 206);
        let boundary = response.field("content-type").expect("a type");
        let boundary = boundary
            .strip_prefix("multipart/byteranges; boundary=")
            .expect("parts");
        let length = content.len();
        let (first, second) = (&content[0..2], &content[4..6]);
        let expected = format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/{length}\r\n\r\n{first}\
             \r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 4-5/{length}\r\n\r\n{second}\
             \r\n--{boundary}--\r\n"
        );
        assert_eq!(response.text(), expected);
    }
    let thousand = vec!["0-"; 1000].join(",");
    let response = ask(
        &server,
        "GET",
        "/a.txt",
        &format!("Range: bytes={thousand}\r\n"),
    );
    assert_eq!(
        (response.status(), response.text()),
        (200, "0123456789".to_owned())
    );
}

#[test]
fn the_form_that_the_client_prefers_is_sent_and_named() {
    let files = [
        ("a.css", "as it is"),
        ("a.css.gz", "gzip"),
        ("a.css.zst", "zstd"),
        ("a.css.br", "old"),
    ];
    let server = plain(&files);
    let folder = server.dir().join("static");
    age(&folder, "a.css", 50);
    age(&folder, "a.css.br", 100);
    let css = |accept: &str| {
        ask(
            &server,
            "GET",
            "/a.css",
            &format!("Accept-Encoding: {accept}\r\n"),
        )
    };
    for (accept, content, coding) in [
        ("gzip, br, zstd", "zstd", Some("zstd")),
        ("br", "as it is", None),
        ("zstd;q=0.1, gzip", "gzip", Some("gzip")),
        ("identity", "as it is", None),
    ] {
        let response = css(accept);
        assert_eq!(
            (response.text().as_str(), response.field("content-encoding")),
            (content, coding)
        );
        assert_eq!(response.field("vary"), Some("Accept-Encoding"), "{accept}");
        assert_eq!(response.field("content-type"), Some("text/css"));
        let fields = format!(
            "Accept-Encoding: {accept}\r\nIf-None-Match: {}\r\n",
            response.field("etag").expect("a tag")
        );
        let again = ask(&server, "GET", "/a.css", &fields);
        assert_eq!(
            (again.status(), again.field("vary")),
            (304, Some("Accept-Encoding"))
        );
    }
    assert_ne!(css("gzip").field("etag"), css("zstd").field("etag"));
}

#[test]
fn what_a_deploy_changes_is_seen_and_nobody_gets_two_files_in_one() {
    let server = plain(&[("a.txt", "one"), ("gone.txt", "gone")]);
    assert_eq!(server.get("/a.txt").text(), "one");
    assert_eq!(server.get("/gone.txt").text(), "gone");
    assert_eq!(server.get("/new.txt").text(), "application");
    let folder = server.dir().join("static");
    write(&folder, "next", "two, longer");
    fs::rename(folder.join("next"), folder.join("a.txt")).expect("a file");
    fs::remove_file(folder.join("gone.txt")).expect("a file");
    write(&folder, "new.txt", "new");
    until("the new files are served", || {
        let text = server.get("/a.txt").text();
        assert!(text == "one" || text == "two, longer", "{text}");
        let gone = server.get("/gone.txt").text();
        let new = server.get("/new.txt").text();
        text == "two, longer" && gone == "application" && new == "new"
    });
    // In place: cut or whole, and never more than the head says.
    write(&folder, "a.txt", "three");
    until("the file is the new one", || {
        server.get("/a.txt").text() == "three"
    });
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_is_cut() {
    let megabytes = "0123456789abcdef".repeat(1 << 20);
    let server = plain(&[("large.bin", &megabytes)]);
    let file = File::options()
        .write(true)
        .open(server.dir().join("static/large.bin"));
    let file = file.expect("a file");
    let mut client = server.ask("GET", "/large.bin");
    let head = client.head();
    assert_eq!(
        head.field("content-length"),
        Some(&*megabytes.len().to_string())
    );
    // More is on its way than is read here, and all of it cannot be.
    assert_eq!(client.bytes(16), b"0123456789abcdef");
    // What is on its way stays as it was. Of a file that keeps some bytes the system may fill what follows them with zeros.
    file.set_len(0).expect("an empty file");
    let (rest, _) = client.rest();
    assert!(rest.len() + 16 < megabytes.len(), "{}", rest.len());
    let expected = megabytes.as_bytes()[16..].iter();
    assert!(rest.iter().eq(expected.take(rest.len())));
    server
        .log()
        .wait(|line| line.contains("/large.bin") && line.contains("outcome=aborted"));
}

#[test]
fn a_file_that_is_replaced_while_it_is_sent_is_the_old_one() {
    let old = "old!".repeat(1 << 22);
    let server = plain(&[("large.bin", &old)]);
    let mut client = server.ask("GET", "/large.bin");
    client.head();
    let mut sent = client.bytes(4);
    let folder = server.dir().join("static");
    write(&folder, "next", "new!".repeat(1 << 22));
    fs::rename(folder.join("next"), folder.join("large.bin")).expect("a file");
    sent.extend(client.bytes(old.len() - 4));
    assert!(sent == old.as_bytes());
    assert_eq!(client.get("/none").text(), "application");
}

#[test]
fn a_large_file_that_is_replaced_is_the_new_one_in_the_next_answer() {
    let content = |round: usize| format!("{round:02}").repeat(100_000);
    let server = plain(&[("large.bin", &content(0))]);
    let folder = server.dir().join("static");
    let mut client = server.connect();
    for round in 0..50 {
        let asked = client.get("/large.bin");
        assert_eq!(asked.status(), 200);
        assert!(asked.text() == content(round), "round {round}");
        write(&folder, "next", content(round + 1));
        fs::rename(folder.join("next"), folder.join("large.bin")).expect("a file");
    }
    fs::remove_file(folder.join("large.bin")).expect("a file");
    assert_eq!(client.get("/large.bin").text(), "application");
}

#[test]
fn a_fifo_among_the_files_holds_nobody_up() {
    let server = plain(&[("a.txt", "a")]);
    let fifo = server.dir().join("static/pipe.txt");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("a FIFO");
    until("the name is seen", || server.get("/a.txt").status() == 200);
    for _ in 0..20 {
        assert_eq!(server.get("/pipe.txt").text(), "application");
    }
    assert_eq!(server.get("/a.txt").text(), "a");
}

#[test]
fn ten_thousand_files_are_each_itself() {
    let server = plain(&[("a.txt", "a")]);
    let folder = server.dir().join("static");
    for at in 0..10_000 {
        write(&folder, &format!("{}/{at}.txt", at % 100), at.to_string());
    }
    let mut client = server.connect();
    until("the files are seen", || {
        client.get("/1/1.txt").text() == "1"
    });
    for at in (0..10_000).chain((0..10_000).step_by(7)) {
        let response = client.get(&format!("/{}/{at}.txt", at % 100));
        assert_eq!(response.text(), at.to_string());
    }
}

#[test]
fn old_tabs_get_the_assets_of_earlier_releases() {
    let server = Server::app("run ->(env) { [200, { 'x-app' => '1' }, ['application']] }");
    let folder = server.application().path().to_owned();
    let release = |number: u32| {
        let path = format!("releases/{number}/public/assets/a-{number}a2b3c4d.css");
        write(&folder, &path, number.to_string());
        write(
            &folder,
            &format!("releases/{number}/public/plain.css"),
            number.to_string(),
        );
        let _ = fs::remove_file(folder.join("current"));
        symlink(format!("releases/{number}"), folder.join("current")).expect("a link");
    };
    (1..=3).for_each(release);
    let server = server.setting("public_files", "current/public").start();
    let get = |path: &str| server.get(path).text();
    for (path, content) in [
        ("/assets/a-3a2b3c4d.css", "3"),
        ("/assets/a-1a2b3c4d.css", "1"),
        ("/assets/a-4a2b3c4d.css", "application"),
        ("/plain.css", "3"),
    ] {
        assert_eq!(get(path), content, "{path}");
    }
    release(4);
    fs::remove_file(folder.join("releases/4/public/plain.css")).expect("a file");
    assert!(server.command(&["restart"]).status.success());
    for (path, content) in [
        ("/assets/a-4a2b3c4d.css", "4"),
        ("/assets/a-3a2b3c4d.css", "3"),
        ("/plain.css", "application"),
    ] {
        assert_eq!(get(path), content, "{path}");
    }
}

#[test]
fn large_files_and_other_responses_follow_each_other_on_a_connection() {
    let text = |length: usize, step: usize| -> String {
        (0..length)
            .map(|at| char::from(b'a' + (at * step % 26) as u8))
            .collect()
    };
    let (one, other, medium) = (text(3_000_000, 1), text(700_001, 3), text(100_000, 5));
    let server = plain(&[
        ("one.txt", &one),
        ("other.txt", &other),
        // In memory as well: sent from there until it is open.
        ("medium.txt", &medium),
        ("small.txt", "small"),
    ]);
    let mut client = server.connect();
    let mut expected: Vec<&str> = Vec::new();
    for _ in 0..3 {
        for (path, fields, content) in [
            ("/one.txt", "", one.as_str()),
            ("/small.txt", "", "small"),
            ("/other.txt", "", &other),
            (
                "/one.txt",
                "Range: bytes=1000-1500000\r\n",
                &one[1000..=1_500_000],
            ),
            ("/medium.txt", "", &medium),
            ("/medium.txt", "Range: bytes=5-9\r\n", &medium[5..10]),
            ("/none", "", "application"),
            ("/medium.txt", "", &medium),
            (
                "/other.txt",
                "Range: bytes=-400000\r\n",
                &other[other.len() - 400_000..],
            ),
        ] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            expected.push(content);
        }
    }
    for (at, content) in expected.iter().enumerate() {
        assert!(client.response().text() == **content, "response {at}");
    }
}

#[test]
fn a_file_that_was_compressed_on_its_way_is_known_by_its_tag() {
    let server = plain(&[("a.css", &"a { color: red }\n".repeat(1000))]);
    let first = ask(&server, "GET", "/a.css", "Accept-Encoding: gzip\r\n");
    assert_eq!(first.field("content-encoding"), Some("gzip"));
    let etag = first.field("etag").expect("a tag");
    let fields = format!("Accept-Encoding: gzip\r\nIf-None-Match: {etag}\r\n");
    assert_eq!(ask(&server, "GET", "/a.css", &fields).status(), 304);
    let ranged = ask(
        &server,
        "GET",
        "/a.css",
        "Accept-Encoding: gzip\r\nRange: bytes=0-1999\r\n",
    );
    assert_eq!(
        (ranged.status(), ranged.field("content-encoding")),
        (206, None)
    );
    assert_eq!(ranged.body.len(), 2000);
}
