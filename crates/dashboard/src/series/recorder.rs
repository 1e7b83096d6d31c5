//! The figures over time of all applications of a server, and of all together. It reads no clock.

use std::collections::BTreeMap;

use super::{Measured, Point, Reading, Series};

/// The rings of a server: one of each application, and one of all together.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    all: Series,
    applications: BTreeMap<String, Series>,
}

impl Recorder {
    /// Takes the readings of all applications at one moment. Those of applications that are no longer named are forgotten.
    pub fn record(&mut self, readings: impl IntoIterator<Item = (String, Reading)>) {
        let mut before = std::mem::take(&mut self.applications);
        let mut together: Option<Point> = None;
        for (name, reading) in readings {
            let mut series = before.remove(&name).unwrap_or_default();
            if let Some(point) = series.record(reading) {
                together = Some(match together {
                    None => point,
                    Some(sum) => sum.beside(&point),
                });
            }
            self.applications.insert(name, series);
        }
        if let Some(point) = together {
            self.all.push(point);
        }
    }

    /// All that it holds: of all applications together with an empty name, then of each.
    pub fn series(&self) -> Vec<(String, Measured)> {
        let all = (String::new(), self.all.measured());
        let each = self.applications.iter();
        let each = each.map(|(name, series)| (name.clone(), series.measured()));
        [all].into_iter().chain(each).collect()
    }

    /// Puts what an earlier server has measured before what this one has. `now` is in seconds of the UNIX epoch.
    pub fn restore(&mut self, series: Vec<(String, Measured)>, now: u64) {
        for (name, earlier) in series {
            let own = match name.is_empty() {
                true => &mut self.all,
                false => self.applications.entry(name).or_default(),
            };
            own.restore(earlier, now);
        }
    }

    /// All applications together.
    pub fn all(&self) -> Measured {
        self.all.measured()
    }

    /// One application.
    pub fn of(&self, application: &str) -> Measured {
        let found = self.applications.get(application);
        found.map(Series::measured).unwrap_or_default()
    }
}
