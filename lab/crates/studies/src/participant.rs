//! A participant of a study, today's stack in its row, and the stack that earlier runs had there.
//! Nothing is compared here.

use serde::Deserialize;

use compare::results::Results;

/// The stack's id of what the lab can't start.
pub const ELSEWHERE: &str = "url";

/// A stack that took part.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Participant {
    /// Unique in the study.
    pub id: String,
    /// As the text names it.
    pub name: String,
    /// How it was set up, in the text's words.
    pub then: String,
    /// Its worker processes or cluster's servers; `None` where the text does not say.
    pub workers: Option<usize>,
    /// The stack of today, an id of `lab/stacks`; [`ELSEWHERE`] where none can be started here.
    pub stack: String,
    /// What replaces it and why; `None` where it is the same program.
    pub stand_in: Option<String>,
    /// The stack that replaced it in earlier runs, whose results can still be shown.
    pub earlier: Option<Earlier>,
}

/// A stack that another one has replaced in a study.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Earlier {
    /// An id of `lab/stacks`.
    pub stack: String,
    /// How a run with it differs from one of today, for its row.
    pub difference: String,
}

impl Participant {
    /// What stood in for it in `results` where that is not the stack of today.
    pub fn earlier_in(&self, results: &Results) -> Option<&Earlier> {
        let took_part = |id: &str| {
            let mut measured = results.stacks.iter().map(|stack| &stack.id);
            let mut missing = results.missing.iter().map(|stack| &stack.id);
            measured.any(|stack| stack == id) || missing.any(|stack| stack == id)
        };
        let earlier = self.earlier.as_ref()?;
        (!took_part(&self.stack) && took_part(&earlier.stack)).then_some(earlier)
    }

    /// The id of the stack in its row in `results`.
    pub fn stack_in(&self, results: &Results) -> &str {
        self.earlier_in(results)
            .map_or(&self.stack, |earlier| &earlier.stack)
    }
}
