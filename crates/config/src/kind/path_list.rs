//! Lists of paths, with a value each or alone: how they are read, written and explained. What they mean is `paths.rs`.

use crate::kind::{Kind, Value};
use crate::paths::prefix;

/// What is allowed where the values are of this kind, in words that follow "expected".
pub(crate) fn allowed(values: Option<&Kind>) -> String {
    match values {
        None => "a list of paths, such as \"/reports\"; or \"none\" alone".to_owned(),
        Some(values) => format!(
            "a list of paths with a value each, such as \"/reports=VALUE\", where VALUE is {}; or \"none\" alone",
            values.allowed()
        ),
    }
}

/// Reads one item of the list; none is the item "none".
///
/// # Errors
/// What is wrong with it and what is allowed.
pub(crate) fn parse_item(
    values: Option<&Kind>,
    text: &str,
) -> Result<Option<(String, Value)>, String> {
    if text == "none" {
        return Ok(None);
    }
    let parts = match values {
        // The last one: a path may hold others.
        Some(_) => text
            .rsplit_once('=')
            .map(|(path, value)| (path.trim_end(), value.trim_start())),
        None => Some((text, "")),
    };
    let Some((path, value)) = parts.filter(|(path, _)| is_path(path)) else {
        return Err(format!(
            "{text:?} is not allowed; expected {}",
            allowed(values)
        ));
    };
    let value = match values {
        Some(values) => values.parse(value),
        None => Ok(Value::Listed),
    };
    match value {
        Ok(value) => Ok(Some((path.to_owned(), value))),
        Err(message) => Err(format!("{path}: {message}")),
    }
}

/// Reads the list.
///
/// # Errors
/// What is wrong with the first wrong item, that "none" does not stand alone, or that a path is listed twice.
pub(crate) fn parse(
    values: Option<&Kind>,
    items: &[String],
) -> Result<Vec<(String, Value)>, String> {
    let mut rules: Vec<(String, Value)> = Vec::new();
    for item in items {
        match parse_item(values, item)? {
            None if items.len() > 1 => {
                return Err(format!("{item:?} must stand alone in the list"));
            }
            None => {}
            Some((path, _))
                if rules
                    .iter()
                    .any(|(known, _)| prefix(known) == prefix(&path)) =>
            {
                return Err(format!("{path} is listed twice"));
            }
            Some(rule) => rules.push(rule),
        }
    }
    Ok(rules)
}

/// Writes a list as it is written in a flag.
pub(crate) fn text(values: Option<&Kind>, rules: &[(String, Value)]) -> String {
    if rules.is_empty() {
        return "none".to_owned();
    }
    let text = |(path, value): &(String, Value)| match values {
        Some(values) => format!("{path}={}", values.text(value)),
        None => path.clone(),
    };
    rules.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Whether it is a path as a request line has it, without a query (RFC 9112 section 3.2.1), and without the comma
/// that separates the items of a list.
fn is_path(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#,".contains(&byte);
    text.starts_with('/') && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::units::MS;

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
        check(&["/a=1s", "/b=2s", "/a=3s"], Err("/a is listed twice"));
        check(&["/a=1s", "/a/=3s"], Err("/a/ is listed twice"));
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
        check(&["/up", "/up/"], Err("/up/ is listed twice"));
    }
}
