//! The lines for people, column by column.

use std::time::{Duration, UNIX_EPOCH};

use config::{LogField, LogFields};

use super::*;

const ENTRY: Entry<'_> = Entry {
    path: b"/books/1?page=2",
    status: Some(200),
    app: Some(Duration::from_micros(12_345)),
    queue: Some(Duration::from_millis(1)),
    worker: Some(0),
    generation: Some(1),
    ..Entry::new(NO_FIELDS, b"GET", "ok")
};
const NO_FIELDS: LogFields = LogFields::NONE;

const fn columns(width: usize) -> Style {
    Style {
        width: Some(width),
        colours: false,
    }
}

/// What `write` appends, in lines without the time.
fn lines(style: Style, write: impl FnOnce(&mut TextLine<'_>)) -> Vec<String> {
    let mut out = Vec::new();
    write(&mut TextLine::begin(&mut out, style, UNIX_EPOCH));
    let text = String::from_utf8(out).expect("lines are valid UTF-8");
    assert!(text.ends_with('\n'), "{text:?}");
    text.lines()
        .enumerate()
        .map(|(number, line)| match number {
            0 => without_time(line),
            _ => line.to_owned(),
        })
        .collect()
}

fn without_time(line: &str) -> String {
    let (clock, rest) = line.split_at("00:00:00".len());
    let form: String = clock
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert_eq!(form, "00:00:00", "the time of day comes first");
    rest.trim_start().to_owned()
}

fn request(style: Style, entry: &Entry<'_>) -> String {
    lines(style, |line| line.request(entry)).join("\n")
}

#[test]
fn a_request_is_one_line_in_columns() {
    assert_eq!(
        request(columns(80), &ENTRY),
        format!("GET     {:<45} 200   12.3ms  w0", "/books/1?page=2")
    );
    let entry = Entry {
        status: None,
        app: None,
        worker: None,
        outcome: "client_closed",
        ..ENTRY
    };
    assert_eq!(
        request(columns(120), &entry),
        format!(
            "GET     {:<60}   -        -  -  client_closed",
            "/books/1?page=2"
        )
    );
}

#[test]
fn lines_are_as_wide_as_the_terminal_and_aligned() {
    let long = format!("/reports/{}/2026?format=csv", "x".repeat(300));
    for width in [60, 80, 100] {
        let place = |path: &str, worker| {
            let entry = Entry {
                path: path.as_bytes(),
                worker: Some(worker),
                ..ENTRY
            };
            let line = request(columns(width), &entry);
            assert!(INDENT + line.chars().count() <= width, "{width}: {line}");
            assert_eq!(line.lines().count(), 1);
            let status = line.find(" 200 ").expect("the status");
            line[..status].chars().count()
        };
        assert_eq!(place("/", 0), place(&long, 0), "{width}");
    }
    let line = request(
        columns(80),
        &Entry {
            path: long.as_bytes(),
            ..ENTRY
        },
    );
    assert!(
        line.contains("/reports/xxx") && line.contains('…') && line.contains("/2026?format=csv "),
        "{line}"
    );
}

#[test]
fn only_what_is_unusual_is_added() {
    let slow = Entry {
        queue: Some(Duration::from_millis(35)),
        ..ENTRY
    };
    assert!(request(columns(200), &slow).ends_with("  w0  queue=35.0ms"));
    let both = Entry {
        outcome: "deadline_exceeded",
        ..slow
    };
    let text = request(columns(80), &both);
    let (_, notes) = text.split_once('\n').expect("they do not fit");
    assert_eq!(notes, "             queue=35.0ms  deadline_exceeded");
}

#[test]
fn fields_that_somebody_asked_for_are_added_and_not_torn() {
    let entry = Entry {
        fields: NO_FIELDS
            .with(LogField::Client)
            .with(LogField::UserAgent)
            .with(LogField::BytesIn),
        client: Some("192.0.2.1"),
        user_agent: Some(b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 \x1b[31mred"),
        bytes_in: Some(12),
        ..ENTRY
    };
    let text = request(columns(80), &entry);
    assert!(!text.contains('\x1b'), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for word in [
        "client=192.0.2.1",
        "(X11;",
        "AppleWebKit/537.36",
        r"\x1b[31mred",
        "bytes_in=12",
    ] {
        assert!(
            text.split_whitespace().any(|one| one == word),
            "{word}: {text}"
        );
    }
}

#[test]
fn nothing_of_a_client_is_raw() {
    let entry = Entry {
        method: b"GE\x1bT",
        path: "/\u{1b}[2J/\u{e9} \n".as_bytes(),
        ..ENTRY
    };
    let line = request(columns(100), &entry);
    assert!(line.starts_with(r"GE\x1bT /%1B[2J/%C3%A9%20%0A "), "{line}");
}

#[test]
fn times_are_short() {
    for (microseconds, text) in [
        (0, "0.0ms"),
        (12_345, "12.3ms"),
        (999_940, "999.9ms"),
        (999_960, "1.00s"),
        (99_994_000, "99.99s"),
        (99_996_000, "99s"),
        (7_200_000_000, "7200s"),
    ] {
        assert_eq!(duration(Duration::from_micros(microseconds)), text);
    }
}

#[test]
fn statuses_have_colours_where_the_terminal_has() {
    let style = Style {
        width: Some(80),
        colours: true,
    };
    for (status, colour) in [
        (204, GREEN),
        (302, CYAN),
        (404, YELLOW),
        (500, RED),
        (503, RED),
    ] {
        let mut out = Vec::new();
        let entry = Entry {
            status: Some(status),
            ..ENTRY
        };
        TextLine::begin(&mut out, style, UNIX_EPOCH).request(&entry);
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains(&format!("\x1b[{colour}m{status}\x1b[0m ")),
            "{text:?}"
        );
        assert!(text.starts_with("\x1b[2m"), "{text:?}");
    }
}

#[test]
fn an_event_is_wrapped_between_words() {
    let message = "worker 2 (pid 4711): private memory 333 MiB exceeds worker_max_memory 300 MiB; replacing it";
    let fields = [
        ("generation", Value::Number(3)),
        ("reason", Value::Text(&"no \x07 bell")),
    ];
    let found = lines(columns(60), |line| {
        line.event(Level::Warn, message, &fields)
    });
    assert_eq!(
        found,
        [
            "warning: worker 2 (pid 4711): private memory 333",
            "            MiB exceeds worker_max_memory 300 MiB; replacing",
            r"            it generation=3 reason=no \x07 bell",
        ]
    );
    let found = lines(Style::PLAIN, |line| line.event(Level::Info, message, &[]));
    assert_eq!(found, [message]);
}

#[test]
fn further_lines_of_an_event_are_indented() {
    let message = "the application did not load: boom\nconfig.ru:3:in `call'\n/usr/lib/ruby/x.rb:1";
    let found = lines(columns(80), |line| line.event(Level::Error, message, &[]));
    assert_eq!(
        found,
        [
            "error: the application did not load: boom",
            "            config.ru:3:in `call'",
            "            /usr/lib/ruby/x.rb:1",
        ]
    );
}

#[test]
fn an_error_has_its_request_and_its_backtrace() {
    let error = AppError {
        method: b"POST",
        path: b"/books",
        worker: Some(1),
        generation: Some(1),
        request_id: None,
        trace: None,
        class: b"NoMethodError",
        message: b"undefined method \"x\" for nil",
        backtrace: b"app/models/book.rb:12:in `x'\n/var/gems/rack/lib/rack.rb:1:in \x1b[31m'\n",
    };
    let found = lines(columns(80), |line| line.app_error(&error));
    assert_eq!(
        found,
        [
            "error: NoMethodError: undefined method \"x\" for nil",
            "          POST /books  w1",
            "            app/models/book.rb:12:in `x'",
            r"            /var/gems/rack/lib/rack.rb:1:in \x1b[31m'",
        ]
    );
}
