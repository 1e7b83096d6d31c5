//! How far a series has moved: its later values compared with its earlier ones, and how much of that may be chance. Pure.

/// The difference between the means of later and earlier values, as a share of the earlier mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// By how much the later mean is more; negative where it is less.
    pub change: f64,
    /// Its standard error, from the scatter on either side: about as far apart two such means come by chance.
    pub error: f64,
}

impl Drift {
    /// `None` of fewer than two values on either side, and where the earlier ones' mean is not above zero.
    pub fn between(earlier: &[f64], later: &[f64]) -> Option<Self> {
        let (before, before_error) = mean_and_error(earlier)?;
        let (after, after_error) = mean_and_error(later)?;
        (before > 0.0).then(|| Self {
            change: after / before - 1.0,
            error: before_error.hypot(after_error) / before,
        })
    }
}

fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if count < 2.0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (squares / (count - 1.0) / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_is_the_change_of_the_mean_and_its_standard_error() {
        let drift = Drift::between(&[90.0, 110.0], &[119.0, 121.0]).unwrap();
        assert!((drift.change - 0.2).abs() < 1e-9, "{drift:?}");
        // Standard errors of 10 and 1.
        assert!((drift.error - 101_f64.sqrt() / 100.0).abs() < 1e-9);
    }

    #[test]
    fn of_single_values_and_of_nothing_there_is_no_drift() {
        assert_eq!(Drift::between(&[1.0], &[1.0, 1.0]), None);
        assert_eq!(Drift::between(&[0.0, 0.0], &[1.0, 1.0]), None);
    }
}
