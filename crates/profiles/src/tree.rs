//! Stacks merged into one tree, within bounds. It shows nothing.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::frame::Frame;

/// What a tree may hold; the rest of a deeper or further stack is left out.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most nodes.
    pub nodes: usize,
    /// Most bytes of its frames, roughly.
    pub bytes: usize,
}

impl Limits {
    /// Of the samples of one request.
    pub const REQUEST: Self = Self {
        nodes: 2_000,
        bytes: 96 * 1024,
    };
    /// Of a profile.
    pub const PROFILE: Self = Self {
        nodes: 50_000,
        bytes: 8 * 1024 * 1024,
    };
}

/// A frame below others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The node that called it: an earlier one; `None` for the outermost frame of a stack.
    pub parent: Option<u32>,
    /// Its frame.
    pub frame: u32,
    /// Samples whose innermost frame this is.
    pub own: u32,
}

/// Stacks merged from the outermost frame on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Plain", into = "Plain")]
pub struct StackTree {
    plain: Plain,
    by_frame: HashMap<Frame, u32>,
    by_parent: HashMap<(Option<u32>, u32), u32>,
    bytes: usize,
}

/// A tree as it is sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Plain {
    samples: u32,
    frames: Vec<Frame>,
    nodes: Vec<Node>,
}

impl From<StackTree> for Plain {
    fn from(tree: StackTree) -> Self {
        tree.plain
    }
}

impl TryFrom<Plain> for StackTree {
    type Error = &'static str;

    fn try_from(plain: Plain) -> Result<Self, Self::Error> {
        let mut tree = Self {
            by_frame: (0..)
                .zip(&plain.frames)
                .map(|(at, frame)| (frame.clone(), at))
                .collect(),
            ..Self::default()
        };
        for (at, node) in (0..).zip(&plain.nodes) {
            if node.parent.is_some_and(|parent| parent >= at) {
                return Err("a node of a stack comes before its parent");
            }
            if node.frame as usize >= plain.frames.len() {
                return Err("a node of a stack has no frame");
            }
            tree.by_parent.insert((node.parent, node.frame), at);
        }
        tree.bytes = plain.frames.iter().map(Frame::bytes).sum();
        tree.plain = plain;
        Ok(tree)
    }
}

impl StackTree {
    /// Whether it holds no more than these limits allow.
    pub fn fits(&self, limits: Limits) -> bool {
        self.plain.nodes.len() <= limits.nodes && self.bytes <= limits.bytes
    }

    /// Adds a stack, outermost frame first, which was seen so many times. Highball's own frames at its beginning are left out.
    /// A stack without another frame is not counted.
    pub fn add(&mut self, stack: impl IntoIterator<Item = Frame>, times: u32, limits: Limits) {
        let mut at = None;
        for frame in stack.into_iter().skip_while(Frame::is_highballs_own) {
            match self.below(at, frame, limits) {
                Some(next) => at = Some(next),
                None => break,
            }
        }
        if let Some(at) = at {
            self.count(at, times);
        }
    }

    /// The node of this frame below another one; `None` where there is no room for it.
    pub fn below(&mut self, parent: Option<u32>, frame: Frame, limits: Limits) -> Option<u32> {
        let number = match self.by_frame.get(&frame) {
            Some(number) => *number,
            None => {
                let bytes = self.bytes + frame.bytes();
                if bytes > limits.bytes || self.plain.nodes.len() >= limits.nodes {
                    return None;
                }
                self.bytes = bytes;
                let number = self.plain.frames.len() as u32;
                self.plain.frames.push(frame.clone());
                self.by_frame.insert(frame, number);
                number
            }
        };
        if let Some(node) = self.by_parent.get(&(parent, number)) {
            return Some(*node);
        }
        if self.plain.nodes.len() >= limits.nodes {
            return None;
        }
        let node = self.plain.nodes.len() as u32;
        self.plain.nodes.push(Node {
            parent,
            frame: number,
            own: 0,
        });
        self.by_parent.insert((parent, number), node);
        Some(node)
    }

    /// Counts samples whose innermost frame is this node's.
    pub fn count(&mut self, node: u32, times: u32) {
        let own = &mut self.plain.nodes[node as usize].own;
        *own = own.saturating_add(times);
        self.plain.samples = self.plain.samples.saturating_add(times);
    }

    /// Number of samples.
    pub fn samples(&self) -> u32 {
        self.plain.samples
    }

    /// The nodes; a parent comes before its children.
    pub fn nodes(&self) -> &[Node] {
        &self.plain.nodes
    }

    /// The frames that nodes name.
    pub fn frames(&self) -> &[Frame] {
        &self.plain.frames
    }

    /// A node's frame.
    pub fn frame(&self, node: u32) -> &Frame {
        &self.plain.frames[self.plain.nodes[node as usize].frame as usize]
    }

    /// For each node the samples in it and in what it called.
    pub fn totals(&self) -> Vec<u64> {
        let mut totals: Vec<u64> = self.nodes().iter().map(|node| node.own.into()).collect();
        for at in (0..totals.len()).rev() {
            if let Some(parent) = self.nodes()[at].parent {
                totals[parent as usize] += totals[at];
            }
        }
        totals
    }

