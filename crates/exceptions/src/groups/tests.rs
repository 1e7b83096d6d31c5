//! Groups that grow, are told of, and leave.

use super::*;

const NOW: u64 = 500_000 * HOUR;

fn report(class: &str) -> Report {
    let text = json!({"class": class, "message": "m", "frame": "app/a.rb:run"}).to_string();
    Report::parse(text.as_bytes()).unwrap()
}

fn released(class: &str, release: &str) -> Report {
    Report {
        release: release.to_owned(),
        ..report(class)
    }
}

fn seen(at: u64) -> Seen {
    Seen {
        at,
        ..Seen::default()
    }
}

fn reason(groups: &mut Groups, report: Report, at: u64) -> Option<Reason> {
    groups.add(report, seen(at)).map(|notice| notice.reason)
}

fn count(groups: &Groups) -> usize {
    groups.list(NOW)["groups"].as_array().unwrap().len()
}

#[test]
fn a_thousand_messages_of_one_error_are_one_group() {
    let mut groups = Groups::default();
    for number in 0..1000 {
        let message = format!("no order {number}");
        let report = Report {
            message,
            ..report("A")
        };
        groups.add(report, seen(NOW + number));
    }
    let list = groups.list(NOW + 1000);
    assert_eq!(list["groups"].as_array().unwrap().len(), 1);
    let group = &list["groups"][0];
    assert_eq!(group["count"], 1000);
    assert_eq!(group["message"], "no order 999");
    assert_eq!(
        (&group["first_at"], &group["last_at"]),
        (&json!(NOW), &json!(NOW + 999))
    );
    let id = group["group"].as_str().unwrap();
    let samples = groups.group(id, NOW).unwrap()["samples"].clone();
    let messages: Vec<_> = samples
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["message"].clone())
        .collect();
    let expected = [
        "no order 999",
        "no order 998",
        "no order 997",
        "no order 996",
        "no order 0",
    ];
    assert_eq!(messages, expected);
}

#[test]
fn the_quietest_group_leaves_for_a_new_one() {
    let mut groups = Groups::default();
    for number in 0..MAX_GROUPS as u64 {
        groups.add(report(&format!("E{number}")), seen(NOW + number));
    }
    groups.add(report("E0"), seen(NOW + 1000));
    groups.add(report("New"), seen(NOW + 1001));
    assert_eq!(count(&groups), MAX_GROUPS);
    let list = groups.list(NOW).to_string();
    assert!(list.contains("\"E0\"") && list.contains("\"New\"") && !list.contains("\"E1\""));
    groups.limit(2);
    assert_eq!(count(&groups), 2);
}

#[test]
fn people_are_told_of_a_new_group_once() {
    let mut groups = Groups::default();
    assert_eq!(reason(&mut groups, report("A"), NOW), Some(Reason::New));
    for later in 1..9 {
        assert_eq!(reason(&mut groups, report("A"), NOW + later), None);
    }
    assert_eq!(reason(&mut groups, report("B"), NOW), Some(Reason::New));
}

#[test]
fn people_are_told_when_it_is_back_in_another_release() {
    let mut groups = Groups::default();
    assert_eq!(
        reason(&mut groups, released("A", "1"), NOW),
        Some(Reason::New)
    );
    let later = NOW + 2 * HOUR;
    assert_eq!(reason(&mut groups, released("A", "1"), later), None);
    assert_eq!(
        reason(&mut groups, released("A", "2"), later),
        Some(Reason::Back)
    );
    assert_eq!(
        reason(&mut groups, released("A", "2"), later + 2 * HOUR),
        None
    );
}

#[test]
fn within_the_hour_people_are_told_later_why() {
    let mut groups = Groups::default();
    assert_eq!(
        reason(&mut groups, released("A", "1"), NOW),
        Some(Reason::New)
    );
    assert_eq!(reason(&mut groups, released("A", "2"), NOW + 10), None);
    assert_eq!(
        reason(&mut groups, released("A", "2"), NOW + HOUR),
        Some(Reason::Back)
    );
    assert_eq!(
        reason(&mut groups, released("A", "2"), NOW + HOUR + 1),
        None
    );
}

