//! What is stored, and how it is used again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use highball_cache::{
    Entry, Exchange, Key, NotStored, Policy, Purge, RequestControl, Store, Usability,
};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut all = HeaderMap::new();
    for &(name, value) in lines {
        all.append(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    all
}

fn entry(
    policy: Policy,
    request: &[(&'static str, &'static str)],
    response: &[(&'static str, &'static str)],
) -> Result<Entry, NotStored> {
    let (request, response) = (fields(request), fields(response));
    Entry::new(
        policy,
        &Exchange {
            method: &Method::GET,
            request: &request,
            status: StatusCode::OK,
            response: &response,
            asked: at(0),
            received: at(0),
        },
    )
}

fn explicit(response: &[(&'static str, &'static str)]) -> Result<Entry, NotStored> {
    entry(Policy::Explicit, &[], response)
}

#[test]
fn only_what_names_shared_caches_is_stored_explicitly() {
    for control in ["public, max-age=60", "s-maxage=60", "max-age=0, s-maxage=9"] {
        assert!(explicit(&[("cache-control", control)]).is_ok(), "{control}");
    }
    for control in ["max-age=60", "no-cache", "immutable"] {
        let stored = explicit(&[("cache-control", control)]);
        assert_eq!(stored.err(), Some(NotStored::NotInvited), "{control}");
        let etag = [("cache-control", control), ("etag", "\"a\"")];
        assert!(explicit(&etag).is_err(), "{control}");
    }
    let usual = [("cache-control", "max-age=60")];
    assert!(entry(Policy::Standard, &[], &usual).is_ok());
    assert!(explicit(&[("cdn-cache-control", "max-age=60")]).is_ok());
}

#[test]
fn what_is_one_users_is_never_stored() {
    for policy in [Policy::Explicit, Policy::Standard] {
        for response in [
            &[("cache-control", "public, private, max-age=60")][..],
            &[
                ("cache-control", "public, max-age=60"),
                ("set-cookie", "a=b"),
            ],
            &[("cache-control", "public, max-age=60, no-store")],
            &[("cache-control", "public, max-age=60"), ("vary", "*")],
        ] {
            assert!(entry(policy, &[], response).is_err(), "{response:?}");
        }
        let login = [("authorization", "Basic eDp5")];
        let stored = entry(policy, &login, &[("cache-control", "max-age=60")]);
        assert!(stored.is_err());
    }
    let login = [("authorization", "Basic eDp5")];
    let public = [("cache-control", "public, max-age=60")];
    assert!(entry(Policy::Explicit, &login, &public).is_ok());
}

#[test]
fn a_response_is_used_fresh_then_while_revalidating_then_stale() {
    let control = "public, max-age=10, stale-while-revalidate=5, stale-if-error=20";
    let entry = explicit(&[("cache-control", control)]).expect("it is public");
    let request = RequestControl::default();
    for (seconds, expected, on_error) in [
        (9, Usability::Fresh, true),
        (10, Usability::WhileRevalidate, true),
        (14, Usability::WhileRevalidate, true),
        (15, Usability::Stale, true),
        (30, Usability::Stale, false),
    ] {
        assert_eq!(
            entry.usability(&request, at(seconds)),
            expected,
            "{seconds}"
        );
        assert_eq!(entry.serves_on_error(at(seconds)), on_error, "{seconds}");
    }
}

#[test]
fn a_request_may_ask_for_a_newer_response() {
    let entry = explicit(&[("cache-control", "public, max-age=60")]).expect("it is public");
    let usability = |request: &'static str| {
        let request = RequestControl::of(&fields(&[("cache-control", request)]));
        entry.usability(&request, at(30))
    };
    assert_eq!(usability("no-cache"), Usability::Stale);
    assert_eq!(usability("max-age=20"), Usability::Stale);
    assert_eq!(usability("min-fresh=40"), Usability::Stale);
    assert_eq!(usability("max-age=40, min-fresh=20"), Usability::Fresh);
}

