//! Checks of the page in a browser: its layout, its live part, its keys. It makes no page.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use test_browser::Browser;

use crate::fixtures;
use crate::server::Server;

/// Widths of a desktop, a tablet and a phone, in pixels.
const WIDTHS: [u32; 3] = [1280, 800, 390];

/// The page of each made-up server at each width, in light and dark; pictures are kept.
pub(crate) async fn every_layout(browser: &Browser, server: &Server) -> Result<()> {
    let [hostile_exception, hostile_slow] = fixtures::hostile_opened();
    // With how many charts each has.
    let models = [
        ("busy", fixtures::busy(), "period=recent", 6),
        ("day", fixtures::busy(), "period=day&routes=all", 6),
        ("empty", fixtures::empty(), "", 6),
        ("many", fixtures::many(), "", 6),
        ("hostile", fixtures::hostile(), "application=second", 6),
        ("exception", fixtures::busy(), "exception=0a", 1),
        ("slow", fixtures::busy(), "slow=k0", 0),
        ("hostile-exception", hostile_exception, "", 1),
        ("hostile-slow", hostile_slow, "", 0),
    ];
    for (name, model, query, charts) in models {
        server.change(|shared| shared.model = model);
        for width in WIDTHS {
            for scheme in ["light", "dark"] {
                if scheme == "light" || ["busy", "exception", "slow"].contains(&name) {
                    let name = format!("dashboard-{name}-{width}-{scheme}");
                    let expect = (width, scheme, charts);
                    layout(browser, &server.address(query), &name, expect).await?;
                }
            }
        }
    }
    Ok(())
}

async fn layout(
    browser: &Browser,
    address: &str,
    name: &str,
    (width, scheme, charts): (u32, &str, usize),
) -> Result<()> {
    browser.emulate(width, scheme).await?;
    browser.go(address).await?;
    browser.keep_picture(name, width).await?;
    let found = browser.run(LAYOUT).await?;
    check(&found, address, (scheme, charts)).with_context(|| format!("{name}: {found:#}"))?;
    let said = browser.console().await?;
    let said = said.as_array().context("messages")?;
    ensure!(said.is_empty(), "{name}: the console says {said:#?}");
    Ok(())
}

/// What the page is once it is laid out, with everything that can be open.
const LAYOUT: &str = r#"
    document.querySelectorAll("details").forEach(each => each.open = true);
    const paper = getComputedStyle(document.body).backgroundColor;
    return {
        overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        cut: [...document.querySelectorAll("td, th, h1, h2, h3, summary, dd, pre, li, summary, .tiles div, .bar")]
            .filter(box => !box.matches(".unseen") && box.scrollWidth > box.clientWidth + 1 && box.getClientRects().length > 0)
            .map(box => box.outerHTML.slice(0, 200)),
        requests: performance.getEntriesByType("resource").map(entry => entry.name),
        paper,
        script: typeof window.alerted,
        // What a finger meets is at least 24 pixels high (WCAG 2.2, 2.5.8), but for links within a sentence.
        small: [...document.querySelectorAll("a, button, summary, input")]
            .filter(one => innerWidth < 600 && one.checkVisibility() && !one.matches(".skip, .meta a, #connection a")
                && one.getBoundingClientRect().height < 24)
            .map(one => one.outerHTML),
        pictures: [...document.images].map(one => one.naturalWidth > 0),
        charts: [...document.querySelectorAll("figure svg")].map(svg => {
            const {width, height} = svg.viewBox.baseVal;
            const outside = [...svg.querySelectorAll("path, line, text")].filter(mark => {
                const box = mark.getBBox();
                return box.x < -1 || box.y < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 1;
            });
            const texts = [...svg.querySelectorAll("text")].map(text => text.getBBox());
            const covered = texts.flatMap((a, index) => texts.slice(index + 1).filter(b =>
                a.x < b.x + b.width && b.x < a.x + a.width && a.y + 4 < b.y + b.height && b.y + 4 < a.y + a.height));
            return {
                title: svg.querySelector("title").textContent,
                described: svg.querySelector("desc").textContent.length,
                outside: outside.map(mark => mark.outerHTML),
                covered: covered.length,
                size: svg.getBoundingClientRect().width / width,
            };
        }),
    };
"#;

