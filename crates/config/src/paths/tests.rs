//! Which rule counts for a path, and what a list of rules is read from.

use std::time::Duration;

use super::*;
use crate::kind::MS;

fn rules(paths: &[&'static str]) -> PathRules<&'static str> {
    paths.iter().map(|path| (*path, *path)).collect()
}

#[test]
fn a_rule_counts_for_its_path_and_for_what_lies_below() {
    let check = |paths: &[&'static str], path: &str, expect: Option<&str>| {
        assert_eq!(rules(paths).find(path).copied(), expect, "{paths:?} {path}");
    };
    check(&[], "/", None);
    check(&["/reports"], "/reports", Some("/reports"));
    check(&["/reports"], "/reports/", Some("/reports"));
    check(&["/reports"], "/reports/1/pages", Some("/reports"));
    check(&["/reports"], "/reportsx", None);
    check(&["/reports"], "/report", None);
    check(&["/reports"], "/Reports", None);
    check(&["/reports"], "/", None);
    check(&["/reports"], "/old/reports", None);
    check(&["/reports/"], "/reports", Some("/reports/"));
    check(&["/"], "/", Some("/"));
    check(&["/"], "/any/thing", Some("/"));
    // What OPTIONS may ask for is no path.
    check(&["/"], "*", None);
}

#[test]
fn a_path_is_the_same_however_it_is_spelled() {
    let check = |path: &str, expect: &str| {
        let normal = normal(path.as_bytes());
        assert_eq!(normal.escape_ascii().to_string(), expect, "{path}");
    };
    for plain in [
        "/",
        "/reports",
        "/reports/",
        "/a.b/c~d",
        "/caf%C3%A9",
        "/a%2Fb",
        "*",
        "",
        "*//%61",
    ] {
        check(plain, plain);
    }
    check("/%72eports", "/reports");
    check("/%52eports", "/Reports");
    check("/r%65p%6frts/%31", "/reports/1");
    check("//reports", "/reports");
    check("/reports//1///2/", "/reports/1/2");
    check("/./reports/.", "/reports");
    check("/a/../reports", "/reports");
    check("/a/%2e%2E/reports", "/reports");
    check("/../../reports", "/reports");
    check("/..", "/");
    check("//", "/");
    check("/.well-known/x", "/.well-known/x");
    check("/.../x", "/.../x");
    // What is reserved stays escaped, and what is escaped twice is so.
    check("/a%2freports", "/a%2Freports");
    check("/%2e%2e%2freports", "/..%2Freports");
    check("/%2572eports", "/%2572eports");
    check("/caf%c3%a9", "/caf%C3%A9");
    // What is no escape is none.
    check("/%", "/%");
    check("/%7", "/%7");
    check("/%zz%72", "/%zzr");
    check("/%+72", "/%+72");
    check("/%é", "/%%C3%A9");
    // What must not stand in a path as it is counts as escaped.
    check("/café", "/caf%C3%A9");
    check("/a`b\"c{d|e}^[f]\\", "/a%60b%22c%7Bd%7Ce%7D%5E%5Bf%5D%5C");
    check("/up`", "/up%60");
}

#[test]
fn a_rule_counts_for_every_spelling_of_its_path_and_of_the_requests() {
    for rule in [
        "/reports",
        "/reports/",
        "//reports",
        "/%72eports",
        "/x/../reports",
    ] {
        for path in [
            "/reports",
            "/reports/1",
            "/%72eports/1",
            "//reports//1",
            "/x/../reports",
        ] {
            assert!(rules(&[rule]).find(path).is_some(), "{rule} {path}");
        }
        for path in ["/REPORTS", "/x/reports", "/reports/../x", "/a%2Freports"] {
            assert!(rules(&[rule]).find(path).is_none(), "{rule} {path}");
        }
    }
}

#[test]
fn the_longest_rule_counts_in_whatever_order_they_stand() {
    for paths in [
        ["/", "/api", "/api/slow"],
        ["/api/slow", "/", "/api"],
        ["/api", "/api/slow", "/"],
    ] {
        let rules = rules(&paths);
        let check = |path: &str, expect: &'static str| {
            assert_eq!(rules.find(path), Some(&expect), "{path}");
            let index = rules.find_index(path).expect("there is one");
            assert_eq!(rules.iter().nth(index), Some((expect, &expect)));
        };
        check("/up", "/");
        check("/api", "/api");
        check("/api/slowest", "/api");
        check("/api/slow", "/api/slow");
        check("/api/slow/1", "/api/slow");
    }
}

fn check(kind: Kind, items: &[&str], expect: Result<&str, &str>) {
    let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
    match (kind.parse_list(&items), expect) {
        (Ok(value), Ok(expect)) => assert_eq!(kind.text(&value), expect, "{items:?}"),
        (Err(error), Err(expect)) => assert!(error.contains(expect), "{items:?}: {error}"),
        (found, expect) => panic!("{items:?}: {found:?}, expected {expect:?}"),
    }
    for item in &items {
        // What a list takes each of its items alone must take.
        assert!(expect.is_err() || kind.check_item(item).is_ok(), "{item}");
    }
}

#[test]
fn rules_are_read_with_their_values_checked() {
    const TIME: Kind = Kind::Duration {
        min: MS,
        max: Duration::from_secs(3600),
    };
    let check = |items: &[&str], expect| check(Kind::Paths(Some(&TIME)), items, expect);
    check(&[], Ok("none"));
    check(&["none"], Ok("none"));
    check(&["/reports=300s", "/up=5"], Ok("/reports=5m,/up=5s"));
    check(&["/=1s"], Ok("/=1s"));
    check(&["/reports = 300s"], Ok("/reports=5m"));
    check(&["/a=b=500ms"], Ok("/a=b=500ms"));
    check(
        &["/a=soon"],
        Err("/a: \"soon\" is not allowed; expected a time"),
    );
    check(&["/a="], Err("/a: \"\" is not allowed"));
    check(
        &["/a=2h"],
        Err("/a: 2h is out of range; expected a time from 1ms to 1h"),
    );
    for item in [
        "", "/a", "a=5s", "=5s", "/a b=5s", "/a?b=5s", "/a#b=5s", "/ä=5s", "/a,b=5s",
    ] {
        check(
            &[item],
            Err("is not allowed; expected a list of paths with a value each"),
        );
    }
    check(&["/a=1s", "/b=2s", "/a=3s"], Err("/a is there twice"));
    check(&["/a=1s", "/a/=3s"], Err("/a/ is there twice"));
    check(&["none", "/a=1s"], Err("\"none\" must stand alone"));
    check(&["/a=1s", "none"], Err("\"none\" must stand alone"));
}

#[test]
fn rules_may_be_paths_alone() {
    let check = |items: &[&str], expect| check(Kind::Paths(None), items, expect);
    check(&["/up", "/a=b"], Ok("/up,/a=b"));
    check(&["none"], Ok("none"));
    check(
        &["up"],
        Err("\"up\" is not allowed; expected a list of paths, such as"),
    );
    check(&["/up", "/up/"], Err("/up/ is there twice"));
}
