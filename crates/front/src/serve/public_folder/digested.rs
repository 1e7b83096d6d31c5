//! Whether the name of a file has a digest of its content, so that it never changes. It reads no file.
//!
//! A name that only looks so would be kept by browsers for a year. So a word of letters alone is no digest.

/// Folders whose files are built with digests in their names.
const FOLDERS: [&str; 2] = ["assets", "packs"];
/// Folders whose names begin so are too.
const FOLDER_PREFIX: &str = "vite";
/// Shortest and longest digest, as Propshaft has them.
const DIGEST_CHARACTERS: std::ops::RangeInclusive<usize> = 7..=128;
/// Letters of both cases without a digit are a digest where they have this length: that of Vite.
const VITE_CHARACTERS: usize = 8;

/// Whether the file with these segments of its path below the root has such a name: `application-1a2b3c4d.css`.
pub fn is_digested(segments: &[&str]) -> bool {
    let Some((&name, folders)) = segments.split_last() else {
        return false;
    };
    let Some(folder) = folders.first() else {
        return false;
    };
    if !FOLDERS.contains(folder) && !folder.starts_with(FOLDER_PREFIX) {
        return false;
    }
    // The last part is the ending; the first belongs to the name itself.
    let Some((stem, _)) = name.rsplit_once('.') else {
        return false;
    };
    let words = stem.split(['-', '.']).skip(1);
    words.into_iter().any(is_digest)
}

fn is_digest(word: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    if !DIGEST_CHARACTERS.contains(&word.len()) || !word.bytes().all(|b| b.is_ascii_alphanumeric())
    {
        return false;
    }
    let hex = word.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let digit = has(u8::is_ascii_digit);
    let mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    match hex {
        true => digit,
        false if digit => mixed || has(u8::is_ascii_uppercase) || word.len() >= 20,
        false => mixed && word.len() == VITE_CHARACTERS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_recognised_and_a_word_is_not() {
        for (path, expected) in [
            // Sprockets, Propshaft, Webpacker, Shakapacker, Vite.
            (
                "assets/application-3e1a0b1b9f0e4d3c8f2b7a6d5c4b3a291807f6e5d4c3b2a1908f7e6d5c4b3a29.css",
                true,
            ),
            (
                "assets/application-d41d8cd98f00b204e9800998ecf8427e.js",
                true,
            ),
            ("assets/fonts/icon-1a2b3c4d.woff2", true),
            ("assets/application-1a2b3c4d.js.map", true),
            ("packs/js/application-5cd7a2c0e6f1d3b49a8b.js", true),
            ("packs/main.5cd7a2c0e6f1d3b49a8b.chunk.js", true),
            ("vite/assets/application-DiwrgTda.js", true),
            ("vite-test/assets/index-4sK3FQxz.css", true),
            ("vite/assets/application.4ed993c7.js", true),
            // Words, versions, other folders.
            ("assets/some-library.js", false),
            ("assets/application-desktop.css", false),
            ("assets/jquery-3.7.1.min.js", false),
            ("assets/jquery-migrate.js", false),
            ("assets/plain.css", false),
            ("assets/1a2b3c4d.css", false),
            ("assets/a-1a2b3c4d", false),
            ("assets/a-1a2b3c.css", false),
            ("assets/lib-version2.js", false),
            ("images/a-1a2b3c4d.png", false),
            ("a-1a2b3c4d.css", false),
        ] {
            let segments: Vec<&str> = path.split('/').collect();
            assert_eq!(is_digested(&segments), expected, "{path}");
        }
        assert!(!is_digested(&[]));
    }
}
