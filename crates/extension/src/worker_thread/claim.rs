//! A claim as Ruby code has it: a number, which each write of a response names.

use exchange::coordination::Claim;

use crate::errors::raise_over;
use crate::ruby::{self, Value};

/// A claim as a number for Ruby: the slot in its low 16 bits, the publication above them.
pub(super) fn claim_number(claim: Claim) -> Value {
    let number = i64::from(claim.sequence) << 16 | i64::from(claim.slot);
    // SAFETY: 48 bits fit into a fixnum, which is no reference.
    unsafe { rb_sys::LONG2FIX(number) }
}

/// The claim that a number of [`claim_number`] stands for.
///
/// # Safety
/// The rules of [`crate::ruby`]. Raises ResponseOver for anything else: nil stands for no request.
pub(crate) unsafe fn claim_from(number: Value) -> Claim {
    match ruby::integer::<u64>(number) {
        Some(number) => Claim {
            slot: number as u16,
            sequence: (number >> 16) as u32,
        },
        // SAFETY: the caller keeps the rules.
        None => unsafe { raise_over() },
    }
}
