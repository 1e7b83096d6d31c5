//! Which file a request's path may mean, in the order of Rails' `ActionDispatch::Static`. It asks no file system.
//!
//! Where Rails might see another file in a path than this does, or one that is not for everybody, there is none: the
//! application then answers, as if this step did not exist.

use super::digested;
use super::media_types;

/// Longer paths are the application's.
const MAX_PATH_BYTES: usize = 2048;

/// A file that a path may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Below the root.
    pub path: String,
    /// Its media type.
    pub media_type: &'static str,
}

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The files that it may mean; the first that is there is meant.
    pub candidates: Vec<Candidate>,
    /// Whether its name changes with its content.
    pub digested: bool,
}

/// Returns what the path of a request asks for; `index` is the name of a folder's own page, `rack` the major version of
/// the application's Rack.
pub fn find(path: &[u8], index: &str, rack: u32) -> Option<Target> {
    if path.len() > MAX_PATH_BYTES {
        return None;
    }
    let plain = decode(path.strip_prefix(b"/")?)?;
    let plain = String::from_utf8(plain).ok()?;
    if plain.contains(|char: char| char.is_control() || char == '\\') {
        return None;
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in plain.split('/') {
        match segment {
            "" | "." => {}
            // A parent folder, or a file that nobody is to see.
            hidden if hidden.starts_with('.') => return None,
            segment => segments.push(segment),
        }
    }
    let name = segments.last().copied().unwrap_or_default();
    if is_private(name) {
        return None;
    }
    let clean = segments.join("/");
    let known = media_types::find(name, rack);
    let mut candidates = Vec::new();
    if !clean.is_empty() {
        candidates.push(Candidate {
            path: clean.clone(),
            media_type: known.unwrap_or("text/plain"),
        });
    }
    if known.is_none() {
        let slash = if clean.is_empty() { "" } else { "/" };
        let page = |path| Candidate {
            path,
            media_type: "text/html",
        };
        if !clean.is_empty() {
            candidates.push(page(format!("{clean}.html")));
        }
        candidates.push(page(format!("{clean}{slash}{index}.html")));
    }
    let digested = known.is_some() && digested::is_digested(&segments);
    Some(Target {
        candidates,
        digested,
    })
}

/// Undoes percent-encoding; none where it is malformed.
fn decode(path: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(path.len());
    let mut bytes = path.iter();
    while let Some(&byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || char::from(*bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        };
        plain.push(byte);
    }
    Some(plain)
}

/// Whether a file is Ruby's, or a list of the files that were built.
fn is_private(name: &str) -> bool {
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let list = stem == "manifest" || stem.starts_with("manifest-");
    match ending {
        "rb" | "ru" | "erb" => true,
        "yml" | "yaml" => list,
        // `manifest.json` itself is also the name of what describes an application to browsers.
        "json" => stem.starts_with("manifest-"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(path: &str) -> Option<Vec<String>> {
        let target = find(path.as_bytes(), "index", 2)?;
        let candidates = target.candidates.into_iter();
        Some(candidates.map(|candidate| candidate.path).collect())
    }

    #[test]
    fn candidates_come_in_the_order_of_rails() {
        for (path, expected) in [
            ("/", &["index.html"][..]),
            ("//", &["index.html"]),
            ("/a.css", &["a.css"]),
            ("/a.css/", &["a.css"]),
            ("/a", &["a", "a.html", "a/index.html"]),
            ("/a/", &["a", "a.html", "a/index.html"]),
            ("/a.b", &["a.b", "a.b.html", "a.b/index.html"]),
            ("/a.html", &["a.html"]),
            ("/a//./b", &["a/b", "a/b.html", "a/b/index.html"]),
            ("/%61%2Fb.css", &["a/b.css"]),
            ("/caf%C3%A9.css", &["café.css"]),
            ("/a%20b+c.css", &["a b+c.css"]),
            ("/manifest.json", &["manifest.json"]),
        ] {
            assert_eq!(
                paths(path),
                Some(expected.iter().map(|&path| path.to_owned()).collect()),
                "{path}"
            );
        }
        let types = find(b"/a.css", "index", 2).expect("a target").candidates;
        assert_eq!(types[0].media_type, "text/css");
        let types = find(b"/a", "home", 2).expect("a target").candidates;
        assert_eq!(
            (types[0].media_type, types[1].media_type),
            ("text/plain", "text/html")
        );
        assert_eq!(types[2].path, "a/home.html");
    }

    #[test]
    fn what_could_mean_more_than_a_file_is_the_applications() {
        for path in [
            "",
            "a",
            "*",
            "/..",
            "/../a.css",
            "/a/../b.css",
            "/%2e%2e/a.css",
            "/%2E./a.css",
            "/a/%2e%2e%2fb.css",
            "/..%5ca.css",
            "/a%5c..%5cb.css",
            "/a\\b.css",
            "/%00.css",
            "/a%00.css",
            "/a%0a.css",
            "/a%7f.css",
            "/%",
            "/%2",
            "/%zz.css",
            "/%ff.css",
            "/%c0%ae%c0%ae/a.css",
            "/%c3.css",
            "/.env",
            "/.well-known/a.txt",
            "/a/.git/config",
            "/assets/.sprockets-manifest-0123456789abcdef0123456789abcdef.json",
            "/assets/manifest-0123456789abcdef.json",
            "/assets/manifest.yml",
            "/a.rb",
            "/config.ru",
        ] {
            assert_eq!(paths(path), None, "{path}");
        }
        assert_eq!(paths(&format!("/{}.css", "a".repeat(MAX_PATH_BYTES))), None);
    }
}
