//! Which crate may use which: one table, with the reasons. Looks at Cargo.toml files, for what is no dependency cannot
//! be used.

use crate::Finding;
use crate::workspace::{Member, Workspace};

/// What one crate may use.
struct Layer {
    /// Its folder.
    krate: &'static str,
    /// Folders of the crates that it may use.
    may_use: &'static [&'static str],
    why: &'static str,
}

/// Only tests may use these.
const FOR_TESTS: [&str; 2] = ["crates/test-browser", "crates/test-support"];

/// One line for each crate.
const LAYERS: [Layer; 34] = [
    Layer {
        krate: "crates/admin",
        may_use: &[],
        why: "HTTP for operators, whatever they ask; it reaches the server through the handlers of its routes alone",
    },
    Layer {
        krate: "crates/cache",
        may_use: &[],
        why: "the rules of HTTP caches, apart from sockets and clocks",
    },
    Layer {
        krate: "crates/certificates",
        may_use: &["crates/http-client"],
        why: "orders certificates; it reaches the server through its own trait Installer alone",
    },
    Layer {
        krate: "crates/charts",
        may_use: &[],
        why: "axes of the dashboard's charts and of the lab's; it draws nothing",
    },
    Layer {
        krate: "crates/config",
        may_use: &["crates/proc"],
        why: "settings are data for every other crate; proc says for how many cores the default number of workers is",
    },
    Layer {
        krate: "crates/command-line",
        may_use: &["crates/config"],
        why: "what can be written on the command line, for the program and its man pages; it carries out nothing",
    },
    Layer {
        krate: "crates/dashboard",
        may_use: &["crates/charts"],
        why: "makes a page of figures that the program hands it; it knows neither sockets nor processes",
    },
    Layer {
        krate: "crates/exceptions",
        may_use: &[],
        why: "groups what workers report, and decides when people are told; it knows no request and no socket",
    },
    Layer {
        krate: "crates/exchange",
        may_use: &[],
        why: "front and extension share it, so it is in the server and in Ruby; nothing that one of them alone needs",
    },
    Layer {
        krate: "crates/experiment",
        may_use: &["crates/metrics", "crates/statistics"],
        why: "judges what was recorded of two halves of a pool; it knows no server and no clock",
    },
    Layer {
        krate: "crates/http-client",
        may_use: &[],
        why: "clients for every crate that makes requests of its own; it knows no request",
    },
    Layer {
        krate: "crates/metrics",
        may_use: &[],
        why: "histograms, routes and their text, apart from sockets and clocks",
    },
    Layer {
        krate: "crates/notify",
        may_use: &["crates/exceptions", "crates/http-client", "crates/proc"],
        why: "tells receivers outside of the server what exceptions decides; it knows no front",
    },
    Layer {
        krate: "crates/plan",
        may_use: &[],
        why: "simulates the queue from recorded times; it knows no server and no clock",
    },
    Layer {
        krate: "crates/proc",
        may_use: &[],
        why: "server and lab read /proc with it; it knows neither",
    },
    Layer {
        krate: "crates/profiles",
        may_use: &[],
        why: "merges and shows stacks; it knows no request, no worker and no terminal",
    },
    Layer {
        krate: "crates/statistics",
        may_use: &[],
        why: "server and lab judge with it; it measures nothing",
    },
    Layer {
        krate: "crates/traces",
        may_use: &["crates/http-client"],
        why: "spans, who is traced, and the thread that sends them; it knows no connection and no worker",
    },
    Layer {
        krate: "crates/extension",
        may_use: &["crates/exchange"],
        why: "runs inside other people's Ruby; it knows workers and slots, and nothing of the front",
    },
    Layer {
        krate: "crates/supervisor",
        may_use: &["crates/exchange", "crates/proc"],
        why: "starts and replaces processes; it reaches the dispatcher through the trait in exchange alone",
    },
    Layer {
        krate: "crates/front",
        may_use: &[
            "crates/cache",
            "crates/config",
            "crates/exceptions",
            "crates/exchange",
            "crates/metrics",
            "crates/proc",
            "crates/profiles",
            "crates/traces",
        ],
        why: "serves requests; it never starts or ends a process, so it never uses the supervisor",
    },
    Layer {
        krate: "crates/highball",
        may_use: &[
            "crates/admin",
            "crates/certificates",
            "crates/command-line",
            "crates/config",
            "crates/exceptions",
            "crates/experiment",
            "crates/dashboard",
            "crates/exchange",
            "crates/front",
            "crates/metrics",
            "crates/notify",
            "crates/plan",
            "crates/proc",
            "crates/profiles",
            "crates/supervisor",
            "crates/traces",
        ],
        why: "puts the server together; the lab is a program of its own, which it executes",
    },
    Layer {
        krate: "crates/test-browser",
        may_use: &["crates/test-support"],
        why: "a browser for every crate's tests; apart from test-support, since few of them need one",
    },
    Layer {
        krate: "crates/test-support",
        may_use: &["crates/proc"],
        why: "servers and clients for every crate's tests",
    },
    Layer {
        krate: "lab/crates/loadgen",
        may_use: &["crates/proc"],
        why: "sends load; it knows no stack and no study",
    },
    Layer {
        krate: "lab/crates/formats",
        may_use: &["lab/crates/loadgen"],
        why: "words results as ab, wrk and httperf do; it measures nothing",
    },
    Layer {
        krate: "lab/crates/stacks",
        may_use: &["crates/proc", "lab/crates/loadgen"],
        why: "starts servers, and asks by loadgen's reader of responses whether they serve; it measures nothing",
    },
    Layer {
        krate: "lab/crates/compare",
        may_use: &[
            "crates/proc",
            "crates/statistics",
            "lab/crates/loadgen",
            "lab/crates/stacks",
        ],
        why: "runs trials and judges them; how that is shown is the report's",
    },
    Layer {
        krate: "lab/crates/report",
        may_use: &["crates/charts", "lab/crates/compare", "lab/crates/loadgen"],
        why: "shows results; it starts nothing and measures nothing",
    },
    Layer {
        krate: "lab/crates/studies",
        may_use: &[
            "lab/crates/compare",
            "lab/crates/loadgen",
            "lab/crates/report",
            "lab/crates/stacks",
        ],
        why: "a published comparison is a plan for compare, and its report",
    },
    Layer {
        krate: "lab/crates/highball-lab",
        may_use: &[
            "lab/crates/bench",
            "lab/crates/compare",
            "lab/crates/formats",
            "lab/crates/loadgen",
            "lab/crates/report",
            "lab/crates/stacks",
            "lab/crates/studies",
        ],
        why: "the commands: puts the lab together; like every crate of the lab it uses nothing of the server",
    },
    Layer {
        krate: "lab/crates/bench",
        may_use: &[
            "lab/crates/compare",
            "lab/crates/loadgen",
            "lab/crates/stacks",
        ],
        why: "the project's benchmark: comparisons with targets; it runs none of them",
    },
    Layer {
        krate: "tests",
        may_use: &[
            "crates/config",
            "crates/proc",
            "crates/test-browser",
            "crates/test-support",
        ],
        why: "goes over the wire; what it needs from within a crate is that crate's own test",
    },
    Layer {
        krate: "xtask",
        may_use: &["crates/command-line"],
        why: "looks at sources; the man pages come from the definition of the command line",
    },
];

