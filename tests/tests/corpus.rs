//! gunicorn's corpus of HTTP/1 requests, sent as they are: none of the 81 invalid ones may reach the application, save
//! those listed here with the reason, and the 62 valid ones must, with the same reservation. Both lists are exact: one
//! that is refused after all, or taken after all, fails the test as well.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use test_support::{Fault, Probe, Program, Response, workspace};

/// The version whose files were looked at one by one.
const VERSION: &str = "27.0.1";

/// Invalid for gunicorn, but not for Highball.
const ACCEPTED: &[(&str, &str)] = &[
    (
        "003c",
        "-bl is a method: any token is (RFC 9110 §9.1); gunicorn refuses lower case by its own convention",
    ),
    (
        "010",
        "the file's own settings lower the limit of a field to 10 bytes; limits: bodies.rs, row 12",
    ),
    (
        "011",
        "the file's own settings lower the number of fields to 2; limits: bodies.rs, row 12",
    ),
    (
        "012",
        "the file's own settings lower the limit of a field to 98 bytes; limits: bodies.rs, row 12",
    ),
    (
        "019",
        "X-Forwarded-Proto and X-Forwarded-Ssl that disagree: only the former is given a meaning",
    ),
    (
        "040",
        "fields with an underscore are dropped (row 11); the file's own settings ask to refuse them",
    ),
    ("chunked_07", "as 040"),
    (
        "rfc9110_trailer_forbidden_cl_01",
        "trailers are dropped unread (row 8; RFC 9110 §6.5.1 leaves the choice)",
    ),
    ("rfc9110_trailer_forbidden_host_01", "as above"),
    ("rfc9110_trailer_forbidden_te_01", "as above"),
    (
        "rfc9112_leading_crlf_02",
        "two empty lines before a request (RFC 9112 §2.2 asks for at least one); the third is refused",
    ),
    (
        "rfc9112_target_non_ascii_01",
        "raw UTF-8 in a target reaches the application as it is, as with Puma and nginx (row 14)",
    ),
    ("rfc9112_target_non_ascii_02", "as above"),
];

/// Valid for gunicorn, but refused by Highball: the statuses and the reason.
const REFUSED: &[(&str, &[u16], &str)] = &[
    (
        "005",
        &[400],
        "a fragment in the target, which no client sends (RFC 9112 §3.2)",
    ),
    (
        "099",
        &[400],
        "the file ends before the body that it declares does",
    ),
    (
        "025",
        &[501],
        "gzip as a transfer coding is not decoded here (row 4); gunicorn hands it on undecoded",
    ),
    ("025_line", &[501], "as 025"),
    ("rfc9112_smuggle_gzip_chunked_01", &[501], "as 025"),
    (
        "029",
        &[400, 501],
        "identity is no transfer coding any more (RFC 9112 §7)",
    ),
    ("030", &[400, 501], "as 029"),
    (
        "rfc9112_smuggle_te_identity_chunked_01",
        &[400, 501],
        "as 029",
    ),
    (
        "028",
        &[400],
        "space before the colon (row 9); the file's own settings ask to strip it",
    ),
    (
        "compat_obs_fold",
        &[400],
        "a folded line (row 9); the file's own settings ask to unfold it",
    ),
    ("compat_obs_fold_huge", &[400], "as above"),
    (
        "pp_01",
        &[400],
        "the PROXY protocol is not spoken; the file's own settings turn it on",
    ),
    ("pp_02", &[400], "as above"),
    ("pp_04", &[400], "as above"),
    ("pp_05", &[400], "as above"),
    (
        "rfc9112_target_authority_connect_01",
        &[400, 405, 501],
        "no tunnels (row 14)",
    ),
    (
        "rfc9112_target_authority_ipv6_01",
        &[400, 405, 501],
        "no tunnels (row 14)",
    ),
    (
        "rfc9112_target_absolute_userinfo_01",
        &[400],
        "userinfo in an http URI is an error (RFC 9110 §4.2.4)",
    ),
];

/// The folder with the corpus, fetched where it is not there yet.
fn corpus() -> &'static Path {
    static CORPUS: OnceLock<PathBuf> = OnceLock::new();
    CORPUS.get_or_init(|| {
        let folder = workspace().join("target/corpus");
        let requests = folder.join(format!("gunicorn-{VERSION}/tests/requests"));
        if !requests.is_dir() {
            fetch(&folder);
        }
        requests
    })
}

fn fetch(folder: &Path) {
    fs::create_dir_all(folder).expect("the target folder can be written");
    let pip = Program::new("python3")
        .arg("-m")
        .arg("pip")
        .arg("download")
        .arg("--no-deps")
        .arg("--no-binary")
        .arg(":all:")
        .arg("--dest")
        .arg(folder)
        .arg(format!("gunicorn=={VERSION}"))
        .patience(Duration::from_secs(300))
        .run();
    assert!(pip.status.success(), "{}", pip.output());
    // Unpacked aside and moved, so that half a corpus is never taken for a whole one.
    let aside = folder.join("unpacking");
    fs::create_dir_all(&aside).expect("the target folder can be written");
    let tar = Program::new("tar")
        .arg("-xzf")
        .arg(folder.join(format!("gunicorn-{VERSION}.tar.gz")))
        .current_dir(&aside)
        .run();
    assert!(tar.status.success(), "{}", tar.output());
    let name = format!("gunicorn-{VERSION}");
    fs::rename(aside.join(&name), folder.join(&name)).expect("it can be moved");
}