fn check(found: &Value, address: &str, (scheme, count): (&str, usize)) -> Result<()> {
    ensure!(found["overflow"] == 0, "the page is wider than the window");
    ensure!(found["cut"] == json!([]), "something is cut");
    ensure!(found["small"] == json!([]), "something is hard to hit");
    let pictures = found["pictures"].as_array().context("pictures")?;
    ensure!(
        pictures.iter().all(|loaded| loaded == true),
        "a picture is not shown"
    );
    let origin = address.split("/dashboard").next().unwrap_or_default();
    for request in found["requests"].as_array().context("requests")? {
        let request = request.as_str().unwrap_or_default();
        ensure!(
            request.starts_with(origin) || request.starts_with("data:"),
            "{request}"
        );
    }
    let paper = match scheme {
        "dark" => "rgb(21, 23, 26)",
        _ => "rgb(255, 255, 255)",
    };
    ensure!(found["paper"] == paper, "the paper is not {scheme}");
    let charts = found["charts"].as_array().context("charts")?;
    ensure!(charts.len() == count, "{} charts", charts.len());
    for chart in charts {
        ensure!(chart["outside"] == json!([]), "marks outside of a chart");
        ensure!(
            chart["covered"] == 0,
            "texts of a chart lie over each other"
        );
        ensure!(
            chart["described"].as_u64() > Some(10),
            "a chart is not described"
        );
        let size = chart["size"].as_f64().unwrap_or_default();
        ensure!((0.7..=1.7).contains(&size), "text at {size} of its size");
    }
    Ok(())
}

/// Figures change by themselves; focus, scroll position and open details stay.
pub(crate) async fn live(browser: &Browser, server: &Server) -> Result<()> {
    browser.emulate(1280, "light").await?;
    browser.go(&server.address("sort=p95")).await?;
    let prepare = r#"
        document.querySelector('#routes th:nth-child(4) a').focus();
        scrollTo(0, 700);
        window.before = {focus: document.activeElement, row: document.querySelector('#routes tbody tr')};
    "#;
    browser.run(prepare).await?;
    server.change(|shared| {
        let application = &mut shared.model.applications[0];
        application.queue.length = 77;
        application.routes[0].p95_s = Some(9_000.0);
        application.exceptions.insert(0, {
            let mut new = application.exceptions[0].clone();
            new.id = "new".into();
            new.last = fixtures::NOW;
            new
        });
    });
    browser
        .until("document.querySelector('[data-figure=queue]').textContent === '77 of 256'")
        .await?;
    let found = browser
        .run(
            r#"return {
                focus: document.activeElement === window.before.focus,
                scroll: scrollY,
                first: document.querySelector('#routes tbody th').textContent,
                sorted: document.querySelector('#routes [aria-sort]').textContent,
                exceptions: document.querySelectorAll('#exceptions tbody tr').length,
                connection: document.getElementById("connection").textContent,
            };"#,
        )
        .await?;
    let expect = json!({
        "focus": true, "scroll": found["scroll"], "first": "/products/:id", "sorted": "p95▼",
        "exceptions": 4, "connection": "Live",
    });
    ensure!(found == expect, "{found:#}");
    ensure!(found["scroll"].as_f64() >= Some(600.0), "{found:#}");
    paused_and_hidden(browser).await?;
    open_details(browser, server).await
}

/// Which samples are open stays the reader's choice when the page of an exception changes.
async fn open_details(browser: &Browser, server: &Server) -> Result<()> {
    browser.go(&server.address("exception=0a")).await?;
    browser
        .run(
            "const all = [...document.querySelectorAll('details')];
             all[0].open = false; all[2].open = true;
             document.getElementById('taken').textContent = 'earlier';",
        )
        .await?;
    browser
        .until("document.getElementById('taken').textContent !== 'earlier'")
        .await?;
    let open = browser
        .run("return [...document.querySelectorAll('details')].map(each => each.open)")
        .await?;
    ensure!(open == json!([false, false, true, false, false]), "{open}");
    Ok(())
}

/// Neither a page that is paused nor one that nobody sees asks the server. The script decides when it is told, so that
/// nothing has to be waited for.
async fn paused_and_hidden(browser: &Browser) -> Result<()> {
    let found = browser
        .run(
            r#"
            let asked = 0;
            const real = window.fetch;
            window.fetch = (...all) => { asked += 1; return new Promise(() => {}); };
            const tell = () => document.dispatchEvent(new Event("visibilitychange"));
            const hide = hidden => Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
            const pause = document.getElementById("pause");
            const counts = [];
            hide(true); tell(); counts.push(asked);
            pause.click(); hide(false); tell(); counts.push(asked);
            const said = [pause.getAttribute("aria-pressed"), document.getElementById("connection").textContent];
            pause.click(); counts.push(asked);
            window.fetch = real;
            return [counts, said];
            "#,
        )
        .await?;
    ensure!(found == json!([[0, 0, 1], ["true", "Paused"]]), "{found:#}");
    Ok(())
}

