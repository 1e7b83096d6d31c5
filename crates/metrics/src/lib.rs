//! Measures of requests: histograms, the routes of an application, and their text for Prometheus. It knows no connection,
//! no worker and no clock, opens nothing and writes nothing.
//!
//! Each thread records for itself; others read meanwhile. Everything has a fixed size, whatever clients ask for.

mod application;
mod custom;
mod events;
mod exposition;
mod histogram;
mod names;
mod path;
mod recorder;
mod statsd;
mod totals;

pub use application::ApplicationMetrics;
pub use custom::{
    Aggregate, CustomLabels, CustomMetric, CustomMetrics, CustomTotals, Definition, Dropped,
    MAX_METRICS, MAX_SERIES, Source, Value,
};
pub use events::{
    Counts, EXCEPTIONS, EventCounter, EventTotals, Events, OF_APPLICATION, OF_SERVER,
    REPLACED_WORKERS, RESTARTS, TLS_HANDSHAKES, events_since,
};
pub use exposition::{Exposition, Format, Kind, Labels};
pub use histogram::{CLASSIC_BOUNDS_S, Distribution, Histogram};
pub use names::{MAX_ROUTES, OTHER, UNROUTED};
pub use recorder::{Cost, Ended, Recorder, Route};
pub use statsd::{Lines, MAX_DATAGRAM_BYTES, Tags, name_part};
pub use totals::{ApplicationTotals, CLASSES, CostTotals, RouteTotals};
