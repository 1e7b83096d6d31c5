//! The rules of CONTRIBUTING.md that a program can check, one test each. Known exceptions are in `exceptions.txt`.

#![allow(clippy::unwrap_used, reason = "they are tests")]

use std::sync::LazyLock;

use xtask::workspace::Workspace;
use xtask::{Finding, exceptions};

static FINDINGS: LazyLock<Vec<Finding>> =
    LazyLock::new(|| exceptions::findings(&Workspace::here().unwrap()).unwrap());

fn check(rule: &str) {
    let list = exceptions::read(&Workspace::here().unwrap()).unwrap();
    let messages = exceptions::compare(rule, &FINDINGS, &list);
    assert!(messages.is_empty(), "\n{}\n", messages.join("\n"));
}

#[test]
fn crates_use_only_what_the_table_of_layers_allows() {
    check("layer");
}

#[test]
fn no_circle_of_imports_between_files() {
    check("circle");
}

#[test]
fn no_type_has_more_than_25_methods() {
    check("type");
}

#[test]
fn no_function_has_more_than_80_lines() {
    check("function");
}

#[test]
fn no_file_has_more_than_400_lines_without_tests() {
    check("file");
}

#[test]
fn every_file_says_first_what_it_is() {
    check("opening");
}

#[test]
fn decisions_have_numbers_of_their_own_and_an_index() {
    check("decision");
}

#[test]
fn every_link_in_a_document_leads_somewhere() {
    check("link");
}

#[test]
fn every_exception_belongs_to_a_rule() {
    let rules = [
        "layer", "circle", "type", "function", "file", "opening", "decision", "link",
    ];
    for (rule, name) in exceptions::read(&Workspace::here().unwrap())
        .unwrap()
        .into_keys()
    {
        assert!(rules.contains(&rule.as_str()), "{rule} {name}");
    }
}
