//! The checks of a [`Lab`]: ranges and contradictions. The ranges stand here and nowhere else.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use super::{Lab, Load, Request};
use loadgen::duration;
use stacks::toml_file;

/// The most worker processes.
pub(super) const MAX_WORKERS: usize = 1024;

const MAX_THREADS: usize = 1024;
const TRIALS: RangeInclusive<usize> = 1..=1000;
const CONNECTIONS: RangeInclusive<usize> = 1..=super::load::MAX_CONNECTIONS;
/// More than loopback addresses of their own have local ports for.
const IDLE: RangeInclusive<usize> = 1..=100_000;
const BODY: RangeInclusive<usize> = 0..=100_000_000;
/// Of HTTP/2 on each connection; the generator has no more.
const STREAMS: RangeInclusive<usize> = 1..=1000;
const SHARE: RangeInclusive<f64> = 0.05..=0.95;
const RATE: RangeInclusive<f64> = 0.1..=1_000_000.0;
const WEIGHT: RangeInclusive<f64> = 1e-6..=1e6;
const PRECISION: RangeInclusive<f64> = 0.01..=0.5;
const DURATION: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(86_400);
/// Whether a backlog grows is seen from a load's first third to its last, a reading a second.
const SEARCH_DURATION: Duration = Duration::from_secs(3);
const WARM_UP: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(3600);
const REST: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);
const CORES: RangeInclusive<usize> = 0..=4095;
/// TOML's whole numbers end there.
const SEED: RangeInclusive<u64> = 0..=i64::MAX as u64;

/// What is wrong, and where: the key's path from the file's root, numbers counting from zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    path: Vec<String>,
    message: String,
}

impl Fault {
    fn new(path: &[&str], message: impl Into<String>) -> Self {
        Self {
            path: path.iter().map(|part| (*part).to_owned()).collect(),
            message: message.into(),
        }
    }

    fn below(mut self, path: &[&str]) -> Self {
        self.path
            .splice(0..0, path.iter().map(|part| (*part).to_owned()));
        self
    }

    /// The same with file and line.
    pub fn in_file(&self, path: &Path) -> String {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        match toml_file::line_of_key(&text, &self.path) {
            Some(line) => format!("{}:{line}: {self}", path.display()),
            None => format!("{}: {self}", path.display()),
        }
    }
}

impl Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path.join("."), self.message)
    }
}

impl std::error::Error for Fault {}

type Checked = Result<(), Fault>;

pub(super) fn check(lab: &Lab) -> Checked {
    whole("workers", lab.workers, 1..=MAX_WORKERS)?;
    whole("threads", lab.threads, 1..=MAX_THREADS)?;
    whole("trials", lab.trials, TRIALS)?;
    whole("seed", lab.seed, SEED)?;
    time("duration", lab.duration, DURATION)?;
    time("warm_up", lab.warm_up, WARM_UP)?;
    time("rest", lab.rest, REST)?;
    time("timeout", lab.timeout, TIMEOUT)?;
    time("boot_timeout", lab.boot_timeout, TIMEOUT)?;
    cores(lab)?;
    stacks(lab)?;
    for (index, request) in lab.requests.iter().enumerate() {
        let index = index.to_string();
        check_request(request).map_err(|fault| fault.below(&["request", &index]))?;
    }
    if let Some(login) = &lab.login {
        check_request(login).map_err(|fault| fault.below(&["login"]))?;
    }
    let mut ids = BTreeSet::new();
    for (index, load) in lab.loads.iter().enumerate() {
        let index = index.to_string();
        check_load(load).map_err(|fault| fault.below(&["load", &index]))?;
        if !ids.insert(load.id()) {
            let message = format!(
                "there are two loads named {}; give one another id",
                load.id()
            );
            return Err(Fault::new(&["load", &index], message));
        }
    }
    if let Some(find) = &lab.find_peak {
        if lab.duration < SEARCH_DURATION {
            let message = format!(
                "{} is too short for find_peak: whether a rate is held shows in {} at the earliest",
                duration::text(lab.duration),
                duration::text(SEARCH_DURATION)
            );
            return Err(Fault::new(&["duration"], message));
        }
        let below = |fault: Fault| fault.below(&["find_peak"]);
        number("precision", find.precision, PRECISION).map_err(below)?;
        find.p99
            .map_or(Ok(()), |p99| time("p99", p99, TIMEOUT).map_err(below))?;
        let trials = find.trials.unwrap_or(1);
        whole("trials", trials, TRIALS).map_err(below)?;
    }
    Ok(())
}

fn cores(lab: &Lab) -> Checked {
    for (name, list) in [
        ("server_cores", &lab.server_cores),
        ("generator_cores", &lab.generator_cores),
    ] {
        for core in list {
            whole(name, *core, CORES)?;
        }
    }
    if lab.server_cores.is_empty() != lab.generator_cores.is_empty() {
        let message = "server_cores and generator_cores are given both or not at all";
        let key = if lab.server_cores.is_empty() {
            "generator_cores"
        } else {
            "server_cores"
        };
        return Err(Fault::new(&[key], message));
    }
    Ok(())
}

