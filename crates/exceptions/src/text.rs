//! Texts of applications as others may see them: without control characters, and of a bounded length. Knows no exception.

use serde_json::{Map, Value};

/// The deepest nesting of values that is kept.
const MAX_DEPTH: usize = 6;

/// Returns the text with its control characters, and those that turn the direction of writing, escaped: `\n`, `\u{1b}`. Of
/// a longer one at most `limit` bytes, and three dots.
pub(crate) fn clean(text: &str, limit: usize) -> String {
    let mut cleaned = String::with_capacity(text.len().min(limit));
    for character in text.chars() {
        let before = cleaned.len();
        match is_harmful(character) {
            true => cleaned.extend(character.escape_default()),
            false => cleaned.push(character),
        }
        if cleaned.len() > limit {
            cleaned.truncate(before);
            cleaned.push_str("...");
            break;
        }
    }
    cleaned
}

/// Whether a character does something to a terminal or to the text around it.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The same for each text in a map, names included. What is nested too deeply becomes three dots.
pub(crate) fn clean_map(map: Map<String, Value>, limit: usize) -> Map<String, Value> {
    clean_entries(map, limit, MAX_DEPTH)
}

fn clean_entries(map: Map<String, Value>, limit: usize, depth: usize) -> Map<String, Value> {
    map.into_iter()
        .map(|(name, value)| (clean(&name, limit), clean_nested(value, limit, depth)))
        .collect()
}

fn clean_nested(value: Value, limit: usize, depth: usize) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text, limit)),
        Value::Array(_) | Value::Object(_) if depth == 0 => Value::String("...".to_owned()),
        Value::Array(items) => {
            let items = items.into_iter();
            Value::Array(
                items
                    .map(|one| clean_nested(one, limit, depth - 1))
                    .collect(),
            )
        }
        Value::Object(map) => Value::Object(clean_entries(map, limit, depth - 1)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_turned_text_are_escaped() {
        let rows = [
            ("plain übung", "plain übung"),
            ("a\nb\tc", "a\\nb\\tc"),
            ("\u{1b}[31mred\u{7}", "\\u{1b}[31mred\\u{7}"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
            ("\u{9b}31m", "\\u{9b}31m"),
        ];
        for (text, expected) in rows {
            assert_eq!(clean(text, 100), expected);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(clean("üüü", 4), "üü...");
        assert_eq!(clean("abc", 3), "abc");
        assert_eq!(clean("ab\n", 3), "ab...");
    }

    #[test]
    fn nested_values_are_cleaned_and_cut_at_a_depth() {
        let mut value = Value::String("x\n".to_owned());
        for _ in 0..20 {
            value = Value::Array(vec![value]);
        }
        let text = clean_nested(value, 10, MAX_DEPTH).to_string();
        assert_eq!(text, r#"[[[[[["..."]]]]]]"#);
        let map = serde_json::json!({"a\u{7}": {"b": "c\n"}, "n": 1});
        let Value::Object(map) = map else { panic!() };
        let cleaned = Value::Object(clean_map(map, 10)).to_string();
        assert_eq!(cleaned, r#"{"a\\u{7}":{"b":"c\\n"},"n":1}"#);
    }
}
