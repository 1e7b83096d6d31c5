//! A report on a made-up comparison: what its files say, and how it looks in headless Chromium at two widths, light and
//! dark. The pictures are kept in `target/artifacts`. Nothing is measured here.
//!
//! Needs the packages of `scripts/install test`; a missing one fails the test.

use std::fs;
use std::path::Path;

use anyhow::Result;
use inspection::{Expected, inspect};
use report::Page;
use test_browser::Browser;
use test_support::Directory;

#[path = "report/fixtures.rs"]
mod fixtures;
#[path = "report/inspection.rs"]
mod inspection;

/// Writes the report on the made-up comparison and gives the page and the figures.
fn written(folder: &Path) -> (String, String) {
    let results = fixtures::comparison();
    let study = fixtures::study();
    let page = Page {
        results: &results,
        study: Some(&study),
    };
    report::write(&page, folder).expect("the folder can be written");
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("it was written");
    (read("report.html"), read("results.csv"))
}

#[test]
fn the_page_has_the_answer_first_and_then_all_sections() {
    let folder = Directory::new();
    let (page, _) = written(folder.path());
    let text = page.replace('\u{a0}', " ");
    let mut last = 0;
    // The parts come in this order.
    for part in [
        "<strong>Highball answers the most requests</strong>",
        "the next best (95 % interval",
        "Before you rely on it",
        "nginx before Unicorn, 12 connections, closed loop: 1 of 5 failed (round 2): it did not answer within 30 s",
        "Highball, 2,000 requests a second, open loop: 5 of 5 cannot rank (rounds 1, 2, 3, 4 and 5): the generator was the limit",
        "the load generator can take 9,000 responses a second at most, and more than 50 % of that were reached by Highball in 5 of 5 trials",
        "bind: address already in use",
        "Then and now: Comparison of Rails Deployment Stacks",
        "The order of finish is different.",
        "not ranked",
        "The largest rate held",
        "What you get for a GB and for a core",
        "gem install mongrel",
        "How to read this",
    ] {
        let at = text[last..].find(part);
        last += at.unwrap_or_else(|| panic!("no {part:?} after {:?}", &text[..last].len()));
    }
}

#[test]
fn what_comes_from_outside_is_escaped_and_nothing_is_fetched() {
    let folder = Directory::new();
    let (page, _) = written(folder.path());
    assert!(page.contains("&lt;script&gt;alert("), "the file is shown");
    for part in ["<script", "http://", "https://", " src=", "@import", "url("] {
        assert!(!page.contains(part), "{part:?} in the page");
    }
    assert!(page.len() < 500_000, "{} bytes", page.len());
}

#[test]
fn every_stack_is_one_series_of_every_chart() {
    let folder = Directory::new();
    let (page, _) = written(folder.path());
    let charts: Vec<&str> = page.split("<svg").skip(1).collect();
    // Ratios, rate, rate over time, p99, then of both loads distribution, heat map and CPU parts, then peaks, latency over
    // demand, replies, memory, per GB, per core; each in two widths.
    assert_eq!(charts.len(), 32);
    for chart in charts {
        let chart = chart.split("</svg>").next().unwrap();
        for id in ["highball", "puma-cluster", "apache+thin-byrequests"] {
            let series = format!("data-stack=\"{id}\"");
            assert!(chart.contains(&series), "no {id} in {chart}");
        }
        assert!(chart.contains("<title id=") && chart.contains("<desc id="));
    }
}

#[test]
fn the_csv_has_one_figure_a_line() {
    let folder = Directory::new();
    let (_, figures) = written(folder.path());
    let mut lines = figures.lines();
    assert_eq!(
        lines.next(),
        Some("trial,stack,load,round,measure,unit,value")
    );
    assert!(lines.clone().all(|line| line.split(',').count() == 7));
    for start in [
        "1,highball,closed-12,1,rate,requests/s,",
        "1,highball,closed-12,1,latency_p99,ms,",
        "11,nginx+unicorn,closed-12,2,failed,trials,1",
        "41,highball,peak,1,peak_rate,requests/s,",
        "41,highball,peak,1,largest_reply_rate,requests/s,",
    ] {
        assert!(
            lines.clone().any(|line| line.starts_with(start)),
            "no {start}"
        );
    }
}

