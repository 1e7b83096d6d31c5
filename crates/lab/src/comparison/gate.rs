//! Whether all stacks answer the same: a stack that answers something else is not faster, it does something else. It
//! asks for pages, one at a time, and compares; it measures nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::load::plan::{Expected, Request, Target};
use crate::probe::{Response, ResponseReader};

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

/// The answers that most stacks give; of equally many those of the stack that comes first, against which others are held.
pub(super) fn agreed(answers: &[Answers], same_body: bool) -> Option<&Answers> {
    let votes = |one: &Answers| {
        let agrees = |other: &&Answers| fault(one, other, same_body).is_none();
        answers.iter().filter(agrees).count()
    };
    // Of equal ones `max_by_key` takes the last.
    answers.iter().rev().max_by_key(|one| votes(one))
}

/// What is wrong with `answers`, where `expected` is right.
pub(super) fn fault(expected: &Answers, answers: &Answers, same_body: bool) -> Option<String> {
    let pairs = expected.iter().zip(answers);
    pairs
        .filter_map(|pair| match pair {
            (Some(expected), Some(answer)) => Some((expected, answer)),
            _ => None,
        })
        .find_map(|(expected, answer)| {
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
            (same_body && answer.body != expected.body).then(|| {
                format!(
                    "its page ({length} bytes) is not the one of others ({} bytes)",
                    expected.body.len()
                )
            })
        })
}

/// Whether the method may change what the application answers (RFC 9110 section 9.2.1).
pub(super) fn has_effect(method: &str) -> bool {
    !matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
}

/// What a response under load must be: the status of the page that was agreed on, and its length where it is always the
/// same.
pub(super) fn expected(answer: &Answer, same_body: bool) -> Expected {
    Expected {
        status: answer.status,
        length: same_body.then_some(answer.body.len() as u64),
    }
}

fn exchange(target: &Target, host: &str, request: &Request, timeout: Duration) -> Result<Answer> {
    let response = match target {
        Target::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, timeout)?;
            stream.set_read_timeout(Some(timeout))?;
            talk(stream, host, request)?
        }
        Target::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(timeout))?;
            talk(stream, host, request)?
        }
    };
    Ok(Answer {
        status: response.status,
        body: response.body,
    })
}

fn talk(mut stream: impl Read + Write, host: &str, request: &Request) -> Result<Response> {
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: {host}\r\n",
        request.method, request.path
    );
    for (name, value) in &request.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut reader = ResponseReader::default();
    let mut buffer = [0; 16 * 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => return reader.closed(),
            count => {
                if let Some(response) = reader.feed(&buffer[..count])? {
                    return Ok(response);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(status: u16, body: &str) -> Answers {
        vec![Some(Answer {
            status,
            body: body.into(),
        })]
    }

    #[test]
    fn what_answers_something_else_is_told_so() {
        let good = answers(200, "Hello World");
        let check = |other: &Answers, same_body: bool, expect: Option<&str>| {
            assert_eq!(fault(&good, other, same_body).as_deref(), expect);
        };
        check(&good, true, None);
        check(
            &answers(500, "Hello World"),
            true,
            Some("it answers with status 500"),
        );
        check(
            &answers(302, ""),
            true,
            Some("it answers with status 302 where others have 200"),
        );
        check(&answers(200, ""), false, Some("its page is empty"));
        check(
            &answers(200, "Hello"),
            true,
            Some("its page (5 bytes) is not the one of others (11 bytes)"),
        );
        check(
            &answers(200, "Hello W0rld"),
            true,
            Some("its page (11 bytes) is not the one of others (11 bytes)"),
        );
        check(&answers(200, "Hello you"), false, None);
        check(&vec![None], true, None);
    }

    #[test]
    fn most_stacks_are_right() {
        let (good, short) = (answers(200, "Hello World"), answers(200, "Hello"));
        let all = [short.clone(), good.clone(), good.clone()];
        assert_eq!(agreed(&all, true), Some(&good));
        // One against one: the first is what others are held against.
        assert_eq!(agreed(&[short.clone(), good.clone()], true), Some(&short));
        assert_eq!(agreed(&[], true), None);
        // All agree that they fail: nobody is right.
        let failing = [answers(500, ""), answers(500, "")];
        let agreed = agreed(&failing, true).unwrap();
        assert!(fault(agreed, &failing[0], true).is_some());
    }

    #[test]
    fn the_load_expects_the_page_that_was_agreed_on() {
        let check = |status: u16, body: &str, same_body: bool, length: Option<u64>| {
            let answer = answers(status, body).remove(0).unwrap();
            assert_eq!(
                expected(&answer, same_body),
                Expected { status, length },
                "{body}"
            );
        };
        check(200, "Hello", true, Some(5));
        check(200, "Hello", false, None);
        check(302, "", true, Some(0));
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
}
