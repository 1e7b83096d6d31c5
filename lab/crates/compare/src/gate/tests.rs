//! Answers that are alike, and those that are not.

use super::*;

fn answers(status: u16, body: &str) -> Answers {
    vec![Some(Answer {
        status,
        body: body.into(),
    })]
}

#[test]
fn a_stack_that_answers_something_else_is_named() {
    let good = answers(200, "Hello World");
    let check = |other: &Answers, likeness: Likeness, expect: Option<&str>| {
        let advice =
            "; `same_body = false` for the page in app.toml says that it differs each time";
        let fault = fault(&good, other, &[likeness]);
        let fault = fault.map(|fault| fault.replace(advice, " and how to say so"));
        assert_eq!(fault.as_deref(), expect);
    };
    use Likeness::{Body, Length, Status};
    check(&good, Body, None);
    check(
        &answers(500, "Hello World"),
        Status,
        Some("it answers with status 500"),
    );
    check(
        &answers(302, ""),
        Status,
        Some("it answers with status 302 where others have 200"),
    );
    check(&answers(200, ""), Status, Some("its page is empty"));
    check(
        &answers(200, "Hello"),
        Body,
        Some("its page (5 bytes) is not the one of others (11 bytes) and how to say so"),
    );
    check(
        &answers(200, "Hello W0rld"),
        Body,
        Some("its page (11 bytes) is not the one of others (11 bytes) and how to say so"),
    );
    check(&answers(200, "Hello you"), Length, None);
    let long = answers(200, &"Hello World".repeat(3));
    check(
        &long,
        Length,
        Some(
            "its page (33 bytes) is not about as long as that of others (11 bytes) and how to say so",
        ),
    );
    check(&long, Status, None);
    check(&vec![None], Body, None);
}

#[test]
fn where_a_stack_differs_from_itself_bodies_can_not_be_compared() {
    let page = |token: &str| answers(200, &format!("{}{token}", "a word ".repeat(100)));
    let check = |asked: &[[Answers; 2]], most: Likeness, expect: Likeness| {
        assert_eq!(likeness(asked, most), [expect]);
    };
    use Likeness::{Body, Length, Status};
    let constant = [page("x"), page("x")];
    check(std::slice::from_ref(&constant), Body, Body);
    check(std::slice::from_ref(&constant), Status, Status);
    check(&[[page("x"), page("y")]], Body, Length);
    check(&[[page("x"), page(&"y".repeat(70))]], Body, Length);
    check(&[[page("x"), page(&"y".repeat(700))]], Body, Status);
    check(&[constant.clone(), [page("x"), page("y")]], Body, Length);
    check(
        &[[page("x"), page("y")], [page("x"), answers(200, "short")]],
        Body,
        Status,
    );
    // No page that differs each time is the same under two stacks.
    check(
        &[constant.clone(), [page("x"), page("y")], constant.clone()],
        Body,
        Body,
    );
    // Requests that are not sent are equal.
    check(&[[vec![None], vec![None]]], Body, Body);
    assert_eq!(likeness(&[], Body), []);
}

#[test]
fn most_stacks_are_right() {
    let same = [Likeness::Body];
    let (good, short) = (answers(200, "Hello World"), answers(200, "Hello"));
    let all = [&short, &good, &good];
    assert_eq!(agreed(&all, &same), Some(&good));
    // One against one: the first is what others are held against.
    assert_eq!(agreed(&[&short, &good], &same), Some(&short));
    assert_eq!(agreed(&[], &same), None);
    // All stacks fail alike: none of them is right.
    let failing = answers(500, "");
    let agreed = agreed(&[&failing, &failing], &same).unwrap();
    assert!(fault(agreed, &failing, &same).is_some());
}

#[test]
fn the_load_expects_the_page_that_was_agreed_on() {
    let check = |status: u16, body: &str, likeness: Likeness, length: Option<u64>| {
        let answer = answers(status, body).remove(0).unwrap();
        assert_eq!(
            expected(&answer, likeness),
            Expected { status, length },
            "{body}"
        );
    };
    check(200, "Hello", Likeness::Body, Some(5));
    check(200, "Hello", Likeness::Length, None);
    check(200, "Hello", Likeness::Status, None);
    check(302, "", Likeness::Body, Some(0));
}

#[test]
fn what_may_change_a_page_is_known_by_its_method() {
    assert!(
        ["POST", "PUT", "DELETE", "PURGE"]
            .into_iter()
            .all(has_effect)
    );
    assert!(!["GET", "HEAD", "OPTIONS"].into_iter().any(has_effect));
}

#[test]
fn the_host_of_a_url() {
    assert_eq!(host_of("http://shop.example:8080/"), "shop.example:8080");
    assert_eq!(host_of("http://127.0.0.1:3000"), "127.0.0.1:3000");
}
