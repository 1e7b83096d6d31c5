//! Basic authentication (RFC 7617, setting `basic_auth`): who is asked for a password, and whether it is right. bcrypt takes
//! its time on threads of its own, and its verdicts are remembered. It reads no file and answers nothing.

pub(super) mod password_file;
mod verdicts;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use exchange::scheduling::monotonic_ns;
use http::{HeaderMap, HeaderValue, header};

use crate::failure::Failure;
use crate::http::request::Request;
use crate::serve::file_threads::FileThreads;
use crate::serve::waiting::WaitingCount;
use password_file::PasswordFile;
use verdicts::Verdicts;

/// Threads that check passwords.
const PASSWORD_THREADS: usize = 2;
/// Requests whose password may wait to be checked.
const MAX_PASSWORDS: usize = 64;
/// How long a request waits for that.
const PASSWORD_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest user name and password, together.
const MAX_CREDENTIALS_BYTES: usize = 1024;

/// The passwords of one application, and what is known of those that clients sent.
#[derive(Debug, Default)]
pub(super) struct BasicAuth {
    /// Users by the file that the settings name.
    files: Mutex<HashMap<String, Arc<PasswordFile>>>,
    verdicts: Mutex<Verdicts>,
    /// Made with the first password.
    threads: OnceLock<FileThreads>,
    /// Requests whose password is being checked.
    waiting: WaitingCount,
}

/// What a client says who it is.
#[derive(PartialEq, Eq)]
struct Credentials {
    /// The user name, without control characters.
    user: String,
    password: Vec<u8>,
}

impl BasicAuth {
    /// Takes the content of a file that the settings name.
    ///
    /// # Errors
    /// What is wrong with it; the users that were known before stay.
    pub(super) fn set_file(&self, name: &str, content: &[u8]) -> Result<(), String> {
        let mut files = lock(&self.files);
        if files.get(name).is_some_and(|file| file.is_of(content)) {
            return Ok(());
        }
        files.insert(name.to_owned(), Arc::new(PasswordFile::parse(content)?));
        Ok(())
    }

    /// Lets a request pass that has a user of this file and the right password, and notes the user in it.
    ///
    /// # Errors
    /// It has none, or that cannot be checked now.
    pub(super) async fn check(&self, file: &str, request: &Request) -> Result<(), Failure> {
        let file = lock(&self.files).get(file).cloned();
        let file = file.ok_or(Failure::NotChecked("the file of passwords was not read"))?;
        let credentials = credentials(&request.headers).ok_or(Failure::Unauthorized)?;
        let (key, known) = {
            let verdicts = lock(&self.verdicts);
            let key = verdicts.key(&(file.id(), &credentials.user, &credentials.password));
            (key, verdicts.find(key, monotonic_ns()))
        };
        let user = credentials.user.clone();
        let is_right = match known {
            Some(verdict) => verdict,
            None => {
                let verdict = self.verify(file, credentials).await?;
                lock(&self.verdicts).remember(key, verdict, monotonic_ns());
                verdict
            }
        };
        match HeaderValue::from_str(&user) {
            Ok(user) if is_right => {
                request.set_user(user);
                Ok(())
            }
            _ => Err(Failure::Unauthorized),
        }
    }

    /// Has a thread check a password.
    async fn verify(
        &self,
        file: Arc<PasswordFile>,
        credentials: Credentials,
    ) -> Result<bool, Failure> {
        let busy = Failure::NotChecked("too many passwords wait to be checked");
        let _waiting = self.waiting.enter(MAX_PASSWORDS).ok_or(busy)?;
        if self.threads.get().is_none() {
            let threads = FileThreads::new("passwords", PASSWORD_THREADS);
            let threads = threads.map_err(|_| Failure::NotChecked("no thread can be had"))?;
            // Another edge may have been quicker; then its threads are used.
            let _ = self.threads.set(threads);
        }
        let threads = self.threads.get().ok_or(busy)?;
        let checked = threads.run(move || file.verify(&credentials.user, &credentials.password));
        match tokio::time::timeout(PASSWORD_TIMEOUT, checked).await {
            Ok(checked) => Ok(checked.unwrap_or(false)),
            Err(_) => Err(busy),
        }
    }
}

/// Nothing that a thread that panicked could leave there half done is believed without a check.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// User name and password of the one field Authorization; none where it is anything else (RFC 7617 section 2).
fn credentials(headers: &HeaderMap) -> Option<Credentials> {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return None;
    };
    let (scheme, code) = field.to_str().ok()?.split_once(' ')?;
    // Four characters stand for three bytes.
    let is_short = code.len() <= MAX_CREDENTIALS_BYTES / 3 * 4;
    if !scheme.eq_ignore_ascii_case("basic") || !is_short {
        return None;
    }
    let text = BASE64_STANDARD.decode(code.trim()).ok()?;
    let colon = text.iter().position(|&byte| byte == b':')?;
    let user = std::str::from_utf8(&text[..colon]).ok()?.to_owned();
    let is_name = !user.is_empty() && !user.chars().any(char::is_control);
    let password = text[colon + 1..].to_vec();
    is_name.then_some(Credentials { user, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_strictly() {
        let read = |fields: &[&str]| {
            let fields = fields.iter().map(|field| HeaderValue::from_str(field));
            let fields = fields.map(|field| (header::AUTHORIZATION, field.unwrap()));
            let found = credentials(&fields.collect());
            found.map(|found| (found.user, String::from_utf8(found.password).unwrap()))
        };
        let basic = |text: &[u8]| format!("Basic {}", BASE64_STANDARD.encode(text));
        let some = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(read(&[&basic(b"alice:open")]), some("alice", "open"));
        assert_eq!(read(&[&basic(b"alice:a:b")]), some("alice", "a:b"));
        assert_eq!(read(&[&basic(b"alice:")]), some("alice", ""));
        assert_eq!(read(&["bASIC  YTpi"]), some("a", "b"));
        for wrong in [
            "",
            "Basic",
            "Basic YTpi=",
            "Basic ***",
            "Bearer YTpi",
            &basic(b"alice"),
            &basic(b":open"),
            &basic(b"a\nb:c"),
            &basic(b"\xff:c"),
            &basic(&[b'a'; MAX_CREDENTIALS_BYTES * 2]),
        ] {
            assert_eq!(read(&[wrong]), None, "{wrong:?}");
        }
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[&basic(b"a:b"), &basic(b"a:b")]), None);
    }
}
