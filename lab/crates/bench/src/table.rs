//! Markdown tables and how figures look in them.

use std::fmt;

use compare::statistics::median;

/// A table whose rows are as long as its head.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self {
            rows: vec![heads.iter().map(|head| (*head).to_owned()).collect()],
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            writeln!(formatter, "| {} |", cells.join(" | "))?;
            if index == 0 {
                writeln!(formatter, "|{}", "---|".repeat(row.len()))?;
            }
        }
        Ok(())
    }
}

/// A number with about three significant digits, and thousands separated.
pub(crate) fn figure(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1000.0 {
        thousands(value.round() as i64)
    } else if magnitude >= 100.0 || magnitude == 0.0 {
        format!("{value:.0}")
    } else if magnitude >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// The median with the extremes, or a dash.
pub(crate) fn spread(values: &[f64]) -> String {
    let Some(middle) = median(values) else {
        return "–".to_owned();
    };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low == high {
        return figure(middle);
    }
    format!("{} ({} to {})", figure(middle), figure(low), figure(high))
}

fn thousands(value: i64) -> String {
    let digits = value.abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_that_matter() {
        let cases = [
            (0.0, "0"),
            (0.123, "0.12"),
            (9.876, "9.88"),
            (98.76, "98.8"),
            (987.6, "988"),
            (1234.5, "1,235"),
            (-1234567.0, "-1,234,567"),
        ];
        for (value, text) in cases {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn a_spread_shows_extremes_where_there_are_any() {
        assert_eq!(spread(&[]), "–");
        assert_eq!(spread(&[2.0, 2.0]), "2.00");
        assert_eq!(spread(&[3.0, 1.0, 2.0]), "2.00 (1.00 to 3.00)");
    }

    #[test]
    fn a_table_is_markdown() {
        let mut table = Table::new(&["a", "b"]);
        table.row(vec!["1|2".into(), "3".into()]);
        assert_eq!(table.to_string(), "| a | b |\n|---|---|\n| 1\\|2 | 3 |\n");
    }
}
