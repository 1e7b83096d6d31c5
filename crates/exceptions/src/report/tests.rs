//! Reports that workers might send, sound ones and others.

use serde_json::json;

use super::*;

fn parse(value: &Value) -> Option<Report> {
    Report::parse(value.to_string().as_bytes())
}

fn id(class: &str, frame: &str, cause: Option<(&str, &str)>) -> String {
    let causes: Vec<_> = cause
        .into_iter()
        .map(|(class, frame)| json!({"class": class, "frame": frame}))
        .collect();
    let report = json!({"class": class, "frame": frame, "causes": causes, "message": "m"});
    parse(&report).unwrap().group_id()
}

#[test]
fn class_frame_and_cause_make_the_group() {
    let plain = id("A", "app/a.rb:run", None);
    assert_eq!(plain.len(), 12);
    assert_eq!(plain, id("A", "app/a.rb:run", None));
    assert_ne!(plain, id("B", "app/a.rb:run", None));
    assert_ne!(plain, id("A", "app/a.rb:other", None));
    let caused = id("A", "app/a.rb:run", Some(("C", "lib/c.rb:x")));
    assert_ne!(plain, caused);
    assert_ne!(caused, id("A", "app/a.rb:run", Some(("C", "lib/c.rb:y"))));
    assert_ne!(caused, id("A", "app/a.rb:run", Some(("D", "lib/c.rb:x"))));
}

#[test]
fn parts_of_a_fingerprint_do_not_run_into_each_other() {
    assert_ne!(id("AB", "C", None), id("A", "BC", None));
}

#[test]
fn a_fingerprint_of_the_application_is_all_that_counts() {
    let own = |class: &str| {
        let report = json!({"class": class, "frame": class, "fingerprint": "mine"});
        parse(&report).unwrap().group_id()
    };
    assert_eq!(own("A"), own("B"));
}

#[test]
fn what_is_no_report_is_refused() {
    for text in [
        "",
        "null",
        "[]",
        "{}",
        "{\"class\":\"\"}",
        "{\"class\":7}",
        "{\"class\":\"A\",\"backtrace\":\"text\"}",
        "{\"class\":\"A\",\"parameters\":[]}",
        "{\"class\":\"A\"",
        "\u{fffd}",
    ] {
        assert_eq!(Report::parse(text.as_bytes()), None, "{text}");
    }
    assert_eq!(Report::parse(b"\xff\xfe"), None);
    assert!(parse(&json!({"class": "A", "unknown": 1})).is_some());
}

#[test]
fn a_report_beyond_its_bound_is_refused() {
    let of = |length| json!({"class": "A", "message": "x".repeat(length)});
    assert!(parse(&of(MAX_REPORT_BYTES - 100)).is_some());
    assert!(parse(&of(MAX_REPORT_BYTES)).is_none());
}

#[test]
fn deeply_nested_parameters_are_refused_or_cut() {
    let deep = format!(
        "{{\"class\":\"A\",\"parameters\":{{\"a\":{}{}}}}}",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    assert_eq!(Report::parse(deep.as_bytes()), None);
    let less = format!(
        "{{\"class\":\"A\",\"parameters\":{{\"a\":{}{}}}}}",
        "[".repeat(100),
        "]".repeat(100)
    );
    let report = Report::parse(less.as_bytes()).unwrap();
    assert!(report.sample(Seen::default()).len() < 1000);
}

#[test]
fn control_characters_are_escaped_everywhere() {
    let text = "\u{1b}[31m\n";
    let report = parse(&json!({
        "class": text, "message": text, "frame": text, "backtrace": [text], "route": text, "release": text,
        "fingerprint": text, "causes": [{"class": text, "message": text, "frame": text, "backtrace": [text]}],
        "parameters": {text: [text]}, "headers": {text: text}, "context": {text: {text: text}},
    }));
    let seen = Seen {
        path: text.to_owned(),
        ..Seen::default()
    };
    let sample = report.unwrap().sample(seen);
    // Serde would write the characters themselves as \u001b and \n.
    assert!(!sample.contains("\\u001b"), "{sample}");
    assert!(sample.contains(r#"\\u{1b}[31m\\n"#), "{sample}");
}

#[test]
fn samples_have_a_bound_whatever_is_long() {
    let long = "\"".repeat(3000);
    let many: Vec<_> = (0..15).map(|_| "\\".repeat(900)).collect();
    let map: Map<String, Value> = (0..60)
        .map(|n| (format!("k{n}"), json!("y".repeat(300))))
        .collect();
    let rows = [
        json!({"class": "A", "message": long, "frame": long, "route": long, "release": long}),
        json!({"class": "A", "backtrace": many}),
        json!({"class": "A", "causes": many.iter().map(|text| json!({"class": text})).collect::<Vec<_>>()}),
        json!({"class": "A", "parameters": map}),
        json!({"class": "A", "context": map}),
        json!({"class": "A", "headers": map, "backtrace": vec!["x".repeat(200); 60]}),
    ];
    for row in rows {
        let report = parse(&row).unwrap();
        let sample = report.sample(Seen::default());
        assert!(sample.len() <= MAX_SAMPLE_BYTES, "{}", sample.len());
        let value: Value = serde_json::from_str(&sample).unwrap();
        assert_eq!(value["class"], "A", "{row}");
    }
}
