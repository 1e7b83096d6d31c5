//! Kinds of content, as a setting names them. Knows no response.

/// Patterns of media types: `text/html`, `text/*`, or `*json` for what ends so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaTypes {
    items: Vec<String>,
    exact: Vec<String>,
    /// Of `text/*`, without the star.
    beginnings: Vec<String>,
    /// Of `*json`, without the star.
    endings: Vec<String>,
}

impl MediaTypes {
    /// These patterns, or `none` alone.
    ///
    /// # Errors
    /// What is wrong with the first wrong one and what is allowed.
    pub(crate) fn parse(items: &[String]) -> Result<Self, String> {
        items.iter().try_for_each(|item| check_item(item))?;
        if items.len() > 1 && items.iter().any(|item| item == "none") {
            return Err("\"none\" must stand alone in the list".to_owned());
        }
        let mut types = Self {
            items: items.to_vec(),
            ..Self::default()
        };
        for item in items.iter().filter(|item| *item != "none") {
            let item = item.to_ascii_lowercase();
            if let Some(ending) = item.strip_prefix('*') {
                types.endings.push(ending.to_owned());
            } else if let Some(beginning) = item.strip_suffix('*') {
                types.beginnings.push(beginning.to_owned());
            } else {
                types.exact.push(item);
            }
        }
        Ok(types)
    }

    /// The patterns.
    pub(crate) fn items(&self) -> Vec<String> {
        self.items.clone()
    }

    /// Whether a value of Content-Type, parameters included, is of one of these types.
    pub fn cover(&self, content_type: &[u8]) -> bool {
        let end = content_type.iter().position(|&byte| byte == b';');
        let name = content_type[..end.unwrap_or(content_type.len())].trim_ascii();
        let begins = |beginning: &String| {
            let part = name.get(..beginning.len());
            part.is_some_and(|part| part.eq_ignore_ascii_case(beginning.as_bytes()))
        };
        let ends = |ending: &String| {
            let part = name.len().checked_sub(ending.len()).map(|at| &name[at..]);
            part.is_some_and(|part| part.eq_ignore_ascii_case(ending.as_bytes()))
        };
        let equals = |exact: &String| name.eq_ignore_ascii_case(exact.as_bytes());
        self.beginnings.iter().any(begins)
            || self.exact.iter().any(equals)
            || self.endings.iter().any(ends)
    }
}

/// What is allowed, in words that follow "a list of".
pub(crate) const ALLOWED: &str =
    "media types such as \"text/html\", \"text/*\" or \"*json\", or \"none\" alone";

/// # Errors
/// What is wrong with it and what is allowed.
pub(crate) fn check_item(text: &str) -> Result<(), String> {
    // RFC 6838 section 4.2.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+/".contains(&byte);
    let part = text.strip_prefix('*').or(text.strip_suffix('*'));
    let names = part.unwrap_or(text);
    let slashes = names.bytes().filter(|&byte| byte == b'/').count();
    let sound = !names.is_empty()
        && names.bytes().all(plain)
        && !names.starts_with('/') | text.starts_with('*')
        && !names.ends_with('/') | text.ends_with('*')
        && slashes <= 1
        && (slashes == 1 || part.is_some());
    match sound || text == "none" {
        true => Ok(()),
        false => Err(format!(
            "{text:?} is not allowed; expected a list of {ALLOWED}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(items: &[&str]) -> Result<MediaTypes, String> {
        let items: Vec<_> = items.iter().map(|item| (*item).to_owned()).collect();
        MediaTypes::parse(&items)
    }

    #[test]
    fn a_type_is_covered_by_its_name_its_family_or_its_suffix() {
        let types = types(&["text/*", "*+json", "Application/JSON", "*/wasm"]).unwrap();
        for covered in [
            "text/html",
            "TEXT/plain; charset=utf-8",
            " text/css ",
            "application/json",
            "application/json;charset=utf-8",
            "application/vnd.api+json",
            "application/wasm",
            "application/ld+JSON ; x=\"y\"",
        ] {
            assert!(types.cover(covered.as_bytes()), "{covered}");
        }
        for other in [
            "",
            ";",
            "text",
            "application/jsonp",
            "application/xml",
            "image/png; x=text/html",
            "application/x; a=b+json",
            "+jso",
        ] {
            assert!(!types.cover(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn patterns_that_are_none_are_errors() {
        assert!(!types(&["none"]).unwrap().cover(b"none"));
        for sound in [
            "text/html",
            "text/*",
            "text/h*",
            "*json",
            "*/json",
            "a/b+c.d-e",
        ] {
            assert!(types(&[sound]).is_ok(), "{sound}");
        }
        for wrong in [
            "",
            "*",
            "**",
            "*/*",
            "text/",
            "/html",
            "text",
            "te xt/html",
            "a/b/c",
            "a*b/c",
        ] {
            assert!(types(&[wrong]).is_err(), "{wrong}");
        }
        assert!(types(&["none", "text/*"]).is_err());
    }
}
