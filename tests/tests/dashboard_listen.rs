//! `dashboard_listen`: not a byte of the server without a session, signing in and out, wrong tokens, and who may ask. In
//! headless Chromium too.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Result, ensure};
use highball_tests::browser::Browser;
use highball_tests::operators::{TOKEN, address};
use serde_json::json;
use test_support::{Application, Client, Directory, Response, Server, ServerBuilder};

const SOURCE: &str = "run ->(_) { Test.text('hello') }";

/// A server with a dashboard for those who have one of these tokens.
fn with_tokens(text: &str) -> ServerBuilder {
    let application = Application::new(SOURCE);
    application.dir().write("readers", text);
    let path = application.path().join("readers");
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).expect("a file of ours");
    Server::application_of(application)
        .setting("dashboard_listen", "127.0.0.1:0")
        .setting("dashboard_tokens_file", "readers")
}

/// Sends a request with these further lines of its head.
fn send(address: &str, method: &str, target: &str, fields: &str, body: &str) -> Response {
    let mut client = Client::connect(address);
    let length = body.len();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    ));
    client.response_to(method)
}

fn sign_in(address: &str, token: &str, fields: &str) -> Response {
    send(
        address,
        "POST",
        "/dashboard",
        fields,
        &format!("token={token}"),
    )
}

/// The cookie of a response, as a line of a head.
#[track_caller]
fn cookie(response: &Response) -> String {
    let cookie = response.field("set-cookie").expect("a cookie");
    format!("Cookie: {}\r\n", cookie.split(';').next().expect("a pair"))
}

/// Every path that there is, with the methods that it may take.
const PATHS: [(&str, &str); 12] = [
    ("GET", "/dashboard"),
    ("HEAD", "/dashboard"),
    ("GET", "/dashboard?exception=0a&application=shop"),
    ("GET", "/dashboard?key=0"),
    ("GET", "/dashboard/live"),
    ("GET", "/dashboard/flame.svg?slow=1-1"),
    ("GET", "/dashboard/page.js"),
    ("GET", "/dashboard/page.css"),
    ("GET", "/v1/status"),
    ("GET", "/metrics"),
    ("POST", "/v1/stop"),
    ("GET", "/"),
];

#[test]
fn without_a_session_not_a_byte_of_the_server_is_told() {
    for tokens in ["# nobody\n", TOKEN] {
        let server = with_tokens(tokens).start();
        let address = address(&server, "dashboard_listen");
        let dir = server.dir().display().to_string();
        let pid = server.process().0.to_string();
        let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
        let stranger = format!("Cookie: highball_dashboard={TOKEN}; highball_dashboard_9292=x\r\n");
        for (method, path) in PATHS {
            for fields in ["", &bearer, &stranger] {
                let answer = send(&address, method, path, fields, "");
                let expect = match path {
                    "/" => 303,
                    "/dashboard/page.css" => 200,
                    path if path.starts_with("/dashboard") => 401,
                    _ => 404,
                };
                let text = answer.expect(expect).text();
                for told in [dir.as_str(), &pid, "data-figure", "serving", "generation"] {
                    assert!(!text.contains(told), "{method} {path} tells {told}: {text}");
                }
                assert_eq!(answer.field("set-cookie"), None);
            }
        }
        assert_eq!(server.get("/dashboard").expect(200).text(), "hello");
        assert_eq!(server.status().0["state"], "serving");
    }
}

#[test]
fn a_token_opens_a_session_until_the_reader_signs_out() {
    let server = with_tokens(TOKEN).start();
    let address = address(&server, "dashboard_listen");
    let entered = sign_in(&address, TOKEN, "");
    assert_eq!(entered.expect(303).field("location"), Some("/dashboard"));
    let set = entered.field("set-cookie").expect("a cookie");
    assert!(
        set.ends_with("; Path=/dashboard; HttpOnly; SameSite=Strict"),
        "{set}"
    );
    assert!(!set.contains(TOKEN));
    let cookie = cookie(&entered);
    let get =
        |target: &str, more: &str| send(&address, "GET", target, &format!("{cookie}{more}"), "");
    let page = get("/dashboard", "").expect(200).text();
    assert!(page.contains("data-figure") && page.contains("action=\"dashboard/sign-out\""));
    for part in ["live", "page.js", "page.css"] {
        get(&format!("/dashboard/{part}"), "").expect(200);
    }
    get("/v1/status", "").expect(404);
    get("/dashboard/live", "Sec-Fetch-Site: cross-site\r\n").expect(401);
    let other = sign_in(&address, TOKEN, "");
    let left = send(&address, "POST", "/dashboard/sign-out", &cookie, "");
    let removed = left.expect(303).field("set-cookie").expect("a cookie");
    assert!(removed.contains("=; Max-Age=0;"), "{removed}");
    get("/dashboard/live", "").expect(401);
    let other = self::cookie(&other);
    send(&address, "GET", "/dashboard/live", &other, "").expect(200);
}

