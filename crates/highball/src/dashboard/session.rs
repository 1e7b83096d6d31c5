//! Who may look at a dashboard that a command has opened: the browser that comes first with its key, which is then worth
//! nothing. It reads heads of requests, and sends nothing.
//!
//! The browser gets a cookie in exchange. Browsers send the cookies of an address to all ports of it, so the cookie's name has
//! the port, its path is the dashboard's, and pages of other origins are refused by what browsers say of a request's origin
//! (`Sec-Fetch-Site`).

use std::cell::Cell;
use std::time::{Duration, Instant};

use admin::{Problem, Tokens};
use http::header::COOKIE;
use http::request::Parts;
use http::{Method, StatusCode};
use rustix::rand::{GetRandomFlags, getrandom};

/// How long a dashboard that nobody looks at stays open.
pub(super) const DASHBOARD_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Random bytes of a key and of a cookie.
const SECRET_BYTES: usize = 32;

/// The path of the page, and of all its parts.
pub(super) const PATH: &str = "/dashboard";

/// An open dashboard. Its secrets are kept as digests, and compared in constant time.
pub(super) struct Session {
    key: Tokens,
    key_is_used: Cell<bool>,
    cookie_name: String,
    /// What a browser gets for the key, and its digest.
    value: String,
    cookie: Tokens,
    last_use: Cell<Instant>,
    is_closed: Cell<bool>,
}

/// What a request is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// What it asks for.
    Admitted,
    /// The page's address, with this value of `Set-Cookie`.
    Exchanged(String),
}

/// A session and the key that opens it, which is printed and kept nowhere.
pub(super) struct Opened {
    pub(super) session: Session,
    pub(super) key: String,
}

/// The kernel gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the kernel gave no random bytes for a key")]
pub(super) struct NoSecret;

impl Session {
    /// A session for the dashboard on this port.
    ///
    /// # Errors
    /// There are no random bytes.
    pub(super) fn open(port: u16) -> Result<Opened, NoSecret> {
        let (key, value) = (secret()?, secret()?);
        let session = Self {
            key: Tokens::parse(&key).map_err(|_| NoSecret)?,
            key_is_used: Cell::new(false),
            cookie_name: format!("highball_dashboard_{port}"),
            cookie: Tokens::parse(&value).map_err(|_| NoSecret)?,
            value,
            last_use: Cell::new(Instant::now()),
            is_closed: Cell::new(false),
        };
        Ok(Opened { session, key })
    }

    /// Checks a request, whatever it asks for. `key` is that of its address.
    ///
    /// # Errors
    /// It has neither the key nor the cookie, or comes from a page of another origin.
    pub(super) fn admit(&self, head: &Parts, key: Option<&str>) -> Result<Admission, Problem> {
        if self.is_closed.get() {
            return Err(denied(
                "this dashboard has ended: run `highball dashboard` for a new address",
            ));
        }
        if is_from_another_origin(head) {
            return Err(denied("pages of other origins may not read the dashboard"));
        }
        let accepted = match key {
            // A program that looks at links before a browser follows them uses HEAD.
            Some(key) if head.method == Method::GET => self.exchange(key)?,
            _ if self.has_cookie(head) => Admission::Admitted,
            _ => {
                return Err(denied(
                    "run `highball dashboard` and open the address that it prints",
                ));
            }
        };
        self.last_use.set(Instant::now());
        Ok(accepted)
    }

    /// Takes the key once.
    fn exchange(&self, key: &str) -> Result<Admission, Problem> {
        if !is(&self.key, key) {
            return Err(denied(
                "the key of this address is wrong: open the address that `highball dashboard` printed",
            ));
        }
        if self.key_is_used.replace(true) {
            return Err(denied(
                "this address has been used: run `highball dashboard` again for a new one",
            ));
        }
        let (name, value) = (&self.cookie_name, &self.value);
        Ok(Admission::Exchanged(format!(
            "{name}={value}; Path={PATH}; HttpOnly; SameSite=Strict"
        )))
    }

