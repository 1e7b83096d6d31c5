//! Of reading and checking. What the shipped files say is tested in `tests/studies.rs`.

use super::*;

const SMALL: &str = r#"
id = "small"
year = 2001
title = "Small"
question = "Which is faster?"
reference = "alone"
notes = []
absent = []

[machine]
server = ["one core"]
client = []

[software]
Thin = "1.0"

[[application]]
id = "page"
name = "Page"
then = "a page"
today = { app = "hello", why = "the same" }

[[load]]
id = "ab"
tool = "ab"
commands = ["ab -n 10 -c 2"]
today = { connections = 2, calls = 1 }

[[load]]
id = "series"
tool = "httperf"
commands = ["httperf"]
today = { find_peak = true }

[[participant]]
id = "gone"
name = "Gone 1.0"
then = ""
stack = "url"
stand_in = "Nothing stands in."

[[participant]]
id = "cluster"
name = "Cluster 1.0"
then = ""
workers = 4
stack = "nginx+thin"
stand_in = "Thin for another."

[[participant]]
id = "alone"
name = "Alone 1.0"
then = ""
workers = 1
stack = "thin"

[[figures]]
participant = "alone"
application = "page"
load = "ab"
quote = "5"
values = { requests_per_second = 5, memory_mb = 10 }

[[figures]]
participant = "cluster"
application = "page"
load = "ab"
quote = "10"
values = { requests_per_second = 10, memory_mb = 40 }

[[figures]]
participant = "gone"
application = "page"
load = "ab"
quote = "20"
values = { requests_per_second = 20 }

[[claim]]
participant = "cluster"
against = "alone"
application = "page"
load = "ab"
measure = "requests_per_second"
ratio = [2.0, 2.0]
quote = "twice as fast"
"#;

/// A study of three: one alone, a cluster, and one that is gone.
pub(super) fn small() -> Study {
    read(SMALL).unwrap()
}

fn read(text: &str) -> Result<Study> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.toml");
    std::fs::write(&path, text).unwrap();
    Study::read(&path)
}

#[test]
fn a_study_is_read_with_its_figures() {
    let study = small();
    let figure = |participant, measure| study.figure(participant, "page", "ab", measure);
    assert_eq!(figure("cluster", Measure::RequestsPerSecond), Some(10.0));
    assert_eq!(figure("gone", Measure::MemoryMb), None);
    assert_eq!(study.figure_count(), 5);
}

#[test]
fn what_a_file_does_not_have_is_named_with_the_nearest() {
    let check = |from: &str, to: &str, expect: &str| {
        assert!(SMALL.contains(from), "{from}");
        let error = format!("{:#}", read(&SMALL.replacen(from, to, 1)).unwrap_err());
        assert!(error.contains(expect), "{error}");
    };
    check(
        "reference = \"alone\"",
        "reference = \"alon\"",
        "reference: there is no participant alon; the nearest is alone",
    );
    check(
        "application = \"page\"",
        "application = \"pag\"",
        "figures of \"5\": there is no application pag; the nearest is page",
    );
    check(
        "against = \"alone\"",
        "against = \"alne\"",
        "claim \"twice as fast\": there is no participant alne; the nearest is alone",
    );
    check(
        "load = \"ab\"",
        "load = \"abc\"",
        "there is no load abc; the nearest is ab",
    );
    check(
        "\"small\"",
        "\"smal\"",
        "the id is smal; it must be the file's name",
    );
    check(
        "connections = 2, ",
        "",
        "load ab: today needs either connections or find_peak",
    );
    check(
        "requests_per_second",
        "requests_pre_second",
        "the nearest known one is requests_per_second",
    );
    check(
        "question",
        "qestion",
        "unknown key qestion; the nearest known one is question",
    );
    check(
        "id = \"cluster\"",
        "id = \"gone\"",
        "participant gone is listed twice",
    );
}

#[test]
fn an_unknown_study_names_the_nearest() {
    let error = Study::find(vec![small()], "smal").unwrap_err();
    let expect = "there is no study smal; the nearest is small";
    assert_eq!(format!("{error:#}"), expect);
    assert_eq!(Study::find(vec![small()], "small").unwrap().id, "small");
}

#[test]
fn no_two_measures_have_the_same_name() {
    for (index, measure) in Measure::ALL.iter().enumerate() {
        let same =
            |other: &&Measure| (other.title(), other.unit()) == (measure.title(), measure.unit());
        assert_eq!(Measure::ALL[index + 1..].iter().find(same), None);
    }
}
