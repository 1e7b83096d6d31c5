//! The text that Prometheus reads: its own format (0.0.4) and OpenMetrics 1.0. It knows no metric.

use std::fmt::Write;

use crate::histogram::{CLASSIC_BOUNDS_S, Distribution};

/// How the text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own text, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format that a request with this field Accept wants.
    pub fn of_accept(accept: Option<&str>) -> Self {
        match accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    /// The type of the text.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows; its name ends in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Times by their length.
    Histogram,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Labels of a sample, names and values.
pub type Labels<'a> = [(&'a str, &'a str)];

/// A text that is being written. The samples of a metric follow its head.
pub struct Exposition {
    text: String,
    format: Format,
    /// The metric whose samples come now.
    name: String,
}

impl Exposition {
    /// Begins a text.
    pub fn new(format: Format) -> Self {
        Self {
            text: String::new(),
            format,
            name: String::new(),
        }
    }

    /// Begins a metric.
    pub fn metric(&mut self, name: &str, kind: Kind, help: &str) {
        name.clone_into(&mut self.name);
        let family = match (self.format, kind) {
            (Format::OpenMetrics, Kind::Counter) => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        self.text.push_str("# HELP ");
        self.text.push_str(family);
        self.text.push(' ');
        self.escape(help, self.format == Format::OpenMetrics);
        self.text.push_str("\n# TYPE ");
        self.text.push_str(family);
        self.text.push(' ');
        self.text.push_str(kind.name());
        self.text.push('\n');
    }

    /// A sample of a counter or a gauge.
    pub fn sample(&mut self, labels: &Labels<'_>, value: f64) {
        self.line("", labels, None, value);
    }

    /// A whole number.
    pub fn count(&mut self, labels: &Labels<'_>, value: u64) {
        self.line("", labels, None, value as f64);
    }

    /// The samples of a histogram, with buckets as OpenTelemetry advises.
    pub fn histogram(&mut self, labels: &Labels<'_>, times: &Distribution) {
        let count = times.count();
        for (bound, below) in CLASSIC_BOUNDS_S.iter().zip(times.classic()) {
            self.line("_bucket", labels, Some(*bound), below as f64);
        }
        self.line("_bucket", labels, Some(f64::INFINITY), count as f64);
        self.line("_sum", labels, None, times.sum_s());
        self.line("_count", labels, None, count as f64);
    }

    /// The samples of a histogram whose buckets the caller knows: upper bounds, each with how many values are at most as large.
    pub fn buckets(&mut self, labels: &Labels<'_>, buckets: &[(f64, u64)], sum: f64, count: u64) {
        for (bound, below) in buckets {
            self.line("_bucket", labels, Some(*bound), *below as f64);
        }
        self.line("_bucket", labels, Some(f64::INFINITY), count as f64);
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count as f64);
    }

    /// Ends the text and returns it.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn line(&mut self, suffix: &str, labels: &Labels<'_>, bound: Option<f64>, value: f64) {
        self.text.push_str(&self.name);
        self.text.push_str(suffix);
        let mut separator = '{';
        for (name, value) in labels {
            self.text.push(separator);
            separator = ',';
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.escape(value, true);
            self.text.push('"');
        }
        if let Some(bound) = bound {
            self.text.push(separator);
            separator = ',';
            self.text.push_str("le=\"");
            self.number(bound);
            self.text.push('"');
        }
        self.text
            .push_str(if separator == ',' { "} " } else { " " });
        self.number(value);
        self.text.push('\n');
    }

    fn number(&mut self, value: f64) {
        match value {
            f64::INFINITY => self.text.push_str("+Inf"),
            f64::NEG_INFINITY => self.text.push_str("-Inf"),
            value if value.is_nan() => self.text.push_str("NaN"),
            // Writing to a string cannot fail.
            value => drop(write!(self.text, "{value}")),
        }
    }

    fn escape(&mut self, text: &str, quotes: bool) {
        for letter in text.chars() {
            match letter {
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '"' if quotes => self.text.push_str("\\\""),
                letter => self.text.push(letter),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Histogram;

    #[test]
    fn metrics_are_written_as_prometheus_reads_them() {
        let mut text = Exposition::new(Format::Prometheus);
        text.metric("a_total", Kind::Counter, "Lines\nand \\ \"quotes\".");
        text.count(&[("route", "GET /\"x\"\n\\")], 3);
        text.metric("b", Kind::Gauge, "A gauge.");
        text.sample(&[], 0.25);
        assert_eq!(
            text.finish(),
            "# HELP a_total Lines\\nand \\\\ \"quotes\".\n# TYPE a_total counter\n\
             a_total{route=\"GET /\\\"x\\\"\\n\\\\\"} 3\n# HELP b A gauge.\n# TYPE b gauge\nb 0.25\n"
        );
    }

    #[test]
    fn open_metrics_names_counters_without_total_and_has_an_end() {
        let mut text = Exposition::new(Format::OpenMetrics);
        text.metric("a_total", Kind::Counter, "Counts.");
        text.count(&[], 3);
        let expected = "# HELP a Counts.\n# TYPE a counter\na_total 3\n# EOF\n";
        assert_eq!(text.finish(), expected);
        let accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        assert_eq!(Format::of_accept(Some(accept)), Format::OpenMetrics);
        assert_eq!(Format::of_accept(Some("*/*")), Format::Prometheus);
        assert_eq!(Format::of_accept(None), Format::Prometheus);
    }

    #[test]
    fn a_histogram_has_cumulative_buckets_a_sum_and_a_count() {
        let histogram = Histogram::default();
        for time_ms in [1, 20, 20_000] {
            histogram.record(Duration::from_millis(time_ms));
        }
        let mut text = Exposition::new(Format::Prometheus);
        text.metric("t_seconds", Kind::Histogram, "Times.");
        text.histogram(&[("a", "b")], &histogram.read());
        let text = text.finish();
        for line in [
            "t_seconds_bucket{a=\"b\",le=\"0.005\"} 1\n",
            "t_seconds_bucket{a=\"b\",le=\"0.025\"} 2\n",
            "t_seconds_bucket{a=\"b\",le=\"10\"} 2\n",
            "t_seconds_bucket{a=\"b\",le=\"+Inf\"} 3\n",
            "t_seconds_sum{a=\"b\"} 20.021\n",
            "t_seconds_count{a=\"b\"} 3\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
