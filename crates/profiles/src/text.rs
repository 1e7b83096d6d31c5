//! A tree as text for a terminal.

use std::fmt::Write;

use crate::tree::StackTree;

/// Branches with a smaller share of the samples are left out.
const MIN_SHARE: f64 = 0.02;

/// Most frames that are shown.
const MAX_LINES: usize = 400;

/// The tree from the outermost frame on, a frame a line with its share of the samples. Only where a frame called several
/// others do these have a deeper indent, so a deep stack stays readable.
pub fn stacks_text(tree: &StackTree) -> String {
    let totals = tree.totals();
    let children = tree.children(&totals);
    let samples = tree.samples().max(1) as f64;
    let share = |node: u32| totals[node as usize] as f64 / samples;
    let mut text = String::new();
    let mut waiting: Vec<(u32, usize)> = Vec::new();
    let push = |waiting: &mut Vec<(u32, usize)>, from: usize, indent: usize| {
        let shown: Vec<u32> = children[from]
            .iter()
            .copied()
            .filter(|node| share(*node) >= MIN_SHARE)
            .collect();
        let indent = indent + usize::from(shown.len() > 1);
        waiting.extend(shown.into_iter().rev().map(|node| (node, indent)));
    };
    push(&mut waiting, tree.nodes().len(), 0);
    let mut lines = 0;
    while let Some((node, indent)) = waiting.pop() {
        lines += 1;
        if lines > MAX_LINES {
            text.push_str("       ... more frames are left out\n");
            break;
        }
        let frame = tree.frame(node);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:5.1}%  {:indent$}{}  {}",
            100.0 * share(node),
            "",
            frame.method,
            frame.place(),
            indent = 2 * indent,
        );
        push(&mut waiting, node as usize, indent);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::tree::Limits;

    #[test]
    fn only_branches_have_a_deeper_indent() {
        let mut tree = StackTree::default();
        for (names, times) in [
            ("call show query", 6),
            ("call show render", 3),
            ("call other", 1),
        ] {
            let frames = names
                .split(' ')
                .map(|name| Frame::parse(&format!("/srv/app.rb:7:in `{name}'")));
            tree.add(frames, times, Limits::REQUEST);
        }
        tree.make_relative("/srv");
        let expected = "100.0%  call  app.rb:7\n \
                        90.0%    show  app.rb:7\n \
                        60.0%      query  app.rb:7\n \
                        30.0%      render  app.rb:7\n \
                        10.0%    other  app.rb:7\n";
        assert_eq!(stacks_text(&tree), expected);
        assert_eq!(stacks_text(&StackTree::default()), "");
    }
}
