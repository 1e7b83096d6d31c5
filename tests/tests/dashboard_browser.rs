//! The dashboard of a real application under load, in headless Chromium: its figures are those of `status --json`, it asks no
//! other host, and each page is usable on a phone. It keeps the pictures of the guide (docs/pictures) in `target/artifacts`;
//! those have charts of several minutes if `DASHBOARD_LOAD_S` says for how many seconds to ask.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use highball_tests::dashboard::Dashboard;
use serde_json::json;
use test_browser::Browser;
use test_support::{Application, Client, Server};

/// A small shop: some pages are slow, one computes for long, and an order in a thousand is incomplete.
const SHOP: &str = r##"
require "digest/sha2"
require "erb"
require "json"

class Order
  class Incomplete < StandardError; end

  def initialize(number) = @number = number

  def total(items) = items.sum { |item| price_of(item) }

  def price_of(item)
    item.fetch(:price)
  rescue KeyError
    raise Incomplete, "order #{@number} has an item without a price"
  end
end

class Report
  PAGE = ERB.new("<h1><%= @year %></h1><% rows.each do |row| %><p><%= row %></p><% end %>")

  def initialize(year) = @year = year

  def render(seconds)
    @until = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    export(PAGE.result(binding))
  end

  def rows
    rows = []
    rows << checksum(total_of(rows.size)) until Process.clock_gettime(Process::CLOCK_MONOTONIC) > @until
    rows
  end

  def total_of(month) = JSON.generate((1..200).map { |day| { day:, sum: tax(day * month) } })
  def tax(sum) = (1..20).reduce(sum) { |tax, step| tax * 1.19 / step }
  def checksum(text) = 20.times.reduce(text) { |sum, _| Digest::SHA256.hexdigest(sum) }
  def export(page) = sleep(0.3) && page
end

run lambda { |env|
  case env["PATH_INFO"]
  when "/" then sleep(rand * 0.004)
  when "/products" then sleep(0.003 + rand * 0.02)
  when "/search" then sleep(0.01 + rand * rand * 0.15)
  when "/cart" then JSON.parse(JSON.generate((1..500).to_a))
  when "/orders" then Order.new(8841).total([{ price: 3 }, { name: "socks" }])
  when "/report" then Report.new(2026).render(1.5)
  end
  Test.text("ok")
}
"##;

/// What is asked for, in turns.
const TARGETS: [&str; 8] = [
    "/",
    "/products",
    "/",
    "/search",
    "/cart",
    "/products",
    "/",
    "/search",
];
/// How long the application is asked, unless the variable says something else.
const LOAD: Duration = Duration::from_secs(12);

