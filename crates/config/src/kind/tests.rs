//! What each kind reads, refuses and writes.

use super::*;
use crate::units::{GIB, MIB, MS, TIB};

fn check(kind: Kind, text: &str, expect: Result<&str, &str>) {
    match (kind.parse(text), expect) {
        (Ok(value), Ok(expect)) => assert_eq!(kind.text(&value), expect, "{text:?}"),
        (Err(error), Err(expect)) => assert!(error.contains(expect), "{text:?}: {error}"),
        (found, expect) => panic!("{text:?}: {found:?}, expected {expect:?}"),
    }
}

#[test]
fn integers() {
    let kind = Kind::Integer { min: 2, max: 5 };
    check(kind, "2", Ok("2"));
    check(kind, "5", Ok("5"));
    check(
        kind,
        "1",
        Err("1 is out of range; expected a whole number from 2 to 5"),
    );
    check(kind, "6", Err("out of range"));
    check(kind, "-3", Err("out of range"));
    check(kind, "18446744073709551616", Err("out of range"));
    for text in ["", "auto", "3.0", "0x3", "3 ", "three"] {
        check(
            kind,
            text,
            Err("is not allowed; expected a whole number from 2 to 5"),
        );
    }
}

#[test]
fn integers_that_may_be_auto() {
    let kind = Kind::AutoInteger { min: 1, max: 8 };
    check(kind, "auto", Ok("auto"));
    check(kind, "8", Ok("8"));
    check(
        kind,
        "0",
        Err("0 is out of range; expected a whole number from 1 to 8, or \"auto\""),
    );
    check(kind, "Auto", Err("is not allowed"));
}

#[test]
fn numbers_that_may_be_ranges() {
    let kind = Kind::AutoRange { min: 0, max: 64 };
    for text in ["auto", "0", "64", "2..8", "1..64"] {
        check(kind, text, Ok(text));
    }
    check(kind, "3..3", Ok("3"));
    check(
        kind,
        "8..2",
        Err("8..2 ends below its beginning; write it as \"2..8\""),
    );
    let within = "is out of range; expected a range within 1..64";
    for text in ["0..3", "2..65", "0..0"] {
        check(kind, text, Err(&format!("{text} {within}")));
    }
    check(
        kind,
        "65",
        Err("65 is out of range; expected a whole number from 0 to 64"),
    );
    for text in [
        "2..", "..8", "2...8", "2-8", "a..b", "2..8..9", "-1..3", " 2..8",
    ] {
        check(kind, text, Err("a range such as \"2..8\", or \"auto\""));
    }
}

#[test]
fn numbers_and_ranges() {
    let kind = Kind::Range { min: 1, max: 256 };
    check(kind, "3", Ok("3"));
    check(kind, "1..8", Ok("1..8"));
    check(kind, "256..256", Ok("256"));
    for text in ["0", "300"] {
        check(
            kind,
            text,
            Err("is out of range; expected a whole number from 1 to 256, or"),
        );
    }
    for text in ["0..8", "1..257"] {
        check(
            kind,
            text,
            Err("is out of range; expected a range within 1..256"),
        );
    }
    check(kind, "8..1", Err("ends below its beginning"));
    for text in [
        "", "..", "1..", "..8", "1...8", "1..8..9", "-1..2", "1-8", "auto",
    ] {
        check(
            kind,
            text,
            Err("is not allowed; expected a whole number from 1 to 256, or a range"),
        );
    }
}

#[test]
fn sizes() {
    let kind = Kind::Bytes { min: 10, max: TIB };
    check(kind, "10", Ok("10"));
    check(kind, "1024", Ok("1KiB"));
    check(kind, "112KiB", Ok("112KiB"));
    check(kind, "112 kib", Ok("112KiB"));
    check(kind, "1536KiB", Ok("1536KiB"));
    check(kind, "1024MiB", Ok("1GiB"));
    check(kind, "1TiB", Ok("1TiB"));
    check(kind, "1kB", Ok("1KB"));
    check(kind, "65534", Ok("65534"));
    check(kind, "64B", Ok("64"));
    check(kind, "128000", Ok("125KiB"));
    check(kind, "1GB", Ok("1GB"));
    check(
        kind,
        "9",
        Err("9 is out of range; expected a size from 10 to 1TiB"),
    );
    check(kind, "1025GiB", Err("out of range"));
    check(kind, "99999999TiB", Err("out of range"));
    check(kind, "99999999999999999999", Err("out of range"));
    for text in ["", "KiB", "1.5GiB", "-1", "1K", "1G", "1 ", "10s", "one"] {
        check(kind, text, Err("is not allowed; expected a size"));
    }
}

