//! Of reading and checking. What the shipped files say is tested in `tests/studies.rs`.

use super::*;

const SMALL: &str = r#"
id = "small"
year = 2001
title = "Small"
question = "Which is faster?"
reference = "a"
notes = []
absent = []
figures = [{ participant = "a", application = "page", load = "ab", quote = "5", values = { requests_per_second = 5 } }]

[machine]
server = []
client = []

[software]

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

[[participant]]
id = "a"
name = "A 1.0"
then = ""
stack = "thin"
"#;

fn read(text: &str) -> Result<Study> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.toml");
    std::fs::write(&path, text).unwrap();
    Study::read(&path)
}

fn refused(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    format!("{:#}", read(&SMALL.replacen(from, to, 1)).unwrap_err())
}

#[test]
fn a_study_is_read_with_its_figures() {
    let study = read(SMALL).unwrap();
    assert_eq!(
        study.figure("a", "page", "ab", Measure::RequestsPerSecond),
        Some(5.0)
    );
    assert_eq!(study.figure("a", "page", "ab", Measure::MemoryMb), None);
    assert_eq!(study.figure_count(), 1);
}

#[test]
fn what_a_file_does_not_have_is_named_with_the_nearest() {
    let check = |from: &str, to: &str, expect: &str| {
        let error = refused(from, to);
        assert!(error.contains(expect), "{error}");
    };
    check(
        "reference = \"a\"",
        "reference = \"b\"",
        "reference: there is no participant b; the nearest is a",
    );
    check(
        "application = \"page\"",
        "application = \"pag\"",
        "figures of \"5\": there is no application pag; the nearest is page",
    );
    check(
        "load = \"ab\", quote",
        "load = \"abc\", quote",
        "there is no load abc; the nearest is ab",
    );
    check(
        "id = \"small\"",
        "id = \"smal\"",
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
        "stack = \"thin\"",
        "stack = \"thin\"\n[[participant]]\nid = \"a\"\nname = \"\"\nthen = \"\"\nstack = \"puma\"",
        "participant a stands there twice",
    );
}

#[test]
fn an_unknown_study_names_the_nearest() {
    let studies = vec![read(SMALL).unwrap()];
    let error = Study::find(studies.clone(), "smal").unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "there is no study smal; the nearest is small"
    );
    assert_eq!(Study::find(studies, "small").unwrap().id, "small");
}

#[test]
fn every_measure_has_a_name_of_its_own_for_people() {
    for (index, measure) in Measure::ALL.iter().enumerate() {
        assert!(!measure.title().is_empty());
        let same =
            |other: &&Measure| other.title() == measure.title() && other.unit() == measure.unit();
        assert_eq!(Measure::ALL[index + 1..].iter().find(same), None);
    }
}
