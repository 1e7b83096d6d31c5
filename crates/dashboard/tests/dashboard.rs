//! The page of made-up servers: what it says, and that it escapes all that it was given.

//!
//! The tests in headless Chromium keep pictures in `target/artifacts`. They need the packages of `scripts/install test`; a
//! missing one fails them.

use dashboard::{HEADERS, View, live, login, page, resource};

#[path = "dashboard/fixtures.rs"]
mod fixtures;
#[path = "dashboard/inspection.rs"]
mod inspection;
#[path = "dashboard/server.rs"]
mod server;

fn shown(model: &dashboard::Model, query: &str) -> String {
    page(model, &View::parse(query)).expect("the template fits")
}

/// Asserts that the parts are in the page in this order.
#[track_caller]
fn expect_in_order(page: &str, parts: &[&str]) {
    let mut last = 0;
    for part in parts {
        let at = page[last..].find(part);
        last += at.unwrap_or_else(|| panic!("no {part:?} after {last} bytes of:\n{page}"));
    }
}

#[test]
fn the_page_has_all_sections_with_the_figures_of_the_model() {
    let page = shown(&fixtures::busy(), "");
    let parts = [
        "<title>shop · Highball</title>",
        "pid 4711 · up 1 d 2 h",
        "certificate old.example.com: it ends in 7 days",
        "data-figure=\"rate\"",
        "data-figure=\"queue\">3 of 256</dd><dd class=\"detail\">the oldest waits 86 ms",
        "data-figure=\"busy\">6 of 12</dd>",
        "data-figure=\"workers\">3 of 4 ready</dd><dd class=\"detail\">generation 3",
        "data-figure=\"memory\">606.0 MiB</dd>",
        "data-figure=\"connections\">37</dd>",
        "id=\"chart-rate\"",
        "id=\"chart-heat\"",
        "id=\"chart-memory\"",
        "worker 1 replaced: private memory 333.0 MiB exceeds",
        "<h2>Routes</h2>",
        "All 200 routes</a>",
        "<h2>Exceptions</h2>",
        "<a href=\"?exception=",
        "NoMethodError",
        ">412<",
        "app&#x2f;models&#x2f;order.rb:Order#total",
        "<h2>Slow requests</h2>",
        "<a href=\"?slow=k0\"",
        "8.4 s",
        "worker 0",
        "&#x2f;export.xlsx for 12 s",
        "1 idle",
        "How requests ended",
        "client_gone",
        "Response cache",
        "67 %",
        "2027-01-30",
    ];
    expect_in_order(&page, &parts);
    assert!(page.len() < 200_000, "{} bytes", page.len());
}

#[test]
fn the_live_part_is_that_of_the_page() {
    let model = fixtures::busy();
    let part = live(&model, &View::default()).expect("the template fits");
    assert!(part.trim_start().starts_with("<main id=\"live\""), "{part}");
    assert!(shown(&model, "").contains(part.trim()));
}

#[test]
fn an_exception_has_a_page_with_its_samples() {
    let page = shown(
        &fixtures::opened_exception(),
        "application=shop&exception=0a",
    );
    let parts = [
        "<title>NoMethodError · Highball</title>",
        "<a href=\"?application=shop\">All figures</a>",
        "<h1><bdi>NoMethodError",
        "KeyError in app&#x2f;models&#x2f;order.rb:price",
        "412 times",
        "12 in this hour",
        "highball exceptions",
        "id=\"chart-hours-title\"",
        "<details id=\"sample-",
        "POST &#x2f;orders&#x2f;8841",
        "<h3>Parameters</h3>",
        "[FILTERED]",
        "<li class=\"own\"><bdi>app&#x2f;models&#x2f;order.rb:40",
        "<li><bdi>&#x2f;var&#x2f;lib&#x2f;gems",
        "Caused by <bdi>KeyError",
    ];
    expect_in_order(&page, &parts);
    assert_eq!(page.matches(" open>").count(), 1, "the newest is open");
}

