//! What is measured, on which application, and what Highball must reach in it. Data only: a trial is run in
//! `trial.rs`, a target is judged in `report/verdict.rs`.

use crate::stack::Stack;

/// Where a workload's application comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum App {
    /// A folder in `lab/apps`.
    Lab(&'static str),
    /// A Redmine that was made ready elsewhere.
    Redmine,
}

/// What a trial does with the started server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// wrk with this many keep-alive connections.
    Closed {
        /// The connections.
        connections: usize,
    },
    /// 200 requests a second, one in ten of them slow, each at its scheduled time.
    OpenLoop,
    /// Memory after this many requests.
    Memory {
        /// The requests.
        requests: usize,
    },
    /// This many idle connections beside busy ones.
    Idle {
        /// The idle connections.
        connections: usize,
    },
}

/// One row of the benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Its name on the command line and in the raw data.
    pub id: &'static str,
    /// Its heading in the report.
    pub title: &'static str,
    /// The application.
    pub app: App,
    /// The page asked for.
    pub path: &'static str,
    /// Worker processes of every stack, with one thread each.
    pub workers: usize,
    /// What is done.
    pub kind: Kind,
    /// Which stacks take part.
    pub stacks: &'static [Stack],
    /// How many times the session's duration and warm-up it takes: slow pages need more time for enough samples.
    pub stretch: u32,
    /// Whether every stack must send the very same body.
    pub same_body: bool,
}

const CLOSED: Workload = Workload {
    id: "",
    title: "",
    app: App::Lab("hello"),
    path: "/",
    workers: 2,
    kind: Kind::Closed { connections: 12 },
    stacks: &Stack::ALL,
    stretch: 1,
    same_body: true,
};

/// All workloads in the order of the report.
pub const WORKLOADS: [Workload; 8] = [
    Workload {
        id: "hello-12",
        title: "Hello, 12 keep-alive connections",
        ..CLOSED
    },
    Workload {
        id: "hello-100",
        title: "Hello, 100 keep-alive connections",
        kind: Kind::Closed { connections: 100 },
        ..CLOSED
    },
    Workload {
        id: "list-12",
        title: "Sinatra list page, 12 keep-alive connections",
        app: App::Lab("sinatra_list"),
        ..CLOSED
    },
    Workload {
        id: "list-100",
        title: "Sinatra list page, 100 keep-alive connections",
        app: App::Lab("sinatra_list"),
        kind: Kind::Closed { connections: 100 },
        ..CLOSED
    },
    Workload {
        id: "redmine-12",
        title: "Redmine /projects, 12 keep-alive connections",
        app: App::Redmine,
        path: "/projects",
        stretch: 3,
        // The page carries a fresh anti-forgery token each time.
        same_body: false,
        ..CLOSED
    },
    Workload {
        id: "open-loop",
        title: "Open loop, 200 requests a second, one in ten takes 50 ms of CPU, 6 workers",
        app: App::Lab("mixed"),
        path: "/fast",
        workers: 6,
        kind: Kind::OpenLoop,
        stacks: &[Stack::Highball, Stack::Puma],
        stretch: 2,
        same_body: true,
    },
    Workload {
        id: "memory",
        title: "Memory, 6 workers, Sinatra list page, after 5,000 requests",
        app: App::Lab("sinatra_list"),
        workers: 6,
        kind: Kind::Memory { requests: 5_000 },
        ..CLOSED
    },
    Workload {
        id: "idle",
        title: "10,000 idle keep-alive connections beside 12 busy ones",
        kind: Kind::Idle {
            connections: 10_000,
        },
        stacks: &[Stack::Highball],
        ..CLOSED
    },
];

/// The workload named `id`.
pub fn find(id: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.id == id)
}

/// Those that `name` means: one by its id, or all that begin with it (`hello`, `list`); all without a name.
pub fn select(name: Option<&str>) -> Vec<&'static Workload> {
    let chosen = |workload: &&Workload| match name {
        None => true,
        Some(name) => {
            workload.id == name
                || workload
                    .id
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with('-'))
        }
    };
    WORKLOADS.iter().filter(chosen).collect()
}

