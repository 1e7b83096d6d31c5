//! Paths and what they lead to.

use super::*;
use crate::source::target_of;

/// The file that a path in the module `from` leads to; the crate's files are those of the first test.
fn leads_to(from: &[&str], path: &str) -> Option<usize> {
    let target = target_of(&[
        (
            "",
            "mod a; mod b; pub use a::Inner; pub use b::*; pub struct Root; mod inline { pub struct InRoot; }",
        ),
        (
            "a",
            "pub mod inner; pub use inner::{Inner, deep as shallow}; pub struct A;",
        ),
        (
            "a::inner",
            "use super::A; pub struct Inner; pub fn deep() {}",
        ),
        (
            "b",
            "use crate::a::{self, Inner as Renamed}; use std::fmt; pub struct B;",
        ),
    ]);
    let names = Names::of(&target);
    let split = |path: &[&str]| path.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    match names.meaning(&split(from), &split(&path.split("::").collect::<Vec<_>>())) {
        Meaning::Own(path) => Some(names.definition(&path).1),
        Meaning::Foreign(_) => None,
    }
}

#[test]
fn a_path_leads_to_the_file_that_defines_it() {
    let cases: [(&[&str], &str, Option<usize>); 15] = [
        (&["b"], "crate::Root", Some(0)),
        (&["b"], "crate::inline::InRoot", Some(0)),
        (&["b"], "crate::Inner", Some(2)),
        (&["b"], "crate::a::Inner::new", Some(2)),
        (&["b"], "crate::a::shallow", Some(2)),
        (&["b"], "a::A", Some(1)),
        (&["b"], "Renamed", Some(2)),
        (&["b"], "fmt::Display", None),
        (&["b"], "unknown", None),
        (&["a"], "crate::B", Some(3)),
        (&["a", "inner"], "super::A", Some(1)),
        (&["a", "inner"], "super::super::Root", Some(0)),
        (&["a", "inner"], "A", Some(1)),
        (&["a"], "inner::deep", Some(2)),
        (&["a"], "self::inner", Some(2)),
    ];
    for (from, path, file) in cases {
        assert_eq!(leads_to(from, path), file, "{path} in {from:?}");
    }
}
