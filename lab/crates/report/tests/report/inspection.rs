//! Checks a report's layout in a browser: nothing overflows, nothing is fetched, every chart contains its marks. It
//! writes no report.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use test_browser::Browser;

/// Counts that a page must reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Charts.
    pub(crate) charts: usize,
    /// Stacks in each of them, at least.
    pub(crate) stacks: usize,
}

/// Opens a page at a width in a colour scheme, checks it and its charts, and keeps a picture of it.
pub(crate) async fn inspect(
    browser: &Browser,
    page: &Path,
    name: &str,
    (width, scheme): (u32, &str),
    expected: Expected,
) -> Result<()> {
    browser.emulate(width, scheme).await?;
    browser.visit(page).await?;
    let found = browser.run(INSPECTION).await?;
    browser.keep_picture(name, width).await?;
    check(&found, width, scheme, expected).with_context(|| format!("{name}: {found:#}"))?;
    let said = browser.console().await?;
    ensure!(said == json!([]), "{name}: the console says {said:#}");
    Ok(())
}

/// What the page is made of once it is laid out; the charts of the other width are not displayed.
const INSPECTION: &str = r#"
    document.querySelectorAll("details").forEach(each => each.open = true);
    // How many pairs of names lie over each other.
    const covered = boxes => boxes.flatMap((a, index) => boxes.slice(index + 1).filter(b =>
        a.x < b.x + b.width && b.x < a.x + a.width && a.y + 3 < b.y + b.height && b.y + 3 < a.y + a.height)).length;
    const charts = [...document.querySelectorAll("svg")].filter(svg => svg.getClientRects().length > 0);
    return {
        overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        requests: performance.getEntriesByType("resource").map(entry => entry.name),
        scrolled: [...document.querySelectorAll(".scroll, pre, td, th, h1, h2, h3, summary")]
            .filter(box => box.scrollWidth > box.clientWidth + 1).map(box => box.textContent.trim().split("\n")[0]),
        paper: getComputedStyle(document.body).backgroundColor,
        charts: charts.map(svg => {
            const {width, height} = svg.viewBox.baseVal;
            const marks = [...svg.querySelectorAll("circle, path, line, text")];
            const outside = marks.filter(mark => {
                const box = mark.getBBox();
                return box.x < -1 || box.y < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 1;
            });
            return {
                title: svg.querySelector("title").textContent,
                described: svg.querySelector("desc").textContent.length,
                marks: svg.querySelectorAll(".series circle, .series path").length,
                stacks: new Set([...svg.querySelectorAll(".series")].map(series => series.dataset.stack)).size,
                outside: outside.map(mark => mark.outerHTML),
                covered: covered([...svg.querySelectorAll(".name, .label")].map(name => name.getBBox())),
                size: svg.getBoundingClientRect().width / width,
            };
        }),
    };
"#;

/// Checks the findings of [`INSPECTION`].
fn check(found: &Value, width: u32, scheme: &str, expected: Expected) -> Result<()> {
    ensure!(found["overflow"] == 0, "the page is wider than the window");
    ensure!(found["requests"] == json!([]), "something was fetched");
    ensure!(
        scheme == "print" || found["scrolled"] == json!([]),
        "a table or text is cut"
    );
    let paper = if scheme == "dark" {
        "rgb(21, 23, 26)"
    } else {
        "rgb(255, 255, 255)"
    };
    ensure!(found["paper"] == paper, "the paper is not {scheme}");
    let charts = found["charts"].as_array().context("charts")?;
    ensure!(
        charts.len() == expected.charts,
        "{} charts are shown",
        charts.len()
    );
    for chart in charts {
        let number = |key: &str| chart[key].as_f64().unwrap_or_default();
        ensure!(chart["covered"] == 0, "names lie over each other");
        ensure!(chart["outside"] == json!([]), "marks outside of a chart");
        ensure!(
            number("stacks") >= expected.stacks as f64 && number("marks") >= expected.stacks as f64,
            "a stack is missing"
        );
        ensure!(number("described") > 40.0, "a chart is not described");
        let size = number("size");
        ensure!(
            (0.8..=1.35).contains(&size),
            "text at {size} of its size at {width} px"
        );
    }
    Ok(())
}
