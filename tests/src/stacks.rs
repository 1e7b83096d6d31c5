//! The stacks of profiles and slow requests, as commands print them with `--json`. It reads them and asks no server.

use serde_json::Value;

/// The share of the samples that have this method anywhere in their stack.
///
/// # Panics
/// These are no stacks.
#[track_caller]
pub fn share(stacks: &Value, method: &str) -> f64 {
    let (frames, nodes) = (
        &stacks["frames"],
        stacks["nodes"].as_array().expect("nodes"),
    );
    let has = |node: &Value| {
        let mut at = Some(node);
        while let Some(node) = at {
            let frame = node["frame"].as_u64().expect("a frame") as usize;
            if frames[frame]["method"]
                .as_str()
                .is_some_and(|name| name.ends_with(method))
            {
                return true;
            }
            at = node["parent"]
                .as_u64()
                .map(|parent| &nodes[parent as usize]);
        }
        false
    };
    let own = |node: &Value| node["own"].as_f64().expect("samples");
    let with: f64 = nodes.iter().filter(|node| has(node)).map(own).sum();
    with / nodes.iter().map(own).sum::<f64>()
}
