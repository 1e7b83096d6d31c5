//! Which rule applies to a path.

use super::*;

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