    fn has_cookie(&self, head: &Parts) -> bool {
        cookies(head, &self.cookie_name).any(|value| is(&self.cookie, value))
    }

    /// How long nobody has looked at it.
    pub(super) fn idle(&self) -> Duration {
        self.last_use.get().elapsed()
    }

    /// Ends it: connections that are still open get nothing more.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
    }
}

fn denied(text: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, text)
}

/// The values of the cookies of this name.
pub(super) fn cookies<'a>(head: &'a Parts, name: &'a str) -> impl Iterator<Item = &'a str> {
    let fields = head.headers.get_all(COOKIE).iter();
    let pairs = fields.filter_map(|field| field.to_str().ok());
    let pairs = pairs.flat_map(|field| field.split(';'));
    pairs.filter_map(move |pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    })
}

/// Whether a secret is this one, or one of these, in constant time.
pub(super) fn is(secret: &Tokens, sent: &str) -> bool {
    secret.accept(format!("Bearer {sent}").as_bytes())
}

/// Whether a browser says that a page of another origin made the request. Who types an address or follows a link in another
/// program is of none.
pub(super) fn is_from_another_origin(head: &Parts) -> bool {
    let site = head.headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// Random bytes as text.
pub(super) fn secret() -> Result<String, NoSecret> {
    let mut bytes = [0; SECRET_BYTES];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(SECRET_BYTES) => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        _ => Err(NoSecret),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(method: Method, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(PATH);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    fn get(fields: &[(&str, &str)]) -> Parts {
        head(Method::GET, fields)
    }

    fn opened() -> Opened {
        Session::open(4711).expect("random bytes")
    }

    #[test]
    fn a_key_is_exchanged_for_a_cookie_once() {
        let Opened { session, key } = opened();
        assert!(session.admit(&get(&[]), None).is_err(), "nothing is no key");
        for wrong in ["", "0", &key[1..], &format!("{key}0")] {
            assert!(session.admit(&get(&[]), Some(wrong)).is_err(), "{wrong}");
        }
        assert!(session.admit(&head(Method::HEAD, &[]), Some(&key)).is_err());
        let Ok(Admission::Exchanged(cookie)) = session.admit(&get(&[]), Some(&key)) else {
            panic!("the key is refused");
        };
        let (pair, rest) = cookie.split_once("; ").expect("attributes");
        assert_eq!(rest, "Path=/dashboard; HttpOnly; SameSite=Strict");
        assert!(pair.starts_with("highball_dashboard_4711=") && !pair.contains(&key));
        assert!(
            session.admit(&get(&[]), Some(&key)).is_err(),
            "it has been used"
        );
        let among_others = format!("a=b; {pair} ;c");
        let admitted = session.admit(&get(&[("cookie", &among_others)]), None);
        assert_eq!(admitted, Ok(Admission::Admitted));
        for wrong in [
            pair.replace("4711", "4712"),
            pair.replace('=', "=0"),
            format!("x{pair}"),
        ] {
            assert!(
                session.admit(&get(&[("cookie", &wrong)]), None).is_err(),
                "{wrong}"
            );
        }
        session.close();
        assert!(
            session.admit(&get(&[("cookie", pair)]), None).is_err(),
            "it has ended"
        );
    }

    #[test]
    fn pages_of_other_origins_are_refused_also_those_of_other_ports() {
        let Opened { session, key } = opened();
        for site in ["cross-site", "same-site", "", "x"] {
            let head = get(&[("sec-fetch-site", site)]);
            assert!(session.admit(&head, Some(&key)).is_err(), "{site:?}");
        }
        let typed = get(&[("sec-fetch-site", "none")]);
        assert!(session.admit(&typed, Some(&key)).is_ok());
    }

    #[test]
    fn no_two_sessions_have_a_secret_in_common() {
        let (one, other) = (opened(), opened());
        assert_ne!(one.key, other.key);
        assert_ne!(one.key, one.session.value);
        assert_ne!(one.session.value, other.session.value);
        assert_eq!(one.key.len(), 2 * SECRET_BYTES);
    }
}