/// Asks for pages until the time is over: in waves, with an incomplete order and a report now and then.
fn load(server: &Server) {
    let seconds = std::env::var("DASHBOARD_LOAD_S").ok();
    let seconds = seconds.and_then(|text| text.parse().ok());
    let end = Instant::now() + seconds.map_or(LOAD, Duration::from_secs);
    let over = AtomicBool::new(false);
    let (address, over) = (server.address(), &over);
    std::thread::scope(|threads| {
        for number in 0..3_usize {
            threads.spawn(move || {
                let mut client = Client::connect(address);
                let turns = TARGETS.iter().cycle().skip(number).enumerate();
                for (turn, target) in turns {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    if turn % 1000 == 200 && number == 0 {
                        client.get("/orders?id=8841&card=4111").expect(500);
                    }
                    if turn % 4000 == 100 && number == 1 {
                        client.get("/report?year=2026").expect(200);
                    }
                    client.get(target).expect(200);
                    // A load that has no waves makes a chart without any.
                    let wave = (turn / 100 % 20).abs_diff(10) as u64;
                    std::thread::sleep(Duration::from_millis(2 + wave));
                }
            });
        }
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn an_application_under_load_is_seen_as_it_is() {
    let server = Server::application_of(Application::without_lint(SHOP))
        .workers(2)
        .threads(2)
        .setting("slow_request", "500ms")
        .start();
    load(&server);
    // At least one of each, however short the load was.
    server.get("/orders?id=8841&card=4111").expect(500);
    server.get("/report?year=2026").expect(200);
    let dashboard = Dashboard::open(&server);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let seen = runtime.block_on(async {
        let browser = Browser::open().await?;
        let seen = look(&browser, &dashboard, &server).await;
        browser.close().await?;
        seen
    });
    if let Err(error) = seen {
        panic!("{error:?}");
    }
}

async fn look(browser: &Browser, dashboard: &Dashboard, server: &Server) -> Result<()> {
    browser.emulate(1120, "light").await?;
    browser.go(&dashboard.address()).await?;
    same_as_status(browser, server).await?;
    let exception = browser.run(&format!("{LINK}('#exceptions')")).await?;
    let slow = browser.run(&format!("{LINK}('#slow')")).await?;
    let exception = exception.as_str().context("a link")?;
    let slow = slow.as_str().context("a link")?;
    let page = format!("http://{}/dashboard", dashboard.host);
    // Name, address, and its size in the guide.
    let pages = [
        ("dashboard", page.as_str(), (1120, 1180)),
        ("dashboard-exception", exception, (1120, 1100)),
        ("dashboard-slow", slow, (1120, 1000)),
    ];
    for (name, address, size) in pages {
        for (width, scheme) in [
            (390, "dark"),
            (1120, "dark"),
            (390, "light"),
            (1120, "light"),
        ] {
            browser.emulate(width, scheme).await?;
            browser.go(address).await?;
            let found = browser.run(USABLE).await?;
            let expect = json!({"overflow": 0, "small": [], "foreign": [], "pictures": true});
            ensure!(found == expect, "{name} {width} {scheme}: {found:#}");
        }
        browser.keep_top(name, size).await?;
    }
    browser.emulate(390, "dark").await?;
    browser.go(&page).await?;
    browser.keep_top("dashboard-phone", (390, 1100)).await?;
    let said = browser.console().await?;
    ensure!(said == json!([]), "the console says {said:#}");
    Ok(())
}

/// Waits until the page, which changes by itself, says what the status says.
async fn same_as_status(browser: &Browser, server: &Server) -> Result<()> {
    let status = server.status();
    let routes = status.0["routes"].as_array().context("routes")?;
    ensure!(routes.len() >= 6, "{routes:?}");
    let mut expect: Vec<(String, String)> = routes
        .iter()
        .map(|route| {
            let name = route["route"].as_str().unwrap_or_default();
            (name.to_owned(), route["requests"].to_string())
        })
        .collect();
    expect.sort();
    let threads = status.0["threads"].as_array().context("threads")?;
    let queue = format!(
        "{} of {}",
        status.number("/queue/length"),
        status.number("/queue/limit")
    );
    let workers = status.ready_workers().len();
    let condition = format!(
        "{SHOWN} === JSON.stringify({})",
        json!([
            expect,
            queue,
            format!("0 of {}", threads.len()),
            format!("{workers} of {workers} ready"),
        ])
    );
    browser.until(&condition).await
}

/// Routes with their requests, queue, busy threads and workers, as the page has them.
const SHOWN: &str = r#"JSON.stringify([
    [...document.querySelectorAll('#routes tbody tr')]
        .map(row => [0, 1].map(place => row.children[place].textContent.trim()))
        .sort(([one], [other]) => one < other ? -1 : 1),
    ...["queue", "busy", "workers"].map(name => document.querySelector(`[data-figure=${name}]`).textContent),
])"#;

/// The address that the first row of a section leads to.
const LINK: &str = "return (css => document.querySelector(css + ' tbody th a').href)";

/// What makes a page hard to use, and hosts that it has asked beside its own.
const USABLE: &str = r#"
    return {
        overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        small: [...document.querySelectorAll("a, button, summary")]
            .filter(one => innerWidth < 600 && one.checkVisibility() && !one.matches(".skip, .meta a, #connection a")
                && one.getBoundingClientRect().height < 24)
            .map(one => one.outerHTML),
        foreign: performance.getEntriesByType("resource").map(entry => entry.name)
            .filter(name => new URL(name).host !== location.host && !name.startsWith("data:")),
        pictures: [...document.images].every(one => one.naturalWidth > 0),
    };
"#;