#[test]
fn the_terminal_gets_the_same_answer() {
    let results = fixtures::comparison();
    let text = report::terminal(&Page {
        results: &results,
        study: None,
    });
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Highball answers the most requests: ",
        "Compared with Highball (12 connections, closed loop)",
        "% fewer",
        "! nginx before Unicorn, 12 connections, closed loop: 1 of 5 failed (round 2)",
        "mongrel-cluster did not take part: the gem mongrel is not installed. To install: gem install",
    ] {
        assert!(words.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn figures_that_contradict_each_other_are_warnings() {
    let mut results = fixtures::comparison();
    let warned = |results: &compare::results::Results| {
        let text = report::terminal(&Page {
            results,
            study: None,
        });
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(!warned(&results).contains("Little's law"));
    let trial = &mut results.trials[0];
    assert_eq!(trial.stack, "highball");
    trial.outcome.in_flight_s *= 2.0;
    let text = warned(&results);
    let expect = "requests in flight (Little's law): Highball in 1 of ";
    assert!(text.contains(expect), "{text}");
}

#[test]
fn a_rate_that_changes_within_the_load_is_a_warning() {
    let mut results = fixtures::comparison();
    let warned = |results: &compare::results::Results| {
        let text = report::terminal(&Page {
            results,
            study: None,
        });
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(!warned(&results).contains("rose or fell by"));
    // Of an open loop the rate is what was asked for.
    for load in ["open-2000", "closed-12"] {
        let mut trials = results.trials.iter_mut();
        let trial = trials
            .find(|trial| trial.load == load && trial.stack == "highball")
            .unwrap();
        let seconds = &mut trial.outcome.seconds;
        let half = seconds.len() / 2;
        for second in &mut seconds[half..] {
            second.good = second.good * 9 / 10;
        }
    }
    let text = warned(&results);
    let expect =
        "the rate rose or fell by more than 5.0 %, and by more than it scatters: Highball in 1 of ";
    assert!(text.contains(expect), "{text}");
}

/// Asserts that the report on these results has all these parts.
#[track_caller]
fn expect_parts(results: &compare::results::Results, parts: &[&str]) {
    let folder = Directory::new();
    let page = Page {
        results,
        study: None,
    };
    report::write(&page, folder.path()).expect("the report is written");
    let text = fs::read_to_string(folder.join("report.html")).expect("the report is read back");
    for part in parts {
        assert!(text.contains(part), "no {part:?}");
    }
}

#[test]
fn the_page_shows_what_a_load_sends_and_a_stacks_environment() {
    let mut results = fixtures::comparison();
    results.loads[0].count = Some(10_000);
    results.loads[0].calls = Some(1);
    results.loads[1].arrivals = loadgen::plan::Arrivals::Constant;
    let parts = [
        "Each request has a connection of its own. 10,000 requests for each trial.",
        "requests a second leave at equal distances, whether or not earlier ones were answered. What",
        "<pre>MALLOC_ARENA_MAX=2</pre>",
    ];
    expect_parts(&results, &parts);
}

#[test]
fn a_warning_about_all_trials_of_many_stacks_is_one_line() {
    let mut results = fixtures::twenty_stacks();
    let check = |results: &compare::results::Results, expect: &str| {
        let text = report::terminal(&Page {
            results,
            study: None,
        });
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(expect), "{words}");
    };
    for trial in &mut results.trials {
        trial.warm_up.settled = false;
    }
    let expect = "The rate still rose or fell when the warm-up was over: all ";
    check(&results, expect);
    for trial in &mut results.trials {
        trial.warm_up.medians_ms = (1..=10).map(f64::from).collect();
    }
    let expect = "The median latency still rose or fell when the warm-up was over: all ";
    check(&results, expect);
    for trial in &mut results.trials {
        trial.warm_up.medians_ms.truncate(5);
    }
    let expect = "fewer than 10 seconds, too few to judge whether the server was steady: all ";
    check(&results, expect);
}

#[test]
fn a_quick_run_that_was_stopped_says_so() {
    let mut results = fixtures::comparison();
    results.quick = true;
    results.finished = None;
    results.trials.retain(|trial| trial.round <= 2);
    let parts = [
        "quick run: indicative only",
        "stopped midway",
        "There are too few rounds for a verdict.",
    ];
    expect_parts(&results, &parts);
}

#[test]
fn a_report_on_nothing_can_be_written() {
    let folder = Directory::new();
    let results = compare::results::Results::default();
    let page = Page {
        results: &results,
        study: None,
    };
    report::write(&page, folder.path()).unwrap();
    assert!(report::terminal(&page).starts_with("Nothing was measured."));
}

#[test]
fn the_layout_holds_in_a_browser_at_every_width_and_scheme() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = Directory::new();
    written(folder.path());
    let crowd = folder.join("crowd");
    fs::create_dir(&crowd).unwrap();
    let results = fixtures::twenty_stacks();
    let page = Page {
        results: &results,
        study: None,
    };
    report::write(&page, &crowd).unwrap();
    if let Err(error) = runtime.block_on(open_and_inspect(folder.path())) {
        panic!("{error:?}");
    }
}

/// Counts of the made-up comparison's page.
const STUDY: Expected = Expected {
    charts: 16,
    stacks: 4,
};
/// The same without a study, of many stacks.
const CROWD: Expected = Expected {
    charts: 15,
    stacks: 4,
};

async fn open_and_inspect(folder: &Path) -> Result<()> {
    let browser = Browser::open().await?;
    let outcome = inspect_all(&browser, folder).await;
    browser.close().await?;
    outcome
}

async fn inspect_all(browser: &Browser, folder: &Path) -> Result<()> {
    // A sheet of A4 between its margins.
    let page = folder.join("report.html");
    inspect(browser, &page, "report-print", (718, "print"), STUDY).await?;
    for width in [1400, 800, 390] {
        for scheme in ["light", "dark"] {
            let name = format!("report-{width}-{scheme}");
            inspect(
                browser,
                &folder.join("report.html"),
                &name,
                (width, scheme),
                STUDY,
            )
            .await?;
        }
        let page = folder.join("crowd/report.html");
        let name = format!("report-of-20-stacks-{width}");
        inspect(browser, &page, &name, (width, "light"), CROWD).await?;
    }
    Ok(())
}

#[test]
fn one_limit_is_shown_once_and_different_limits_with_their_stacks() {
    let section = |results: &compare::results::Results| {
        let folder = Directory::new();
        let page = Page {
            results,
            study: None,
        };
        report::write(&page, folder.path()).expect("the folder can be written");
        let text = fs::read_to_string(folder.join("report.html")).expect("it was written");
        text.replace('\u{a0}', " ")
    };
    let mut results = fixtures::comparison();
    let text = section(&results);
    assert!(
        text.contains("Quick enough means for every stack: p99 at most 1 s."),
        "{text}"
    );
    results.peaks[0].criterion = "median within 20.4 ms".to_owned();
    let text = section(&results);
    for part in [
        "another latency for each stack",
        "for Highball median within 20.4 ms; for ",
        "for Puma cluster p99 at most 1 s",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn loads_with_idle_connections_and_restarts_have_their_tables() {
    let mut results = fixtures::comparison();
    results.trials[0].beside_idle = Some(compare::results::BesideIdle {
        connections: 10_000,
        ..Default::default()
    });
    results.trials[1].restart = Some(compare::results::UnderRestart::default());
    let parts = [
        "<caption>With idle connections: 12 connections, closed loop</caption>",
        "<caption>Restart under load: 12 connections, closed loop</caption>",
        "10,000</td>",
    ];
    expect_parts(&results, &parts);
}

#[test]
fn a_step_of_puma_comes_with_its_cause() {
    let mut results = fixtures::comparison();
    let text = |results: &compare::results::Results| {
        let folder = Directory::new();
        let page = Page {
            results,
            study: None,
        };
        report::write(&page, folder.path()).expect("the report is written");
        fs::read_to_string(folder.join("report.html")).expect("the report is read back")
    };
    assert!(!text(&results).contains("max_fast_inline"));
    let puma = |id: &str| id == "puma-cluster";
    let stack = results.stacks.iter_mut().find(|stack| puma(&stack.id));
    stack
        .expect("the stack")
        .versions
        .insert("puma".into(), "5.6.5".into());
    let trials = results.trials.iter_mut();
    for trial in trials.filter(|trial| puma(&trial.stack) && trial.load == "closed-12") {
        trial.outcome.latency = loadgen::outcome::Latency::default();
        for index in 0..1_000 {
            let milliseconds = if index % 10 == 9 { 20 } else { 1 };
            let latency = std::time::Duration::from_millis(milliseconds);
            trial.outcome.latency.record(latency);
        }
    }
    let expect =
        "<strong>Why:</strong> Puma cluster: the step near 90 % is its setting max_fast_inline.";
    assert!(text(&results).contains(expect));
}

#[test]
fn a_contaminated_comparison_has_a_banner() {
    let mut results = fixtures::comparison();
    for trial in &mut results.trials {
        trial.other_cores = 0.7;
    }
    results.peaks.clear();
    let parts = [
        "<p class=\"banner\" role=\"note\">Something else on the machine used more than 0.2 cores in ",
    ];
    expect_parts(&results, &parts);
}

#[test]
fn few_requests_have_a_p95_and_a_mean_in_place_of_a_p99() {
    let mut results = fixtures::comparison();
    for trial in &mut results.trials {
        trial.outcome.latency = loadgen::outcome::Latency::default();
        for index in 1..=50 {
            let latency = std::time::Duration::from_millis(index);
            trial.outcome.latency.record(latency);
        }
    }
    let parts = [
        "<th scope=\"col\">p95<small>ms</small></th>",
        "data-head=\"p95 latency\"",
        "data-head=\"Mean latency\"",
        "<h3>p95 latency</h3>",
    ];
    expect_parts(&results, &parts);
}

#[test]
fn latency_over_demand_is_the_median_where_requests_are_too_few_for_a_p99() {
    let mut results = fixtures::comparison();
    expect_parts(&results, &["The p99 at each rate that was tried"]);
    let steps = results.peaks.iter_mut().flat_map(|peak| &mut peak.steps);
    for step in steps {
        step.p50_ms = step.p99_ms.take();
    }
    expect_parts(&results, &["The median at each rate that was tried"]);
}
