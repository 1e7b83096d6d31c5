//! A tree as a picture: a flame graph in SVG. It needs no script, follows the reader's light or dark scheme, and names
//! each frame when the pointer rests on it.

use std::fmt::Write;

use crate::frame::{Frame, Origin};
use crate::table::cut;
use crate::tree::StackTree;

/// Width of the picture, and of its margins.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
/// Height of a frame, and of what is above and below all of them.
const ROW: usize = 17;
const HEADER: usize = 58;
const FOOTER: usize = 12;
/// Narrower frames are left out.
const MIN_WIDTH: f64 = 0.6;
/// Width of a character, about.
const CHARACTER: f64 = 6.6;
/// Deeper frames are left out.
const MAX_DEPTH: usize = 500;

const STYLE: &str = "\
svg{background:#fff;color:#1b1f24;font:11px ui-monospace,Menlo,Consolas,monospace}\
.t{font-size:15px;font-weight:600}.n{fill:#57606a}text{fill:#1b1f24;pointer-events:none}\
rect{stroke:#fff;stroke-width:.5}.a{fill:#ffb77c}.g{fill:#a9cdf4}.r{fill:#d0d7de}.all{fill:#e6e8eb}\
g:hover>rect{stroke:#1b1f24;stroke-width:1.2}\
@media(prefers-color-scheme:dark){svg{background:#0f1318;color:#e6e9ed}.n{fill:#9aa4af}text{fill:#e6e9ed}\
rect{stroke:#0f1318}.a{fill:#9a4f12}.g{fill:#24507f}.r{fill:#414a54}.all{fill:#2a3139}\
g:hover>rect{stroke:#e6e9ed}}";

/// A frame's place in the picture.
struct Flame {
    node: u32,
    depth: usize,
    left: f64,
    width: f64,
}

/// The flame graph: the width of a frame is its share of the samples, and what it called lies on it.
pub fn flame_graph(tree: &StackTree, title: &str, note: &str) -> String {
    let tree = tree.without_lines();
    let totals = tree.totals();
    let flames = place(&tree, &totals);
    let rows = flames
        .iter()
        .map(|flame| flame.depth + 1)
        .max()
        .unwrap_or(0)
        + 1;
    let height = HEADER + rows * ROW + FOOTER;
    let bottom = HEADER + (rows - 1) * ROW;
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n\
         <text class=\"t\" x=\"{MARGIN}\" y=\"24\">{0}</text>\n\
         <text class=\"n\" x=\"{MARGIN}\" y=\"43\">{1}</text>\n",
        escape(title),
        escape(note),
    );
    legend(&mut svg);
    let inner = WIDTH - 2.0 * MARGIN;
    let samples = tree.samples();
    let all = format!("{samples} samples");
    rectangle(&mut svg, "all", MARGIN, bottom, inner, "all", &all);
    for flame in &flames {
        let frame = tree.frame(flame.node);
        let total = totals[flame.node as usize];
        let share = 100.0 * total as f64 / f64::from(samples.max(1));
        let about = format!(
            "{}\n{}\n{total} samples, {share:.1} %",
            frame.method,
            frame.short_file()
        );
        let top = bottom - (flame.depth + 1) * ROW;
        rectangle(
            &mut svg,
            class(frame),
            flame.left,
            top,
            flame.width,
            &frame.method,
            &about,
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where each frame lies that is wide enough to be seen.
fn place(tree: &StackTree, totals: &[u64]) -> Vec<Flame> {
    let children = tree.children(totals);
    let scale = (WIDTH - 2.0 * MARGIN) / f64::from(tree.samples().max(1));
    let mut flames = Vec::new();
    let mut waiting = vec![(tree.nodes().len(), 0, MARGIN)];
    while let Some((parent, depth, mut left)) = waiting.pop() {
        for &node in &children[parent] {
            let width = totals[node as usize] as f64 * scale;
            if width >= MIN_WIDTH && depth < MAX_DEPTH {
                flames.push(Flame {
                    node,
                    depth,
                    left,
                    width,
                });
                waiting.push((node as usize, depth + 1, left));
            }
            left += width;
        }
    }
    flames
}

fn class(frame: &Frame) -> &'static str {
    match frame.origin() {
        Origin::Application => "a",
        Origin::Gem => "g",
        Origin::Ruby => "r",
    }
}

fn legend(svg: &mut String) {
    let entries = [("a", "application"), ("g", "gems"), ("r", "Ruby")];
    for (number, (class, name)) in (0..).zip(entries) {
        let left = WIDTH - 300.0 + f64::from(number) * 110.0;
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{left}\" y=\"14\" width=\"12\" height=\"12\"/>\
             <text x=\"{}\" y=\"24\">{name}</text>",
            left + 17.0
        );
    }
}

fn rectangle(
    svg: &mut String,
    class: &str,
    left: f64,
    top: usize,
    width: f64,
    name: &str,
    about: &str,
) {
    let _ = write!(
        svg,
        "<g><title>{}</title><rect class=\"{class}\" x=\"{left:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{ROW}\"/>",
        escape(about)
    );
    let characters = ((width - 6.0) / CHARACTER).max(0.0) as usize;
    if characters >= 3 {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\">{}</text>",
            left + 3.0,
            top + ROW - 5,
            escape(&cut(name, characters))
        );
    }
    svg.push_str("</g>\n");
}

/// The text as XML has it. Characters that XML does not have are replaced (XML 1.0 section 2.2).
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push('\n'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other if other.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Limits;

    #[test]
    fn names_are_escaped_and_widths_are_shares() {
        let mut tree = StackTree::default();
        for (name, times) in [("<a & \"b\">", 3), ("</svg><script>", 1)] {
            let frames = [
                "/x.rb:1:in `call'".to_owned(),
                format!("/x.rb:1:in `{name}'"),
            ];
            tree.add(
                frames.map(|line| Frame::parse(&line)),
                times,
                Limits::PROFILE,
            );
        }
        let svg = flame_graph(&tree, "GET /?a=<1>&b", "note \u{1b}[0m");
        assert!(svg.contains("&lt;a &amp; &quot;b&quot;&gt;\n"), "{svg}");
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");
        assert!(svg.contains("x=\"10.0\" y=\"58\" width=\"885.0\""), "{svg}");
        assert!(
            svg.contains("x=\"895.0\" y=\"58\" width=\"295.0\""),
            "{svg}"
        );
        assert_eq!(svg.matches("</svg>").count(), 1);
    }

    #[test]
    fn a_tree_without_samples_is_a_picture_too() {
        let svg = flame_graph(&StackTree::default(), "nothing", "");
        assert!(
            svg.contains("0 samples") && svg.ends_with("</svg>\n"),
            "{svg}"
        );
    }
}
