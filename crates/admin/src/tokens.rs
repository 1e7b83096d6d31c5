//! The tokens of `admin_tokens_file`. A token is never kept: only its SHA-256 is, and digests of the same length are compared
//! in constant time, each one of them, whatever was sent.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// The shortest token, in characters: nobody guesses one.
const MIN_TOKEN_LENGTH: usize = 32;
/// The longest token, in characters.
const MAX_TOKEN_LENGTH: usize = 256;
/// The most tokens of a file.
const MAX_TOKENS: usize = 32;

/// The tokens that are accepted. None accepts nobody.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tokens(Vec<[u8; 32]>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

/// Why a file of tokens is not used. No message has a token in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    /// A token is too short or too long, or has characters that no header can carry.
    #[error(
        "line {0}: a token has {MIN_TOKEN_LENGTH} to {MAX_TOKEN_LENGTH} visible characters of ASCII and no space: make one with \
         `openssl rand -hex 32`"
    )]
    Malformed(usize),
    /// There are too many.
    #[error("there are more than {MAX_TOKENS} tokens")]
    TooMany,
}

impl Tokens {
    /// Reads the text of a file: one token a line. Empty lines and those that begin with `#` are no tokens.
    ///
    /// # Errors
    /// A line is no token.
    pub fn parse(text: &str) -> Result<Self, TokensError> {
        let mut tokens = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let length = MIN_TOKEN_LENGTH..=MAX_TOKEN_LENGTH;
            if !length.contains(&line.len()) || !line.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(TokensError::Malformed(number + 1));
            }
            if tokens.len() == MAX_TOKENS {
                return Err(TokensError::TooMany);
            }
            tokens.push(Sha256::digest(line).into());
        }
        Ok(Self(tokens))
    }

    /// Number of tokens.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether the value of an `Authorization` field holds one of the tokens: `Bearer TOKEN` (RFC 6750 section 2.1).
    pub fn accept(&self, authorization: &[u8]) -> bool {
        let (scheme, sent) = match authorization.split_at_checked(b"Bearer ".len()) {
            Some(parts) => parts,
            None => return false,
        };
        if !scheme.eq_ignore_ascii_case(b"Bearer ") {
            return false;
        }
        let sent: [u8; 32] = Sha256::digest(sent).into();
        let none = Choice::from(0);
        let accepted = self
            .0
            .iter()
            .fold(none, |found, one| found | one.ct_eq(&sent));
        accepted.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn only_a_whole_token_with_its_scheme_is_accepted() {
        let tokens = Tokens::parse(&format!("# of the monitoring\n\n {TOKEN} \n")).unwrap();
        assert_eq!(tokens.count(), 1);
        for (sent, expect) in [
            (format!("Bearer {TOKEN}"), true),
            (format!("bearer {TOKEN}"), true),
            (TOKEN.to_owned(), false),
            (format!("Basic {TOKEN}"), false),
            (format!("Bearer  {TOKEN}"), false),
            (format!("Bearer {TOKEN} "), false),
            (format!("Bearer {}", &TOKEN[1..]), false),
            ("Bearer ".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(tokens.accept(sent.as_bytes()), expect, "{sent:?}");
        }
    }

    #[test]
    fn an_empty_list_accepts_nobody() {
        let none = Tokens::parse("\n# nobody\n").unwrap();
        assert!(!none.accept(b"Bearer "));
        assert!(!none.accept(format!("Bearer {TOKEN}").as_bytes()));
    }

    #[test]
    fn weak_tokens_are_refused_and_never_shown() {
        for bad in ["short", &TOKEN.replace('a', " "), &"x".repeat(257)] {
            let error = Tokens::parse(&format!("{TOKEN}\n{bad}\n")).unwrap_err();
            assert_eq!(error, TokensError::Malformed(2));
            assert!(!error.to_string().contains(bad));
        }
        let many = format!("{TOKEN}\n").repeat(MAX_TOKENS + 1);
        assert_eq!(Tokens::parse(&many).unwrap_err(), TokensError::TooMany);
        let tokens = Tokens::parse(TOKEN).unwrap();
        assert_eq!(format!("{tokens:?}"), "Tokens(1)");
    }
}
