//! Samples whose rounds are starts of a server, and times that are merged over them; percentiles are never averaged. The
//! method is that of the crate `statistics`.

use loadgen::outcome::Latency;
pub use statistics::{STARTS, Sample, mean_of};

/// The percentile of all rounds' times together; `None` where they are too few for it.
pub fn percentile_of(rounds: &[(usize, &Latency)], percent: f64) -> Option<Sample> {
    if rounds.iter().all(|(_, latency)| latency.count() == 0) {
        return None;
    }
    merged(rounds.iter().map(|(_, latency)| *latency)).percentile_ms(percent)?;
    Sample::new(
        rounds.iter().map(|(round, _)| *round).collect(),
        |left_out| {
            let kept = rounds.iter().enumerate();
            let kept = kept.filter(|(index, _)| Some(*index) != left_out);
            let value = merged(kept.map(|(_, (_, latency))| *latency)).at(percent);
            (value > 0.0).then(|| value.ln())
        },
    )
}

/// All times of several starts in one distribution.
pub fn merged<'a>(latencies: impl Iterator<Item = &'a Latency>) -> Latency {
    let mut all = Latency::default();
    for latency in latencies {
        all.merge(latency);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left / right - 1.0).abs() < 1e-3
    }

    #[test]
    fn percentiles_are_of_all_times_together() {
        // Nine starts in ten have a p99 of 1 ms, one of 100 ms: the average would be 10.9 ms, the truth is 100 ms.
        let times = |slow: u64| {
            let mut latency = Latency::default();
            for index in 0..1000 {
                let slow = index < slow;
                latency.record(Duration::from_millis(if slow { 100 } else { 1 }));
            }
            latency
        };
        let latencies: Vec<Latency> = (0..10)
            .map(|start| times(if start == 0 { 200 } else { 0 }))
            .collect();
        let numbered: Vec<(usize, &Latency)> =
            latencies.iter().zip(1..).map(|(l, r)| (r, l)).collect();
        let estimate = percentile_of(&numbered, 99.0).unwrap().estimate();
        assert!(close(estimate.value, 100.0), "{estimate:?}");
        assert!(
            estimate.low < 1.0,
            "one start alone is behind it: {estimate:?}"
        );
        assert_eq!(percentile_of(&numbered[..1], 99.9), None);
    }
}
