//! The templates, and the only place through which a value gets into a page. It decides nothing of what is shown.

use std::sync::OnceLock;

use minijinja::value::{Serde, ValueKind};
use minijinja::{AutoEscape, Environment, Error, HtmlEscape, Output, State, Value};
use serde::Serialize;

use crate::text::is_printable;

/// The templates by their names.
const TEMPLATES: [(&str, &str); 7] = [
    ("frame.html", include_str!("frame.html")),
    ("macros.html", include_str!("macros.html")),
    ("overview.html", include_str!("overview.html")),
    ("exception.html", include_str!("exception.html")),
    ("slow.html", include_str!("slow.html")),
    ("missing.html", include_str!("missing.html")),
    ("login.html", include_str!("login.html")),
];

/// A template and what is put into it do not fit: a mistake in this crate.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the page of the dashboard: {0}")]
pub struct PageError(#[from] Error);

/// Fills a template in.
///
/// # Errors
/// The template is wrong, which tests exclude.
pub(super) fn fill(template: &str, values: impl Serialize) -> Result<String, PageError> {
    let template = environment().get_template(template)?;
    Ok(template.render(Serde(values))?)
}

/// The templates, which are read once.
fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = Environment::new();
        environment.set_formatter(write_escaped);
        for (name, text) in TEMPLATES {
            environment
                .add_template(name, text)
                .expect("the templates are part of the program and tested");
        }
        environment
    })
}

/// Writes a value into the page. Texts are escaped, and what is not printable in them is replaced.
fn write_escaped(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    let text = value.as_str().filter(|_| value.kind() == ValueKind::String);
    match text {
        Some(text) if !value.is_safe() && matches!(state.auto_escape(), AutoEscape::Html) => {
            let printable = |character| match is_printable(character) {
                true => character,
                false => char::REPLACEMENT_CHARACTER,
            };
            let text: String = text.chars().map(printable).collect();
            write!(out, "{}", HtmlEscape(&text)).map_err(Error::from)
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}
