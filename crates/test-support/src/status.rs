//! What `highball status --json` tells, read without knowing more of its shape than a test needs.

use serde_json::Value;

use crate::process::Process;

/// One answer of `highball status --json`.
#[derive(Debug)]
pub struct Status(pub Value);

impl Status {
    /// The processes of a role (`front`, `template`, `worker`), in order of their numbers.
    pub fn processes(&self, role: &str) -> Vec<Process> {
        self.select(|process| process["role"] == role)
    }

    /// The workers that serve, in order of their numbers: none that starts, or that is stopping.
    pub fn ready_workers(&self) -> Vec<Process> {
        self.select(|process| process["role"] == "worker" && process["state"] == "ready")
    }

    fn select(&self, wanted: impl Fn(&Value) -> bool) -> Vec<Process> {
        let mut found = Vec::new();
        collect(&self.0, &wanted, &mut found);
        found.sort();
        found.dedup();
        found
    }

    /// The number at a JSON pointer.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn number(&self, pointer: &str) -> u64 {
        match self.0.pointer(pointer).and_then(Value::as_u64) {
            Some(number) => number,
            None => panic!("no number at {pointer} in {:#}", self.0),
        }
    }
}

fn collect(value: &Value, wanted: &impl Fn(&Value) -> bool, found: &mut Vec<Process>) {
    match value {
        Value::Object(fields) => {
            let pid = fields.get("pid").and_then(Value::as_u64);
            if wanted(value)
                && let Some(pid) = pid.and_then(|pid| u32::try_from(pid).ok())
            {
                found.push(Process(pid));
            }
            fields.values().for_each(|one| collect(one, wanted, found));
        }
        Value::Array(items) => items.iter().for_each(|one| collect(one, wanted, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_found_at_any_depth_by_role() {
        let status = Status(serde_json::json!({
            "pid": 1, "role": "front",
            "generations": [{"template": {"pid": 2, "role": "template"}, "workers": [{"pid": 4, "role": "worker"}, {"pid": 3, "role": "worker"}]}],
        }));
        assert_eq!(status.processes("worker"), [Process(3), Process(4)]);
        assert_eq!(status.processes("front"), [Process(1)]);
        assert_eq!(status.number("/generations/0/template/pid"), 2);
        let status = Status(serde_json::json!([
            {"pid": 5, "role": "worker", "state": "stopping"},
            {"pid": 6, "role": "worker", "state": "ready"},
        ]));
        assert_eq!(status.ready_workers(), [Process(6)]);
    }
}
