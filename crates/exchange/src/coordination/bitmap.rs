//! Bits that front and workers share, 64 in a word. It knows nothing of what they stand for.

use crate::sync::{AtomicU64, Line, Ordering};

/// A bit for each slot, or for each thread.
#[derive(Clone, Copy)]
pub struct Bitmap<'a> {
    /// The words, each on its own cache line.
    pub words: &'a [Line<AtomicU64>],
}

impl Bitmap<'_> {
    pub(super) fn set(self, index: usize) {
        self.words[index / 64].fetch_or(bit(index), Ordering::SeqCst);
    }

    /// Clears a bit, and returns whether it was set.
    pub(super) fn clear(self, index: usize) -> bool {
        self.words[index / 64].fetch_and(!bit(index), Ordering::SeqCst) & bit(index) != 0
    }

    pub(super) fn contains(self, index: usize) -> bool {
        self.words[index / 64].load(Ordering::SeqCst) & bit(index) != 0
    }

    pub(super) fn any(self) -> bool {
        let is_set = |word: &Line<AtomicU64>| word.load(Ordering::SeqCst) != 0;
        self.words.iter().any(is_set)
    }

    /// The indices whose bits are set, in order; each word is read when the iterator comes to it.
    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        let words = self.words.iter().enumerate();
        words.flat_map(|(number, word)| indices(number, word.load(Ordering::SeqCst)))
    }
}

fn bit(index: usize) -> u64 {
    1 << (index % 64)
}

/// The indices of the bits that are set in word `number`.
pub(super) fn indices(number: usize, mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(number * 64 + bit)
    })
}
