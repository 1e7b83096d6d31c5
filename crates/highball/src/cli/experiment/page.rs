//! The verdict of an experiment for people: a table of both halves, and the answer in words. It decides nothing.

use std::fmt::Write;

use ::experiment::{Comparison, Difference, Figures, Findings};
use supervisor::Size;

use crate::application::counted;
use crate::experiments::{ExperimentReport, ExperimentState};

/// The headings of the columns.
const HEADINGS: [&str; 4] = ["", "server's", "other", "other / server's (interval)"];

/// The page, with a newline at its end.
pub(super) fn render(report: &ExperimentReport) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut page, report);
    page
}

fn write(page: &mut String, report: &ExperimentReport) -> std::fmt::Result {
    let findings = &report.findings;
    writeln!(page, "experiment: {}", report.setting)?;
    let measured = match report.state {
        ExperimentState::WarmingUp => "workers warm up",
        ExperimentState::Measuring => "measuring",
        ExperimentState::Ending => "ending",
        ExperimentState::Over => "over",
    };
    let slices = counted(findings.slices, "slice");
    let (rest, seconds) = (report.remaining_s, report.seconds);
    write!(
        page,
        "{measured}: {slices} of time with requests in both halves, of 20 in {seconds} s"
    )?;
    match report.state {
        ExperimentState::WarmingUp | ExperimentState::Measuring => {
            writeln!(page, "; {rest} s left")?
        }
        ExperimentState::Ending | ExperimentState::Over => writeln!(page)?,
    }
    if let Some(why) = &report.ended {
        writeln!(page, "ended early: {why}")?;
    }
    write_table(page, report)?;
    for note in &report.notes {
        writeln!(page, "note: {note}")?;
    }
    writeln!(page, "{}", answer(findings))
}

/// The figures of both halves.
fn write_table(page: &mut String, report: &ExperimentReport) -> std::fmt::Result {
    let (findings, [first, second]) = (&report.findings, report.workers);
    writeln!(page)?;
    let (base, variant) = (&findings.base, &findings.variant);
    let mut row = |name: &str, base: String, variant: String, ratio: String| {
        writeln!(page, "{name:<22}{base:>14}{variant:>14}   {ratio}")
    };
    let [name, one, other, ratios] = HEADINGS.map(str::to_owned);
    row(&name, one, other, ratios)?;
    row(
        "workers",
        first.to_string(),
        second.to_string(),
        String::new(),
    )?;
    let count = |of: fn(&Figures) -> u64| (of(base).to_string(), of(variant).to_string());
    let ms = |of: fn(&Figures) -> f64| {
        (
            format!("{:.2} ms", of(base)),
            format!("{:.2} ms", of(variant)),
        )
    };
    let (one, other) = count(|figures| figures.requests);
    row("requests", one, other, String::new())?;
    let (one, other) = count(|figures| figures.errors);
    row("errors", one, other, String::new())?;
    let (one, other) = ms(|figures| figures.cpu_ms);
    row("CPU time per request", one, other, ratio(&findings.cpu))?;
    let (one, other) = ms(|figures| figures.app_p50_ms);
    row("app time p50", one, other, ratio(&findings.app_p50))?;
    let (one, other) = ms(|figures| figures.app_p99_ms);
    row("app time p99", one, other, ratio(&findings.app_p99))?;
    let share = |figures: &Figures| format!("{:.1} %", figures.gc_share * 100.0);
    row(
        "GC share of app time",
        share(base),
        share(variant),
        String::new(),
    )?;
    let bytes = |bytes: Option<u64>| {
        bytes.map_or_else(|| "unknown".to_owned(), |one| Size(one).to_string())
    };
    row(
        "PSS per worker",
        bytes(base.pss_bytes),
        bytes(variant.pss_bytes),
        String::new(),
    )?;
    row(
        "private per worker",
        bytes(base.private_bytes),
        bytes(variant.private_bytes),
        String::new(),
    )?;
    writeln!(page)
}

/// The ratio with its interval.
fn ratio(comparison: &Comparison) -> String {
    match (comparison.ratio, comparison.interval) {
        (Some(ratio), Some((low, high))) => format!("{ratio:.3} ({low:.3} to {high:.3})"),
        (Some(ratio), None) => format!("{ratio:.3} (too few slices for an interval)"),
        (None, _) => "too few requests".to_owned(),
    }
}

/// The answer in a sentence for each measure.
fn answer(findings: &Findings) -> String {
    let all = [
        ("CPU time per request", &findings.cpu),
        ("the median time in the application", &findings.app_p50),
        ("its 99th percentile", &findings.app_p99),
    ];
    let sentences = all.map(|(name, comparison)| {
        let percent = comparison.ratio.map_or(0.0, |ratio| (ratio - 1.0) * 100.0);
        match comparison.difference {
            Difference::Better => format!("the other setting is better in {name}: {percent:+.1} %"),
            Difference::Worse => format!("the other setting is worse in {name}: {percent:+.1} %"),
            Difference::None => format!("no difference shown in {name}"),
            Difference::Unknown => format!("nothing can be said of {name}: too few requests"),
        }
    });
    format!("verdict: {}", sentences.join(";\n         "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_says_what_is_shown_and_what_is_not() {
        let compared = |ratio, interval, difference| Comparison {
            ratio,
            interval,
            difference,
        };
        let report = ExperimentReport {
            setting: "jit=none".into(),
            workers: [2, 2],
            seconds: 60,
            ended: Some("restart requested".into()),
            notes: vec!["jit is none in both halves".into()],
            findings: Findings {
                slices: 20,
                cpu: compared(Some(1.25), Some((1.2, 1.3)), Difference::Worse),
                app_p50: compared(Some(0.99), Some((0.9, 1.1)), Difference::None),
                ..Findings::default()
            },
            ..ExperimentReport::default()
        };
        let page = render(&report);
        for part in [
            "experiment: jit=none\n",
            "over: 20 slices of time",
            "ended early: restart requested",
            "1.250 (1.200 to 1.300)",
            "note: jit is none in both halves",
            "the other setting is worse in CPU time per request: +25.0 %",
            "no difference shown in the median",
            "nothing can be said of its 99th percentile: too few requests",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
