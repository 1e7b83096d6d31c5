//! Which file a response of the application names: as its body (`to_path`), or by a field where the settings allow that. It
//! opens none.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use config::Settings;
use http::HeaderMap;
use http::header::{self, HeaderName};

/// The field that names a file by its path.
const X_SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");
/// The field that names a file by a path of the setting `accel_redirects`.
const X_ACCEL_REDIRECT: HeaderName = HeaderName::from_static("x-accel-redirect");

/// A file that a response names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Its path.
    pub path: PathBuf,
    /// The folders that it must be in; none where it may be anywhere, for the worker has opened it.
    pub roots: Option<Vec<PathBuf>>,
}

/// Takes the field that names a file out of a response. None: there is none, or the settings do not allow it, and then it is
/// a field like any other, for a proxy in front of this server may follow it.
///
/// # Errors
/// What is wrong with the field.
pub fn take_field(
    settings: &Settings,
    headers: &mut HeaderMap,
) -> Result<Option<NamedFile>, &'static str> {
    let mut named = None;
    if !settings.sendfile_roots.is_empty()
        && let Some(path) = headers.remove(X_SENDFILE)
    {
        let path = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
        if !path.is_absolute() {
            return Err("its X-Sendfile is not an absolute path");
        }
        let roots = settings.sendfile_roots.iter().map(PathBuf::from);
        named = Some(NamedFile {
            path,
            roots: Some(roots.collect()),
        });
    }
    if !settings.accel_redirects.is_empty()
        && let Some(target) = headers.remove(X_ACCEL_REDIRECT)
    {
        let file = mapped(settings, target.as_bytes());
        named = Some(file.ok_or("its X-Accel-Redirect is not below a path of accel_redirects")?);
    }
    if named.is_some() {
        // That of the body, which is empty (Rack::Sendfile).
        headers.remove(header::CONTENT_LENGTH);
    }
    Ok(named)
}

/// The file that a path of `accel_redirects` stands for.
fn mapped(settings: &Settings, target: &[u8]) -> Option<NamedFile> {
    let path = target.split(|&byte| byte == b'?').next()?;
    let path = unescape(path);
    let below = |prefix: &str| {
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix).as_bytes();
        path.strip_prefix(prefix)?.strip_prefix(b"/")
    };
    let rules = settings.accel_redirects.iter();
    let fitting = rules.filter_map(|(prefix, folder)| Some((below(prefix)?, folder)));
    // The longest prefix leaves the least.
    let (rest, folder) = fitting.min_by_key(|(rest, _)| rest.len())?;
    let rest = Path::new(OsStr::from_bytes(rest));
    // One that begins with a slash would take the folder's place.
    rest.is_relative().then(|| NamedFile {
        path: Path::new(folder).join(rest),
        roots: Some(vec![PathBuf::from(folder)]),
    })
}

/// A path without its escapes (RFC 3986 section 2.1). A percent sign that begins none stays.
fn unescape(path: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut plain = Vec::with_capacity(path.len());
    let mut at = 0;
    while at < path.len() {
        let code = (path[at] == b'%').then(|| {
            let (high, low) = (digit(path.get(at + 1))?, digit(path.get(at + 2))?);
            u8::try_from(high * 16 + low).ok()
        });
        match code.flatten() {
            Some(code) => {
                plain.push(code);
                at += 3;
            }
            None => {
                plain.push(path[at]);
                at += 1;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn settings(roots: &str, redirects: &str) -> Settings {
        let sources = config::Sources {
            flags: vec![
                ("sendfile_roots".to_owned(), roots.to_owned()),
                ("accel_redirects".to_owned(), redirects.to_owned()),
            ],
            dir: std::env::temp_dir(),
            config: None,
            env: Vec::new(),
        };
        Settings::load(sources).unwrap()
    }

    fn path(settings: &Settings, name: &'static str, value: &'static str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        let named = take_field(settings, &mut headers).ok()??;
        assert!(headers.is_empty());
        Some(named.path.to_string_lossy().into_owned())
    }

    #[test]
    fn a_field_that_no_setting_allows_is_a_field_like_any_other() {
        let settings = settings("none", "none");
        let mut headers = HeaderMap::new();
        for name in [X_SENDFILE, X_ACCEL_REDIRECT] {
            headers.insert(name, HeaderValue::from_static("/a"));
        }
        assert_eq!(take_field(&settings, &mut headers), Ok(None));
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn an_internal_path_stands_for_a_file_of_its_folder() {
        let settings = settings("/files", "/a=/one,/a/b/=/two,/c=/three");
        for (value, expected) in [
            ("/a/x", Some("/one/x")),
            ("/a/x%20y%2Fz?q", Some("/one/x y/z")),
            ("/a/100%", Some("/one/100%")),
            ("/a/b/x", Some("/two/x")),
            ("/a/bx", Some("/one/bx")),
            // Where it is then is checked when it is opened.
            ("/a/../x", Some("/one/../x")),
            ("/a//etc/passwd", None),
            ("/a/%2Fetc/passwd", None),
            ("/ax", None),
            ("/a", None),
            ("/d/x", None),
            ("a/x", None),
            ("", None),
        ] {
            let found = path(&settings, "x-accel-redirect", value);
            assert_eq!(found.as_deref(), expected, "{value}");
        }
        for (value, expected) in [("/x/y", Some("/x/y")), ("x/y", None), ("", None)] {
            let found = path(&settings, "x-sendfile", value);
            assert_eq!(found.as_deref(), expected, "{value}");
        }
    }
}