#[test]
fn wrong_tokens_slow_their_address_down() {
    let server = with_tokens(TOKEN).start();
    let address = address(&server, "dashboard_listen");
    let open = cookie(&sign_in(&address, TOKEN, ""));
    for attempt in ["", "0", &TOKEN[1..], "%ff%00", &"x".repeat(60_000)] {
        let refused = sign_in(&address, attempt, "");
        let text = refused.expect(401).text();
        assert!(
            text.contains("This is no token of dashboard_tokens_file."),
            "{text}"
        );
        assert_eq!(refused.field("set-cookie"), None);
    }
    let refused = sign_in(&address, TOKEN, "");
    assert_eq!(refused.expect(429).field("retry-after"), Some("60"));
    assert!(refused.text().contains("Too many wrong tokens"));
    // Who is in stays in.
    send(&address, "GET", "/dashboard/live", &open, "").expect(200);
}

#[test]
fn pages_of_other_origins_and_hosts_do_not_get_in() {
    let server = with_tokens(TOKEN).start();
    let address = address(&server, "dashboard_listen");
    sign_in(&address, TOKEN, "Sec-Fetch-Site: cross-site\r\n").expect(401);
    let mut client = Client::connect(&*address);
    client.send("GET /dashboard HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    client.response().expect(421);
}

#[test]
fn behind_a_proxy_with_tls_the_cookie_is_secure() {
    let proto = "X-Forwarded-Proto: https\r\n";
    for (trusted, is_secure) in [("127.0.0.1", true), ("none", false)] {
        let server = with_tokens(TOKEN)
            .setting("trusted_proxies", trusted)
            .start();
        let address = address(&server, "dashboard_listen");
        let entered = sign_in(&address, TOKEN, proto);
        let set = entered.expect(303).field("set-cookie").expect("a cookie");
        assert_eq!(set.ends_with("; Secure"), is_secure, "{set}");
        let plain = sign_in(&address, TOKEN, "");
        assert!(
            !plain
                .field("set-cookie")
                .expect("a cookie")
                .contains("Secure")
        );
    }
}

#[test]
fn other_tokens_end_all_sessions_at_the_reload() {
    let server = with_tokens(TOKEN).start();
    let address = address(&server, "dashboard_listen");
    let open = cookie(&sign_in(&address, TOKEN, ""));
    let live = || send(&address, "GET", "/dashboard/live", &open, "");
    assert!(server.command(&["reload"]).status.success());
    live().expect(200);
    let other = TOKEN.replace('0', "1");
    std::fs::write(server.dir().join("readers"), &other).expect("a file of ours");
    assert!(server.command(&["reload"]).status.success());
    live().expect(401);
    sign_in(&address, TOKEN, "").expect(401);
    sign_in(&address, &other, "").expect(303);
}

#[test]
fn a_browser_signs_in_looks_and_signs_out() {
    let server = with_tokens(TOKEN).start();
    let address = address(&server, "dashboard_listen");
    let folder = Directory::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let seen = runtime.block_on(async {
        let browser = Browser::open(folder.path()).await?;
        let seen = look(&browser, &address).await;
        browser.close("dashboard-sign-in", seen.is_ok()).await?;
        seen
    });
    if let Err(error) = seen {
        panic!("{error:?}");
    }
}

async fn look(browser: &Browser, address: &str) -> Result<()> {
    browser.go(&format!("http://{address}/")).await?;
    browser.keep_picture("dashboard-sign-in", 390).await?;
    let wide = "arguments[0](document.documentElement.scrollWidth - innerWidth)";
    ensure!(browser.execute(wide, vec![]).await? == json!(0));
    browser.fill("#token", "wrong").await?;
    browser.click("button").await?;
    browser.see("#problem").await?;
    // The field has the focus, and Enter sends.
    browser.fill("#token", &format!("{TOKEN}\n")).await?;
    browser.see("[data-figure=busy]").await?;
    let hosts = "arguments[0](performance.getEntriesByType('resource').every(one => new URL(one.name).host === location.host))";
    ensure!(browser.execute(hosts, vec![]).await? == json!(true));
    browser.keep_picture("dashboard-signed-in", 390).await?;
    browser.click("#sign-out").await?;
    browser.see("#token").await?;
    Ok(())
}
