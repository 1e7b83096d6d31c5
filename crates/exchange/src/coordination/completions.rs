//! Which slots have news for the front, and whether it sleeps until the doorbell rings. What the news is says the slot.

use super::bitmap::{Bitmap, indices};
use crate::sync::{AtomicU32, Line, Ordering, fence};

/// The words by which workers tell the front that a slot has news.
#[derive(Clone, Copy)]
pub struct Completions<'a> {
    /// How many slots there are.
    pub slots: u16,
    /// A bit for each slot that has news.
    pub bits: Bitmap<'a>,
    /// 1 while the front sleeps and wants the doorbell.
    pub front_sleeps: &'a Line<AtomicU32>,
}

impl Completions<'_> {
    /// Calls `each` for every slot that has news, once. The front's side.
    pub fn take(self, mut each: impl FnMut(u16)) {
        for (number, word) in self.bits.words.iter().enumerate() {
            if word.load(Ordering::Acquire) == 0 {
                continue;
            }
            let slots = indices(number, word.swap(0, Ordering::SeqCst));
            // A broken worker may have set bits of slots that do not exist.
            let slots = slots.filter(|&slot| slot < usize::from(self.slots));
            slots.for_each(|slot| each(slot as u16));
        }
    }

    /// Says that the front is about to sleep until the doorbell rings. False when there is news and it must not sleep.
    pub fn park(self) -> bool {
        self.front_sleeps.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.bits.any() {
            self.front_sleeps.store(0, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Says that the front is awake and needs no doorbell.
    pub fn unpark(self) {
        self.front_sleeps.store(0, Ordering::Relaxed);
    }

    /// Says that the slot has news. True when the front sleeps and the caller must ring the doorbell. A worker's side.
    #[must_use]
    pub fn notify(self, slot: u16) -> bool {
        self.bits.set(usize::from(slot));
        fence(Ordering::SeqCst);
        let sleeps = self.front_sleeps;
        sleeps.load(Ordering::SeqCst) == 1 && sleeps.swap(0, Ordering::SeqCst) == 1
    }
}
