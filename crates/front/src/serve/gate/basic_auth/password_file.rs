//! The users of one file, as `htpasswd -B` writes it. It checks passwords, which takes its time: never on the front's own
//! thread.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bcrypt::HashParts;

/// The highest cost of a password: each step doubles the time, and 14 is about a second.
const HIGHEST_COST: u32 = 14;

/// Users and the hashes of their passwords.
#[derive(Debug)]
pub(crate) struct PasswordFile {
    /// Another one for each content.
    id: u64,
    content: Vec<u8>,
    users: HashMap<String, String>,
    /// The hash that takes longest, for users that are unknown.
    slowest: Option<String>,
}

impl PasswordFile {
    /// Reads lines of `user:hash`; empty ones and those that begin with `#` do not count.
    ///
    /// # Errors
    /// What is wrong with the first wrong line. It says nothing of the hash.
    pub(super) fn parse(content: &[u8]) -> Result<Self, String> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let mut file = Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            content: content.to_vec(),
            users: HashMap::new(),
            slowest: None,
        };
        let mut highest = 0;
        let text = std::str::from_utf8(content).map_err(|_| "it is no UTF-8".to_owned())?;
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, hash, cost) =
                parse_line(line).map_err(|error| format!("line {number}: {error}"))?;
            if cost > highest {
                highest = cost;
                file.slowest = Some(hash.to_owned());
            }
            file.users.insert(user.to_owned(), hash.to_owned());
        }
        Ok(file)
    }

    /// Another number for each content that was read.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Whether it was read from this content.
    pub(super) fn is_of(&self, content: &[u8]) -> bool {
        self.content == content
    }

    /// Whether this is the user's password. It takes as long for a user that is unknown, so that the time tells nobody
    /// which users there are.
    pub(super) fn verify(&self, user: &str, password: &[u8]) -> bool {
        let known = self.users.get(user);
        let Some(hash) = known.or(self.slowest.as_ref()) else {
            return false;
        };
        // It compares in constant time.
        bcrypt::verify(password, hash).unwrap_or(false) && known.is_some()
    }
}

/// User, hash and the hash's cost.
fn parse_line(line: &str) -> Result<(&str, &str, u32), String> {
    let (user, rest) = line.split_once(':').ok_or("expected USER:HASH")?;
    // Apache allows more fields after the hash.
    let hash = rest.split(':').next().unwrap_or_default();
    let parts: Result<HashParts, _> = hash.parse();
    let Ok(parts) = parts else {
        return Err(format!(
            "the password of {user:?} is no bcrypt hash (MD5, SHA and crypt are not supported); write it with `htpasswd -B`"
        ));
    };
    let cost = parts.get_cost();
    if cost > HIGHEST_COST {
        return Err(format!(
            "the password of {user:?} has the cost {cost}, more than {HIGHEST_COST}; write it with `htpasswd -B -C 10`"
        ));
    }
    Ok((user, hash, cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "alice:$2y$04$ALICE";

    fn hash(password: &str) -> String {
        let salt = *b"sixteen bytes ok";
        bcrypt::hash_with_salt(password, 4, salt)
            .unwrap()
            .to_string()
    }

    #[test]
    fn users_have_their_passwords_and_unknown_ones_none() {
        let text = format!(
            "# people\n\nalice:{}\r\nbob:{}:extra\n",
            hash("open"),
            hash("sesame")
        );
        let file = PasswordFile::parse(text.as_bytes()).unwrap();
        assert!(file.verify("alice", b"open") && file.verify("bob", b"sesame"));
        for (user, password) in [
            ("alice", "sesame"),
            ("alice", ""),
            ("carl", "open"),
            ("", ""),
        ] {
            assert!(!file.verify(user, password.as_bytes()), "{user}");
        }
        assert!(file.is_of(text.as_bytes()) && !file.is_of(b""));
        assert!(!PasswordFile::parse(b"").unwrap().verify("alice", b"open"));
    }

    #[test]
    fn other_hashes_are_named_with_their_line_and_not_shown() {
        for (text, expect) in [
            ("alice", "line 1: expected USER:HASH"),
            (
                "\ncarl:$apr1$abc$def",
                "line 2: the password of \"carl\" is no bcrypt hash",
            ),
            ("carl:{SHA}abc", "is no bcrypt hash"),
            ("carl:plain", "is no bcrypt hash"),
            (ALICE, "is no bcrypt hash"),
        ] {
            let error = PasswordFile::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(expect), "{error}");
            assert!(
                !error.contains("abc") && !error.contains("plain"),
                "{error}"
            );
        }
        let slow = hash("open").replace("$04$", "$15$");
        let error = PasswordFile::parse(format!("a:{slow}").as_bytes()).unwrap_err();
        assert!(error.contains("cost 15, more than 14"), "{error}");
        assert!(PasswordFile::parse(b"\xff:x").is_err());
    }
}
