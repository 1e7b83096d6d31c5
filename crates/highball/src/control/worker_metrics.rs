//! How many workers there shall be, for Prometheus. It only reads.

use metrics::{Exposition, Kind};

use crate::control::report::ApplicationReport;

/// Adds the gauges of these applications.
pub(crate) fn expose(out: &mut Exposition, applications: &[(&str, &ApplicationReport)]) {
    let mut gauge = |metric: &str, help: &str, of: fn(&ApplicationReport) -> f64| {
        out.metric(metric, Kind::Gauge, help);
        for (name, one) in applications {
            out.sample(&[("application", name)], of(one));
        }
    };
    gauge(
        "highball_workers_wanted",
        "Workers that there shall be: by the setting, by load, or as an operator has scaled.",
        |one| one.workers.wanted.into(),
    );
    gauge(
        "highball_workers_min",
        "The least workers by load; the setting workers, where that is a number.",
        |one| one.workers.setting.into(),
    );
    gauge(
        "highball_workers_max",
        "The most workers by load; the setting workers, where that is a number.",
        |one| {
            let by_load = one.workers.by_load.as_ref();
            by_load
                .map_or(one.workers.setting, |range| range.max)
                .into()
        },
    );
}