#[test]
fn a_slow_request_has_a_page_with_a_flame_graph_and_text() {
    let model = fixtures::opened_slow();
    let page = shown(&model, "slow=k0");
    let parts = [
        "<a href=\"?\">All figures</a>",
        "<h1><bdi>GET &#x2f;reports&#x2f;0?from",
        "8.4 s",
        "<dt>Request id</dt><dd><bdi>s0",
        "<img src=\"dashboard&#x2f;flame.svg?slow=k0\" alt=\"Flame graph",
        "<pre id=\"stack\"",
        "ReportsController#show",
    ];
    expect_in_order(&page, &parts);
    let part = live(&model, &View::parse("slow=k0")).expect("the template fits");
    assert!(part.trim_start().starts_with("<main id=\"live\"") && page.contains(part.trim()));
}

#[test]
fn what_is_no_longer_kept_has_a_page_that_says_so() {
    let gone = dashboard::Model {
        opened: Some(dashboard::Opened::Missing),
        ..fixtures::empty()
    };
    let page = shown(&gone, "exception=0a");
    expect_in_order(&page, &["All figures</a>", "It is not kept, or no longer"]);
}

#[test]
fn who_has_signed_in_can_sign_out() {
    let signed_in = dashboard::Model {
        has_session: true,
        ..fixtures::empty()
    };
    let form = "<form method=\"post\" action=\"dashboard/sign-out\">";
    assert!(shown(&signed_in, "").contains(form));
    assert!(!shown(&fixtures::empty(), "").contains(form));
    let asked = login(None).expect("the template fits");
    let parts = [
        "<form method=\"post\" action=\"dashboard\">",
        "type=\"password\"",
    ];
    expect_in_order(&asked, &parts);
    assert!(!asked.contains("role=\"alert\"") && !asked.contains("<script"));
    let again = login(Some(fixtures::HOSTILE)).expect("the template fits");
    assert!(again.contains("&lt;script&gt;") && !again.contains("<script"));
}

#[test]
fn every_text_from_outside_is_escaped() {
    let pages = ["", "application=second&sort=name", "period=day&routes=all"];
    let pages = pages.map(|query| shown(&fixtures::hostile(), query));
    let opened = fixtures::hostile_opened();
    let opened = opened.map(|model| shown(&model, "slow=%22%3E%3Cscript%3Ealert(1)"));
    for page in pages.iter().chain(&opened) {
        assert!(page.contains("&lt;script&gt;alert(1)"), "the text is shown");
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        for part in [
            "<img src=x",
            "alert(2)>",
            "\u{202e}",
            "\u{1b}",
            "49\u{fffd}",
        ] {
            assert!(!page.contains(part), "{part:?} in the page");
        }
        // An element and its id are made of it too.
        for tag in page.split('<').filter_map(|tag| tag.split('>').next()) {
            assert!(!tag.contains("onerror=") || tag.contains("&lt;"), "{tag}");
        }
    }
}

#[test]
fn the_page_needs_nothing_that_its_policy_forbids() {
    let policy = HEADERS
        .iter()
        .find(|(name, _)| *name == "content-security-policy");
    let (_, policy) = policy.expect("a policy");
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"));
    for model in [
        fixtures::busy(),
        fixtures::empty(),
        fixtures::many(),
        fixtures::hostile(),
        fixtures::opened_exception(),
        fixtures::opened_slow(),
    ] {
        let page = shown(&model, "");
        for part in [
            " style=",
            "<style",
            " onclick",
            " onload",
            "javascript:",
            "<form",
            "<iframe",
        ] {
            assert!(!page.contains(part), "{part:?} in the page");
        }
        let with_sources = page
            .split("src=\"")
            .skip(1)
            .chain(page.split("href=\"").skip(1));
        for address in with_sources.filter_map(|rest| rest.split('"').next()) {
            let own = ["?", "#", "dashboard/", "dashboard&#x2f;", "data:,"];
            assert!(
                own.iter().any(|start| address.starts_with(start)),
                "{address}"
            );
            assert!(!address.starts_with("&#x2f;&#x2f;"), "{address}");
        }
    }
    for name in ["page.css", "page.js"] {
        let body = resource(name).expect("it is part of the page").body;
        for part in [
            "http:",
            "https:",
            "//fonts",
            "@import",
            "url(",
            "innerHTML",
            "eval(",
        ] {
            assert!(!body.contains(part), "{part:?} in {name}");
        }
    }
    assert_eq!(resource("../page.css"), None);
}

