//! Why a certificate could not be ordered, in words for people and with what follows from it. Decides no time.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use http_client::chain;
use instant_acme::{Error, Problem};
use thiserror::Error as ThisError;

use crate::text::one_line;

/// What every problem type of RFC 8555 section 6.7 begins with.
const PROBLEM_TYPE: &str = "urn:ietf:params:acme:error:";

/// What is wrong with a plan.
#[derive(Debug, ThisError)]
pub enum PlanError {
    /// A name that no certificate can have.
    #[error("{0:?} is no host name that a certificate can have: {1}")]
    Name(String, &'static str),
    /// A set of names that is too long for the name of its folder.
    #[error("the names {0} are too long together for one certificate")]
    TooManyNames(String),
    /// The address of the certificate authority.
    #[error("{0:?} is no https:// address of an ACME directory")]
    Directory(String),
    /// The address that decides about names.
    #[error("{0:?} is no http:// or https:// address")]
    AskUrl(String),
    /// The key of an external account.
    #[error("the key of the external account in {0} is not base64url: {1}")]
    ExternalKey(PathBuf, String),
    /// A file that was named.
    #[error("cannot read {0}: {1}")]
    File(PathBuf, std::io::Error),
    /// The certificates to trust.
    #[error("{0}")]
    Roots(String),
    /// The thread could not be started.
    #[error("cannot start the thread for certificates: {0}")]
    Thread(std::io::Error),
}

/// Whose fault it is; decides how long the next attempt waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The certificate authority could not be reached, or answered something that is no ACME. No order was counted.
    Unreachable,
    /// The certificate authority refused, or could not validate a name.
    Refused,
    /// The same, because of a rate limit.
    RateLimited,
    /// The storage cannot be read or written. The certificate authority was not asked.
    Storage,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    /// One line, escaped.
    pub(crate) text: String,
    /// The problem type without its prefix, such as `rateLimited`, where the certificate authority gave one.
    pub(crate) problem: Option<String>,
    /// When the certificate authority wants to be asked again.
    pub(crate) retry_after: Option<SystemTime>,
}

impl Failure {
    pub(crate) fn new(cause: Cause, text: &str) -> Self {
        Self {
            cause,
            text: one_line(text),
            problem: None,
            retry_after: None,
        }
    }

    /// A file or folder of the storage that cannot be used.
    pub(crate) fn storage(what: &str, path: &Path, error: &std::io::Error) -> Self {
        let text = format!("cannot {what} {}: {error}", path.display());
        Self::new(Cause::Storage, &text)
    }

    /// What instant-acme returned while `what` was done.
    pub(crate) fn acme(what: &str, error: &Error, retry_after: Option<SystemTime>) -> Self {
        let mut failure = match error {
            Error::Api(problem) => Self::problem(what, problem),
            other => Self::new(Cause::Unreachable, &format!("{what}: {}", chain(other))),
        };
        failure.retry_after = retry_after;
        failure
    }

    /// What the certificate authority said in its own words.
    pub(crate) fn problem(what: &str, problem: &Problem) -> Self {
        let kind = problem_type(problem);
        let mut text = format!("{what}: {}", words(problem));
        for sub in &problem.subproblems {
            // Many authorities repeat the only one in the problem's own detail.
            let detail = sub.detail.as_deref().unwrap_or("");
            if let Some(identifier) = &sub.identifier
                && !text.contains(detail)
            {
                let name = identifier.authorized(false);
                text.push_str(&format!("; {name}: {detail}"));
            }
        }
        let cause = match kind.as_deref() {
            Some("rateLimited") => Cause::RateLimited,
            Some("serverInternal") => Cause::Unreachable,
            _ => Cause::Refused,
        };
        Self {
            problem: kind,
            ..Self::new(cause, &text)
        }
    }
}

/// The detail of a problem with its type.
fn words(problem: &Problem) -> String {
    let kind = problem_type(problem).map(|kind| one_line(&kind));
    match (&problem.detail, kind) {
        (Some(detail), Some(kind)) => format!("{detail} ({kind})"),
        (Some(detail), None) => detail.clone(),
        (None, Some(kind)) => kind,
        (None, None) => "the certificate authority gave no reason".to_owned(),
    }
}

/// A problem's type, without the prefix that all of ACME's have.
pub(crate) fn problem_type(problem: &Problem) -> Option<String> {
    let kind = problem.r#type.as_deref()?;
    Some(kind.strip_prefix(PROBLEM_TYPE).unwrap_or(kind).to_owned())
}

/// Whether the nonce of a request was refused, after which the same request may be sent again (RFC 8555 section 6.5).
pub(crate) fn is_bad_nonce(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if problem_type(problem).as_deref() == Some("badNonce"))
}
