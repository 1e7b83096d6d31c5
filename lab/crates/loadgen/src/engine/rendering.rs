//! Requests as bytes, made once before a load; and the cookies of a session, which make them again once for each
//! login. It sends nothing.

use std::io::Write;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::uri::{Scheme, Uri};

use crate::plan::{ConnectionUse, Plan, Request, Target};

/// One kind of request, ready to leave.
#[derive(Debug, Clone)]
pub(crate) struct Rendered {
    /// Head and body.
    pub(crate) bytes: Vec<u8>,
    /// Whether it is a `HEAD` request, whose response has no content.
    pub(crate) is_head: bool,
}

/// One kind of request for HTTP/2.
#[derive(Debug, Clone)]
pub(super) struct Multiplexed {
    pub(super) head: http::Request<()>,
    pub(super) body: Bytes,
}

/// All kinds of a plan in its order for HTTP/2.
///
/// # Errors
/// HTTP/2 can't send one of them (RFC 9113 section 8.2).
pub(super) fn multiplexed(plan: &Plan) -> Result<Vec<Multiplexed>> {
    let scheme = match plan.target {
        Target::Tls(..) => Scheme::HTTPS,
        Target::Tcp(_) | Target::Unix(_) => Scheme::HTTP,
    };
    let one = |request: &Request| -> Result<Multiplexed> {
        let uri = Uri::builder()
            .scheme(scheme.clone())
            .authority(plan.host.as_str())
            .path_and_query(request.path.as_str())
            .build()?;
        let mut head = http::Request::builder()
            .method(request.method.as_str())
            .uri(uri)
            .version(http::Version::HTTP_2);
        for (name, value) in &request.headers {
            head = head.header(name, value);
        }
        // As in HTTP/1.1: a method that means content has a length.
        let means_content = matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
        if means_content || !request.body.is_empty() {
            head = head.header(http::header::CONTENT_LENGTH, request.body.len());
        }
        Ok(Multiplexed {
            head: head.body(())?,
            body: Bytes::copy_from_slice(&request.body),
        })
    };
    let named = |request: &Request| {
        let context = || format!("{} {} by HTTP/2", request.method, request.path);
        one(request).with_context(context)
    };
    plan.requests.iter().map(named).collect()
}

/// All kinds of a plan in its order, with a `Cookie` field where there are cookies.
pub(super) fn requests(plan: &Plan, cookies: &Cookies) -> Vec<Rendered> {
    let close = plan.connections == ConnectionUse::PerRequest;
    plan.requests
        .iter()
        .map(|request| render(plan, request, close, cookies))
        .collect()
}

/// The login, which never closes the connection: the first request follows on it.
pub(super) fn login(plan: &Plan) -> Option<Rendered> {
    let login = plan.login.as_ref()?;
    Some(render(plan, login, false, &Cookies::default()))
}

fn render(plan: &Plan, request: &Request, close: bool, cookies: &Cookies) -> Rendered {
    let mut bytes = Vec::with_capacity(256 + request.body.len());
    let mut line = |text: std::fmt::Arguments<'_>| {
        bytes
            .write_fmt(text)
            .expect("writing into a vector can't fail");
    };
    line(format_args!(
        "{} {} HTTP/1.1\r\n",
        request.method, request.path
    ));
    line(format_args!("Host: {}\r\n", plan.host));
    for (name, value) in &request.headers {
        line(format_args!("{name}: {value}\r\n"));
    }
    if !cookies.0.is_empty() {
        line(format_args!("Cookie: {}\r\n", cookies.field()));
    }
    // RFC 9110 section 8.6: a method that means content gets a length even where it is nought.
    let means_content = matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
    if means_content || !request.body.is_empty() {
        line(format_args!("Content-Length: {}\r\n", request.body.len()));
    }
    if close {
        line(format_args!("Connection: close\r\n"));
    }
    line(format_args!("\r\n"));
    bytes.extend_from_slice(&request.body);
    Rendered {
        bytes,
        is_head: request.method == "HEAD",
    }
}

/// What a login's response set: names and values only, later ones over earlier ones of the same name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cookies(Vec<(String, String)>);

impl Cookies {
    /// Takes the value of a `Set-Cookie` field (RFC 6265 section 4.1.1), without its attributes.
    pub(super) fn set(&mut self, field: &[u8]) {
        let text = String::from_utf8_lossy(field);
        let pair = text.split(';').next().unwrap_or_default();
        let Some((name, value)) = pair.split_once('=') else {
            return;
        };
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    fn field(&self) -> String {
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        pairs.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_kept_without_attributes_and_a_later_one_replaces_it() {
        let mut cookies = Cookies::default();
        for field in [
            "session=abc; Path=/; HttpOnly",
            "theme=dark",
            "session = d=e ;Secure",
            "nonsense",
        ] {
            cookies.set(field.as_bytes());
        }
        assert_eq!(cookies.field(), "session=d=e; theme=dark");
    }
}
