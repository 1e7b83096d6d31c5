//! Figures for people: three digits that matter, thousands set apart, differences in words. Never used for files that
//! programs read.

use compare::statistics::Estimate;

/// Keeps a number and its unit on one line.
pub(crate) const SPACE: char = '\u{a0}';

/// Three digits that matter: `0.0123`, `6.92`, `692`, `6,920`, `1,230,000`; a dash for what is no number.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = |value: f64| value.abs().log10().floor() as i32;
    let unit = 10_f64.powi(magnitude(value) - 2);
    let rounded = (value / unit).round() * unit;
    // Rounding may have added a digit: 0.9996 is 1.00.
    let magnitude = magnitude(rounded * (1.0 + 1e-12));
    let decimals = (2 - magnitude).clamp(0, 6) as usize;
    let text = format!("{rounded:.decimals$}");
    let text = if magnitude >= 3 {
        thousands(&text)
    } else {
        text
    };
    text.replace('-', "−")
}

/// The same for round values, without zeros at the end: `0.5`, `12`, `2,000`.
pub(crate) fn round(value: f64) -> String {
    let text = figure(value);
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

/// A whole number with its thousands set apart.
pub(crate) fn count(value: u64) -> String {
    thousands(&value.to_string())
}

fn thousands(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let mut text = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The ends of an interval: `6,800 to 7,040`; `None` where nothing is known of it.
pub(crate) fn interval(estimate: Estimate) -> Option<String> {
    let (low, high) = estimate.interval()?;
    Some(format!("{} to {}", figure(low), figure(high)))
}

/// A value with half its interval, `6,820 ± 1.2 %`, or with all of it where it is a wide one.
pub(crate) fn within(estimate: Estimate) -> String {
    let value = figure(estimate.value);
    let Some((low, high)) = estimate.interval() else {
        return value;
    };
    let half = (high - low) / 2.0 / estimate.value;
    if half < 0.5 {
        format!("{value} ±{SPACE}{}", percent(half))
    } else {
        format!("{value} ({} to {})", figure(low), figure(high))
    }
}

/// How far a ratio is from 1, without its direction: `28 %`, or `2.4 times` from two times on.
pub(crate) fn distance(ratio: f64) -> String {
    if ratio >= 2.0 {
        format!("{}{SPACE}times", figure(ratio))
    } else {
        percent((ratio - 1.0).abs())
    }
}

/// A share as `28 %`; below ten per cent with a decimal.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 9.95 {
        format!("{percent:.1}{SPACE}%")
    } else {
        format!("{percent:.0}{SPACE}%")
    }
}

/// The interval of a ratio as differences: `+24 to +32 %`, or `2.1 to 2.8 times` where all of it is beyond two times.
pub(crate) fn differences(ratio: Estimate) -> Option<String> {
    let (low, high) = ratio.interval()?;
    if low >= 2.0 {
        return Some(format!("{} to {}{SPACE}times", figure(low), figure(high)));
    }
    // An interval of few trials may reach far; beyond ten times its end is no help as a percentage.
    let high = if high > 10.0 {
        format!("over +900{SPACE}%")
    } else {
        format!("{}{SPACE}%", signed(high - 1.0))
    };
    Some(format!("{} to {high}", signed(low - 1.0)))
}

fn signed(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = usize::from(percent.abs() < 9.95);
    let text = format!("{:.decimals$}", percent.abs());
    let sign = if percent < 0.0 { '−' } else { '+' };
    format!("{sign}{text}")
}

/// `one`, `one and two`, `one, two and three`.
pub(crate) fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `1 trial`, `5 trials`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{}{SPACE}{noun}{plural}", count(number as u64))
}

/// Seconds as people say them: `42 s`, `3 min`, `1 h 12 min`.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        value if value < 0.01 => format!("<{SPACE}0.01{SPACE}s"),
        value if value < 10.0 => format!("{}{SPACE}s", figure(value)),
        value if value < 120.0 => format!("{value:.0}{SPACE}s"),
        value if value < 5400.0 => format!("{:.0}{SPACE}min", value / 60.0),
        value => format!(
            "{}{SPACE}h {}{SPACE}min",
            (value / 3600.0) as u64,
            (value / 60.0) as u64 % 60
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_that_matter() {
        for (value, text) in [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (0.999_6, "1.00"),
            (6.923, "6.92"),
            (-6.923, "−6.92"),
            (69.23, "69.2"),
            (692.3, "692"),
            (6_923.0, "6,920"),
            (69_230.0, "69,200"),
            (1_234_567.0, "1,230,000"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(figure(value), text, "{value}");
        }
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(
            [0.5, 12.0, 2_000.0, 0.0].map(round),
            ["0.5", "12", "2,000", "0"]
        );
    }

    #[test]
    fn ratios_become_differences_or_multiples() {
        assert_eq!(distance(1.28), "28\u{a0}%");
        assert_eq!(distance(0.72), "28\u{a0}%");
        assert_eq!(distance(1.054), "5.4\u{a0}%");
        assert_eq!(distance(2.41), "2.41\u{a0}times");
        let ratio = |low, high| {
            differences(Estimate {
                value: low,
                low,
                high,
            })
        };
        assert_eq!(ratio(0.99, 1.32).unwrap(), "−1.0 to +32\u{a0}%");
        assert_eq!(ratio(2.1, 2.8).unwrap(), "2.10 to 2.80\u{a0}times");
        assert_eq!(ratio(0.0, f64::INFINITY), None);
    }

    #[test]
    fn words_are_listed_and_counted() {
        let names = |names: &[&str]| listed(&names.iter().map(|&n| n.into()).collect::<Vec<_>>());
        assert_eq!(names(&["a"]), "a");
        assert_eq!(names(&["a", "b", "c"]), "a, b and c");
        assert_eq!(counted(1, "trial"), "1\u{a0}trial");
        assert_eq!(counted(5, "trial"), "5\u{a0}trials");
        assert_eq!(seconds(4_380.0), "73\u{a0}min");
        assert_eq!(seconds(8_000.0), "2\u{a0}h 13\u{a0}min");
    }
}
