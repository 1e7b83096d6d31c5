//! Whether the length of a body is declared in its response's head. It writes nothing.

use crate::ruby::{Value, bytes, elements};

/// Bytes of a body from which on its length is declared in the head. The front may see the head of a longer one before its
/// end. It sees shorter ones whole, and counts them itself.
const LENGTH_DECLARED_FROM: usize = 64 * 1024;

/// The bytes of all strings of a list, where they must be declared to the front.
///
/// # Safety
/// The rules of [`crate::ruby`]; `list` is an Array of Strings.
pub(super) unsafe fn declared_length(list: Value) -> Option<usize> {
    // SAFETY: the caller keeps the rules.
    let length = unsafe { elements(list).iter().map(|&part| bytes(part).len()).sum() };
    (length >= LENGTH_DECLARED_FROM).then_some(length)
}