/// Names of the measures in the raw data; each ends in its unit.
pub mod measure {
    /// Good responses a second.
    pub const RATE: &str = "requests_per_second";
    /// Median latency.
    pub const P50: &str = "p50_ms";
    /// 99th percentile of the latency.
    pub const P99: &str = "p99_ms";
    /// Slowest answer.
    pub const MAX: &str = "max_ms";
    /// CPU of all server processes per response.
    pub const CPU: &str = "cpu_us_per_request";
    /// Requests that did not end well.
    pub const ERRORS: &str = "errors";
    /// Responses of any kind, or requests of the schedule.
    pub const REQUESTS: &str = "requests";
    /// 99th percentile of the slow class.
    pub const SLOW_P99: &str = "slow_p99_ms";
    /// Median of the slow class.
    pub const SLOW_P50: &str = "slow_p50_ms";
    /// 99th percentile counted from the time of sending.
    pub const SERVICE_P99: &str = "service_p99_ms";
    /// The generator's own worst delay.
    pub const LAG: &str = "generator_lag_ms";
    /// Connections that the generator opened.
    pub const CONNECTIONS: &str = "connections_opened";
    /// PSS of all server processes.
    pub const PSS: &str = "pss_mb";
    /// Sum of all server processes' RSS.
    pub const RSS: &str = "rss_mb";
    /// Private dirty pages of all server processes.
    pub const PRIVATE_DIRTY: &str = "private_dirty_mb";
    /// Server processes.
    pub const PROCESSES: &str = "processes";
    /// RSS of the front alone while the idle connections are open.
    pub const FRONT_RSS: &str = "front_rss_mb";
    /// PSS of the front alone.
    pub const FRONT_PSS: &str = "front_pss_mb";
    /// RSS of the front before they are opened.
    pub const FRONT_RSS_BEFORE: &str = "front_rss_before_mb";
    /// The slowest newcomer.
    pub const NEWCOMER: &str = "newcomer_max_ms";
    /// Throughput of busy connections beside idle ones over that without them.
    pub const BUSY_RATIO: &str = "busy_ratio";
    /// The same for the CPU per request.
    pub const BUSY_CPU_RATIO: &str = "busy_cpu_ratio";
    /// Start to first good answer.
    pub const BOOT: &str = "boot_s";
    /// CPU of the generator over the wall time, in cores.
    pub const CLIENT_CORES: &str = "client_cores";
    /// CPU of all server processes over the wall time, in cores.
    pub const SERVER_CORES: &str = "server_cores";
    /// CPU that anything else on the machine used, in cores.
    pub const OTHER_CORES: &str = "other_cores";
    /// Time the hypervisor took away, in cores.
    pub const STEAL_CORES: &str = "steal_cores";
    /// Processes that had to be killed after the stop.
    pub const LEFT_BEHIND: &str = "left_behind";
}

/// What a figure is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// At least this many times the peer's.
    AtLeastTimes(Stack, f64),
    /// At most this many times the peer's.
    AtMostTimes(Stack, f64),
    /// At most this many times another measure of the same trial.
    AtMostTimesOwn(&'static str, f64),
    /// At most this value.
    AtMost(f64),
    /// At least this value.
    AtLeast(f64),
}

/// Something Highball must reach.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The workload's id.
    pub workload: &'static str,
    /// The measure's name.
    pub measure: &'static str,
    /// The bound on it.
    pub bound: Bound,
    /// In words.
    pub text: &'static str,
}

const fn target(
    workload: &'static str,
    measure: &'static str,
    bound: Bound,
    text: &'static str,
) -> Target {
    Target {
        workload,
        measure,
        bound,
        text,
    }
}

const PUMA: Stack = Stack::Puma;
const UNICORN: Stack = Stack::Unicorn;