#[test]
fn durations() {
    let kind = Kind::Duration {
        min: MS * 10,
        max: Duration::from_secs(7200),
    };
    check(kind, "30", Ok("30s"));
    check(kind, "30s", Ok("30s"));
    check(kind, "90s", Ok("90s"));
    check(kind, "120s", Ok("2m"));
    check(kind, "500ms", Ok("500ms"));
    check(kind, "10ms", Ok("10ms"));
    check(kind, "2h", Ok("2h"));
    check(
        kind,
        "9ms",
        Err("9ms is out of range; expected a time from 10ms to 2h"),
    );
    check(kind, "0", Err("out of range"));
    check(kind, "7201", Err("out of range"));
    check(kind, "99999999999999999h", Err("out of range"));
    for text in ["", "s", "1.5s", "-1s", "1d", "1min", "30 s ", "soon"] {
        check(kind, text, Err("is not allowed; expected a time"));
    }
    check(
        Kind::Duration {
            min: Duration::ZERO,
            max: Duration::from_secs(1),
        },
        "0",
        Ok("0"),
    );
    check(
        Kind::Duration {
            min: Duration::ZERO,
            max: Duration::from_secs(1),
        },
        "0s",
        Ok("0"),
    );
}

#[test]
fn modes_of_files_are_octal_digits() {
    check(Kind::FileMode, "660", Ok("0660"));
    check(Kind::FileMode, "0777", Ok("0777"));
    check(Kind::FileMode, "auto", Ok("auto"));
    for text in [
        "0", "66", "0o660", "4755", "00660", "0680", "+660", "rw", "",
    ] {
        let expect = format!(
            "{text:?} is not allowed; expected {}",
            Kind::FileMode.allowed()
        );
        check(Kind::FileMode, text, Err(&expect));
    }
}

#[test]
fn lists_of_counts() {
    let parse = |items: &[&str]| {
        let items: Vec<String> = items.iter().map(|&item| item.to_owned()).collect();
        Kind::Counts.parse_list(&items)
    };
    assert_eq!(parse(&["none"]), Ok(Value::List(Vec::new())));
    let counts = parse(&["500", "1500"]).unwrap();
    assert_eq!(Kind::Counts.text(&counts), "500,1500");
    for items in [&["0"][..], &["-1"], &["many"], &["1", ""]] {
        assert!(parse(items).is_err(), "{items:?}");
    }
    let error = parse(&["500", "none"]).unwrap_err();
    assert!(error.contains("must stand alone"), "{error}");
}

#[test]
fn percentages() {
    check(Kind::Percent, "1%", Ok("1%"));
    check(Kind::Percent, "100%", Ok("100%"));
    for text in ["0%", "101%", "50", "%", "5.5%", "-1%", "50%%"] {
        let expect = "is not allowed; expected a part from 1% to 100%";
        check(Kind::Percent, text, Err(expect));
    }
}

#[test]
fn ratios() {
    for (text, shown) in [
        ("0", "0"),
        ("1", "1"),
        ("1.0", "1"),
        ("0.01", "0.01"),
        ("0.500", "0.5"),
        ("00.000001", "0.000001"),
    ] {
        check(Kind::Ratio, text, Ok(shown));
    }
    for text in [
        "",
        ".",
        ".5",
        "1.",
        "1.000001",
        "2",
        "-0.1",
        "1%",
        "1e-2",
        "0.0000001",
        "+1",
    ] {
        let expect = "is not allowed; expected a number from 0 to 1 with at most six decimals";
        check(Kind::Ratio, text, Err(expect));
    }
}

#[test]
fn booleans() {
    check(Kind::Bool, "true", Ok("true"));
    check(Kind::Bool, "false", Ok("false"));
    for text in ["", "yes", "1", "True"] {
        check(
            Kind::Bool,
            text,
            Err("is not allowed; expected true or false"),
        );
    }
}

#[test]
fn texts() {
    check(Kind::Text, "staging", Ok("staging"));
    check(Kind::Text, "ein Pfad/mit ä", Ok("ein Pfad/mit ä"));
    for text in ["", "a\nb", "a\0b"] {
        check(
            Kind::Text,
            text,
            Err("is not allowed; expected a text that is not empty"),
        );
    }
}

#[test]
fn request_paths() {
    for text in ["/", "/up", "/health?deep=1", "/%C3%A4"] {
        check(Kind::RequestPath, text, Ok(text));
    }
    for text in ["", "up", "http://host/up", "/a b", "/a#b", "/ä", "/a\n"] {
        check(
            Kind::RequestPath,
            text,
            Err("is not allowed; expected the path of a request, such as \"/up\""),
        );
    }
}

