//! Stacks merged into a tree. It calls nothing of Ruby's: what is recorded as an object gets its name later.

use std::collections::HashMap;

use crate::ruby::Value;

/// The most nodes of the tree; samples beyond are counted and left out.
const MAX_NODES: usize = 20_000;
/// The most bytes of a frame that is text.
pub(crate) const MAX_FRAME_BYTES: usize = 512;

/// A frame as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Frame {
    /// What `rb_profile_frames` returned: an object that must be marked, and a line.
    Object(Value, i32),
    /// A line of a backtrace, by its number.
    Text(u32),
}

/// A frame below others.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    /// What called it: the number of a node, from 1; 0 is none.
    pub(crate) parent: u32,
    /// Its frame.
    pub(crate) frame: Frame,
    /// Samples in it.
    pub(crate) own: u32,
}

/// The tree.
#[derive(Default)]
pub(crate) struct Stacks {
    nodes: Vec<Node>,
    by_parent: HashMap<(u32, Frame), u32>,
    texts: Vec<Box<[u8]>>,
    by_text: HashMap<Box<[u8]>, u32>,
    /// Samples that had no room.
    pub(crate) dropped: u32,
}

impl Stacks {
    /// Adds a stack, outermost frame first, which was seen so many times.
    pub(crate) fn add(&mut self, stack: impl Iterator<Item = Frame>, times: u32) {
        let mut at = 0;
        for frame in stack {
            let Some(node) = self.below(at, frame) else {
                self.dropped = self.dropped.saturating_add(times);
                break;
            };
            at = node;
        }
        if let Some(node) = (at as usize).checked_sub(1).map(|at| &mut self.nodes[at]) {
            node.own = node.own.saturating_add(times);
        }
    }

    fn below(&mut self, parent: u32, frame: Frame) -> Option<u32> {
        if let Some(node) = self.by_parent.get(&(parent, frame)) {
            return Some(*node);
        }
        if self.nodes.len() >= MAX_NODES {
            return None;
        }
        self.nodes.push(Node {
            parent,
            frame,
            own: 0,
        });
        let node = self.nodes.len() as u32;
        self.by_parent.insert((parent, frame), node);
        Some(node)
    }

    /// The frame of a line of a backtrace.
    pub(crate) fn text_frame(&mut self, line: &[u8]) -> Frame {
        let line = &line[..line.len().min(MAX_FRAME_BYTES)];
        if let Some(number) = self.by_text.get(line) {
            return Frame::Text(*number);
        }
        // What has no node is of no use. The last one stands for what has no room.
        let number = self.texts.len().min(MAX_NODES) as u32;
        if self.texts.len() < MAX_NODES {
            self.texts.push(line.into());
            self.by_text.insert(line.into(), number);
        }
        Frame::Text(number)
    }

    /// The line of such a frame.
    pub(crate) fn text(&self, number: u32) -> &[u8] {
        self.texts.get(number as usize).map_or(b"", |text| text)
    }

    /// A node, from 1.
    pub(crate) fn node(&self, number: u32) -> Option<Node> {
        self.nodes.get((number as usize).checked_sub(1)?).copied()
    }

    /// The objects that are frames, some more than once.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Value> + '_ {
        self.nodes.iter().filter_map(|node| match node.frame {
            Frame::Object(object, _) => Some(object),
            Frame::Text(_) => None,
        })
    }
}