/// The requests of a folder, by name without extension, unescaped.
fn requests(kind: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(corpus().join(kind)).expect("the corpus has this folder");
    entries
        .map(|entry| entry.expect("the corpus can be read").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "http")
        })
        .map(|path| {
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (
                name,
                unescape(&fs::read(&path).expect("the corpus can be read")),
            )
        })
        .collect()
}

/// As `treq.py` beside the corpus does: line ends of the file mean nothing, those of the request are spelled out.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut rest: Vec<u8> = text.iter().copied().filter(|&byte| byte != b'\n').collect();
    for (escape, bytes) in [
        ("\\r\\n", "\r\n"),
        ("\\0", "\0"),
        ("\\n", "\n"),
        ("\\t", "\t"),
    ] {
        rest = replace(&rest, escape.as_bytes(), bytes.as_bytes());
    }
    let mut plain = Vec::with_capacity(rest.len());
    let mut at = 0;
    while at < rest.len() {
        let hex = rest[at..]
            .strip_prefix(b"\\x")
            .and_then(|rest| rest.get(..2))
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match hex {
            Some(byte) => {
                plain.push(byte);
                at += 4;
            }
            None => {
                plain.push(rest[at]);
                at += 1;
            }
        }
    }
    assert!(
        !plain.contains(&b'\\'),
        "an escape that treq.py does not know"
    );
    plain
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(from) {
            out.extend_from_slice(to);
            at += from.len();
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
}

/// The request with a Host where HTTP/1.1 asks for one and the file has none. Most of gunicorn's files have none, so that
/// they would all be refused for that alone, whatever else is wrong with them.
fn with_host(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    let end = request.windows(2).position(|bytes| bytes == b"\r\n");
    match end {
        Some(end) if end > 0 && !head.contains("\nhost:") => {
            let mut whole = request[..end + 2].to_vec();
            whole.extend_from_slice(b"Host: corpus\r\n");
            whole.extend_from_slice(&request[end + 2..]);
            whole
        }
        _ => request.to_vec(),
    }
}

/// Sends it, ends the sending side, and reads what comes first.
fn first_answer(probe: &Probe, request: &[u8]) -> Result<Response, Fault> {
    let mut client = probe.server.connect();
    let _ = client.try_send(request);
    client.half_close();
    client.try_response("GET")
}

#[test]
fn none_of_the_invalid_requests_reaches_the_application() {
    let files = requests("invalid");
    assert_eq!(files.len(), 81);
    // gunicorn's own limits, which it counts a little differently, so that its files about limits test ours.
    let mut probe = Probe::with(|builder| {
        builder
            .setting("max_target_bytes", "4080")
            .setting("max_field_bytes", "8188")
            .setting("max_header_count", "100")
    });
    let mut accepted = Vec::new();
    for (name, request) in &files {
        for (form, bytes) in [
            ("as it is", request.clone()),
            ("with a Host", with_host(request)),
        ] {
            let answer = first_answer(&probe, &bytes);
            probe.server.get("/after").expect(200);
            let mut calls = probe.events.rest();
            assert_eq!(calls.pop().as_deref(), Some("GET /after"));
            match answer {
                _ if !calls.is_empty() => accepted.push(name.as_str()),
                Ok(response) => assert!(response.status() >= 400, "{name} {form}: {response:?}"),
                Err(Fault::Ended { so_far, .. }) => assert!(so_far.is_empty(), "{name} {form}"),
                Err(fault) => panic!("{name} {form}: {fault}"),
            }
        }
    }
    accepted.dedup();
    let listed: Vec<&str> = ACCEPTED.iter().map(|(name, _)| *name).collect();
    assert_eq!(accepted, listed);
}

#[test]
fn the_valid_requests_reach_the_application() {
    let files = requests("valid");
    assert_eq!(files.len(), 62);
    let mut probe = Probe::default();
    let mut wrong = Vec::new();
    for (name, request) in &files {
        let bytes = with_host(request);
        let answer = first_answer(&probe, &bytes);
        probe.server.get("/after").expect(200);
        let calls = probe.events.rest();
        let refusal = REFUSED.iter().find(|(refused, ..)| refused == name);
        let outcome = answer.map(|response| (response.status(), response.field("x-app").is_some()));
        let good = match (&outcome, refusal) {
            (Ok((status, false)), Some((_, statuses, _))) => {
                statuses.contains(status) && calls.len() == 1
            }
            // Rack has no form for it, so the server may answer itself.
            (Ok((status, _)), None) if name.contains("asterisk_options") => *status < 400,
            (Ok((200, true)), None) => calls.first() == Some(&expected_call(request, &calls)),
            _ => false,
        };
        if !good {
            wrong.push(format!("{name}: {outcome:?} {calls:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `METHOD path` of the request line, or the application's event where the target is no plain path.
fn expected_call(request: &[u8], calls: &[String]) -> String {
    let text = String::from_utf8_lossy(request).into_owned();
    let mut words = text.trim_start().split(' ');
    let (method, target) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let path = target.split(['?', '#']).next().unwrap_or_default();
    if path.starts_with('/') {
        format!("{method} {path}")
    } else {
        calls.first().cloned().unwrap_or_default()
    }
}