#[test]
fn people_are_told_when_it_is_ten_times_as_frequent() {
    let mut groups = Groups::default();
    for hour in 0..4 {
        groups.add(report("A"), seen(NOW + hour * HOUR));
        groups.add(report("A"), seen(NOW + hour * HOUR));
    }
    let now = NOW + 4 * HOUR;
    for number in 1..20 {
        assert_eq!(reason(&mut groups, report("A"), now), None, "{number}");
    }
    assert_eq!(
        reason(&mut groups, report("A"), now),
        Some(Reason::Frequent)
    );
    assert_eq!(reason(&mut groups, report("A"), now), None);
}

#[test]
fn a_burst_in_the_first_hour_is_told_once() {
    let mut groups = Groups::default();
    let told = (0..500).filter_map(|second| reason(&mut groups, report("A"), NOW + second));
    assert_eq!(told.collect::<Vec<_>>(), [Reason::New]);
}

#[test]
fn notices_of_all_groups_together_have_a_bound() {
    let mut groups = Groups::default();
    let told = (0..100).filter(|number| {
        groups
            .add(report(&format!("E{number}")), seen(NOW))
            .is_some()
    });
    assert_eq!(told.count(), MAX_NOTICES as usize);
    // The next hour those that are still raised come in their turn.
    assert_eq!(
        reason(&mut groups, report("E99"), NOW + HOUR),
        Some(Reason::New)
    );
}

#[test]
fn groups_go_on_in_another_server() {
    let mut before = Groups::default();
    before.add(report("A"), seen(NOW));
    before.add(report("B"), seen(NOW));
    let text = serde_json::to_string(&before.take()).unwrap();
    assert_eq!(count(&before), 0);
    let mut after = Groups::default();
    after.merge(serde_json::from_str(&text).unwrap());
    assert_eq!(reason(&mut after, report("A"), NOW + 5), None);
    // What was counted in the old server meanwhile: people are not told of it again.
    assert_eq!(before.add(report("A"), seen(NOW + 3)), None);
    after.merge(before.take());
    let list = after.list(NOW);
    let group = &list["groups"][0];
    assert_eq!((&group["class"], &group["count"]), (&json!("A"), &json!(3)));
    assert_eq!(
        (&group["first_at"], &group["last_at"]),
        (&json!(NOW), &json!(NOW + 5))
    );
    assert_eq!(count(&after), 2);
}

#[test]
fn a_group_is_found_by_the_beginning_of_its_id() {
    let mut groups = Groups::default();
    groups.add(report("A"), seen(NOW));
    let id = report("A").group_id();
    assert!(groups.group(&id[..4], NOW).is_some());
    groups.add(report("B"), seen(NOW));
    assert!(groups.group("", NOW).is_none());
    assert!(groups.group("zz", NOW).is_none());
}

#[test]
fn a_notice_says_what_and_where_and_nothing_of_the_request() {
    let text = json!({
        "class": "NoMethodError", "message": "undefined method", "frame": "app/models/order.rb:total",
        "route": "/orders/:id", "parameters": {"card": "4111"}, "headers": {"Host": "h.example"},
        "context": {"user": "u7"}, "backtrace": ["/srv/app/models/order.rb:7"],
    });
    let report = Report::parse(text.to_string().as_bytes()).unwrap();
    let mut seen = seen(NOW);
    seen.path = "/orders/77?key=1".to_owned();
    let notice = Groups::default().add(report, seen).unwrap();
    let sentence = "new exception: NoMethodError in app/models/order.rb:total: undefined method";
    assert_eq!(notice.text, sentence);
    assert_eq!(notice.subject(), format!("[highball] {sentence}"));
    let all = notice.body() + &serde_json::to_string(&notice).unwrap();
    assert!(all.contains("/orders/:id") && all.contains(&notice.group));
    for hidden in ["4111", "h.example", "u7", "/orders/77", "key=1", "/srv"] {
        assert!(!all.contains(hidden), "{hidden}: {all}");
    }
}
