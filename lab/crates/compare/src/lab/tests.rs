//! What LAB.toml may contain, and the errors for the rest.

use super::*;
use loadgen::plan::Arrivals;

fn read(text: &str) -> Result<Lab> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    std::fs::write(&path, text).unwrap();
    Lab::read(&path)
}

fn complaint(text: &str) -> String {
    let error = format!("{:#}", read(text).unwrap_err());
    error
        .split_once("LAB.toml")
        .map(|(_, rest)| rest.to_owned())
        .unwrap_or(error)
}

#[test]
fn an_empty_file_is_a_comparison_of_the_application_here() {
    let mut lab = read("").unwrap();
    lab.app = ".".to_owned();
    assert_eq!(lab, Lab::default());
    assert!(!lab.is_quick());
    assert_eq!(lab.searches(), 0);
}

#[test]
fn the_example_in_the_documentation_is_true() {
    let page = include_str!("../../../../../docs/lab.md");
    let example = page
        .split("```toml\n")
        .find(|part| part.starts_with("# LAB.toml"))
        .and_then(|part| part.split("```").next())
        .expect("docs/lab.md has the example");
    let lab = read(example).unwrap();
    // Every key is in it, so that the page is whole.
    let known: toml::Table = toml::from_str(&lab.to_toml().unwrap()).unwrap();
    let shown: toml::Table = toml::from_str(example).unwrap();
    let missing = known.keys().filter(|key| !shown.contains_key(*key));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn errors_have_the_line() {
    let check = |text: &str, expect: &str| assert_eq!(complaint(text), expect, "{text}");
    check(
        "app = \"hello\"\nworker = 3\n",
        ":2: unknown key worker; the nearest known one is workers",
    );
    check(
        "[[load]]\nconnections = 12\n[[load]]\nrates = 4\n",
        ":4: unknown key rates; the nearest known one is rate",
    );
    check(
        "[[load]]\nrate = 4\nidle = 10\n",
        ":3: load.0.idle: only a closed loop has it; give connections and no rate",
    );
    check(
        "[[load]]\nconnections = 4\nidle = 10\nrestart = { share = 0.6, before = \"1s\", after = \"1s\" }\n",
        ":4: load.0.restart: a load has either idle connections or a restart",
    );
    check(
        "[[load]]\nconnections = 4\nrestart = { share = 1.5, before = \"1s\", after = \"1s\" }\n",
        ":3: load.0.restart.share: 1.5 is out of range; it goes from 0.05 to 0.95",
    );
    check(
        "\nworkers = 0\n",
        ":2: workers: 0 is out of range; it goes from 1 to 1024",
    );
    check(
        "duration = \"1ms\"\n",
        ":1: duration: 1ms is out of range; it goes from 500ms to 24h",
    );
    check(
        "duration = \"soon\"\n",
        ":1: \"soon\" is no length of time; write 30s, 2m, 500ms or 1h, without a fraction",
    );
    check(
        "[[load]]\nconnections = 12\n\n[[load]]\nconnections = 1\nrate = 4\n",
        ":4: load.1: a load has either connections (a closed loop) or a rate (an open one)",
    );
    check(
        "[[load]]\nrate = 200\n[[load]]\nrate = 200.0\n",
        ":3: load.1: there are two loads named r200; give one another id",
    );
    check(
        "[[load]]\nrate = nan\n",
        ":2: load.0.rate: NaN is out of range; it goes from 0.1 to 1000000",
    );
    check(
        "[[request]]\npath = \"index\"\n",
        ":2: request.0.path: \"index\" is no path; it starts with / and has no spaces",
    );
    check(
        "[[load]]\nrate = 2\narrivals = \"poison\"\n",
        ":3: unknown value poison; the nearest known one is poisson",
    );
    check(
        "stacks = [\"puma\", \"puma\"]\n",
        ":1: stacks: puma is named twice; a table [stack.NAME] with kind = \"puma\" makes a second one",
    );
    check(
        "stacks = [\"puma\", \"thin\"]\n[stack.thni]\nworkers = 2\n",
        ":2: stack.thni: no stack of that name takes part; the nearest is thin",
    );
    check(
        "server_cores = [0]\n",
        ":1: server_cores: server_cores and generator_cores are given both or not at all",
    );
    check(
        "find_peak = true\n",
        ":1: invalid type: boolean `true`, expected struct FindPeak",
    );
    check(
        "app = \n",
        ":1: string values must be quoted, expected literal string",
    );
}

#[test]
fn what_is_written_reads_as_the_same() {
    let text = "
        title = \"Two Pumas\"
        stacks = [\"highball\", \"puma-threads\"]
        trials = 2
        find_peak = { p99 = \"500ms\" }
        login = { path = \"/login\", method = \"POST\", body = \"user=me\" }
        [[request]]
        path = \"/\"
        headers = { Accept = \"text/html\" }
        [[load]]
        connections = 12
        requests = 1000
        [[load]]
        rate = 200.5
        calls = 10
        [stack.puma-threads]
        kind = \"puma-cluster\"
        threads = 5
        environment = { RUBYOPT = \"--yjit\" }
    ";
    let lab = read(text).unwrap();
    assert_eq!(read(&lab.to_toml().unwrap()).unwrap(), lab);
    assert!(lab.is_quick());
    assert_eq!(lab.searches(), 2);
    let participant = lab.participant("puma-threads");
    assert_eq!(
        (participant.kind.as_str(), participant.threads),
        ("puma-cluster", 5)
    );
    assert_eq!(lab.participant("highball").kind, "highball");
}

#[test]
fn loads_have_names_and_titles_of_their_own() {
    let check = |load: Load, id: &str, title: &str| {
        assert_eq!((load.id().as_str(), load.title().as_str()), (id, title));
    };
    check(Load::closed(12), "c12", "12 connections, closed loop");
    check(Load::closed(1), "c1", "1 connection, closed loop");
    check(Load::open(200.0), "r200", "200 requests/s, open loop");
    check(
        Load {
            requests: Some(10_000),
            calls: Some(1),
            ..Load::closed(100)
        },
        "c100",
        "100 connections, 10000 requests, closed loop, a connection for each request",
    );
    check(
        Load {
            arrivals: Arrivals::Constant,
            calls: Some(10),
            ..Load::open(0.5)
        },
        "r0.5",
        "0.5 requests/s, at equal distances, open loop, 10 requests on a connection",
    );
}

#[test]
fn a_stack_that_is_named_twice_takes_part_twice() {
    let mut lab = Lab::default();
    lab.name_stacks(["puma", "thin", "puma", "puma"].map(str::to_owned));
    assert_eq!(lab.stacks, ["puma", "thin", "puma-2", "puma-3"]);
    assert_eq!(lab.participant("puma-3").kind, "puma");
    lab.check().unwrap();
}

#[test]
fn a_load_too_short_to_see_a_backlog_grow_is_no_search() {
    let mut lab = Lab {
        duration: Duration::from_secs(1),
        find_peak: Some(FindPeak::default()),
        ..Lab::default()
    };
    assert_eq!(
        lab.check().unwrap_err().to_string(),
        "duration: 1s is too short for find_peak: whether a rate is held shows in 3s at the earliest"
    );
    lab.duration = Duration::from_secs(3);
    lab.check().unwrap();
    lab.duration = Duration::from_secs(1);
    lab.find_peak = None;
    lab.check().unwrap();
}