#[test]
fn lists_of_request_paths() {
    let read = |items: &[&str]| {
        let items: Vec<String> = items.iter().map(|&item| item.to_owned()).collect();
        let value = Kind::RequestPaths.parse_list(&items)?;
        Ok(Kind::RequestPaths.text(&value))
    };
    assert_eq!(
        read(&["/", "/list?page=2"]),
        Ok("/,/list?page=2".to_owned())
    );
    assert_eq!(read(&["none"]), Ok("none".to_owned()));
    assert_eq!(read(&["frequent"]), Ok("frequent".to_owned()));
    assert_eq!(read(&["/", "frequent"]), Ok("/,frequent".to_owned()));
    let many = vec!["/"; MAX_REQUEST_PATHS + 1];
    let mut most = vec!["/"; MAX_REQUEST_PATHS];
    most.push("frequent");
    assert!(read(&most).is_ok());
    for wrong in [
        &["none", "/"][..],
        &["up"],
        &["/", "/a b"],
        &["none", "frequent"],
        &["Frequent"],
        &many,
    ] {
        let error: String = read(wrong).expect_err("it is refused");
        assert!(error.contains("none"), "{error}");
    }
    assert!(read(&many[1..]).is_ok());
}

#[test]
fn what_may_be_none() {
    let kind = Kind::Maybe(&Kind::Bytes { min: MIB, max: GIB });
    for text in ["none", "1MiB", "512MiB"] {
        check(kind, text, Ok(text));
    }
    check(
        kind,
        "auto",
        Err("is not allowed; expected a size from 1MiB to 1GiB"),
    );
    check(
        kind,
        "1",
        Err("is out of range; expected a size from 1MiB to 1GiB"),
    );
    check(kind, "None", Err(", or \"none\""));
    let kind = Kind::Maybe(&Kind::AutoBytes { min: MIB, max: GIB });
    for text in ["none", "auto", "1MiB"] {
        check(kind, text, Ok(text));
    }
    check(kind, "x", Err("\"1MiB\", or \"auto\", or \"none\""));
    assert_eq!(kind.value_name(), "SIZE|auto|none");
}

#[test]
fn choices() {
    check(Kind::Choice(&["text", "json"]), "json", Ok("json"));
    check(
        Kind::Choice(&["text", "json"]),
        "JSON",
        Err("expected \"text\" or \"json\""),
    );
    check(
        Kind::Choice(&["a", "b", "c"]),
        "d",
        Err("expected \"a\", \"b\" or \"c\""),
    );
}

#[test]
fn lists() {
    let check_list = |kind: Kind, items: &[&str], expect: Result<&str, &str>| {
        let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
        match (kind.parse_list(&items), expect) {
            (Ok(value), Ok(expect)) => assert_eq!(kind.text(&value), expect),
            (Err(error), Err(expect)) => assert!(error.contains(expect), "{error}"),
            (found, expect) => panic!("{items:?}: {found:?}, expected {expect:?}"),
        }
    };
    check_list(Kind::Listen, &["3000", "[::1]:80"], Ok("3000,[::1]:80"));
    check_list(Kind::Listen, &[], Err("the list is empty"));
    check_list(Kind::Addresses, &[], Ok(""));
    check_list(Kind::Addresses, &["::1", "unix"], Ok("::1,unix"));
    check_list(Kind::Addresses, &["all", "unix"], Err("must stand alone"));
    assert!(
        Kind::Listen
            .check_item("host:80")
            .unwrap_err()
            .contains("not an address to listen on")
    );
    assert!(
        Kind::Addresses
            .check_item("host")
            .unwrap_err()
            .contains("not an address, a network")
    );
}

#[test]
fn every_kind_names_its_value() {
    let check = |kind: Kind, expect: &str| assert_eq!(kind.value_name(), expect);
    check(Kind::Integer { min: 0, max: 1 }, "N");
    check(Kind::AutoInteger { min: 0, max: 1 }, "N|auto");
    check(Kind::AutoRange { min: 0, max: 1 }, "N|N..M|auto");
    check(Kind::Bytes { min: 0, max: 1 }, "SIZE");
    check(Kind::Duration { min: MS, max: MS }, "TIME");
    check(Kind::Bool, "true|false");
    check(Kind::Text, "TEXT");
    check(Kind::Maybe(&Kind::RequestPath), "PATH|none");
    check(Kind::Choice(&["text", "json"]), "text|json");
    check(Kind::Percent, "N%");
    check(Kind::SocketAddress, "IP:PORT");
    check(Kind::Listen, "ADDR");
    check(Kind::Paths(None), "PATH");
    check(Kind::Paths(Some(&Kind::Bool)), "PATH=true|false");
}
