//! What is known of user names and passwords that were checked: bcrypt takes as long for each request as the application
//! does. It keeps no password: a verdict's key is a hash under a random key that never leaves the process.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

/// Verdicts of one kind that are kept.
const MAX_VERDICTS: usize = 1024;
/// How long a right password is remembered.
const RIGHT_NS: u64 = 300 * 1_000_000_000;
/// How long a wrong one is.
const WRONG_NS: u64 = 60 * 1_000_000_000;

/// What stands for a user name and a password: two hashes, so that no other pair has the same.
pub(super) type Key = (u64, u64);

/// Verdicts and when they end, nanoseconds of the monotonic clock. Wrong ones are apart, so that one who guesses makes nobody
/// be forgotten.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    right: HashMap<Key, u64>,
    wrong: HashMap<Key, u64>,
    hashers: (RandomState, RandomState),
}

impl Verdicts {
    /// Returns what stands for these credentials.
    pub(super) fn key(&self, credentials: &impl Hash) -> Key {
        let (first, second) = &self.hashers;
        (first.hash_one(credentials), second.hash_one(credentials))
    }

    /// Returns whether the password was right, if that is known.
    pub(super) fn find(&self, key: Key, now_ns: u64) -> Option<bool> {
        let holds = |verdicts: &HashMap<Key, u64>| {
            let ends = verdicts.get(&key);
            ends.is_some_and(|&ends| ends > now_ns)
        };
        match (holds(&self.right), holds(&self.wrong)) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        }
    }

    /// Remembers a verdict.
    pub(super) fn remember(&mut self, key: Key, is_right: bool, now_ns: u64) {
        let (verdicts, for_ns) = match is_right {
            true => (&mut self.right, RIGHT_NS),
            false => (&mut self.wrong, WRONG_NS),
        };
        if verdicts.len() >= MAX_VERDICTS {
            verdicts.retain(|_, ends| *ends > now_ns);
        }
        if verdicts.len() >= MAX_VERDICTS {
            let first = verdicts.iter().min_by_key(|(_, ends)| **ends);
            let first = first.map(|(&key, _)| key);
            first.map(|key| verdicts.remove(&key));
        }
        verdicts.insert(key, now_ns + for_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_end_and_guesses_displace_no_right_one() {
        let mut verdicts = Verdicts::default();
        let key = verdicts.key(&("alice", "open"));
        assert_ne!(key, verdicts.key(&("alice", "opem")));
        assert_eq!(verdicts.find(key, 5), None);
        verdicts.remember(key, true, 5);
        for guess in 0..10_000_u32 {
            let key = verdicts.key(&("alice", guess));
            verdicts.remember(key, false, 6 + u64::from(guess));
            assert_eq!(verdicts.find(key, 7 + u64::from(guess)), Some(false));
        }
        assert_eq!(verdicts.find(key, 4 + RIGHT_NS), Some(true));
        assert_eq!(verdicts.find(key, 5 + RIGHT_NS), None);
        assert_eq!(verdicts.wrong.len(), MAX_VERDICTS);
        // Old ones give way at once.
        verdicts.remember((1, 1), false, 1 << 60);
        assert_eq!(verdicts.wrong.len(), 1);
    }
}
