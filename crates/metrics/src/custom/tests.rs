//! Tests of what processes of an application say that they have counted.

use serde_json::{Value as Json, json};

use super::*;

const ONE: Source = (1, Some(0));
const TWO: Source = (1, Some(1));

fn living() -> CustomMetrics {
    let mut metrics = CustomMetrics::default();
    for source in [ONE, TWO, (1, None), (2, Some(0))] {
        metrics.started(source);
    }
    metrics
}

fn say(metrics: &mut CustomMetrics, source: Source, said: &Json) {
    metrics.take_in(source, json!({ "metrics": [said] }).to_string().as_bytes());
}

fn counter(name: &str, labels: &Json, by: f64) -> Json {
    json!({ "name": name, "kind": "counter", "help": "h", "series": [{ "labels": labels, "value": by }] })
}

fn gauge(aggregate: &str, value: f64) -> Json {
    json!({ "name": "carts", "kind": "gauge", "help": "h", "aggregate": aggregate,
            "series": [{ "labels": [], "value": value }] })
}

fn histogram(buckets: &Json, counts: &Json) -> Json {
    json!({ "name": "import_seconds", "kind": "histogram", "help": "h", "buckets": buckets,
            "series": [{ "labels": [], "sum": 1.5, "counts": counts }] })
}

fn only(metrics: &CustomMetrics, name: &str) -> Value {
    metrics.totals.metrics[name].series[0].1.clone()
}

#[test]
fn counters_and_histograms_of_processes_are_added_and_outlive_them() {
    let mut metrics = living();
    for source in [ONE, TWO, (1, None)] {
        say(
            &mut metrics,
            source,
            &counter("orders", &json!([["kind", "web"]]), 2.0),
        );
        say(
            &mut metrics,
            source,
            &histogram(&json!([0.1, 1]), &json!([1, 0, 2])),
        );
    }
    metrics.ended(ONE);
    metrics.generation_ended(1);
    assert_eq!(only(&metrics, "orders"), Value::Counter(6.0));
    let counts = vec![3, 0, 6];
    assert_eq!(
        only(&metrics, "import_seconds"),
        Value::Histogram { sum: 4.5, counts }
    );
    assert_eq!(metrics.totals.dropped, Dropped::default());
}

#[test]
fn a_gauge_is_that_of_living_processes() {
    for (aggregate, all, one_left) in [
        ("sum", 12.0, 9.0),
        ("max", 9.0, 9.0),
        ("min", 3.0, 9.0),
        ("latest", 3.0, 9.0),
    ] {
        let mut metrics = living();
        say(&mut metrics, TWO, &gauge(aggregate, 9.0));
        say(&mut metrics, ONE, &gauge(aggregate, 1.0));
        say(&mut metrics, ONE, &gauge(aggregate, 3.0));
        let read = |metrics: &CustomMetrics| {
            let metric = &metrics.totals.metrics["carts"];
            let Definition::Gauge(aggregate) = metric.definition else {
                panic!("{:?}", metric.definition);
            };
            metric
                .series
                .first()
                .and_then(|(_, value)| value.gauge(aggregate))
        };
        assert_eq!(read(&metrics), Some(all), "{aggregate}");
        metrics.ended(ONE);
        // Its last words.
        say(&mut metrics, ONE, &gauge(aggregate, 100.0));
        assert_eq!(read(&metrics), Some(one_left), "{aggregate}");
        metrics.generation_ended(1);
        assert_eq!(read(&metrics), None, "{aggregate}");
        assert_eq!(metrics.series, 0);
    }
}

