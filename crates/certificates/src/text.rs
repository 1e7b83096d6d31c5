//! Text from outside (a certificate authority's words, names of issuers) as one bounded line. Never interprets it.

/// More of a text from outside is cut off, in bytes.
const MAX_FOREIGN_TEXT_BYTES: usize = 1000;

/// One line without control characters or characters that change the direction of text; at most
/// [`MAX_FOREIGN_TEXT_BYTES`] long, and marked where it was cut.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for character in text.trim().chars() {
        if line.len() >= MAX_FOREIGN_TEXT_BYTES {
            line.push('…');
            break;
        }
        match character {
            '\n' | '\r' | '\t' => line.push(' '),
            c if c.is_control() || changes_direction(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
    }
    line
}

/// Marks and overrides of direction, with which a text may look like another one; line and paragraph separators.
fn changes_direction(character: char) -> bool {
    matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_one_line_without_control_characters() {
        assert_eq!(one_line(" a\nb\u{1b}[31m "), "a b\\u{1b}[31m");
        assert_eq!(one_line("x\u{202e}y"), "x\\u{202e}y");
        assert_eq!(one_line("größer"), "größer");
    }

    #[test]
    fn text_from_outside_is_cut_at_its_limit() {
        let cut = one_line(&"é".repeat(MAX_FOREIGN_TEXT_BYTES));
        assert!(cut.len() <= MAX_FOREIGN_TEXT_BYTES + 4, "{}", cut.len());
        assert!(cut.ends_with('…'));
    }
}
