//! How Ruby itself runs, as a template says it. A template of another user may say anything, so this bounds it and leaves
//! nothing in it that a terminal acts upon. Decides nothing.

use exchange::control::RuntimeOption;

/// The most options that a template may name; there are five.
const MAX_RUNTIME_OPTIONS: usize = 8;
/// The most characters of each text.
const MAX_RUNTIME_TEXT: usize = 240;

/// The first of these options, as text that may be shown.
pub(crate) fn checked(all: Vec<RuntimeOption>) -> Vec<RuntimeOption> {
    let all = all.into_iter().take(MAX_RUNTIME_OPTIONS);
    all.map(|option| RuntimeOption {
        name: shown(&option.name),
        value: shown(&option.value),
        reason: shown(&option.reason),
    })
    .collect()
}

fn shown(text: &str) -> String {
    let harmless = text.chars().filter(|char| !char.is_control());
    harmless.take(MAX_RUNTIME_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_template_says_of_its_runtime_is_short_and_harmless() {
        let hostile = RuntimeOption {
            name: "\u{1b}[31mjit\n".into(),
            value: "y".repeat(MAX_RUNTIME_TEXT + 1),
            ..RuntimeOption::default()
        };
        let all = checked(vec![hostile; MAX_RUNTIME_OPTIONS + 1]);
        assert_eq!(all.len(), MAX_RUNTIME_OPTIONS);
        assert_eq!(all[0].name, "[31mjit");
        assert_eq!(all[0].value.len(), MAX_RUNTIME_TEXT);
    }
}