#[test]
fn a_server_without_requests_has_a_page() {
    let page = shown(&fixtures::empty(), "");
    let parts = [
        "no figures yet",
        "No request has been measured yet.",
        "No exception has been recorded.",
        "No slow request",
        "No worker has been started yet.",
    ];
    expect_in_order(&page, &parts);
    for part in ["NaN", "inf<", "inf%"] {
        assert!(!page.contains(part), "{part}");
    }
    shown(&dashboard::Model::default(), "");
}

#[test]
fn routes_are_sorted_by_the_column_of_the_address() {
    let model = fixtures::busy();
    let names = |query: &str| {
        let page = shown(&model, query);
        let section = page
            .split("<section id=\"routes\">")
            .nth(1)
            .expect("the section");
        let section = section.split("</section>").next().expect("its end");
        let rows = section.split("<th scope=\"row\"><bdi>").skip(1);
        let names: Vec<String> = rows
            .filter_map(|row| row.split('<').next())
            .map(str::to_owned)
            .collect();
        let sorted = section
            .split("aria-sort=\"")
            .nth(1)
            .expect("a sorted column");
        let sorted = sorted.split("<i").next().expect("its title");
        (names, sorted.to_owned())
    };
    let (routes, head) = names("sort=count");
    assert_eq!((routes.len(), &*routes[0]), (20, "&#x2f;products&#x2f;:id"));
    assert!(
        head.starts_with("descending") && head.ends_with("Requests"),
        "{head}"
    );
    assert!(
        head.contains("sort=count&amp;order=ascending#routes"),
        "{head}"
    );
    let (routes, head) = names("sort=name&order=ascending&routes=all");
    assert!(routes.len() == 200 && routes.is_sorted() && head.starts_with("ascending"));
    let (routes, _) = names("sort=database&order=ascending");
    assert!(
        routes[0].contains("many_parts"),
        "unknown is less than none"
    );
}

#[test]
fn several_applications_have_a_page_each_and_one_together() {
    let model = fixtures::many();
    let all = shown(&model, "");
    let parts = [
        "all applications · Highball",
        "aria-current=\"page\"><bdi>All applications",
        "application=application-02",
        "application-06: no worker can serve: requests get 503; next start in 17 s",
        "<h2>Applications</h2>",
        "<small><bdi>application-01</bdi></small>",
    ];
    expect_in_order(&all, &parts);
    let one = shown(&model, "application=application-02");
    expect_in_order(
        &one,
        &["application-02 · Highball", "data-figure=\"busy\">6 of 12<"],
    );
    assert!(!one.contains("<h2>Applications</h2>"));
    let unknown = shown(&model, "application=none");
    assert!(unknown.contains("all applications · Highball"));
}

/// Runs a test with a browser and a server of this model.
#[track_caller]
fn in_browser<F: Future<Output = anyhow::Result<()>>>(
    model: dashboard::Model,
    test: impl FnOnce(std::rc::Rc<test_browser::Browser>, server::Server) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let outcome = runtime.block_on(async {
        let browser = std::rc::Rc::new(test_browser::Browser::open().await?);
        let outcome = test(std::rc::Rc::clone(&browser), server::Server::start(model)).await;
        let browser = std::rc::Rc::into_inner(browser).expect("the test has ended");
        browser.close().await?;
        outcome
    });
    if let Err(error) = outcome {
        panic!("{error:?}");
    }
}

#[test]
fn the_layout_holds_at_every_width_and_in_light_and_dark() {
    in_browser(fixtures::busy(), |browser, server| async move {
        inspection::every_layout(&browser, &server).await
    });
}

#[test]
fn what_is_live_changes_and_what_the_reader_did_stays() {
    in_browser(fixtures::busy(), |browser, server| async move {
        inspection::live(&browser, &server).await
    });
}

#[test]
fn a_server_that_is_gone_is_told_and_so_is_its_return() {
    in_browser(fixtures::busy(), |browser, server| async move {
        inspection::gone_and_back(&browser, &server).await
    });
}

#[test]
fn everything_can_be_reached_by_the_keyboard() {
    in_browser(fixtures::busy(), |browser, server| async move {
        inspection::keyboard(&browser, &server).await
    });
}

#[test]
fn the_page_is_whole_without_its_script() {
    in_browser(fixtures::busy(), |browser, server| async move {
        inspection::without_script(&browser, &server).await
    });
}
