//! Checks that all stacks give the same answers, because rates of different answers can't be compared. It requests pages
//! one at a time and compares them; it measures nothing.

use std::time::Duration;

use anyhow::{Context as _, Result};

use loadgen::page;
use loadgen::plan::{Expected, Request, Target};

/// What a stack answered to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// The status.
    pub(super) status: u16,
    /// The content.
    pub(super) body: Vec<u8>,
}

/// What a stack answers to each GET; `None` for other requests, which may have an effect and are not sent before the load
/// does.
pub(super) type Answers = Vec<Option<Answer>>;

/// Sends each GET once, on a connection of its own.
///
/// # Errors
/// One has no whole answer within `timeout`; names it.
pub(super) fn ask(
    target: &Target,
    host: &str,
    requests: &[Request],
    timeout: Duration,
) -> Result<Answers> {
    let ask = |request: &Request| {
        let answer = (request.method == "GET").then(|| exchange(target, host, request, timeout));
        let name = || format!("no answer to {} {}", request.method, request.path);
        answer.transpose().with_context(name)
    };
    requests.iter().map(ask).collect()
}

/// How much two answers to the same request must have in common, least first; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Likeness {
    /// The status, and that there is a body at all.
    Status,
    /// The length, within a tenth or 16 bytes: a page with a token or a time in it.
    Length,
    /// The very same body.
    Body,
}

/// Lengths of a page that differs each time are alike within this share of it, or within [`SHORT`].
const TOLERANCE: f64 = 0.1;
/// In bytes: on a short page a number may be longer than a tenth.
const SHORT: usize = 16;
/// What to do where a page differs for a good reason.
const ADVICE: &str =
    "; `same_body = false` for the page in app.toml says that it differs each time";

/// How alike the answers to each request must be, where each stack was asked twice: where one differs from itself, no more
/// can be asked of others. But two stacks that send the very same page each time show that it does not differ.
pub(super) fn likeness(asked: &[[Answers; 2]], most: Likeness) -> Vec<Likeness> {
    let count = asked.first().map_or(0, |[first, _]| first.len());
    let of_request = |index: usize| {
        let (mut least, mut constant) = (most, Vec::new());
        for [first, second] in asked {
            if let (Some(first), Some(second)) = (&first[index], &second[index]) {
                match alike(first, second) {
                    Likeness::Body => constant.push(first),
                    less => least = least.min(less),
                }
            }
        }
        let again = |(place, one): (usize, &&Answer)| constant[..place].contains(one);
        if constant.iter().enumerate().any(again) {
            most
        } else {
            least
        }
    };
    (0..count).map(of_request).collect()
}

/// Whether the stack sent another body the second time, for each request.
pub(super) fn differs([first, second]: &[Answers; 2], index: usize) -> bool {
    first[index] != second[index]
}

/// What two answers with the same status have in common.
fn alike(one: &Answer, other: &Answer) -> Likeness {
    let lengths = [one.body.len(), other.body.len()];
    let apart = lengths[0].abs_diff(lengths[1]);
    let tolerated = (lengths[0] as f64 * TOLERANCE).max(SHORT as f64);
    if one.body == other.body {
        Likeness::Body
    } else if apart as f64 <= tolerated {
        Likeness::Length
    } else {
        Likeness::Status
    }
}

/// The answers that most stacks give. If several are equally frequent, the stack that comes first decides.
pub(super) fn agreed<'a>(answers: &[&'a Answers], likeness: &[Likeness]) -> Option<&'a Answers> {
    let votes = |one: &Answers| {
        let agrees = |other: &&&Answers| fault(one, other, likeness).is_none();
        answers.iter().filter(agrees).count()
    };
    // Of equal ones `max_by_key` takes the last.
    answers.iter().rev().copied().max_by_key(|one| votes(one))
}

/// What is wrong with `answers`, where `expected` is right and each has to be so much like it.
pub(super) fn fault(
    expected: &Answers,
    answers: &Answers,
    likeness: &[Likeness],
) -> Option<String> {
    let pairs = expected.iter().zip(answers).zip(likeness);
    pairs
        .filter_map(|(pair, likeness)| match pair {
            (Some(expected), Some(answer)) => Some((expected, answer, *likeness)),
            _ => None,
        })
        .find_map(|(expected, answer, likeness)| {
            let (status, length) = (answer.status, answer.body.len());
            if !(200..400).contains(&status) {
                return Some(format!("it answers with status {status}"));
            }
            if status != expected.status {
                return Some(format!(
                    "it answers with status {status} where others have {}",
                    expected.status
                ));
            }
            if length == 0 && !expected.body.is_empty() {
                return Some("its page is empty".to_owned());
            }
            let what = match likeness {
                Likeness::Body => "the one of others",
                _ => "about as long as that of others",
            };
            (alike(expected, answer) < likeness).then(|| {
                let others = expected.body.len();
                format!("its page ({length} bytes) is not {what} ({others} bytes){ADVICE}")
            })
        })
}

/// Whether the method may change what the application answers (RFC 9110 section 9.2.1).
pub(super) fn has_effect(method: &str) -> bool {
    !matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
}

/// What a response under load must be: the status of the page that was agreed on, and its length where it is always the
/// same.
pub(super) fn expected(answer: &Answer, likeness: Likeness) -> Expected {
    let length = answer.body.len() as u64;
    Expected {
        status: answer.status,
        length: (likeness == Likeness::Body).then_some(length),
    }
}

fn exchange(target: &Target, host: &str, request: &Request, timeout: Duration) -> Result<Answer> {
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: {host}\r\n",
        request.method, request.path
    );
    for (name, value) in &request.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("Connection: close\r\n\r\n");
    let response = page::exchange(target, head.as_bytes(), timeout)?;
    Ok(Answer {
        status: response.status,
        body: response.body,
    })
}

/// Host and port of `http://host:port`.
pub(super) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

#[cfg(test)]
mod tests;
