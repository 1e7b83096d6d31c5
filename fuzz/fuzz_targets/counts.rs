//! What processes of the application say that it has counted: never a panic, and what is kept is within the bounds, whole
//! after a hand-over, and one line a sample.

#![no_main]

use libfuzzer_sys::fuzz_target;
use metrics::{CustomMetrics, Lines, MAX_DATAGRAM_BYTES, MAX_METRICS, MAX_SERIES, Tags};

fuzz_target!(|data: &[u8]| {
    let mut counts = CustomMetrics::default();
    let source = (1, Some(0));
    counts.started(source);
    counts.started((2, None));
    // Messages of two generations.
    for (index, message) in data.split(|&byte| byte == 0).enumerate() {
        let source = if index % 3 == 2 { (2, None) } else { source };
        counts.take_in(source, message);
    }
    let totals = counts.totals();
    let series = totals.metrics.values().map(|one| one.series.len());
    assert!(totals.metrics.len() <= MAX_METRICS && series.sum::<usize>() <= MAX_SERIES);
    let mut lines = Lines::new(Tags::DogStatsd);
    for (name, metric) in &totals.metrics {
        for (labels, _) in &metric.series {
            let labels: Vec<_> = labels.iter().map(|(name, value)| (&**name, &**value)).collect();
            lines.counter(name, &labels, 1.0);
        }
    }
    for datagram in lines.finish() {
        assert!(datagram.is_ascii() && datagram.len() <= MAX_DATAGRAM_BYTES);
        let mut lines = datagram.split(|&byte| byte == b'\n');
        assert!(lines.all(|line| line.windows(4).any(|part| part == b":1|c")));
    }
    let mut next = CustomMetrics::default();
    next.add_before(&totals);
    let mut rest = next.totals();
    rest.since(&totals);
    counts.generation_ended(1);
});
