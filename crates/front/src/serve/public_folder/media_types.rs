//! The media type of a file by the end of its name, as `Rack::Mime` has it: `media_types.txt` is its table. Each line has an
//! ending, the type in Rack 3, and the type in Rack 2 where that is another; `-` stands for none.

use std::collections::HashMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("media_types.txt");

/// The types of an ending.
struct Types {
    rack_3: Option<&'static str>,
    rack_2: Option<&'static str>,
}

static TYPES: LazyLock<HashMap<&'static str, Types>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let ending = words.next()?;
        let rack_3 = words.next()?;
        let rack_2 = words.next().unwrap_or(rack_3);
        let known = |word| Some(word).filter(|&word| word != "-");
        let (rack_3, rack_2) = (known(rack_3), known(rack_2));
        Some((ending, Types { rack_3, rack_2 }))
    });
    lines.collect()
});

/// The type of a file with this name, if it has an ending that is known. `rack` is the application's major version of Rack.
pub fn find(name: &str, rack: u32) -> Option<&'static str> {
    let dot = name.rfind('.').filter(|&dot| dot > 0)?;
    let types = TYPES.get(name[dot + 1..].to_ascii_lowercase().as_str())?;
    match rack {
        0..=2 => types.rack_2,
        _ => types.rack_3,
    }
}

/// Whether files of this type may have siblings that are compressed: of others a file with such a name is one of its own.
pub fn is_compressible(media_type: &str) -> bool {
    const OTHERS: [&str; 8] = [
        "application/javascript",
        "application/json",
        "application/manifest+json",
        "application/rss+xml",
        "application/wasm",
        "application/xml",
        "image/svg+xml",
        "image/x-icon",
    ];
    media_type.starts_with("text/") || OTHERS.contains(&media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_those_of_the_version_of_rack() {
        for (name, rack_2, rack_3) in [
            ("a.css", Some("text/css"), Some("text/css")),
            ("A.HTML", Some("text/html"), Some("text/html")),
            (
                "a.min.js",
                Some("application/javascript"),
                Some("text/javascript"),
            ),
            ("a.mjs", None, Some("text/javascript")),
            (
                "a.woff2",
                Some("application/font-woff2"),
                Some("font/woff2"),
            ),
            ("a.c++", None, None),
            ("a.", None, None),
            ("a", None, None),
            (".css", None, None),
        ] {
            assert_eq!(find(name, 2), rack_2, "{name}");
            assert_eq!(find(name, 3), rack_3, "{name}");
        }
    }

    #[test]
    fn every_line_of_the_table_is_a_header_value() {
        for line in TABLE.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            assert!(matches!(words.len(), 2 | 3), "{line}");
            for word in &words[1..] {
                assert!(http::HeaderValue::from_str(word).is_ok(), "{line}");
            }
        }
        assert_eq!(TYPES.len(), TABLE.lines().count());
    }
}