#[test]
fn a_response_is_used_without_the_fields_that_no_cache_names() {
    let control = "public, max-age=60, no-cache=\"a, B\"";
    let response = [
        ("cache-control", control),
        ("a", "1"),
        ("b", "2"),
        ("c", "3"),
    ];
    let stored = explicit(&response).expect("it is public");
    let fresh = stored.usability(&RequestControl::default(), at(1));
    assert_eq!(fresh, Usability::Fresh);
    let kept = ["a", "b", "c"].map(|name| stored.fields.contains_key(name));
    assert_eq!(kept, [false, false, true]);
    for names in ["", "a b", "content-encoding", "vary", "cache-control"] {
        let control = HeaderValue::from_str(&format!("public, max-age=60, no-cache=\"{names}\""));
        let mut response = fields(&[("content-encoding", "gzip")]);
        response.insert("cache-control", control.expect("a value"));
        let stored = Entry::new(
            Policy::Explicit,
            &Exchange {
                method: &Method::GET,
                request: &HeaderMap::new(),
                status: StatusCode::OK,
                response: &response,
                asked: at(0),
                received: at(0),
            },
        );
        let stored = stored.expect("it is public");
        let used = stored.usability(&RequestControl::default(), at(1));
        assert_eq!(used, Usability::Stale, "{names}");
        assert!(stored.fields.contains_key("content-encoding"));
    }
}

#[test]
fn x_accel_expires_counts_before_cache_control() {
    let lifetime = |value, control| {
        let response = [("x-accel-expires", value), ("cache-control", control)];
        let stored = explicit(&response).ok()?;
        Some(stored.freshness.lifetime_s)
    };
    assert_eq!(lifetime("60", "private, no-store"), Some(60));
    assert_eq!(lifetime("@1000090", "no-cache"), Some(90));
    assert_eq!(lifetime("0", "public, max-age=60"), None);
    assert_eq!(lifetime("@5", "public, max-age=60"), None);
    for malformed in ["", "@", "-1", "off", "1m"] {
        assert_eq!(lifetime(malformed, "public, max-age=7"), Some(7));
        assert_eq!(lifetime(malformed, "max-age=7"), None);
    }
    let cookie = [("x-accel-expires", "60"), ("set-cookie", "a=b")];
    assert_eq!(explicit(&cookie).err(), Some(NotStored::Private));
    let stale = "max-age=1, stale-if-error=9";
    let stored = explicit(&[("x-accel-expires", "60"), ("cache-control", stale)]);
    assert_eq!(stored.map(|stored| stored.freshness.if_error_s), Ok(9));
}

#[test]
fn what_came_stale_is_kept_for_those_who_take_it() {
    let response = [("cache-control", "public, max-age=60"), ("age", "100")];
    assert!(explicit(&response).is_err());
    let stored = entry(Policy::Standard, &[], &response).expect("it has a lifetime");
    let request = fields(&[("cache-control", "max-stale=50")]);
    let used = stored.usability(&RequestControl::of(&request), at(1));
    assert_eq!(used, Usability::Fresh);
    let used = stored.usability(&RequestControl::default(), at(1));
    assert_eq!(used, Usability::Stale);
}

#[test]
fn a_validation_renews_the_entry_and_keeps_its_content() {
    let response = [
        ("cache-control", "public, max-age=10"),
        ("etag", "\"a\""),
        ("content-type", "text/html"),
    ];
    let mut entry = explicit(&response).expect("it is public");
    entry.body = Bytes::from_static(b"body");
    let request = fields(&[]);
    let answer = |lines: &[(&'static str, &'static str)]| {
        let response = fields(lines);
        entry.validated(
            Policy::Explicit,
            &Exchange {
                method: &Method::GET,
                request: &request,
                status: StatusCode::NOT_MODIFIED,
                response: &response,
                asked: at(50),
                received: at(50),
            },
        )
    };
    let renewed = answer(&[
        ("etag", "W/\"a\""),
        ("content-type", "text/plain"),
        ("x-new", "1"),
    ])
    .expect("it is the same");
    assert_eq!(
        renewed.usability(&RequestControl::default(), at(59)),
        Usability::Fresh
    );
    assert_eq!(&renewed.body[..], b"body");
    assert_eq!(renewed.fields["content-type"], "text/plain");
    assert_eq!(renewed.fields["x-new"], "1");
    assert_eq!(renewed.fields["etag"], "\"a\"");
    assert!(answer(&[("cache-control", "private")]).is_none());
    let describes = |lines: &[(&'static str, &'static str)]| entry.is_described_by(&fields(lines));
    assert!(describes(&[("etag", "\"a\""), ("content-length", "4")]));
    assert!(!describes(&[("content-length", "5")]));
    assert!(!describes(&[("etag", "\"b\"")]));
}

