//! One row of the table, and the names and texts that follow from it. Holds no value.

use crate::kind::{Kind, Value};

/// What the variables of settings begin with.
pub(crate) const PREFIX: &str = "HIGHBALL_";

/// The short flags, which mean what they mean for Puma.
const SHORT_FLAGS: [(&str, char); 4] = [
    ("environment", 'e'),
    ("listen", 'b'),
    ("threads", 't'),
    ("workers", 'w'),
];

/// Settings whose values have a password or a secret path.
const ADDRESSES_WITH_SECRETS: [&str; 3] = ["exception_webhook", "otlp_endpoint", "smtp_url"];

/// What a changed setting needs in a running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// A reload: the new value applies to what begins afterwards; no process is replaced.
    AtOnce,
    /// A reload, which starts a new generation of workers.
    Generation,
    /// An upgrade or a new start.
    Start,
}

impl Reload {
    /// What a change needs, for the documentation; without a full stop.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::AtOnce => "`highball reload`, which applies it at once",
            Self::Generation => "`highball reload`, which starts a new generation of workers",
            Self::Start => "`highball upgrade` or a new start",
        }
    }
}

/// What a setting belongs to, where one server has several applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The server: there is one value.
    Server,
    /// An application: each may have its own.
    Application,
}

impl Scope {
    /// What it is, for the documentation; without a full stop.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Server => "the server",
            Self::Application => "each application, in `[[application]]`",
        }
    }
}

/// One setting as the table describes it.
#[derive(Debug)]
pub struct Setting {
    /// The name: the key in `highball.toml` and the field of [`Settings`](crate::Settings).
    pub name: &'static str,
    /// What a value looks like, with its range.
    pub kind: Kind,
    /// The default, as written in a flag.
    pub default: &'static str,
    /// The default in the environments `development` and `test`, where it is another one.
    pub development: Option<&'static str>,
    /// Variables of other programs that set it as well, the strongest first. They are weaker than `HIGHBALL_*` and stronger
    /// than the file.
    pub shared_variables: &'static [&'static str],
    /// What a change needs in a running server.
    pub reload: Reload,
    /// What it belongs to.
    pub scope: Scope,
    /// The heading under which the documentation lists it.
    pub category: &'static str,
    /// Lines of the doc comment: the first paragraph is the short text, the rest the long one.
    pub(crate) doc: &'static [&'static str],
}

impl Setting {
    /// Writes a value for people and logs. Of an address with a secret in it, scheme and host are left.
    pub(crate) fn shown(&self, value: &Value) -> String {
        let text = self.kind.text(value);
        match ADDRESSES_WITH_SECRETS.contains(&self.name) {
            true => without_secrets(&text),
            false => text,
        }
    }

    /// The flag without its dashes, such as `max-body-bytes`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The short flag without its dash, where there is one.
    pub fn short_flag(&self) -> Option<char> {
        let found = SHORT_FLAGS.iter().find(|(name, _)| *name == self.name);
        found.map(|(_, flag)| *flag)
    }

    /// The variable, such as `HIGHBALL_MAX_BODY_BYTES`.
    pub fn variable(&self) -> String {
        format!("{}{}", PREFIX, self.name.to_uppercase())
    }

    /// What stands for the value in `--help`, such as `SIZE`.
    pub fn value_name(&self) -> String {
        self.kind.value_name()
    }

    /// Whether the flag may be given several times.
    pub fn is_list(&self) -> bool {
        self.kind.is_list()
    }

    /// One sentence on what it does, without a full stop.
    pub fn short(&self) -> String {
        let first = self.paragraphs().next().unwrap_or_default();
        first.trim_end_matches('.').to_owned()
    }

    /// The rest of the description, in paragraphs separated by an empty line; often empty.
    pub fn long(&self) -> String {
        self.paragraphs().skip(1).collect::<Vec<_>>().join("\n\n")
    }

    /// The help of the flag: the short text and the default.
    pub fn help(&self) -> String {
        let development = self
            .development
            .map(|default| format!(", in development and test {default}"));
        format!(
            "{} [default: {}{}]",
            self.short(),
            self.default,
            development.unwrap_or_default()
        )
    }

    fn paragraphs(&self) -> impl Iterator<Item = String> {
        self.doc.split(|line| line.trim().is_empty()).map(|lines| {
            lines
                .iter()
                .map(|line| line.trim())
                .collect::<Vec<_>>()
                .join(" ")
        })
    }
}

/// Scheme and host of an address, without what may be secret before and after them.
fn without_secrets(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return match address {
            "" | "auto" | "none" => address.to_owned(),
            _ => "(not shown)".to_owned(),
        };
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, host) = match authority.rsplit_once('@') {
        Some((_, host)) => ("(not shown)@", host),
        None => ("", authority),
    };
    let path = match path.len() {
        0 | 1 => path,
        _ => "/(not shown)",
    };
    format!("{scheme}://{user}{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        for (address, shown) in [
            ("none", "none"),
            ("smtp://mail.example:25", "smtp://mail.example:25"),
            (
                "smtps://me:p@ss@mail.example",
                "smtps://(not shown)@mail.example",
            ),
            (
                "https://hooks.example/T0/B1/secret",
                "https://hooks.example/(not shown)",
            ),
            (
                "https://hooks.example?key=secret",
                "https://hooks.example/(not shown)",
            ),
            ("hooks.example/secret", "(not shown)"),
        ] {
            assert_eq!(without_secrets(address), shown);
        }
    }
}
