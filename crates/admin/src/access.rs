//! What the clients of a listener may do: which routes they see, whether they need a token, and which hosts they may name.
//! Pure: it looks at heads of requests.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, HOST, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::uri::Authority;
use http::{StatusCode, Version};

use crate::answer::Problem;
use crate::routes::Rights;
use crate::tokens::Tokens;

/// What the clients of a listener may do.
#[derive(Clone, Debug)]
pub enum Access {
    /// Everything: the kernel has said who they are.
    Local,
    /// What a token allows: to read, and to change the server where `write` is on.
    Token {
        /// The tokens.
        tokens: Tokens,
        /// Whether its clients may change the server.
        write: bool,
    },
    /// The open routes, without a token.
    Open,
}

/// What holds for one request of a client.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What its client may do.
    pub access: Access,
    /// Whether the connection ends with its answer: another server has the address by now.
    pub is_last: bool,
}

impl From<Access> for Terms {
    fn from(access: Access) -> Self {
        let is_last = false;
        Self { access, is_last }
    }
}

impl Access {
    /// Checks who sends a request, before its path is looked at. On a `loopback` address only names of this machine are
    /// accepted: a page in an operator's browser may reach it under a name of its own (DNS rebinding).
    pub(crate) fn admit(&self, head: &Parts, loopback: bool) -> Result<(), Problem> {
        match self {
            Self::Local => Ok(()),
            Self::Token { tokens, .. } => {
                check_host(head, loopback)?;
                let mut fields = head.headers.get_all(AUTHORIZATION).iter();
                let (first, second) = (fields.next(), fields.next());
                let sent = first.filter(|_| second.is_none());
                // Without the field as many comparisons are made.
                let sent = sent.map_or(&b"Bearer "[..], HeaderValue::as_bytes);
                if tokens.accept(sent) {
                    return Ok(());
                }
                let text = "send a token of admin_tokens_file: Authorization: Bearer TOKEN";
                let problem = Problem::new(StatusCode::UNAUTHORIZED, text);
                Err(problem.with(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
            }
            Self::Open => check_host(head, loopback),
        }
    }

    /// Whether routes with these rights exist for its clients.
    pub(crate) fn shows(&self, rights: Rights) -> bool {
        match self {
            Self::Local | Self::Token { .. } => true,
            Self::Open => rights == Rights::Open,
        }
    }

    /// Whether its clients may use a route with these rights.
    pub(crate) fn permit(&self, rights: Rights) -> Result<(), Problem> {
        match self {
            Self::Token { write: false, .. } if rights == Rights::Change => {
                let text = "this address is read-only: set admin_write to true, or use the command on the server's machine";
                Err(Problem::new(StatusCode::FORBIDDEN, text))
            }
            _ => Ok(()),
        }
    }
}

fn check_host(head: &Parts, loopback: bool) -> Result<(), Problem> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host,
        (None, _) if head.version < Version::HTTP_11 => return Ok(()),
        _ => return Err(Problem::bad_request("send one Host field")),
    };
    if !loopback || is_this_machine(host) {
        return Ok(());
    }
    let text = "this address is for this machine alone: name it as localhost or by its IP address";
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, text))
}

/// Whether a Host field names this machine in a way that no name server decides about.
fn is_this_machine(host: &HeaderValue) -> bool {
    let Ok(authority) = Authority::try_from(host.as_bytes()) else {
        return false;
    };
    let name = authority.host();
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn head(fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::get("/v1/status");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn status(result: Result<(), Problem>) -> u16 {
        result.map_or_else(|problem| problem.into_answer().status().as_u16(), |()| 200)
    }

    fn tokens(text: &str, write: bool) -> Access {
        let tokens = Tokens::parse(text).unwrap();
        Access::Token { tokens, write }
    }

    #[test]
    fn a_token_is_asked_for_before_anything_else() {
        let access = tokens(TOKEN, false);
        let bearer = format!("Bearer {TOKEN}");
        let host = ("host", "h");
        let check = |fields: &[(&str, &str)], expect| {
            assert_eq!(status(access.admit(&head(fields), false)), expect);
        };
        check(&[host, ("authorization", &bearer)], 200);
        check(&[host], 401);
        check(&[host, ("authorization", "Bearer x")], 401);
        let twice = [host, ("authorization", &bearer), ("authorization", &bearer)];
        check(&twice, 401);
        let nobody = tokens("", true);
        let sent = head(&[host, ("authorization", &bearer)]);
        assert_eq!(status(nobody.admit(&sent, false)), 401);
    }

    #[test]
    fn a_loopback_address_is_reached_by_names_of_this_machine_alone() {
        let check = |host: &str, expect| {
            let head = head(&[("host", host)]);
            assert_eq!(status(Access::Open.admit(&head, true)), expect, "{host}");
            assert_eq!(status(Access::Open.admit(&head, false)), 200, "{host}");
        };
        for host in [
            "localhost",
            "LOCALHOST:9180",
            "127.0.0.1",
            "127.8.8.8:1",
            "[::1]:9180",
        ] {
            check(host, 200);
        }
        for host in [
            "rebound.example",
            "localhost.example:9180",
            "192.0.2.7",
            "127.0.0.1.example",
        ] {
            check(host, 421);
        }
        assert_eq!(status(Access::Open.admit(&head(&[]), true)), 400);
    }

    #[test]
    fn changes_need_the_setting_on_tcp() {
        for (access, expect) in [
            (tokens(TOKEN, false), 403),
            (tokens(TOKEN, true), 200),
            (Access::Local, 200),
        ] {
            assert_eq!(status(access.permit(Rights::Change)), expect);
            assert_eq!(status(access.permit(Rights::Read)), 200);
        }
        assert!(!Access::Open.shows(Rights::Read));
        assert!(Access::Open.shows(Rights::Open));
    }
}
