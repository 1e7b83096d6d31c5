//! What is simulated, and what comes of it: data.

/// Workers, threads and cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Workers, at least 1.
    pub workers: u16,
    /// Threads of each worker, at least 1.
    pub threads: u16,
    /// Cores for all workers together, above 0.
    pub cores: f64,
}

/// What comes of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Cores that compute, in the mean.
    pub busy_cores: f64,
    /// The part of the threads that have a request, in the mean.
    pub busy_threads: f64,
    /// How long requests take; none where the queue grows without bound.
    pub percentiles: Option<Percentiles>,
    /// The mean time in the application of each route's requests, in seconds.
    pub(crate) mean_app_s: Vec<f64>,
}

/// How long requests take, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentiles {
    /// 95 % of the requests wait at most so long for a thread.
    pub queue_p95_s: f64,
    /// Half of the requests have their response within this time, the queue included.
    pub p50_s: f64,
    /// 95 % of them.
    pub p95_s: f64,
    /// 99 % of them.
    pub p99_s: f64,
    /// The mean.
    pub mean_s: f64,
    /// The mean time in the queue.
    pub mean_queue_s: f64,
}

impl Percentiles {
    /// Those of the times in the queue and of whole requests, in seconds; none without any request.
    pub(crate) fn of(mut queue_s: Vec<f64>, mut whole_s: Vec<f64>) -> Option<Self> {
        queue_s.sort_by(f64::total_cmp);
        whole_s.sort_by(f64::total_cmp);
        Some(Self {
            queue_p95_s: percentile(&queue_s, 0.95)?,
            p50_s: percentile(&whole_s, 0.5)?,
            p95_s: percentile(&whole_s, 0.95)?,
            p99_s: percentile(&whole_s, 0.99)?,
            mean_s: mean(&whole_s),
            mean_queue_s: mean(&queue_s),
        })
    }
}

/// The time below which this share of the sorted times lies; none of none.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied()
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len().max(1) as f64
}