/// Has a store forget something. Returns whether that was nothing.
type Change<'a> = Box<dyn Fn(&mut Store) -> bool + 'a>;

#[test]
fn a_store_knows_what_it_would_have_forgotten_meanwhile() {
    let mut store = Store::new(1 << 20);
    let key = |target: &str| Key::new("http", b"a", target.as_bytes());
    let response = [("cache-control", "public, max-age=10"), ("cache-tag", "x")];
    let entry = explicit(&response).expect("it is public");
    let purges = [
        Purge::All,
        Purge::Url(b"/a".to_vec()),
        Purge::Prefix(b"http://a/a".to_vec()),
        Purge::Tag(b"x".to_vec()),
    ];
    let purges = purges.map(|what| {
        let purge = move |store: &mut Store| store.purge(&what) == 0;
        Box::new(purge) as Change<'_>
    });
    let others: [Change<'_>; 2] = [
        Box::new(|store| !store.remove(&key("/a"))),
        Box::new(|store| {
            store.outdate(std::time::SystemTime::now());
            true
        }),
    ];
    for change in purges.into_iter().chain(others) {
        let since = store.changed();
        assert!(!store.has_forgotten(&key("/a"), &entry, since));
        assert!(change(&mut store), "nothing is stored yet");
        store.purge(&Purge::Tag(b"other".to_vec()));
        assert!(store.has_forgotten(&key("/a"), &entry, since));
        assert!(!store.has_forgotten(&key("/a"), &entry, since + 1));
    }
    // Where it does not know any more, it would have.
    let since = store.changed();
    for _ in 0..1024 {
        store.purge(&Purge::Tag(b"other".to_vec()));
    }
    assert!(!store.has_forgotten(&key("/a"), &entry, since));
    store.purge(&Purge::Tag(b"other".to_vec()));
    assert!(store.has_forgotten(&key("/a"), &entry, since));
}

#[test]
fn a_store_keeps_variants_and_forgets_by_url_prefix_and_tag() {
    let mut store = Store::new(1 << 20);
    let key = |target: &str| Key::new("http", b"Example.com", target.as_bytes());
    let put = |store: &mut Store, target: &str, language: &'static str, tag: &'static str| {
        let request = [("accept-language", language)];
        let response = [
            ("cache-control", "public, max-age=10"),
            ("vary", "Accept-Language"),
            ("cache-tag", tag),
        ];
        let entry = entry(Policy::Explicit, &request, &response).expect("it is public");
        store.insert(key(target), entry);
    };
    put(&mut store, "/a", "de", "x, y");
    put(&mut store, "/a", "en", "z");
    put(&mut store, "/b/1", "de", "y");
    put(&mut store, "/b/2", "de", "y");
    let finds = |store: &Store, target: &str, language| {
        let request = fields(&[("accept-language", language)]);
        store.find(&key(target), &request).is_some()
    };
    assert!(finds(&store, "/a", "de") && finds(&store, "/a", "en") && !finds(&store, "/a", "fr"));
    assert_eq!(store.purge(&Purge::Tag(b"z".to_vec())), 1);
    assert!(!finds(&store, "/a", "de"));
    assert_eq!(
        store.purge(&Purge::Url(b"http://example.com/b".to_vec())),
        0
    );
    assert_eq!(
        store.purge(&Purge::Url(b"http://example.com/b/1".to_vec())),
        1
    );
    assert_eq!(
        store.purge(&Purge::Prefix(b"http://example.com/b".to_vec())),
        1
    );
    assert_eq!(store.stats().targets, 0);
}

