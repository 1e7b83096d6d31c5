//! The command `exceptions`: the groups of a server's exceptions as a table, and one of them with its samples. What it prints
//! has been cleaned of control characters by the server.

use std::fmt::Write;

use anyhow::{Result, bail};
use command_line::ServerArguments;
use serde_json::Value;

use crate::cli::status_page::age;
use crate::cli::{client, print};

/// The most characters of a message in the table.
const MESSAGE_WIDTH: usize = 80;

/// Prints the groups of a server, or one of them with its samples.
///
/// # Errors
/// There is no server, it does not answer, or it has no such group.
pub(crate) fn run(server: &ServerArguments, group: Option<&str>, json: bool) -> Result<()> {
    let path = match group {
        None => "/v1/exceptions".to_owned(),
        Some(id) if is_id(id) => format!("/v1/exceptions/{id}"),
        Some(id) => bail!("{id:?} is no id of a group: highball exceptions lists them"),
    };
    let answer = client::read(server, &path)?;
    let text = match (json, group) {
        (true, _) => serde_json::to_string_pretty(&answer)? + "\n",
        (false, None) => table(&answer, now()),
        (false, Some(_)) => page(&answer, now()),
    };
    print(&text)
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// How long ago a time is.
fn ago(value: &Value, name: &str, now: u64) -> String {
    let at = value[name].as_u64().unwrap_or(now);
    format!("{} ago", age(now.saturating_sub(at)))
}

fn counts(group: &Value) -> (u64, u64) {
    let hour = items(group, "hours").first().and_then(Value::as_u64);
    let count = group["count"].as_u64();
    (count.unwrap_or_default(), hour.unwrap_or_default())
}

/// The exception and where it was raised.
fn what(group: &Value) -> String {
    let application = match text(group, "application") {
        "" => String::new(),
        name => format!("{name}: "),
    };
    let place = match text(group, "frame") {
        "" => String::new(),
        frame => format!(" in {frame}"),
    };
    format!("{application}{}{place}", text(group, "class"))
}

/// All groups, with a newline at the end.
fn table(list: &Value, now: u64) -> String {
    let groups = items(list, "groups");
    if groups.is_empty() {
        return "no exceptions (setting exceptions)\n".to_owned();
    }
    let mut page = format!(
        "{:<12}  {:>8}  {:>9}  {:<16}  exception\n",
        "group", "count", "this hour", "last"
    );
    for group in groups {
        let (count, hour) = counts(group);
        let message: String = text(group, "message").chars().take(MESSAGE_WIDTH).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "{:<12}  {count:>8}  {hour:>9}  {:<16}  {}: {message}",
            text(group, "group"),
            ago(group, "last_at", now),
            what(group),
        );
    }
    page
}

/// One group with its samples, with a newline at the end.
fn page(group: &Value, now: u64) -> String {
    let (count, hour) = counts(group);
    let mut page = format!(
        "{}\n  {}\n  {count} times, {hour} in this hour; first {}, last {}\n",
        what(group),
        text(group, "message"),
        ago(group, "first_at", now),
        ago(group, "last_at", now),
    );
    for name in ["route", "release"] {
        if !text(group, name).is_empty() {
            let _ = writeln!(page, "  {name} {}", text(group, name));
        }
    }
    for sample in items(group, "samples") {
        write_sample(&mut page, sample, now);
    }
    page
}

fn write_sample(page: &mut String, sample: &Value, now: u64) {
    let _ = writeln!(
        page,
        "\n{}: {} {}",
        ago(sample, "at", now),
        text(sample, "method"),
        text(sample, "path"),
    );
    let _ = writeln!(
        page,
        "  {}: {}",
        text(sample, "class"),
        text(sample, "message")
    );
    for name in ["request_id", "release"] {
        if !text(sample, name).is_empty() {
            let _ = writeln!(page, "  {name} {}", text(sample, name));
        }
    }
    for name in ["parameters", "headers", "context"] {
        let value = &sample[name];
        if value.as_object().is_some_and(|map| !map.is_empty()) {
            let _ = writeln!(page, "  {name} {value}");
        }
    }
    write_lines(page, sample);
    for cause in items(sample, "causes") {
        let _ = writeln!(
            page,
            "  caused by {}: {}",
            text(cause, "class"),
            text(cause, "message")
        );
        write_lines(page, cause);
    }
}

fn write_lines(page: &mut String, exception: &Value) {
    for line in items(exception, "backtrace") {
        let _ = writeln!(page, "    {}", line.as_str().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn group() -> Value {
        json!({
            "group": "5d41402abc4b", "application": "", "class": "KeyError", "frame": "app/o.rb:total",
            "message": "no price", "count": 12, "hours": [3, 1], "first_at": 40, "last_at": 99, "route": "/o/:id",
            "release": "", "samples": [{
                "at": 99, "method": "GET", "path": "/o/7", "class": "KeyError", "message": "no price",
                "parameters": {"id": "7"}, "headers": {}, "backtrace": ["app/o.rb:3:in `total'"],
                "causes": [{"class": "IOError", "message": "gone", "backtrace": ["app/p.rb:1"]}],
            }],
        })
    }

    #[test]
    fn groups_are_a_table() {
        let list = json!({"groups": [group()]});
        let expected = "\
group            count  this hour  last              exception
5d41402abc4b        12          3  1 s ago           KeyError in app/o.rb:total: no price
";
        assert_eq!(table(&list, 100), expected);
        assert_eq!(
            table(&json!({"groups": []}), 100),
            "no exceptions (setting exceptions)\n"
        );
    }

    #[test]
    fn a_group_is_shown_with_its_samples() {
        let expected = "\
KeyError in app/o.rb:total
  no price
  12 times, 3 in this hour; first 1 min 0 s ago, last 1 s ago
  route /o/:id

1 s ago: GET /o/7
  KeyError: no price
  parameters {\"id\":\"7\"}
    app/o.rb:3:in `total'
  caused by IOError: gone
    app/p.rb:1
";
        assert_eq!(page(&group(), 100), expected);
    }

    #[test]
    fn only_hexadecimal_digits_are_an_id() {
        for (id, is) in [
            ("5d41", true),
            ("", false),
            ("../stop", false),
            ("5d 41", false),
        ] {
            assert_eq!(is_id(id), is, "{id}");
        }
    }
}
