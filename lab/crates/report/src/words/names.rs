//! What people call stacks.

use crate::number::listed;
use compare::results::Results;
use compare::verdict::Figure;

/// The name of a stack.
pub(crate) fn name<'a>(results: &'a Results, id: &'a str) -> &'a str {
    let stack = results.stacks.iter().find(|stack| stack.id == id);
    stack.map_or(id, |stack| {
        if stack.name.is_empty() {
            id
        } else {
            &stack.name
        }
    })
}

/// The names of several stacks, for a sentence.
pub(super) fn names(results: &Results, figures: &[&Figure<'_>]) -> String {
    let names: Vec<String> = figures
        .iter()
        .map(|figure| name(results, figure.stack).to_owned())
        .collect();
    listed(&names)
}
