//! Checks of the source tree that neither the compiler nor Clippy makes: layers, circles of imports, sizes, the index
//! of decisions, links of documents. Reads files and never changes them, except for the list of known exceptions when
//! asked to. It also counts lines, writes the man pages, and runs several test programs at a time.

#![forbid(unsafe_code)]

pub mod circles;
pub mod decisions;
pub mod exceptions;
pub mod layers;
pub mod lines;
pub mod links;
pub mod man_pages;
mod names;
pub mod sizes;
pub mod source;
pub mod test_programs;
pub mod workspace;

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Name of the rule, as in the list of exceptions.
    pub rule: &'static str,
    /// What breaks it: a file, a function, a type or a crate, without spaces.
    pub name: String,
    /// How far: lines, methods or files. It may only fall.
    pub number: usize,
    /// The message for a person.
    pub message: String,
}
