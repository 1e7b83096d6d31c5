//! Numbers as people read them.

/// A rate as people read it: `12,345`, or `12.3` where it is small.
pub(super) fn grouped(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let check = |value: f64, expect: &str| assert_eq!(grouped(value), expect);
        check(1234.4, "1,234");
        check(123.4, "123");
        check(1_234_567.0, "1,234,567");
        check(9.87, "9.9");
    }
}
