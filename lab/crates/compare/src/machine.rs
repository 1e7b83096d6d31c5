//! What a run depends on apart from the code: the machine, its settings and limits, the versions of all programs, and the
//! machine's load average. It records no name, address or path of the machine.

use std::fs;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// A machine and its software, each as a name and what was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Hardware, kernel and their settings.
    pub facts: Vec<(String, String)>,
    /// Programs and libraries.
    pub versions: Vec<(String, String)>,
}

/// The fact that changes all the time.
const LOAD_AVERAGE: &str = "Load average at the start";

impl Machine {
    /// Describes this machine with the versions of the programs that took part, each named once.
    pub fn with(programs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut versions: Vec<(String, String)> = programs.into_iter().collect();
        versions.extend(output("ruby", &["--version"]).map(|version| ("ruby".to_owned(), version)));
        versions.sort();
        versions.dedup();
        Self {
            facts: facts(),
            versions,
        }
    }

    /// All facts but the load average: they must stay the same while a comparison runs.
    pub fn lasting(&self) -> Self {
        let mut lasting = self.clone();
        lasting.facts.retain(|(name, _)| name != LOAD_AVERAGE);
        lasting
    }
}

/// Hardware, kernel, and their settings.
fn facts() -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: Option<String>| {
        facts.extend(
            value
                .filter(|value| !value.is_empty())
                .map(|value| (name.to_owned(), value)),
        );
    };
    let cores = std::thread::available_parallelism()
        .map(|count| count.to_string())
        .ok();
    fact("CPU", proc::machine::processor());
    fact("Cores", cores);
    let total = proc::machine::memory().map(|memory| format!("{} kB", memory.total / 1024));
    fact("Memory", total);
    fact("Kernel", output("uname", &["-sr"]));
    fact("Distribution", distribution());
    fact(
        "Frequency governor",
        read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    );
    fact(
        "Frequency boost",
        read("/sys/devices/system/cpu/cpufreq/boost"),
    );
    fact(
        "Transparent huge pages",
        read("/sys/kernel/mm/transparent_hugepage/enabled"),
    );
    fact("somaxconn", read("/proc/sys/net/core/somaxconn"));
    fact(
        "Ephemeral ports",
        read("/proc/sys/net/ipv4/ip_local_port_range").map(|range| range.replace('\t', " to ")),
    );
    fact(
        "Open files (hard limit)",
        getrlimit(Resource::Nofile).maximum.map(|n| n.to_string()),
    );
    fact(
        LOAD_AVERAGE,
        proc::machine::load_averages()
            .map(|load| load.map(|average| format!("{average:.2}")).join(" ")),
    );
    facts
}

/// Raises the soft limit of open files to the hard one, for this process and what it starts; gives the limit.
///
/// # Errors
/// The kernel refuses.
pub fn raise_open_files() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).context("raising the limit of open files")?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Now, in UTC, as in RFC 3339.
pub fn timestamp() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

/// The moment that a [`timestamp`] names; `None` where the text is none.
pub fn moment(timestamp: &str) -> Option<SystemTime> {
    let moment: jiff::Timestamp = timestamp.parse().ok()?;
    Some(moment.into())
}

fn distribution() -> Option<String> {
    let text = read("/etc/os-release")?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stderr(std::process::Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_limit_of_open_files_is_the_hard_one() {
        let limit = raise_open_files().unwrap();
        let now = getrlimit(Resource::Nofile).current;
        assert_eq!(now.unwrap_or(u64::MAX), limit);
    }

    #[test]
    fn a_machine_is_described_without_a_server() {
        let machine = Machine::with(Vec::new());
        assert!(machine.facts.iter().any(|(name, _)| name == "Kernel"));
        assert!(machine.versions.iter().all(|(name, _)| name != "highball"));
    }

    #[test]
    fn a_timestamp_is_rfc_3339() {
        let now = timestamp();
        assert!(
            now.len() == 20 && now.ends_with('Z') && now.as_bytes()[10] == b'T',
            "{now}"
        );
        let second = Duration::from_secs(1);
        assert_eq!(
            moment("1970-01-01T00:00:01Z"),
            Some(SystemTime::UNIX_EPOCH + second)
        );
        assert_eq!(moment(""), None);
    }
}