/// Returns every use of a crate that the table does not allow, and every crate that it does not know.
pub fn check(workspace: &Workspace) -> Vec<Finding> {
    workspace.members.iter().flat_map(check_member).collect()
}

fn check_member(member: &Member) -> Vec<Finding> {
    let finding = |name: String, message: String| Finding {
        rule: "layer",
        name,
        number: 1,
        message,
    };
    let folder = &member.folder;
    let Some(layer) = LAYERS.iter().find(|layer| layer.krate == folder) else {
        let message = format!(
            "{folder} has no line in xtask/src/layers.rs: say there what it may use, and why"
        );
        return vec![finding(folder.clone(), message)];
    };
    let is_allowed = |used: &str| layer.may_use.contains(&used);
    let is_test = folder == "tests" || FOR_TESTS.contains(&folder.as_str());
    let in_product = member
        .uses
        .values()
        .filter(|used| !is_allowed(used) || FOR_TESTS.contains(&used.as_str()) && !is_test);
    let in_tests = member
        .uses_in_tests
        .iter()
        .filter(|used| !is_allowed(used) && !FOR_TESTS.contains(&used.as_str()));
    let mut findings: Vec<_> = in_product
        .chain(in_tests)
        .map(|used| {
            finding(
                format!("{folder}->{used}"),
                format!("{folder} may not use {used}: {}", layer.why),
            )
        })
        .collect();
    findings.dedup();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(folder: &str, uses: &[&str], uses_in_tests: &[&str]) -> Vec<String> {
        let member = Member {
            folder: folder.to_owned(),
            package: folder.to_owned(),
            uses: uses
                .iter()
                .map(|used| (used.to_string(), used.to_string()))
                .collect(),
            uses_in_tests: uses_in_tests.iter().map(|used| used.to_string()).collect(),
        };
        check_member(&member)
            .into_iter()
            .map(|finding| finding.name)
            .collect()
    }

    #[test]
    fn what_the_table_does_not_allow_is_found() {
        assert_eq!(
            found(
                "crates/front",
                &["crates/exchange", "crates/config"],
                &["crates/test-support"]
            ),
            [""; 0]
        );
        assert_eq!(
            found("crates/front", &["crates/supervisor"], &[]),
            ["crates/front->crates/supervisor"]
        );
        assert_eq!(
            found("crates/front", &[], &["crates/supervisor"]),
            ["crates/front->crates/supervisor"]
        );
        assert_eq!(
            found(
                "lab/crates/highball-lab",
                &["lab/crates/stacks", "crates/front"],
                &[]
            )
            .len(),
            1
        );
    }

    #[test]
    fn test_support_is_for_tests_alone() {
        let found = found(
            "crates/highball",
            &["crates/test-support"],
            &["crates/test-support"],
        );
        assert_eq!(found, ["crates/highball->crates/test-support"]);
    }

    #[test]
    fn a_crate_without_a_line_is_found() {
        assert_eq!(found("crates/nobody", &[], &[]), ["crates/nobody"]);
    }
}