/// Everything that Highball must reach.
pub const TARGETS: [Target; 20] = [
    target(
        "hello-12",
        measure::RATE,
        Bound::AtLeastTimes(PUMA, 3.0),
        "3 times Puma's requests per second",
    ),
    target(
        "hello-12",
        measure::CPU,
        Bound::AtMostTimes(PUMA, 0.33),
        "0.33 of Puma's CPU per request",
    ),
    target(
        "hello-100",
        measure::RATE,
        Bound::AtLeastTimes(PUMA, 3.0),
        "3 times Puma's requests per second",
    ),
    target(
        "hello-100",
        measure::CPU,
        Bound::AtMostTimes(PUMA, 0.33),
        "0.33 of Puma's CPU per request",
    ),
    target(
        "list-12",
        measure::RATE,
        Bound::AtLeastTimes(PUMA, 1.3),
        "1.3 times Puma's requests per second",
    ),
    target(
        "list-12",
        measure::RATE,
        Bound::AtLeastTimes(UNICORN, 1.44),
        "1.44 times Unicorn's requests per second",
    ),
    target(
        "list-12",
        measure::CPU,
        Bound::AtMostTimes(PUMA, 0.82),
        "0.82 of Puma's CPU per request",
    ),
    target(
        "list-12",
        measure::P99,
        Bound::AtMostTimes(PUMA, 0.2),
        "0.2 of Puma's p99",
    ),
    target(
        "list-100",
        measure::RATE,
        Bound::AtLeastTimes(PUMA, 1.3),
        "1.3 times Puma's requests per second",
    ),
    target(
        "list-100",
        measure::RATE,
        Bound::AtLeastTimes(UNICORN, 1.44),
        "1.44 times Unicorn's requests per second",
    ),
    target(
        "list-100",
        measure::CPU,
        Bound::AtMostTimes(PUMA, 0.82),
        "0.82 of Puma's CPU per request",
    ),
    target(
        "list-100",
        measure::P99,
        Bound::AtMostTimes(PUMA, 0.2),
        "0.2 of Puma's p99",
    ),
    target(
        "redmine-12",
        measure::P99,
        Bound::AtMostTimesOwn(measure::P50, 2.0),
        "p99 within twice the median",
    ),
    target(
        "redmine-12",
        measure::P99,
        Bound::AtMostTimes(PUMA, 0.3),
        "0.3 of Puma's p99",
    ),
    target(
        "redmine-12",
        measure::RATE,
        Bound::AtLeastTimes(PUMA, 1.0),
        "Puma's requests per second",
    ),
    target(
        "open-loop",
        measure::P99,
        Bound::AtMost(6.0),
        "p99 of the fast requests at most 6 ms",
    ),
    target(
        "memory",
        measure::PSS,
        Bound::AtMostTimes(PUMA, 0.75),
        "0.75 of the PSS of Puma --preload",
    ),
    target(
        "idle",
        measure::FRONT_RSS,
        Bound::AtMost(120.0),
        "front below 120 MB",
    ),
    target(
        "idle",
        measure::NEWCOMER,
        Bound::AtMost(100.0),
        "a newcomer is answered within 100 ms",
    ),
    target(
        "idle",
        measure::BUSY_RATIO,
        Bound::AtLeast(0.95),
        "throughput of the busy ones within 5 %",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_one_workload_or_a_family() {
        let ids = |name| {
            select(name)
                .iter()
                .map(|workload| workload.id)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(Some("hello")), ["hello-12", "hello-100"]);
        assert_eq!(ids(Some("list-100")), ["list-100"]);
        assert_eq!(ids(Some("open-loop")), ["open-loop"]);
        assert!(ids(Some("hel")).is_empty());
        assert_eq!(ids(None).len(), WORKLOADS.len());
    }

    #[test]
    fn every_target_belongs_to_a_workload_whose_stacks_it_compares() {
        for target in TARGETS {
            let workload = find(target.workload).expect("a known workload");
            if let Bound::AtLeastTimes(peer, _) | Bound::AtMostTimes(peer, _) = target.bound {
                assert!(workload.stacks.contains(&peer), "{}", target.text);
            }
        }
    }
}