#[test]
fn what_is_no_metric_is_counted_and_changes_nothing() {
    let mut metrics = living();
    let label = |name: &str, value: &str| counter("fine", &json!([[name, value]]), 1.0);
    let named = |name: &str| counter(name, &json!([]), 1.0);
    let many = json!(
        (0..9)
            .map(|number| [format!("l{number}"), String::new()])
            .collect::<Vec<_>>()
    );
    let too_many_buckets: Vec<_> = (0..31).collect();
    let hostile = [
        named(""),
        named("1st"),
        named("a b"),
        named("a:b"),
        named("a\n# HELP b"),
        named("größe"),
        named("__name"),
        named("highball_requests"),
        named("orders_total"),
        named("orders_bucket"),
        named(&"a".repeat(101)),
        label("le", "1"),
        label("application", "other"),
        label("__name__", "x"),
        label("a-b", "x"),
        label(&"a".repeat(65), "x"),
        label("a", &"x".repeat(401)),
        counter("fine", &json!([["a", "1"], ["a", "2"]]), 1.0),
        counter("fine", &many, 1.0),
        counter("fine", &json!([]), -1.0),
        counter("fine", &json!([]), f64::NAN),
        json!({ "name": "fine", "kind": "summary", "help": "h", "series": [{ "labels": [] }] }),
        json!({ "name": "fine", "kind": "counter", "help": "h".repeat(401), "series": [{ "labels": [] }] }),
        histogram(&json!([]), &json!([1])),
        histogram(&json!([1, 1]), &json!([1, 1, 1])),
        histogram(&json!([2, 1]), &json!([1, 1, 1])),
        histogram(&json!([1]), &json!([1, 1, 1])),
        histogram(&json!([1]), &json!([-1, 1])),
        histogram(&json!(too_many_buckets), &json!(vec![0; 32])),
    ];
    let count = hostile.len() as u64;
    for said in &hostile {
        say(&mut metrics, ONE, said);
    }
    for text in [&b"\xff\x00"[..], b"{", b"[]", b"null"] {
        metrics.take_in(ONE, text);
    }
    assert_eq!(metrics.totals.series(), 0, "{:?}", metrics.totals);
    assert_eq!(metrics.totals.dropped.invalid, count + 4);
    // A number that is too large for any is no number.
    metrics.take_in(ONE, br#"{"metrics":[{"name":"a","kind":"counter","help":"h","series":[{"labels":[],"value":1e999}]}]}"#);
    assert_eq!(metrics.totals.series(), 0);
}

#[test]
fn counters_never_become_infinite() {
    let mut metrics = living();
    for _ in 0..3 {
        say(&mut metrics, ONE, &counter("a", &json!([]), f64::MAX));
    }
    assert_eq!(only(&metrics, "a"), Value::Counter(f64::MAX));
}

#[test]
fn metrics_and_series_are_bounded_and_the_rest_is_counted() {
    let mut metrics = living();
    for number in 0..MAX_METRICS + 7 {
        say(
            &mut metrics,
            ONE,
            &counter(&format!("m{number}"), &json!([]), 1.0),
        );
    }
    assert_eq!(metrics.totals.metrics.len(), MAX_METRICS);
    assert_eq!(metrics.totals.dropped.limit, 7);
    for number in 0..MAX_SERIES + 5 {
        let labels = json!([["id", number.to_string()]]);
        say(&mut metrics, TWO, &counter("m0", &labels, 1.0));
    }
    assert_eq!(
        (metrics.series, metrics.totals.series()),
        (MAX_SERIES, MAX_SERIES)
    );
    assert_eq!(metrics.totals.dropped.limit, 7 + 5 + MAX_METRICS as u64);
    // What is known goes on.
    say(&mut metrics, TWO, &counter("m0", &json!([]), 1.0));
    assert_eq!(only(&metrics, "m0"), Value::Counter(2.0));
    metrics.take_in(ONE, br#"{"dropped":3,"metrics":[]}"#);
    assert_eq!(metrics.totals.dropped.limit, 10 + 5 + MAX_METRICS as u64);
}

#[test]
fn new_code_may_define_a_metric_otherwise_and_old_code_may_not() {
    let mut metrics = living();
    let as_gauge = json!({ "name": "orders", "kind": "gauge", "help": "new",
                           "series": [{ "labels": [], "value": 4 }] });
    say(&mut metrics, ONE, &counter("orders", &json!([]), 2.0));
    say(&mut metrics, TWO, &as_gauge);
    assert_eq!(only(&metrics, "orders"), Value::Counter(2.0));
    assert_eq!(metrics.totals.dropped.conflict, 1);
    let new = (2, Some(0));
    say(&mut metrics, new, &as_gauge);
    say(&mut metrics, ONE, &counter("orders", &json!([]), 2.0));
    assert_eq!(only(&metrics, "orders"), Value::Gauge(vec![(new, 4.0)]));
    assert_eq!((metrics.totals.dropped.conflict, metrics.series), (2, 1));
}

#[test]
fn the_next_server_counts_on_within_the_bounds() {
    let mut old = living();
    say(
        &mut old,
        ONE,
        &counter("orders", &json!([["kind", "web"]]), 2.0),
    );
    say(&mut old, ONE, &histogram(&json!([1]), &json!([1, 2])));
    say(&mut old, ONE, &gauge("sum", 3.0));
    say(&mut old, ONE, &counter("other", &json!([]), 1.0));
    let first = old.totals();
    let mut new = living();
    say(
        &mut new,
        ONE,
        &counter("orders", &json!([["kind", "web"]]), 5.0),
    );
    // This server's code has it as something else.
    let other = json!({ "name": "other", "kind": "gauge", "help": "h", "series": [{ "labels": [], "value": 7 }] });
    say(&mut new, ONE, &other);
    let text = serde_json::to_string(&first).expect("JSON");
    new.add_before(&serde_json::from_str(&text).expect("totals"));
    say(
        &mut old,
        ONE,
        &counter("orders", &json!([["kind", "web"]]), 1.0),
    );
    let mut rest = old.totals();
    rest.since(&first);
    new.add_before(&rest);
    assert_eq!(only(&new, "orders"), Value::Counter(8.0));
    assert_eq!(
        only(&new, "import_seconds"),
        Value::Histogram {
            sum: 1.5,
            counts: vec![1, 2]
        }
    );
    assert_eq!(only(&new, "other"), Value::Gauge(vec![(ONE, 7.0)]));
    assert!(!new.totals.metrics.contains_key("carts"));
    let mut full = living();
    for number in 0..MAX_SERIES {
        say(
            &mut full,
            ONE,
            &counter("orders", &json!([["id", number.to_string()]]), 1.0),
        );
    }
    full.add_before(&first);
    assert_eq!(full.totals.series(), MAX_SERIES);
}
