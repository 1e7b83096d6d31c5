//! The routes of Redmine under load as the status, the dashboard and the metrics show them, against Rails' own log: the slowest
//! one is the same, and so is the time in its database.
//!
//! Rails measures from the beginning of an action, Highball from that of the application: middleware is in one time alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use highball_tests::browser::Service;
use highball_tests::dashboard::Dashboard;
use highball_tests::operators::get;
use serde_json::Value;
use test_support::{Client, Directory, Program, binary, ruby_library, until, workspace};

/// Pages, the first one by far the slowest.
const PAGES: [&str; 4] = ["/issues?per_page=100", "/projects", "/issues/1", "/login"];
/// So many clients ask for all of them at the same time, twice as many as there are threads.
const CLIENTS: usize = 4;
/// How often each client asks for each.
const ROUNDS: usize = 5;

/// What requests of an action took together.
#[derive(Debug, Default)]
struct Action {
    requests: u32,
    time_ms: f64,
    db_ms: f64,
}

#[test]
fn redmines_slowest_route_is_the_one_of_rails_own_log() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = Directory::new();
    if let Err(error) = runtime.block_on(run(&folder.path().join("redmine"))) {
        panic!("{error:?}");
    }
}

async fn run(instance: &Path) -> Result<()> {
    let script = workspace().join("scripts/redmine");
    let made = Command::new(script).arg(instance).status()?;
    ensure!(made.success(), "scripts/redmine ended with {made}");
    let mut command = tokio::process::Command::new(binary());
    command
        .env_remove("HIGHBALL_BIN")
        .env("HIGHBALL_RUBY_LIB", ruby_library())
        .arg("serve")
        .arg(instance)
        .args(["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"])
        // One request at a time: what a process has in its log are whole requests.
        .args(["--workers", "2", "--threads", "1"])
        .args(["--environment", "production"]);
    let mut server = Service::start(command, "operators reach http://").await?;
    let operators = server
        .address
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_owned();
    let instance = instance.to_owned();
    let compared = tokio::task::spawn_blocking(move || {
        visit(&status(&instance)?)?;
        let all = CLIENTS * ROUNDS * PAGES.len();
        until("each request is counted", || {
            status(&instance).is_ok_and(|status| status["counters"]["ok"] == all)
        });
        compare(&instance, &status(&instance)?, &operators)
    });
    let compared = compared.await.map_err(Into::into).flatten();
    let ended = server.terminate().await?;
    compared.with_context(|| format!("the server said:\n{}", server.output()))?;
    ensure!(ended.success(), "the server ended with {ended}");
    Ok(())
}

fn status(instance: &Path) -> Result<Value> {
    let status = Program::highball(["status", "--json"]);
    let ran = status.current_dir(instance).run();
    serde_json::from_str(&ran.stdout).with_context(|| ran.output())
}

/// Sends the requests, each client beginning with another page.
fn visit(status: &Value) -> Result<()> {
    let address = status["listeners"][0].as_str().context("an address")?;
    let address = address.trim_start_matches("http://");
    std::thread::scope(|scope| {
        for first in 0..CLIENTS {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                let pages = PAGES.iter().cycle().skip(first);
                for page in pages.take(PAGES.len() * ROUNDS) {
                    client.get(page).expect(200);
                }
            });
        }
    });
    Ok(())
}

/// Compares the status, the dashboard and the metrics with the log.
fn compare(instance: &Path, status: &Value, operators: &str) -> Result<()> {
    let log = std::fs::read_to_string(instance.join("log/production.log"))?;
    let logged = actions(&log);
    let slowest = logged
        .iter()
        .max_by(|one, other| one.1.time_ms.total_cmp(&other.1.time_ms));
    let (name, rails) = slowest.context("no action in Rails' log")?;
    ensure!(rails.requests as usize == CLIENTS * ROUNDS, "{logged:?}");

    let route = &status["routes"][0];
    ensure!(route["route"] == **name, "{logged:?}: {route}");
    let share = rails.db_ms / rails.time_ms;
    let found = route["db_share"].as_f64().context("a share")?;
    ensure!((found - share).abs() < 0.05, "{rails:?}: {route}");

    let shown = shown(instance)?;
    ensure!(shown.route == **name, "{logged:?}: {shown:?}");
    ensure!(
        (shown.database - share).abs() < 0.05,
        "{rails:?}: {shown:?}"
    );

    let text = get(operators, "/metrics").expect(200).text();
    let labels = format!("{{application=\"default\",route=\"{name}\"}} ");
    let figure = |metric: &str| -> Result<f64> {
        let prefix = format!("{metric}{labels}");
        let line = text.lines().find_map(|line| line.strip_prefix(&*prefix));
        Ok(line.with_context(|| prefix.clone())?.parse::<f64>()? * 1e3)
    };
    let (app_ms, db_ms) = (
        figure("highball_app_duration_seconds_sum")?,
        figure("highball_db_seconds_total")?,
    );
    ensure!(
        (db_ms / rails.db_ms - 1.0).abs() < 0.05,
        "{rails:?}: {db_ms} ms in the database"
    );
    ensure!(
        (app_ms / rails.time_ms - 1.0).abs() < 0.15,
        "{rails:?}: {app_ms} ms"
    );
    Ok(())
}

/// The first row of the dashboard's routes, which are sorted by their share of the time.
#[derive(Debug)]
struct Shown {
    route: String,
    /// The share of the database, from 0 to 1.
    database: f64,
}

fn shown(instance: &Path) -> Result<Shown> {
    let dashboard = Dashboard::open_in(instance);
    let cookie = dashboard.enter();
    let page = dashboard
        .send("GET", "/dashboard", &cookie)
        .expect(200)
        .text();
    let table = between(&page, "id=\"routes-scroll\"", "</table>").context("a table of routes")?;
    let row = between(table, "<tbody>", "</tr>").context("a row")?;
    let route = between(row, "<bdi>", "</bdi>").context("a route")?;
    let cell = between(row, "data-head=\"Database\">", "</td>").context("a cell")?;
    let share = between(cell, "<bdi>", " %</bdi>").context("a share")?;
    Ok(Shown {
        route: route.to_owned(),
        database: share.parse::<f64>()? / 100.0,
    })
}

/// What Rails' log says of each action, by the name that a route has.
fn actions(log: &str) -> BTreeMap<String, Action> {
    let (mut current, mut all) = (BTreeMap::new(), BTreeMap::<String, Action>::new());
    for line in log.lines() {
        let process = between(line, "#", "]").unwrap_or_default();
        if let Some(action) = between(line, "Processing by ", " ") {
            let name = action.replacen("Controller#", "#", 1).to_lowercase();
            current.insert(process, name);
        } else if let Some(time) = between(line, " in ", "ms (")
            && let Some(name) = current.remove(process)
        {
            let number =
                |text: Option<&str>| text.and_then(|text| text.parse().ok()).unwrap_or(0.0);
            let action = all.entry(name).or_default();
            action.requests += 1;
            action.time_ms += number(Some(time));
            action.db_ms += number(between(line, "ActiveRecord: ", "ms"));
        }
    }
    all
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(before)?;
    Some(rest.split_once(after)?.0)
}
