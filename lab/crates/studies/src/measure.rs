//! What studies publish figures of: each measure with its name in the files, its name for people, its unit, and which
//! way is better. A table and nothing else.

use serde::Deserialize;

/// Which way a measure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Rates.
    More,
    /// Times, memory, errors.
    Less,
    /// It only describes the run.
    Neither,
}

/// Makes the enum, its names for people, its units and its directions from one table.
macro_rules! measures {
    ($($name:ident: $title:literal, $unit:literal, $better:ident;)*) => {
        /// The meaning of a figure. Its name in a study's file is this name in snake case, with the unit in it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Measure {
            $(#[doc = $title] $name,)*
        }

        impl Measure {
            /// All of them, in the table's order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// For people.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// Of the published figure; empty for counts.
            pub fn unit(self) -> &'static str {
                match self { $(Self::$name => $unit,)* }
            }

            /// Which way is better.
            pub fn better(self) -> Better {
                match self { $(Self::$name => Better::$better,)* }
            }
        }
    };
}

measures! {
    RequestsPerSecond: "requests per second", "requests/s", More;
    ReplyRateDeviation: "standard deviation of the reply rate", "requests/s", Less;
    MemoryMb: "memory, difference in free", "MB", Less;
    MemoryWithSpawnersMb: "memory with spawn servers", "MB", Less;
    MemoryWithoutSpawnersMb: "memory without spawn servers", "MB", Less;
    PrivateDirtyWebMb: "private dirty memory of the web server", "MB", Less;
    PrivateDirtyApplicationMb: "private dirty memory of the application server", "MB", Less;
    WebProcesses: "processes of the web server", "", Neither;
    ApplicationProcesses: "processes of the application server", "", Neither;
    ConcurrencyLevel: "concurrency level", "connections", Neither;
    TimeTakenS: "time taken for the test", "s", Neither;
    CompleteRequests: "complete requests", "", Neither;
    FailedRequests: "failed requests", "", Less;
    FailedConnect: "failed requests: connect", "", Less;
    FailedLength: "failed requests: length", "", Less;
    FailedExceptions: "failed requests: exceptions", "", Less;
    WriteErrors: "write errors", "", Less;
    NonSuccessResponses: "responses other than 2xx", "", Less;
    TotalTransferredBytes: "total transferred", "bytes", Neither;
    HtmlTransferredBytes: "HTML transferred", "bytes", Neither;
    ReadMb: "read", "MB", Neither;
    TransferKbPerS: "transfer rate", "KB/s", Neither;
    TransferMbPerS: "transfer rate", "MB/s", Neither;
    TimePerRequestMs: "time per request", "ms", Less;
    TimePerRequestAcrossMs: "time per request, across all concurrent requests", "ms", Less;
    LatencyMeanMs: "mean latency", "ms", Less;
    LatencyDeviationMs: "standard deviation of latency", "ms", Less;
    LatencyWithinDeviationPercent: "latencies within one standard deviation", "%", Neither;
    LatencyP50Ms: "latency, p50", "ms", Less;
    LatencyP66Ms: "latency, p66", "ms", Less;
    LatencyP75Ms: "latency, p75", "ms", Less;
    LatencyP80Ms: "latency, p80", "ms", Less;
    LatencyP90Ms: "latency, p90", "ms", Less;
    LatencyP95Ms: "latency, p95", "ms", Less;
    LatencyP98Ms: "latency, p98", "ms", Less;
    LatencyP99Ms: "latency, p99", "ms", Less;
    LatencyMaxMs: "longest latency", "ms", Less;
    ThreadRequestsPerSecond: "requests per second of each generator thread, mean", "requests/s", Neither;
    ThreadDeviation: "requests per second of each generator thread, standard deviation", "requests/s", Neither;
    ThreadMax: "requests per second of each generator thread, largest", "requests/s", Neither;
    ThreadWithinDeviationPercent: "requests per second of each generator thread, within one standard deviation", "%", Neither;
}