/// A server that does not answer is told, with the time since when; its return too, and the end of the key.
pub(crate) async fn gone_and_back(browser: &Browser, server: &Server) -> Result<()> {
    browser.emulate(390, "light").await?;
    browser.go(&server.address("")).await?;
    server.change(|shared| shared.failure = Some("503 Service Unavailable"));
    let alarm = "document.getElementById('gone')";
    browser.until(&format!("!{alarm}.hidden")).await?;
    let text = browser.run(&format!("return {alarm}.textContent")).await?;
    let text = text.as_str().unwrap_or_default();
    ensure!(
        text.starts_with("The server has not answered since "),
        "{text}"
    );
    ensure!(
        browser.run(OVERFLOW).await? == 0,
        "the alarm is wider than the window"
    );
    browser.keep_picture("dashboard-gone-390", 390).await?;
    server.change(|shared| shared.failure = None);
    browser.until(&format!("{alarm}.hidden")).await?;
    server.change(|shared| shared.failure = Some("401 Unauthorized"));
    browser
        .until(&format!(
            "{alarm}.textContent.includes('no longer accepts this page')"
        ))
        .await
}

const OVERFLOW: &str =
    "return document.documentElement.scrollWidth - document.documentElement.clientWidth";

/// The keys reach each link, button, table and detail of each page, in the order of the page, and the focus is seen. They
/// lead from page to page, and sort.
pub(crate) async fn keyboard(browser: &Browser, server: &Server) -> Result<()> {
    browser.emulate(1280, "light").await?;
    // Updates would only disturb.
    server.change(|shared| shared.no_script = true);
    for (query, least) in [("", 20), ("exception=0a", 5), ("slow=k0", 4)] {
        let address = server.address(query);
        let reached = tab_through(browser, &address, least).await;
        reached.with_context(|| format!("page {query:?}"))?;
    }
    browser.go(&server.address("")).await?;
    for (css, arrived) in [
        (
            "#routes th:nth-child(6) a",
            "document.querySelector('#routes [aria-sort]')?.textContent === 'p95▼'",
        ),
        ("#slow tbody th a", "!!document.querySelector('#flame img')"),
        (".back a", "!!document.querySelector('#routes')"),
        (
            "#exceptions tbody th a",
            "!!document.querySelector('#samples details[open]')",
        ),
    ] {
        browser
            .run(&format!("document.querySelector({css:?}).focus()"))
            .await?;
        browser.enter().await?;
        browser.until(arrived).await.context(css)?;
    }
    // A summary closes by Enter.
    browser
        .run("document.querySelector('summary').focus()")
        .await?;
    browser.enter().await?;
    browser
        .until("!document.querySelector('#samples details').open")
        .await
}

async fn tab_through(browser: &Browser, address: &str, least: u64) -> Result<()> {
    browser.go(address).await?;
    browser.press("Tab", 9).await?;
    let focus = browser.run(FOCUS).await?;
    ensure!(
        focus["text"] == "Skip to the figures" && focus["seen"] == true,
        "{focus:#}"
    );
    browser.enter().await?;
    browser
        .until("document.activeElement.id === 'live'")
        .await?;
    let all = "return [...document.querySelectorAll('main a, main summary, main [tabindex]')].filter(one => one.checkVisibility()).length";
    let shown = browser.run(all).await?;
    let shown = shown.as_u64().context("a number")?;
    ensure!(shown >= least, "{shown} to reach");
    let mut last = f64::NEG_INFINITY;
    for number in 0..shown {
        browser.press("Tab", 9).await?;
        let focus = browser.run(FOCUS).await?;
        ensure!(focus["seen"] == true, "{number}: {focus:#}");
        let top = focus["top"].as_f64().context("a place")?;
        ensure!(top > last - 60.0, "{number}: back up the page: {focus:#}");
        last = top;
    }
    let levels =
        "return [...document.querySelectorAll('h1, h2, h3')].map(head => head.tagName).join(' ')";
    let levels = browser.run(levels).await?;
    let levels = levels.as_str().unwrap_or_default();
    ensure!(
        levels.starts_with("H1 H2") && levels.matches("H1").count() == 1,
        "{levels}"
    );
    Ok(())
}

/// What has the focus, and whether it is seen.
const FOCUS: &str = r#"
    const one = document.activeElement;
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    return {
        text: one.textContent.trim().slice(0, 60),
        seen: box.width > 0 && box.left >= 0 && style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
        top: box.top + scrollY,
    };
"#;

/// Without the script there is a link that reloads, and a link that sorts.
pub(crate) async fn without_script(browser: &Browser, server: &Server) -> Result<()> {
    browser.emulate(1280, "light").await?;
    server.change(|shared| shared.no_script = true);
    browser.go(&server.address("application=shop")).await?;
    let found = browser
        .run("return [document.getElementById('pause').hidden, document.querySelector('#connection a').getAttribute('href')]")
        .await?;
    ensure!(found == json!([true, "?application=shop"]), "{found}");
    browser
        .run("document.querySelector('#routes th:nth-child(6) a').click()")
        .await?;
    browser
        .until("document.querySelector('#routes [aria-sort]')?.textContent === 'p95▼'")
        .await
}