    /// For each node its children, and at the end the outermost nodes; those with most samples first.
    pub fn children(&self, totals: &[u64]) -> Vec<Vec<u32>> {
        let outermost = self.nodes().len();
        let mut children = vec![Vec::new(); outermost + 1];
        for (at, node) in (0_u32..).zip(self.nodes()) {
            let parent = node.parent.map_or(outermost, |parent| parent as usize);
            children[parent].push(at);
        }
        for list in &mut children {
            // Also by frame, so that a picture is the same each time.
            list.sort_by(|one, other| {
                let order = |node: &u32| totals[*node as usize];
                let by_total = order(other).cmp(&order(one));
                by_total.then_with(|| self.frame(*one).cmp(self.frame(*other)))
            });
        }
        children
    }

    /// The same tree by methods: frames of one method that differ by their lines alone are one.
    pub fn without_lines(&self) -> Self {
        let mut merged = Self::default();
        let limits = Limits {
            nodes: usize::MAX,
            bytes: usize::MAX,
        };
        let mut at = Vec::with_capacity(self.nodes().len());
        for (number, node) in (0_u32..).zip(self.nodes()) {
            let frame = Frame {
                line: 0,
                ..self.frame(number).clone()
            };
            let parent = node.parent.and_then(|parent| at[parent as usize]);
            let merged_node = merged.below(parent, frame, limits);
            if let (Some(merged_node), true) = (merged_node, node.own > 0) {
                merged.count(merged_node, node.own);
            }
            at.push(merged_node);
        }
        merged
    }

    /// Takes the application's folder off the paths of files.
    pub fn make_relative(&mut self, folder: &str) {
        for frame in &mut self.plain.frames {
            frame.make_relative(folder);
        }
        self.by_frame = (0..)
            .zip(self.frames())
            .map(|(at, frame)| (frame.clone(), at))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(names: &str) -> Vec<Frame> {
        let line = |name: &str| Frame::parse(&format!("/app.rb:1:in `{name}'"));
        names.split(' ').map(line).collect()
    }

    #[test]
    fn stacks_with_the_same_beginning_are_merged() {
        let mut tree = StackTree::default();
        for (names, times) in [("a b c", 3), ("a b d", 1), ("a", 2), ("x", 1)] {
            tree.add(stack(names), times, Limits::PROFILE);
        }
        assert_eq!((tree.samples(), tree.nodes().len()), (7, 5));
        let totals = tree.totals();
        assert_eq!(totals, [6, 4, 3, 1, 1]);
        let children = tree.children(&totals);
        assert_eq!(
            (&children[1][..], &children[5][..]),
            (&[2, 3][..], &[0, 4][..])
        );
        let text = serde_json::to_string(&tree).unwrap();
        assert_eq!(serde_json::from_str::<StackTree>(&text).unwrap(), tree);
    }

    #[test]
    fn highballs_own_frames_around_a_request_are_left_out() {
        let mut tree = StackTree::default();
        let own =
            |name: &str| format!("/usr/lib/ruby/gems/highball-1/lib/highball/{name}.rb:7:in `run'");
        let lines = [
            own("worker"),
            own("runner"),
            "/srv/app.rb:1:in `call'".to_owned(),
            own("response"),
        ];
        tree.add(
            lines.iter().map(|line| Frame::parse(line)),
            1,
            Limits::REQUEST,
        );
        let files: Vec<&str> = tree.frames().iter().map(Frame::short_file).collect();
        assert_eq!(
            files,
            ["/srv/app.rb", "highball-1/lib/highball/response.rb"]
        );
    }

    #[test]
    fn a_tree_stays_within_its_bounds() {
        let mut tree = StackTree::default();
        let limits = Limits {
            nodes: 10,
            bytes: 100_000,
        };
        for number in 0..1000 {
            tree.add(stack(&format!("a b c{number}")), 1, limits);
        }
        assert_eq!((tree.nodes().len(), tree.samples()), (10, 1000));
        let mut tree = StackTree::default();
        let limits = Limits {
            nodes: 10_000,
            bytes: 1000,
        };
        for number in 0..1000 {
            tree.add(stack(&format!("a b c{number}")), 1, limits);
        }
        assert!(tree.bytes <= 1000 && tree.frames().len() < 20);
    }

    #[test]
    fn lines_of_a_method_become_one() {
        let mut tree = StackTree::default();
        for line in 1..=3 {
            let frames = [
                Frame::parse("a:1:in `m'"),
                Frame::parse(&format!("a:{line}:in `n'")),
            ];
            tree.add(frames, line, Limits::PROFILE);
        }
        assert_eq!(tree.nodes().len(), 4);
        let merged = tree.without_lines();
        assert_eq!((merged.nodes().len(), merged.totals()), (2, vec![6, 6]));
    }

    #[test]
    fn a_tree_that_does_not_fit_together_is_refused() {
        for (nodes, what) in [
            (r#"[{"parent":0,"frame":0,"own":1}]"#, "before its parent"),
            (r#"[{"parent":null,"frame":1,"own":1}]"#, "has no frame"),
        ] {
            let text = format!(
                r#"{{"samples":1,"frames":[{{"method":"a","file":"b","line":1}}],"nodes":{nodes}}}"#
            );
            let error = serde_json::from_str::<StackTree>(&text).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}
