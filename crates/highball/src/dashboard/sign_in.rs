//! Who may look at the dashboard of `dashboard_listen`: who has signed in with a token, for as long as the session lasts. It
//! reads heads of requests, and sends nothing. Tokens and cookies are kept as digests and compared in constant time.
//!
//! A name of a stranger that leads to this address (DNS rebinding) opens nothing: browsers send a cookie to the host alone that
//! has set it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use admin::Tokens;
use config::AddressList;
use http::request::Parts;

use crate::dashboard::session::{NoSecret, PATH, cookies, is, is_from_another_origin, secret};

/// What says in a request of a proxy that it came over TLS.
const FORWARDED_PROTO: &str = "x-forwarded-proto";
/// How long a session lasts.
const SIGNED_IN_FOR: Duration = Duration::from_secs(12 * 3600);
/// How long a session lasts that nobody uses. An open page uses it every two seconds while somebody sees it.
const SIGNED_IN_IDLE_TIMEOUT: Duration = Duration::from_secs(2 * 3600);
/// The most sessions; the one that has not been used for longest ends for a new one.
const MAX_SIGNED_IN: usize = 64;
/// How long a wrong token counts.
const WRONG_TOKEN_WINDOW: Duration = Duration::from_secs(60);
/// The most wrong tokens of one address in that time; then none of it is looked at.
const MAX_WRONG_TOKENS_PER_ADDRESS: usize = 5;
/// The most wrong tokens of all addresses in that time; then none at all is looked at.
const MAX_WRONG_TOKENS: usize = 30;

/// Who has signed in, and who may.
pub(crate) struct SignIn {
    /// The cookie's name has the address's port: browsers send a cookie to all ports of a host.
    cookie_name: String,
    tokens: RefCell<Tokens>,
    /// Whose word counts that a client came over TLS.
    trusted: RefCell<AddressList>,
    sessions: RefCell<Vec<SignedIn>>,
    /// Wrong tokens, the oldest first.
    wrong: RefCell<VecDeque<(Instant, IpAddr)>>,
}

struct SignedIn {
    cookie: Tokens,
    began: Instant,
    last_use: Instant,
}

/// Why nobody is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// The token is none of the file.
    #[error("This is no token of dashboard_tokens_file.")]
    Wrong,
    /// There were too many wrong ones.
    #[error("Too many wrong tokens: wait a minute.")]
    TooMany,
    /// The page was not the dashboard's own.
    #[error("Sign in on the dashboard's own page.")]
    AnotherOrigin,
    /// There are no random bytes.
    #[error("The server cannot open a session.")]
    NoSecret,
}

impl From<NoSecret> for Refused {
    fn from(_: NoSecret) -> Self {
        Self::NoSecret
    }
}

impl SignIn {
    /// That of the address with this port. It lets nobody in yet.
    pub(crate) fn new(port: u16, trusted: AddressList) -> Self {
        Self {
            cookie_name: format!("highball_dashboard_{port}"),
            tokens: RefCell::default(),
            trusted: RefCell::new(trusted),
            sessions: RefCell::default(),
            wrong: RefCell::default(),
        }
    }

    /// Accepts these tokens from now on, and trusts these proxies. If the tokens are others than before, all sessions end.
    pub(crate) fn apply(&self, tokens: Tokens, trusted: AddressList) {
        self.trusted.replace(trusted);
        if *self.tokens.borrow() != tokens {
            self.sessions.borrow_mut().clear();
            self.tokens.replace(tokens);
        }
    }

    /// The value of `Set-Cookie`, where `rest` is the cookie's value and what else is to be said of it.
    pub(super) fn cookie(&self, head: &Parts, peer: Option<IpAddr>, rest: &str) -> String {
        let name = &self.cookie_name;
        let is_trusted = peer.is_some_and(|peer| self.trusted.borrow().contains(peer));
        let proto = head.headers.get(FORWARDED_PROTO);
        let is_https = proto.is_some_and(|proto| proto.as_bytes().eq_ignore_ascii_case(b"https"));
        let secure = if is_trusted && is_https {
            "; Secure"
        } else {
            ""
        };
        format!("{name}={rest}; Path={PATH}; HttpOnly; SameSite=Strict{secure}")
    }

    /// Opens a session for a token, and returns its cookie's value.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn sign_in(
        &self,
        head: &Parts,
        token: &str,
        (from, now): (IpAddr, Instant),
    ) -> Result<String, Refused> {
        if is_from_another_origin(head) {
            return Err(Refused::AnotherOrigin);
        }
        let mut wrong = self.wrong.borrow_mut();
        while wrong
            .front()
            .is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WRONG_TOKEN_WINDOW)
        {
            wrong.pop_front();
        }
        let of_address = wrong.iter().filter(|(_, other)| *other == from).count();
        if wrong.len() >= MAX_WRONG_TOKENS || of_address >= MAX_WRONG_TOKENS_PER_ADDRESS {
            return Err(Refused::TooMany);
        }
        if !is(&self.tokens.borrow(), token) {
            wrong.push_back((now, from));
            return Err(Refused::Wrong);
        }
        let value = secret()?;
        let cookie = Tokens::parse(&value).map_err(|_| Refused::NoSecret)?;
        let mut sessions = self.sessions.borrow_mut();
        sessions.retain(|one| one.lasts(now));
        if sessions.len() == MAX_SIGNED_IN {
            let all = sessions.iter().enumerate();
            let unused = all.min_by_key(|(_, one)| one.last_use);
            let unused = unused.map(|(index, _)| index);
            unused.map(|index| sessions.remove(index));
        }
        sessions.push(SignedIn {
            cookie,
            began: now,
            last_use: now,
        });
        Ok(value)
    }

    /// Whether a request is of a session; notes that it is used.
    pub(super) fn admits(&self, head: &Parts, now: Instant) -> bool {
        if is_from_another_origin(head) {
            return false;
        }
        let mut sessions = self.sessions.borrow_mut();
        sessions.retain(|one| one.lasts(now));
        let mut is_admitted = false;
        for sent in cookies(head, &self.cookie_name) {
            for session in sessions.iter_mut().filter(|one| is(&one.cookie, sent)) {
                session.last_use = now;
                is_admitted = true;
            }
        }
        is_admitted
    }

    /// Ends the session of a request.
    pub(super) fn sign_out(&self, head: &Parts) {
        let mut sessions = self.sessions.borrow_mut();
        for sent in cookies(head, &self.cookie_name) {
            sessions.retain(|one| !is(&one.cookie, sent));
        }
    }
}

