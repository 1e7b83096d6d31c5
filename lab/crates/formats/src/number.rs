//! Numbers as text.

/// A count with a comma between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Milliseconds with three significant digits, to the microsecond.
pub fn milliseconds(value: f64) -> String {
    match value {
        _ if value < 0.9995 => format!("{value:.3}"),
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => {
            // The histograms have no more digits than these.
            let digits = value.log10().floor() as i32 - 2;
            let step = 10_f64.powi(digits.max(0));
            grouped(((value / step).round() * step) as u64)
        }
    }
}

/// A rate a second: whole above a hundred, else with a digit after the point.
pub(super) fn rate(value: f64) -> String {
    if value >= 99.95 {
        grouped(value.round() as u64)
    } else {
        format!("{value:.1}")
    }
}

/// Bytes in the unit that leaves up to three digits before the point.
pub(super) fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

/// A share as per cent, without a row of zeros and without rounding something to nothing.
pub(super) fn per_cent(share: f64) -> String {
    let per_cent = share * 100.0;
    match per_cent {
        _ if per_cent > 0.0 && per_cent < 0.01 => "below 0.01 %".to_owned(),
        _ if per_cent < 1.0 => format!("{per_cent:.2} %"),
        _ if per_cent < 10.0 => format!("{per_cent:.1} %"),
        _ => format!("{per_cent:.0} %"),
    }
}

/// `part / whole`, nothing of nothing being nothing.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The standard deviation of a sample; zero of fewer than two values.
pub(super) fn deviation(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    ratio(squares, values.len() as f64 - 1.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(milliseconds(0.042), "0.042");
        assert_eq!(milliseconds(1.618), "1.62");
        assert_eq!(milliseconds(12.34), "12.3");
        assert_eq!(milliseconds(999.6), "1,000");
        assert_eq!(milliseconds(30_015.0), "30,000");
        assert_eq!(rate(6911.9), "6,912");
        assert_eq!(rate(49.97), "50.0");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(91_123_456.0), "86.9 MiB");
        assert_eq!(per_cent(0.00001), "below 0.01 %");
        assert_eq!(per_cent(0.0), "0.00 %");
        assert_eq!(per_cent(0.4213), "42 %");
        assert_eq!(ratio(1.0, 0.0), 0.0);
    }
}
