//! Conditions on figures, as people write them for CI: `p99 < 200ms`, `rate >= 500`, `errors <= 1%`. It reads no results:
//! the caller asks [`Condition::holds`] with the figures.

use std::fmt;
use std::str::FromStr;

/// A figure, a comparison and a bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// As it was written.
    text: String,
    /// The stack that it is about; `None` where it names none.
    pub stack: Option<String>,
    /// What is compared.
    pub figure: Figure,
    comparison: Comparison,
    /// In the figure's unit.
    bound: f64,
}

/// The figures that conditions know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// Good responses a second.
    Rate,
    /// Latency that this share of the requests, in per cent, does not exceed; milliseconds.
    Percentile(f64),
    /// Mean latency in milliseconds.
    Mean,
    /// The longest latency in milliseconds.
    Max,
    /// Failed requests over demanded ones, in per cent.
    Errors,
    /// CPU time per request in milliseconds; comparisons only.
    Cpu,
    /// Memory in MB; comparisons only.
    Memory,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

/// With two characters first, since `<=` begins with `<`.
const COMPARISONS: [(&str, Comparison); 4] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::MoreOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::More),
];

/// Units of times, in milliseconds.
const TIMES: [(&str, f64); 4] = [("us", 0.001), ("µs", 0.001), ("ms", 1.0), ("s", 1000.0)];

/// Units of sizes, in MB.
const SIZES: [(&str, f64); 2] = [("MB", 1.0), ("GB", 1000.0)];

impl Figure {
    const NAMES: &str = "rate, p50, p90, p95, p99, p99.9, mean, max, errors, cpu or memory";

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "rate" => Self::Rate,
            "mean" => Self::Mean,
            "max" => Self::Max,
            "errors" => Self::Errors,
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            _ => {
                let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
                return (percent > 0.0 && percent < 100.0).then_some(Self::Percentile(percent));
            }
        })
    }

    /// Its units and what each is in the figure's own.
    fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Self::Rate => &[("", 1.0), ("/s", 1.0)],
            Self::Percentile(_) | Self::Mean | Self::Max | Self::Cpu => &TIMES,
            Self::Errors => &[("%", 1.0)],
            Self::Memory => &SIZES,
        }
    }

    /// A value with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Rate => format!("{value:.1}/s"),
            Self::Percentile(_) | Self::Mean | Self::Max | Self::Cpu => format!("{value:.3}ms"),
            Self::Errors => format!("{value:.2}%"),
            Self::Memory => format!("{value:.1}MB"),
        }
    }
}

impl Condition {
    /// Whether a value, in the figure's unit, fulfils it.
    pub fn holds(&self, value: f64) -> bool {
        match self.comparison {
            Comparison::Less => value < self.bound,
            Comparison::LessOrEqual => value <= self.bound,
            Comparison::More => value > self.bound,
            Comparison::MoreOrEqual => value >= self.bound,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl FromStr for Condition {
    type Err = String;

    /// Reads `[STACK:] FIGURE COMPARISON VALUE[UNIT]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (stack, rest) = match text.split_once(':') {
            Some((stack, rest)) => (Some(stack.trim().to_owned()), rest),
            None => (None, text),
        };
        let found = COMPARISONS
            .iter()
            .find_map(|(sign, comparison)| Some((rest.split_once(sign)?, *comparison)));
        let Some(((name, bound), comparison)) = found else {
            return Err(format!(
                "{text:?} has no comparison; write it as 'p99 < 200ms', with <, <=, > or >="
            ));
        };
        let (name, bound) = (name.trim(), bound.trim());
        let Some(figure) = Figure::named(name) else {
            return Err(format!("{name:?} is no figure; use {}", Figure::NAMES));
        };
        let end = bound.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = bound.split_at(end.unwrap_or(bound.len()));
        let unit = unit.trim();
        let units = figure.units();
        let factor = units.iter().find(|(known, _)| *known == unit);
        let number: Option<f64> = number.parse().ok();
        let Some((number, (_, factor))) = number.zip(factor) else {
            let units = units.iter().map(|(unit, _)| format!("200{unit}"));
            return Err(format!(
                "{bound:?} is no bound of {name}; write a number and its unit: {}",
                units.collect::<Vec<_>>().join(", ")
            ));
        };
        Ok(Self {
            text: text.trim().to_owned(),
            stack,
            figure,
            comparison,
            bound: number * factor,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_with_their_units() {
        let check = |text: &str, stack: Option<&str>, figure, below: f64, above: f64, expect| {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.stack.as_deref(), stack, "{text}");
            assert_eq!(condition.figure, figure, "{text}");
            assert_eq!(
                (condition.holds(below), condition.holds(above)),
                expect,
                "{text}"
            );
        };
        let less = (true, false);
        let more = (false, true);
        let p99 = Figure::Percentile(99.0);
        check("p99 < 200ms", None, p99, 199.9, 200.0, less);
        check("p99<=0.2s", None, p99, 200.0, 200.1, less);
        check(
            "p99.9 < 500us",
            None,
            Figure::Percentile(99.9),
            0.4,
            0.5,
            less,
        );
        check(
            "puma-cluster: rate >= 500",
            Some("puma-cluster"),
            Figure::Rate,
            499.9,
            500.0,
            more,
        );
        check("rate > 500/s", None, Figure::Rate, 500.0, 500.1, more);
        check("errors <= 1 %", None, Figure::Errors, 1.0, 1.1, less);
        check("memory < 1.5GB", None, Figure::Memory, 1499.0, 1500.0, less);
        check("cpu < 2ms", None, Figure::Cpu, 1.9, 2.0, less);
        check("max < 1s", None, Figure::Max, 999.0, 1000.0, less);
        check("mean < 1s", None, Figure::Mean, 999.0, 1000.0, less);
    }

    #[test]
    fn what_is_no_condition_is_refused_with_what_to_write() {
        let check = |text: &str, expect: &str| {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("p99", "has no comparison; write it as 'p99 < 200ms'");
        check("", "has no comparison");
        check("p99 = 200ms", "has no comparison");
        check("latency < 200ms", "\"latency\" is no figure; use rate, p50");
        check("p0 < 1ms", "is no figure");
        check("p100 < 1ms", "is no figure");
        check(
            "p99 < 200",
            "\"200\" is no bound of p99; write a number and its unit: 200us",
        );
        check("p99 < -1ms", "is no bound");
        check("rate > fast", "is no bound of rate");
        check("errors < 3", "200%");
        check("memory < 1kB", "200MB, 200GB");
    }

    #[test]
    fn values_are_shown_with_their_units() {
        assert_eq!(Figure::Percentile(99.0).text(1.25), "1.250ms");
        assert_eq!(Figure::Errors.text(1.0), "1.00%");
        assert_eq!(Figure::Rate.text(12.34), "12.3/s");
    }
}
