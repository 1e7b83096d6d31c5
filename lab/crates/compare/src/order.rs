//! The order of a comparison: rounds, in each of which everything comes once, shuffled by the seed. Pure.
//!
//! The speed of machines changes over minutes. So the stacks of one load run one after the other, and another stack is first
//! each time.

use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

/// Trials of all stacks that run one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// From 1.
    pub(super) round: usize,
    /// What is done with each stack.
    pub(super) task: Task,
    /// The stacks, by their place in the plan, in the order of their turns.
    pub(super) stacks: Vec<usize>,
    /// What arrivals depend on: every stack of a round gets the same ones.
    pub(super) seed: u64,
}

/// What is done with a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// A trial with the load of that place in the plan.
    Trial(usize),
    /// A search for the largest rate.
    Search,
}

/// All groups, in order.
pub(super) fn order(
    seed: u64,
    rounds: usize,
    searches: usize,
    loads: usize,
    stacks: usize,
) -> Vec<Group> {
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut groups = Vec::new();
    for round in 1..=rounds.max(searches) {
        let trials = if round <= rounds { loads } else { 0 };
        let mut tasks: Vec<Task> = (0..trials).map(Task::Trial).collect();
        tasks.extend((round <= searches).then_some(Task::Search));
        tasks.shuffle(&mut random);
        let seed = random.next_u64();
        for task in tasks {
            let mut stacks: Vec<usize> = (0..stacks).collect();
            stacks.shuffle(&mut random);
            groups.push(Group {
                round,
                task,
                stacks,
                seed,
            });
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_stack_comes_once_with_every_task_in_every_round() {
        let groups = order(1, 5, 3, 2, 4);
        assert_eq!(groups.len(), 5 * 2 + 3);
        for round in 1..=5 {
            let of_round: Vec<&Group> =
                groups.iter().filter(|group| group.round == round).collect();
            let trials = [Task::Trial(0), Task::Trial(1)];
            assert!(
                trials
                    .iter()
                    .all(|task| of_round.iter().any(|group| group.task == *task))
            );
            assert_eq!(
                of_round.iter().any(|group| group.task == Task::Search),
                round <= 3
            );
            for group in of_round {
                let stacks: BTreeSet<usize> = group.stacks.iter().copied().collect();
                assert_eq!(stacks, (0..4).collect());
            }
        }
    }

    #[test]
    fn the_order_depends_on_the_seed_alone() {
        assert_eq!(order(7, 3, 1, 2, 3), order(7, 3, 1, 2, 3));
        assert_ne!(order(7, 3, 1, 2, 3), order(8, 3, 1, 2, 3));
        let firsts: BTreeSet<usize> = order(7, 20, 0, 1, 3)
            .iter()
            .map(|group| group.stacks[0])
            .collect();
        assert_eq!(firsts.len(), 3, "no stack is always first");
    }

    #[test]
    fn stacks_of_a_round_get_the_same_arrivals_and_rounds_get_others() {
        let groups = order(1, 2, 0, 2, 2);
        assert_eq!(groups[0].seed, groups[1].seed);
        assert_ne!(groups[0].seed, groups[2].seed);
    }
}
