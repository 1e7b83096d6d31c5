//! The methods of a tree, by their share of the samples.

use std::collections::HashMap;
use std::fmt::Write;

use serde::Serialize;

use crate::tree::StackTree;

/// Most columns of a method's name in a table.
const METHOD_COLUMNS: usize = 50;

/// A method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Method {
    /// Its name.
    pub method: String,
    /// Its file.
    pub file: String,
    /// Samples whose innermost frame is its.
    pub own: u64,
    /// Samples with it anywhere in their stack.
    pub total: u64,
}

/// All methods of a tree; those in which most samples were taken first.
pub fn methods(tree: &StackTree) -> Vec<Method> {
    let tree = tree.without_lines();
    let totals = tree.totals();
    let mut by_frame: HashMap<u32, (u64, u64)> = HashMap::new();
    for (at, node) in tree.nodes().iter().enumerate() {
        let sums = by_frame.entry(node.frame).or_default();
        sums.0 += u64::from(node.own);
        // A method that calls itself counts once for each sample: at its outermost call.
        if !is_called_within(&tree, node.parent, node.frame) {
            sums.1 += totals[at];
        }
    }
    let mut all: Vec<Method> = by_frame
        .into_iter()
        .map(|(number, (own, total))| {
            let frame = &tree.frames()[number as usize];
            Method {
                method: frame.method.clone(),
                file: frame.short_file().to_owned(),
                own,
                total,
            }
        })
        .collect();
    all.sort_by(|one, other| {
        let order = |method: &Method| (method.own, method.total);
        let by_share = order(other).cmp(&order(one));
        by_share.then_with(|| (&one.method, &one.file).cmp(&(&other.method, &other.file)))
    });
    all
}

/// Whether one of the callers has this frame.
fn is_called_within(tree: &StackTree, mut caller: Option<u32>, frame: u32) -> bool {
    while let Some(at) = caller {
        let node = tree.nodes()[at as usize];
        if node.frame == frame {
            return true;
        }
        caller = node.parent;
    }
    false
}

/// The first methods as a table for a terminal.
pub fn methods_text(methods: &[Method], samples: u32, most: usize) -> String {
    let share = |count: u64| 100.0 * count as f64 / f64::from(samples.max(1));
    let mut text = String::from("  self   total  method\n");
    for method in methods.iter().take(most) {
        let name = cut(&method.method, METHOD_COLUMNS);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:5.1}%  {:5.1}%  {name}  {}",
            share(method.own),
            share(method.total),
            method.file,
        );
    }
    if let Some(left) = methods.len().checked_sub(most).filter(|left| *left > 0) {
        let _ = writeln!(text, "                {left} more methods");
    }
    text
}

/// The text with at most so many characters, the last one a sign that some are missing.
pub(crate) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some(_) => text
            .chars()
            .take(characters.saturating_sub(1))
            .chain(['…'])
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::tree::Limits;

    #[test]
    fn a_method_that_calls_itself_counts_once_for_each_sample() {
        let mut tree = StackTree::default();
        for (names, times) in [
            ("call walk walk walk", 6),
            ("call walk", 2),
            ("call other", 2),
        ] {
            let frames = names
                .split(' ')
                .map(|name| Frame::parse(&format!("/app.rb:7:in `{name}'")));
            tree.add(frames, times, Limits::PROFILE);
        }
        let all = methods(&tree);
        let figures: Vec<_> = all
            .iter()
            .map(|one| (&*one.method, one.own, one.total))
            .collect();
        assert_eq!(figures, [("walk", 8, 8), ("other", 2, 2), ("call", 0, 10)]);
        let expected = "  self   total  method\n \
                        80.0%   80.0%  walk  /app.rb\n                2 more methods\n";
        assert_eq!(methods_text(&all, tree.samples(), 1), expected);
    }
}
