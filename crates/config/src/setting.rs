//! One row of the table, and the names and texts that follow from it. Holds no value.

use crate::kind::Kind;

/// What the variables of settings begin with.
pub(crate) const PREFIX: &str = "HIGHBALL_";

/// The short flags, which mean what they mean for Puma.
const SHORT_FLAGS: [(&str, char); 4] = [
    ("environment", 'e'),
    ("listen", 'b'),
    ("threads", 't'),
    ("workers", 'w'),
];

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
    /// The heading under which the documentation lists it.
    pub category: &'static str,
    /// Lines of the doc comment: the first paragraph is the short text, the rest the long one.
    pub(crate) doc: &'static [&'static str],
}

impl Setting {
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
