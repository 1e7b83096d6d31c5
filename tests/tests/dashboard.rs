//! `highball dashboard`: who gets its pages, that its figures are those of `status --json`, and how it ends. In headless
//! Chromium too; pictures are kept in `target/artifacts`. Needs the packages of `scripts/install test`.

use std::io::Read;

use anyhow::{Result, ensure};
use highball_tests::browser::Browser;
use highball_tests::dashboard::{Dashboard, figure};
use serde_json::json;
use test_support::{Application, Client, Gated, Server, until};

/// `/wait` waits at the gate, `/bad` raises, the rest is answered at once.
const APPLICATION: &str = r##"run lambda { |env|
  Test.pass("work", "call #{env["PATH_INFO"]} #{Process.pid}") if env["PATH_INFO"] == "/wait"
  raise KeyError, "no <b>such</b> key" if env["PATH_INFO"] == "/bad"
  Test.text("ok")
}"##;

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

/// Each request computes for a second.
const SLOW: &str = r##"
def rows_of(report, rows = 0)
  rows += 1 until Process.clock_gettime(Process::CLOCK_MONOTONIC) > report
end

run lambda { |env|
  rows_of(Process.clock_gettime(Process::CLOCK_MONOTONIC) + 1)
  Test.text("ok")
}
"##;

/// The address that the link in a list leads to: the first one that begins so.
#[track_caller]
fn link(page: &str, start: &str) -> String {
    let start = format!("<a href=\"{start}");
    let at = page.find(&start);
    let at = at.unwrap_or_else(|| panic!("no {start} in {page}"));
    let rest = &page[at + "<a href=\"".len()..];
    rest.split('"')
        .next()
        .expect("its end")
        .replace("&amp;", "&")
}

#[test]
fn an_exception_is_opened_with_its_samples() {
    let server = Server::app(APPLICATION).start();
    for _ in 0..3 {
        server.get("/bad?password=secret&q=shoes").expect(500);
    }
    let dashboard = Dashboard::open(&server);
    let cookie = dashboard.enter();
    let get = |target: &str| dashboard.send("GET", target, &cookie);
    let list = get("/dashboard").expect(200).text();
    assert!(
        !list.contains("shoes"),
        "samples are on a page of their own"
    );
    let target = format!("/dashboard{}", link(&list, "?exception="));
    let page = get(&target).expect(200).text();
    for part in [
        "<h1><bdi>KeyError",
        "no &lt;b&gt;such&lt;&#x2f;b&gt; key",
        "3 times",
        "3 in this hour",
        "GET &#x2f;bad",
        "<dd><bdi>shoes",
        "[FILTERED]",
        "<li class=\"own\"><bdi>config.ru:",
    ] {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
    assert!(!page.contains("secret") && !page.contains("data-figure"));
    let live = target.replace("/dashboard?", "/dashboard/live?");
    assert!(page.contains("3 times") && get(&live).expect(200).text().contains("3 times"));
    for gone in ["?exception=0", "?exception=", "?slow=1-1"] {
        let page = get(&format!("/dashboard{gone}")).expect(200).text();
        let is_list = page.contains("data-figure");
        assert_eq!(page.contains("It is not kept"), !is_list, "{gone}");
        assert_eq!(is_list, gone == "?exception=");
    }
}

#[test]
fn a_slow_request_is_opened_with_its_flame_graph() {
    let application = Application::new(SLOW);
    let server = Server::application_of(application)
        .setting("slow_request", "200ms")
        .start();
    server.get("/report?year=2026&token=secret").expect(200);
    let dashboard = Dashboard::open(&server);
    let cookie = dashboard.enter();
    let get = |target: &str| dashboard.send("GET", target, &cookie);
    let list = get("/dashboard").expect(200).text();
    let link = link(&list, "?slow=");
    let page = get(&format!("/dashboard{link}")).expect(200).text();
    let picture = format!("<img src=\"dashboard&#x2f;flame.svg{link}\"");
    for part in [
        "GET &#x2f;report?year=2026",
        "rows_of",
        &picture,
        "<dt>Samples of its thread</dt>",
    ] {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
    assert!(!page.contains("secret"));
    let svg = get(&format!("/dashboard/flame.svg{link}"));
    assert_eq!(svg.expect(200).field("content-type"), Some("image/svg+xml"));
    let policy = svg.values("content-security-policy").join(";");
    assert!(
        policy.starts_with("default-src 'none'") && !policy.contains("script"),
        "{policy}"
    );
    let text = svg.text();
    assert!(
        text.contains("rows_of") && !text.contains("<script"),
        "{text}"
    );
    for none in ["", "?slow=", "?slow=1-1", "?exception=0"] {
        get(&format!("/dashboard/flame.svg{none}")).expect(404);
    }
    let refused = dashboard.send("GET", &format!("/dashboard/flame.svg{link}"), "");
    assert!(!refused.expect(401).text().contains("rows_of"));
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