fn stacks(lab: &Lab) -> Checked {
    let mut seen = BTreeSet::new();
    for id in &lab.stacks {
        if !seen.insert(id) {
            let message = format!(
                "{id} is named twice; a table [stack.NAME] with kind = \"{id}\" makes a second one"
            );
            return Err(Fault::new(&["stacks"], message));
        }
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "+-_.".contains(letter);
        if id.is_empty() || !id.chars().all(plain) {
            let message = format!("{id:?} is no name; letters, digits, +, -, _ and . make one");
            return Err(Fault::new(&["stacks"], message));
        }
    }
    for (id, setting) in &lab.settings {
        if !lab.stacks.is_empty() && !seen.contains(id) {
            let known = lab.stacks.iter().map(String::as_str);
            let nearest = toml_file::nearest(id, known).unwrap_or_default();
            let message = format!("no stack of that name takes part; the nearest is {nearest}");
            return Err(Fault::new(&["stack", id], message));
        }
        let below = |fault: Fault| fault.below(&["stack", id]);
        whole("workers", setting.workers.unwrap_or(1), 1..=MAX_WORKERS).map_err(below)?;
        whole("threads", setting.threads.unwrap_or(1), 1..=MAX_THREADS).map_err(below)?;
    }
    Ok(())
}

fn check_request(request: &Request) -> Checked {
    number("weight", request.weight, WEIGHT)?;
    let visible = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !request.path.starts_with('/') || !visible(&request.path) {
        let message = format!(
            "{:?} is no path; it starts with / and has no spaces",
            request.path
        );
        return Err(Fault::new(&["path"], message));
    }
    let is_method =
        !request.method.is_empty() && request.method.bytes().all(|byte| byte.is_ascii_uppercase());
    if !is_method {
        let message = format!("{:?} is no method such as GET", request.method);
        return Err(Fault::new(&["method"], message));
    }
    if let Some(length) = request.body_bytes {
        whole("body_bytes", length, BODY)?;
        if !request.body.is_empty() {
            let message = "a request has either body or body_bytes";
            return Err(Fault::new(&["body_bytes"], message));
        }
    }
    for (name, value) in &request.headers {
        let fits = visible(name) && !name.contains(':') && !value.contains(['\r', '\n', '\0']);
        if !fits {
            let message = "a field has a name without spaces and a value of one line";
            return Err(Fault::new(&["headers", name], message));
        }
    }
    Ok(())
}

fn check_load(load: &Load) -> Checked {
    match (load.connections, load.rate) {
        (Some(connections), None) => whole("connections", connections, CONNECTIONS)?,
        (None, Some(rate)) => number("rate", rate, RATE)?,
        _ => {
            let message = "a load has either connections (a closed loop) or a rate (an open one)";
            return Err(Fault::new(&[], message));
        }
    }
    if load.rate.is_some() && load.requests.is_some() {
        let message = "only a closed loop ends after a number of requests; give a duration";
        return Err(Fault::new(&["requests"], message));
    }
    let counts = 1..=1_000_000_000;
    whole("requests", load.requests.unwrap_or(1), counts.clone())?;
    whole(
        "warm_up_requests",
        load.warm_up_requests.unwrap_or(1),
        counts,
    )?;
    whole("calls", load.calls.unwrap_or(1), 1..=1_000_000)?;
    if load.rate.is_some() && (load.idle.is_some() || load.restart.is_some()) {
        let key = if load.idle.is_some() {
            "idle"
        } else {
            "restart"
        };
        let message = "only a closed loop has it; give connections and no rate";
        return Err(Fault::new(&[key], message));
    }
    if load.idle.is_some() && load.restart.is_some() {
        let message = "a load has either idle connections or a restart";
        return Err(Fault::new(&["restart"], message));
    }
    whole("streams", load.streams.unwrap_or(1), STREAMS)?;
    if load.streams.is_some() && (load.calls.is_some() || load.restart.is_some()) {
        let message = "with HTTP/2 (streams) a load has neither calls nor a restart";
        return Err(Fault::new(&["streams"], message));
    }
    whole("idle", load.idle.unwrap_or(1), IDLE)?;
    if let Some(restart) = &load.restart {
        let below = |fault: Fault| fault.below(&["restart"]);
        number("share", restart.share, SHARE).map_err(below)?;
        time("before", restart.before, DURATION).map_err(below)?;
        time("after", restart.after, DURATION).map_err(below)?;
    }
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if !load.id.chars().all(plain) {
        let message = format!(
            "{:?} is no name; letters, digits, -, _ and . make one",
            load.id
        );
        return Err(Fault::new(&["id"], message));
    }
    load.duration
        .map_or(Ok(()), |length| time("duration", length, DURATION))
}

fn whole<T: PartialOrd + Display>(name: &str, value: T, range: RangeInclusive<T>) -> Checked {
    within(name, value, range, |value| value.to_string())
}

fn number(name: &str, value: f64, range: RangeInclusive<f64>) -> Checked {
    within(name, value, range, |value| value.to_string())
}

fn time(name: &str, value: Duration, range: RangeInclusive<Duration>) -> Checked {
    within(name, value, range, |value| duration::text(*value))
}

fn within<T: PartialOrd>(
    name: &str,
    value: T,
    range: RangeInclusive<T>,
    text: impl Fn(&T) -> String,
) -> Checked {
    if range.contains(&value) {
        return Ok(());
    }
    let message = format!(
        "{} is out of range; it goes from {} to {}",
        text(&value),
        text(range.start()),
        text(range.end())
    );
    Err(Fault::new(&[name], message))
}
