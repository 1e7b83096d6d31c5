//! A tree as a file for speedscope (<https://www.speedscope.app>), by its schema of files,
//! `https://www.speedscope.app/file-format-schema.json`.

use serde_json::{Value, json};

use crate::tree::StackTree;

/// The tree in speedscope's format. `seconds_per_sample` is how long a sample stands for; without it a sample is a unit.
pub fn speedscope(tree: &StackTree, name: &str, seconds_per_sample: Option<f64>) -> Value {
    let frames: Vec<Value> = tree
        .frames()
        .iter()
        .map(|frame| match frame.line {
            0 => json!({ "name": frame.method, "file": frame.file }),
            line => json!({ "name": frame.method, "file": frame.file, "line": line }),
        })
        .collect();
    let weight = seconds_per_sample.unwrap_or(1.0);
    let ended = || (0_u32..).zip(tree.nodes()).filter(|(_, node)| node.own > 0);
    let samples: Vec<Vec<u32>> = ended().map(|(at, _)| stack(tree, at)).collect();
    let weights: Vec<f64> = ended()
        .map(|(_, node)| f64::from(node.own) * weight)
        .collect();
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "highball",
        "name": name,
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": [{
            "type": "sampled",
            "name": name,
            "unit": if seconds_per_sample.is_some() { "seconds" } else { "none" },
            "startValue": 0,
            "endValue": f64::from(tree.samples()) * weight,
            "samples": samples,
            "weights": weights,
        }],
    })
}

/// The frames of a node's stack, outermost first.
fn stack(tree: &StackTree, node: u32) -> Vec<u32> {
    let mut frames = Vec::new();
    let mut at = Some(node);
    while let Some(number) = at {
        let node = tree.nodes()[number as usize];
        frames.push(node.frame);
        at = node.parent;
    }
    frames.reverse();
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::tree::Limits;

    #[test]
    fn the_stacks_and_their_weights_are_those_of_the_tree() {
        let mut tree = StackTree::default();
        for (names, times) in [("a b", 3), ("a", 2)] {
            let frames = names
                .split(' ')
                .map(|name| Frame::parse(&format!("/app.rb:7:in `{name}'")));
            tree.add(frames, times, Limits::PROFILE);
        }
        let file = speedscope(&tree, "GET /", Some(0.5));
        assert_eq!(
            file["shared"]["frames"][1],
            json!({ "name": "b", "file": "/app.rb", "line": 7 })
        );
        let profile = &file["profiles"][0];
        assert_eq!(profile["samples"], json!([[0], [0, 1]]));
        assert_eq!(profile["weights"], json!([1.0, 1.5]));
        assert_eq!(profile["endValue"], json!(2.5));
    }
}