#[test]
fn what_earlier_code_made_is_stale() {
    let mut store = Store::new(1 << 20);
    let key = Key::new("http", b"a", b"/");
    let response = [("cache-control", "public, max-age=100")];
    store.insert(key.clone(), explicit(&response).expect("it is public"));
    store.outdate(at(5));
    let found = store.find(&key, &fields(&[])).expect("it is there");
    assert_eq!(
        found.usability(&RequestControl::default(), at(6)),
        Usability::Stale
    );
    store.insert(key.clone(), explicit(&response).expect("it is public"));
    let found = store.find(&key, &fields(&[])).expect("it is there");
    assert_eq!(
        found.usability(&RequestControl::default(), at(6)),
        Usability::Fresh
    );
}

#[test]
fn a_body_in_another_coding_is_kept_within_the_bound() {
    let mut store = Store::new(100_000);
    let key = Key::new("http", b"a", b"/");
    let request = fields(&[]);
    let found = |store: &Store| store.find(&key, &request).expect("it is stored");
    let mut entry = explicit(&[("cache-control", "public, max-age=60")]).expect("it is public");
    entry.body = Bytes::from(vec![b'x'; 10_000]);
    let first = store.insert(key.clone(), entry.clone());
    let before = store.stats().bytes;
    store.keep_encoded(&key, &first, "gzip", Bytes::from_static(b"short"));
    store.keep_encoded(&key, &first, "gzip", Bytes::from_static(b"other"));
    store.keep_encoded(&key, &first, "zstd", Bytes::from(vec![0; 60_000]));
    let kept = found(&store);
    assert_eq!(kept.encoded("gzip"), Some(&Bytes::from_static(b"short")));
    assert_eq!(kept.encoded("zstd"), None);
    assert_eq!(store.stats().bytes, before + 5);
    // One that was replaced meanwhile has another body.
    store.insert(key.clone(), entry);
    store.keep_encoded(&key, &first, "br", Bytes::from_static(b"old"));
    assert_eq!(found(&store).encoded("br"), None);
    assert_eq!(found(&store).encoded("gzip"), None);
}

#[test]
fn a_store_keeps_to_its_variants() {
    let mut store = Store::new(1 << 20);
    let key = Key::new("http", b"a", b"/");
    let languages: Vec<String> = (0..17).map(|number| format!("x{number}")).collect();
    let asks = |language: &str| {
        let mut request = HeaderMap::new();
        let value = HeaderValue::from_str(language).expect("a value");
        request.insert("accept-language", value);
        request
    };
    let response = fields(&[
        ("cache-control", "public, max-age=9"),
        ("vary", "accept-language"),
    ]);
    for language in &languages {
        let request = asks(language);
        let exchange = Exchange {
            method: &Method::GET,
            request: &request,
            status: StatusCode::OK,
            response: &response,
            asked: at(0),
            received: at(0),
        };
        let entry = Entry::new(Policy::Explicit, &exchange).expect("it is public");
        store.insert(key.clone(), entry);
    }
    let found = |language: &String| store.find(&key, &asks(language)).is_some();
    let kept: Vec<bool> = languages.iter().map(found).collect();
    assert_eq!(kept, [&[false][..], &[true; 16]].concat());
}

#[test]
fn a_store_keeps_to_its_bound() {
    let mut store = Store::new(64 * 1024);
    for number in 0..1000 {
        let mut entry = explicit(&[("cache-control", "public, max-age=9")]).expect("public");
        entry.body = Bytes::from(vec![0; 1024]);
        let target = format!("/{number}");
        store.insert(Key::new("http", b"a", target.as_bytes()), entry);
    }
    let stats = store.stats();
    assert!(stats.bytes <= 64 * 1024 && stats.targets > 10, "{stats:?}");
}
