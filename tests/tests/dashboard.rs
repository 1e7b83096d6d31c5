//! `highball dashboard`: who gets its pages, that its figures are those of `status --json`, and how it ends. In headless
//! Chromium too; pictures are kept in `target/artifacts`. Needs the packages of `scripts/install test`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use anyhow::{Result, ensure};
use highball_tests::browser::Browser;
use rustix::process::Signal;
use serde_json::json;
use test_support::{Application, Client, Gated, Process, Server, binary, until};

/// `/wait` waits at the gate, `/bad` raises, the rest is answered at once.
const APPLICATION: &str = r##"run lambda { |env|
  Test.pass("work", "call #{env["PATH_INFO"]} #{Process.pid}") if env["PATH_INFO"] == "/wait"
  raise KeyError, "no <b>such</b> key" if env["PATH_INFO"] == "/bad"
  Test.text("ok")
}"##;

/// A running `highball dashboard`; killed when dropped.
struct Dashboard {
    command: Child,
    /// Host and port, and the target with the key.
    host: String,
    target: String,
}

impl Dashboard {
    /// Runs the command and waits for the address that it prints.
    #[track_caller]
    fn open(server: &Server) -> Self {
        let mut command = Command::new(binary())
            .arg("dashboard")
            .current_dir(server.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let stdout = command.stdout.as_mut().expect("stdout is piped");
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("an address");
        let address = line.trim().strip_prefix("http://");
        let address = address.unwrap_or_else(|| panic!("no address: {line:?}"));
        let (host, target) = address.split_once('/').expect("a path");
        Self {
            host: host.to_owned(),
            target: format!("/{target}"),
            command,
        }
    }

    fn address(&self) -> String {
        format!("http://{}{}", self.host, self.target)
    }

    /// Sends a request with these further lines of its head.
    fn send(&self, method: &str, target: &str, fields: &str) -> test_support::Response {
        let mut client = Client::connect(self.host.as_str());
        let host = &self.host;
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n"
        ));
        client.response_to(method)
    }

    /// Exchanges the key for the cookie, as a line of a head.
    #[track_caller]
    fn enter(&self) -> String {
        let entered = self.send("GET", &self.target, "");
        assert_eq!(entered.expect(303).field("location"), Some("/dashboard"));
        let cookie = entered.field("set-cookie").expect("a cookie");
        assert!(
            cookie.ends_with("; Path=/dashboard; HttpOnly; SameSite=Strict"),
            "{cookie}"
        );
        let pair = cookie.split(';').next().expect("a pair");
        format!("Cookie: {pair}\r\n")
    }

    /// Ends the command as Ctrl-C does.
    fn interrupt(&mut self) {
        Process(self.command.id()).signal(Signal::TERM);
        self.command.wait().expect("it ends");
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

/// The value of a figure at the top of a page.
#[track_caller]
fn figure(page: &str, name: &str) -> String {
    let start = format!("data-figure=\"{name}\">");
    let rest = page.split(&start).nth(1);
    let rest = rest.unwrap_or_else(|| panic!("no {name} in {page}"));
    rest.split('<').next().expect("its end").to_owned()
}

#[test]
fn a_key_opens_the_dashboard_once_for_one_browser() {
    let server = Server::app(APPLICATION).start();
    let dashboard = Dashboard::open(&server);
    for target in [
        "/dashboard",
        "/dashboard/live",
        "/dashboard/page.css",
        "/dashboard?key=0",
    ] {
        let refused = dashboard.send("GET", target, "");
        assert!(!refused.expect(401).text().contains("figure"), "{target}");
    }
    dashboard.send("HEAD", &dashboard.target, "").expect(401);
    let cookie = dashboard.enter();
    dashboard.send("GET", &dashboard.target, "").expect(401);
    let page = dashboard.send("GET", "/dashboard", &cookie);
    assert!(page.expect(200).text().contains("<title>"));
    let policy = page.field("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    for file in ["live", "page.css", "page.js"] {
        dashboard
            .send("GET", &format!("/dashboard/{file}"), &cookie)
            .expect(200);
    }
    dashboard
        .send("GET", "/dashboard/../v1/status", &cookie)
        .expect(404);
    dashboard.send("GET", "/v1/status", &cookie).expect(404);
    dashboard.send("POST", "/dashboard", &cookie).expect(405);
    let other_page = format!("{cookie}Sec-Fetch-Site: same-site\r\n");
    dashboard
        .send("GET", "/dashboard/live", &other_page)
        .expect(401);
    // Another dashboard has another key and another cookie.
    let other = Dashboard::open(&server);
    other.send("GET", "/dashboard", &cookie).expect(401);
}

#[test]
fn a_page_of_another_host_cannot_read_the_dashboard() {
    let server = Server::app(APPLICATION).start();
    let dashboard = Dashboard::open(&server);
    let cookie = dashboard.enter();
    let mut client = Client::connect(dashboard.host.as_str());
    client.send(format!(
        "GET /dashboard HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n{cookie}\r\n"
    ));
    let refused = client.response();
    assert!(!refused.expect(421).text().contains("figure"));
}

#[test]
fn the_dashboard_ends_with_its_command() {
    let server = Server::app(APPLICATION).start();
    let mut dashboard = Dashboard::open(&server);
    let cookie = dashboard.enter();
    let mut open = Client::connect(dashboard.host.as_str());
    let head = format!(
        "GET /dashboard/live HTTP/1.1\r\nHost: {}\r\n{cookie}\r\n",
        dashboard.host
    );
    open.send(&head);
    open.response().expect(200);
    dashboard.interrupt();
    until("nobody listens", || {
        Client::try_connect(dashboard.host.as_str()).is_err()
    });
    // A connection that is still open gets nothing more.
    open.send(&head);
    match open.try_response("GET") {
        Ok(answer) => drop(answer.expect(401)),
        Err(_closed) => {}
    }
    server.get("/").expect(200);
}

#[test]
fn dashboards_beyond_the_limit_are_refused() {
    let server = Server::app(APPLICATION).start();
    let open: Vec<Dashboard> = (0..4).map(|_| Dashboard::open(&server)).collect();
    let ran = server.command(&["dashboard"]);
    assert!(!ran.status.success());
    assert!(
        ran.stderr
            .contains("4 dashboards are open: end one with Ctrl-C"),
        "{}",
        ran.output()
    );
    drop(open);
}

#[test]
fn a_stopped_server_ends_the_command_and_says_so() {
    let server = Server::app(APPLICATION).start();
    let mut dashboard = Dashboard::open(&server);
    server.stop();
    let status = dashboard.command.wait().expect("it ends");
    assert!(!status.success());
    let mut text = String::new();
    let stderr = dashboard.command.stderr.as_mut().expect("stderr is piped");
    stderr.read_to_string(&mut text).expect("text");
    assert!(
        text.contains("the server has exited or was replaced"),
        "{text}"
    );
}

#[test]
fn live_figures_are_those_of_the_status() {
    let mut waiting = Gated::start(Application::new(APPLICATION), |builder| {
        builder.workers(1).threads(2)
    });
    let server = &waiting.server;
    for _ in 0..20 {
        server.get("/").expect(200);
    }
    server.get("/bad").expect(500);
    let mut held = server.ask("GET", "/wait");
    let dashboard = Dashboard::open(server);
    waiting.called();
    let server = &waiting.server;
    let cookie = dashboard.enter();
    let page = dashboard
        .send("GET", "/dashboard", &cookie)
        .expect(200)
        .text();
    let status = server.status();
    let number = |pointer| status.number(pointer);
    let queue = format!("{} of {}", number("/queue/length"), number("/queue/limit"));
    assert_eq!(figure(&page, "queue"), queue);
    let threads = status.0["threads"].as_array().expect("threads");
    let busy = threads.iter().filter(|thread| thread["state"] != "idle");
    assert_eq!(
        figure(&page, "busy"),
        format!("{} of {}", busy.count(), threads.len())
    );
    assert_eq!(figure(&page, "busy"), "1 of 2");
    assert_eq!(figure(&page, "workers"), "1 of 1 ready");
    let worker = &status.ready_workers()[0];
    for part in [
        format!("generation 1, pid {}", worker.0),
        "GET &#x2f;wait for ".to_owned(),
        "1 idle".to_owned(),
        "KeyError".to_owned(),
        "no &lt;b&gt;such&lt;".to_owned(),
    ] {
        assert!(page.contains(&part), "no {part:?} in {page}");
    }
    for (outcome, count) in status.0["counters"].as_object().expect("counters") {
        let row = format!(
            "<bdi>{outcome}</bdi></th><td class=\"\" data-head=\"Requests\"><span><bdi>{count}</bdi>"
        );
        assert!(
            count == 0 || page.contains(&row),
            "no {outcome} {count} in {page}"
        );
    }
    let routes = status.0["routes"].as_array().expect("routes");
    assert_eq!(routes.len(), 2, "{routes:?}");
    for route in routes {
        let name = route["route"]
            .as_str()
            .expect("a name")
            .replace('/', "&#x2f;");
        let count = &route["requests"];
        let row = format!(
            "<bdi>{name}</bdi></th><td class=\"\" data-head=\"Requests\"><span><bdi>{count}</bdi>"
        );
        assert!(page.contains(&row), "no {name} {count} in {page}");
    }
    waiting.gate.open();
    held.response().expect(200);
}

#[test]
fn a_browser_sees_live_figures_of_the_server() {
    let mut waiting = Gated::start(Application::new(APPLICATION), |builder| {
        builder.workers(2).threads(2)
    });
    for _ in 0..50 {
        waiting.server.get("/").expect(200);
    }
    waiting.server.get("/bad").expect(500);
    let dashboard = Dashboard::open(&waiting.server);
    let mut held = waiting.server.ask("GET", "/wait");
    waiting.called();
    let folder = test_support::Directory::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let seen = runtime.block_on(async {
        let browser = Browser::open(folder.path()).await?;
        let seen = look(&browser, &dashboard, || {
            waiting.gate.open();
            held.response().expect(200);
        });
        let seen = seen.await;
        browser.close("dashboard", seen.is_ok()).await?;
        seen
    });
    if let Err(error) = seen {
        panic!("{error:?}");
    }
}

async fn look(browser: &Browser, dashboard: &Dashboard, end_request: impl FnOnce()) -> Result<()> {
    browser.go(&dashboard.address()).await?;
    browser.see("[data-figure=busy]").await?;
    let found = browser
        .execute("arguments[0]([location.href, document.querySelector('[data-figure=busy]').textContent])", vec![])
        .await?;
    let page = format!("http://{}/dashboard", dashboard.host);
    ensure!(
        found == json!([page, "1 of 4"]),
        "the key is still in the address, or figures are wrong: {found}"
    );
    for width in [1280, 390] {
        browser.keep_picture("dashboard", width).await?;
    }
    end_request();
    let changed = browser.execute(IDLE, vec![]).await?;
    ensure!(changed == json!("Live"), "{changed}");
    let latency = browser.execute(LATENCY, vec![]).await?;
    ensure!(latency[0] == json!(true), "no percentile: {latency}");
    // 50 requests for one path, one that raised, one that waited.
    let routes = json!([["GET /", "50"], ["GET /bad", "1"], ["GET /wait", "1"]]);
    ensure!(latency[1] == routes, "{latency}");
    Ok(())
}

/// Waits until the map of latency has cells; then whether there is a percentile, and the routes with their requests.
const LATENCY: &str = r#"
    const done = arguments[0];
    const check = () => {
        if (!document.querySelector('#chart-heat .heat')) return;
        const rows = [...document.querySelectorAll('#routes tbody tr')];
        const cell = (row, place) => row.children[place].textContent.trim();
        const routes = rows.map(row => [cell(row, 0), cell(row, 1)]).sort();
        done([/[0-9]/.test(document.querySelector("[data-figure=p95]").textContent), routes]);
    };
    new MutationObserver(check).observe(document, {subtree: true, childList: true, characterData: true});
    check();
"#;

/// Waits until no thread is busy any more.
const IDLE: &str = r#"
    const done = arguments[0];
    const busy = () => document.querySelector("[data-figure=busy]").textContent;
    const check = () => busy() === "0 of 4" && done(document.getElementById("connection").textContent);
    new MutationObserver(check).observe(document, {subtree: true, childList: true, characterData: true});
    check();
"#;