impl SignedIn {
    fn lasts(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) < SIGNED_IN_FOR
            && now.saturating_duration_since(self.last_use) < SIGNED_IN_IDLE_TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    const NAME: &str = "highball_dashboard_9292";

    fn head(fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::get("/dashboard");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn with(value: &str) -> Parts {
        head(&[("cookie", &format!("a=b; {NAME}={value}"))])
    }

    fn trusted() -> AddressList {
        AddressList::parse(&["127.0.0.1"]).unwrap()
    }

    fn door() -> SignIn {
        let door = SignIn::new(9292, trusted());
        door.apply(Tokens::parse(TOKEN).unwrap(), trusted());
        door
    }

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn a_token_opens_a_session_that_ends_by_itself() {
        let (door, start) = (door(), Instant::now());
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(!door.admits(&head(&[]), start));
        let enter = || {
            door.sign_in(&head(&[]), TOKEN, (address(1), start))
                .unwrap()
        };
        let (one, other) = (enter(), enter());
        assert!(one != other && one.len() == 64 && one != TOKEN);
        assert!(door.admits(&with(&one), start));
        let of_other_port = head(&[("cookie", &format!("highball_dashboard_1={one}"))]);
        assert!(!door.admits(&of_other_port, start));
        assert!(!door.admits(&with(&one[1..]), start));
        assert!(!door.admits(&with(TOKEN), start));
        // The one is used each hour, the other not.
        for hour in 1..12 {
            assert!(door.admits(&with(&one), after(hour * 3600)));
        }
        assert!(!door.admits(&with(&other), after(11 * 3600)));
        assert!(!door.admits(&with(&one), after(12 * 3600)));
    }

    #[test]
    fn signing_out_ends_one_session_and_new_tokens_end_all() {
        let (door, now) = (door(), Instant::now());
        let enter = || door.sign_in(&head(&[]), TOKEN, (address(1), now)).unwrap();
        let (one, other) = (enter(), enter());
        door.sign_out(&with(&one));
        assert!(!door.admits(&with(&one), now));
        door.apply(Tokens::parse(TOKEN).unwrap(), trusted());
        assert!(door.admits(&with(&other), now), "the same tokens");
        door.apply(Tokens::default(), trusted());
        assert!(!door.admits(&with(&other), now));
        let refused = door.sign_in(&head(&[]), TOKEN, (address(1), now));
        assert_eq!(refused, Err(Refused::Wrong), "no token lets nobody in");
    }

    #[test]
    fn wrong_tokens_are_bounded_per_address_and_in_all() {
        let (door, start) = (door(), Instant::now());
        let attempt = |token: &str, from: u8, seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            door.sign_in(&head(&[]), token, (address(from), now))
                .map(drop)
        };
        for _ in 0..MAX_WRONG_TOKENS_PER_ADDRESS {
            assert_eq!(attempt("x", 1, 0), Err(Refused::Wrong));
        }
        assert_eq!(attempt(TOKEN, 1, 59), Err(Refused::TooMany));
        assert_eq!(attempt(TOKEN, 2, 59), Ok(()), "others are not concerned");
        assert_eq!(attempt(TOKEN, 1, 60), Ok(()), "after a minute");
        for number in 0..MAX_WRONG_TOKENS {
            assert_eq!(attempt("x", 10 + number as u8, 60), Err(Refused::Wrong));
        }
        assert_eq!(attempt(TOKEN, 200, 60), Err(Refused::TooMany));
        assert_eq!(
            door.wrong.borrow().len(),
            MAX_WRONG_TOKENS,
            "no more are kept"
        );
    }

    #[test]
    fn sessions_are_bounded_and_the_unused_one_makes_room() {
        let (door, start) = (door(), Instant::now());
        let enter = |seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            door.sign_in(&head(&[]), TOKEN, (address(1), now)).unwrap()
        };
        let all: Vec<String> = (0..MAX_SIGNED_IN as u64).map(enter).collect();
        let now = start + Duration::from_secs(100);
        assert!(door.admits(&with(&all[0]), now), "the oldest is used");
        enter(101);
        assert_eq!(door.sessions.borrow().len(), MAX_SIGNED_IN);
        assert!(door.admits(&with(&all[0]), now));
        assert!(!door.admits(&with(&all[1]), now));
    }

    #[test]
    fn pages_of_other_origins_neither_sign_in_nor_read() {
        let (door, now) = (door(), Instant::now());
        let value = door.sign_in(&head(&[]), TOKEN, (address(1), now)).unwrap();
        let cookie = format!("{NAME}={value}");
        for site in ["cross-site", "same-site", "x"] {
            let foreign = head(&[("sec-fetch-site", site), ("cookie", &cookie)]);
            assert!(!door.admits(&foreign, now), "{site}");
            let refused = door.sign_in(&foreign, TOKEN, (address(1), now));
            assert_eq!(refused, Err(Refused::AnotherOrigin));
        }
    }
}
