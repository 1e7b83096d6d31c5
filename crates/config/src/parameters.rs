//! Words that make a parameter of a query secret, as Rails' `filter_parameters` has them. Knows no query.

/// Parts of parameter names; a name that holds one of them, in capitals or not, is meant.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterNames {
    words: Vec<String>,
    /// Whether a word begins with this byte: most bytes of a name are of no interest.
    begins: [bool; 256],
}

impl Default for ParameterNames {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl ParameterNames {
    /// These words, or `none` alone.
    ///
    /// # Errors
    /// What is wrong with the first wrong one and what is allowed.
    pub(crate) fn parse(items: &[String]) -> Result<Self, String> {
        items.iter().try_for_each(|item| check_item(item))?;
        let words: Vec<String> = match items {
            [only] if only == "none" => Vec::new(),
            items if items.iter().any(|item| item == "none") => {
                return Err("\"none\" must stand alone in the list".to_owned());
            }
            items => items.to_vec(),
        };
        Ok(Self::of(words))
    }

    fn of(words: Vec<String>) -> Self {
        let mut begins = [false; 256];
        for &byte in words.iter().filter_map(|word| word.as_bytes().first()) {
            begins[usize::from(byte.to_ascii_lowercase())] = true;
            begins[usize::from(byte.to_ascii_uppercase())] = true;
        }
        Self { words, begins }
    }

    /// Returns these words and more; of those that come from an application the ones that a name can hold.
    #[must_use]
    pub fn with(&self, words: &[String]) -> Self {
        let mut all = self.words.clone();
        for word in words.iter().filter(|word| check_item(word).is_ok()) {
            // A word that holds another one adds nothing.
            if !all.iter().any(|known| word.contains(known.as_str())) {
                all.push(word.clone());
            }
        }
        Self::of(all)
    }

    /// The words.
    pub(crate) fn items(&self) -> Vec<String> {
        match self.words.as_slice() {
            [] => vec!["none".to_owned()],
            words => words.to_vec(),
        }
    }

    /// The words; none where nothing is filtered.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether the name of a parameter, as the client sent it, holds one of the words.
    pub fn cover(&self, name: &[u8]) -> bool {
        if name.contains(&b'%') {
            self.are_in(&unescaped(name))
        } else {
            self.are_in(name)
        }
    }

    fn are_in(&self, name: &[u8]) -> bool {
        (0..name.len())
            .filter(|&at| self.begins[usize::from(name[at])])
            .any(|at| {
                let begins = |word: &String| {
                    let part = name.get(at..at + word.len());
                    part.is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes()))
                };
                self.words.iter().any(begins)
            })
    }
}

/// What is allowed, in words that follow "a list of".
pub(crate) const ALLOWED: &str =
    "parts of parameter names, of letters, digits and `_ - . [ ]`, or \"none\" alone";

/// # Errors
/// What is wrong with it and what is allowed.
pub(crate) fn check_item(text: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        Ok(())
    } else {
        Err(format!(
            "{text:?} is not allowed; expected a list of {ALLOWED}"
        ))
    }
}

/// The name with its escapes undone (RFC 3986 section 2.1).
fn unescaped(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| {
            after
                .get(at)
                .and_then(|&digit| char::from(digit).to_digit(16))
        };
        let code = digit(0)
            .zip(digit(1))
            .map(|(high, low)| (high * 16 + low) as u8);
        match code.filter(|_| byte == b'%') {
            Some(code) => {
                plain.push(code);
                rest = &after[2..];
            }
            None => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Result<ParameterNames, String> {
        ParameterNames::parse(
            &words
                .iter()
                .map(|word| word.to_string())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn a_name_is_meant_that_holds_a_word_however_it_is_spelled() {
        let names = names(&["passw", "_key", "Token"]).unwrap();
        for name in [
            "passw",
            "user[password]",
            "PASSWORD_CONFIRMATION",
            "api_key",
            "_key",
            "tokens",
            "t%6Fken",
            "user%5Bpassword%5D",
            "%70%41ssw",
        ] {
            assert!(names.cover(name.as_bytes()), "{name}");
        }
        for name in [
            "", "pass", "key", "monkey", "toke", "%74oke", "%", "%7", "pas%zzsw",
        ] {
            assert!(!names.cover(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn words_of_the_application_are_added() {
        let words = ["iban", "tokens", "a b", ""].map(str::to_owned);
        let names = names(&["token"]).unwrap().with(&words);
        assert_eq!(names.items(), ["token", "iban"]);
        assert!(names.cover(b"user[iban]") && names.cover(b"token") && !names.cover(b"a b"));
    }

    #[test]
    fn none_stands_alone_and_words_are_plain() {
        assert!(names(&["none"]).unwrap().is_empty());
        assert!(!names(&["none"]).unwrap().cover(b"none"));
        assert!(names(&["none", "a"]).is_err());
        for word in ["", "a b", "a=b", "a&b", "a%", "\u{e9}"] {
            assert!(names(&[word]).is_err(), "{word}");
        }
    }
}
