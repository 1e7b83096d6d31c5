//! The file of `--requests`: kinds of requests with weights, and a login. Unknown keys are refused; nothing is sent.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use loadgen::plan::{Expected, Request};
use stacks::toml_file;

/// What the file says.
#[derive(Debug, PartialEq)]
pub(super) struct Requests {
    /// At least one.
    pub(super) requests: Vec<Request>,
    /// What a connection sends first.
    pub(super) login: Option<Request>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    request: Vec<Entry>,
    login: Option<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    method: Option<String>,
    path: String,
    weight: Option<f64>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    body_file: Option<String>,
    expect_status: Option<u16>,
    expect_length: Option<u64>,
}

/// Reads the file at `path`. Paths of `body_file` are relative to it.
///
/// # Errors
/// It can't be read, or what is wrong in it.
pub(super) fn read(path: &Path) -> Result<Requests> {
    let file: File = toml_file::read(path)?;
    let of = |name: String, entry: Entry| {
        request(path, entry).with_context(|| format!("{}: {name}", path.display()))
    };
    if file.request.is_empty() {
        bail!(
            "{}: it has no request; write at least one [[request]] with a path",
            path.display()
        );
    }
    if file
        .login
        .as_ref()
        .is_some_and(|login| login.weight.is_some())
    {
        bail!(
            "{}: login: it has no weight; every connection sends it once",
            path.display()
        );
    }
    if file.login.as_ref().is_some_and(Entry::expects) {
        bail!(
            "{}: login: nothing can be expected of it; a status from 400 on is a login that was refused",
            path.display()
        );
    }
    let requests = file.request.into_iter().enumerate();
    Ok(Requests {
        requests: requests
            .map(|(index, entry)| of(format!("request {}", index + 1), entry))
            .collect::<Result<_>>()?,
        login: file
            .login
            .map(|entry| of("login".to_owned(), entry))
            .transpose()?,
    })
}

impl Entry {
    fn expects(&self) -> bool {
        self.expect_status.is_some() || self.expect_length.is_some()
    }
}

/// What a response must be: a length alone is that of a page with status 200.
pub(super) fn expected(status: Option<u16>, length: Option<u64>) -> Option<Expected> {
    let status = status.or(length.and(Some(200)))?;
    Some(Expected { status, length })
}

fn request(file: &Path, entry: Entry) -> Result<Request> {
    let expected = expected(entry.expect_status, entry.expect_length);
    if let Some(status) = entry.expect_status.filter(|one| !(100..600).contains(one)) {
        bail!("expect_status: {status} is no status; there are 100 to 599");
    }
    let body = match (entry.body, entry.body_file) {
        (Some(_), Some(_)) => bail!("it has a body and a body_file; give one of them"),
        (Some(body), None) => Some(body.into_bytes()),
        (None, Some(name)) => {
            let path = file.parent().unwrap_or(Path::new("")).join(name);
            Some(std::fs::read(&path).with_context(|| format!("can't read {}", path.display()))?)
        }
        (None, None) => None,
    };
    Ok(Request {
        method: entry.method.unwrap_or_else(|| method_for(body.as_ref())),
        path: entry.path,
        headers: entry.headers.into_iter().collect(),
        body: body.unwrap_or_default(),
        weight: entry.weight.unwrap_or(1.0),
        expected,
    })
}

/// The method of a request that names none.
pub(super) fn method_for(body: Option<&Vec<u8>>) -> String {
    if body.is_some() { "POST" } else { "GET" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Result<Requests> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("order.json"), "{}").unwrap();
        let path = folder.path().join("shop.toml");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn requests_and_a_login_are_read() {
        let read = written(
            "[login]\npath = '/login'\nbody = 'user=a'\n\
             [[request]]\npath = '/'\nweight = 3\nexpect_length = 11\n\
             [[request]]\nmethod = 'PUT'\npath = '/order'\nbody_file = 'order.json'\nexpect_status = 201\n\
             headers = { 'Content-Type' = 'application/json' }\n",
        )
        .unwrap();
        let login = read.login.unwrap();
        assert_eq!(
            (login.method.as_str(), login.body.as_slice()),
            ("POST", b"user=a".as_slice())
        );
        let [front, order] = read.requests.as_slice() else {
            panic!("{:?}", read.requests)
        };
        assert_eq!((front.method.as_str(), front.weight), ("GET", 3.0));
        assert_eq!(order.method, "PUT");
        assert_eq!(order.body, b"{}");
        let of = |status, length| Some(Expected { status, length });
        assert_eq!(
            (front.expected, order.expected),
            (of(200, Some(11)), of(201, None))
        );
        assert_eq!(
            order.headers,
            [("Content-Type".to_owned(), "application/json".to_owned())]
        );
    }

    #[test]
    fn the_example_in_the_documentation_is_true() {
        let page = include_str!("../../../../../../docs/lab.md");
        let example = page
            .split("```toml\n")
            .find(|part| part.starts_with("# shop.toml"))
            .and_then(|part| part.split("```").next())
            .expect("docs/lab.md has the example");
        let read = written(example).unwrap();
        assert!(read.login.is_some());
        assert_eq!(read.requests[1].body, b"{}");
    }

    #[test]
    fn what_is_wrong_in_the_file_is_said_once_and_with_its_place() {
        let check = |text: &str, expect: &str| {
            let error = format!("{:#}", written(text).unwrap_err());
            assert!(error.contains(expect), "{text}: {error}");
        };
        check(
            "[[request]]\npath = '/'\nwieght = 2\n",
            "shop.toml:3: unknown key wieght; the nearest known one is weight",
        );
        check("[[requests]]\n", "the nearest known one is request");
        check("[[request]]\nmethod = 'GET'\n", "missing field `path`");
        check("", "no request");
        check(
            "[[request]]\npath = '/'\n[[request]]\npath = '/'\nbody = ''\nbody_file = 'x'\n",
            "request 2: it has a body and a body_file; give one of them",
        );
        check(
            "[[request]]\npath = '/'\nbody_file = 'none.json'\n",
            "none.json",
        );
        check(
            "[login]\npath = '/'\nweight = 2\n[[request]]\npath = '/'\n",
            "login: it has no weight",
        );
        check(
            "[login]\npath = '/'\nexpect_status = 200\n[[request]]\npath = '/'\n",
            "login: nothing can be expected of it",
        );
        check(
            "[[request]]\npath = '/'\nexpect_status = 20\n",
            "request 1: expect_status: 20 is no status",
        );
    }
}
