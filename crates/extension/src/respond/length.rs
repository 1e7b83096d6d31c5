//! Whether the length of a body is told in its response's head. It writes none.

use crate::ruby::{Value, bytes, elements};

/// Bytes of a body from which on its length is told in the head. The front may see the head of a longer one before its
/// end; shorter ones it sees whole, and counts itself.
const LENGTH_TOLD_FROM: usize = 64 * 1024;

/// The bytes of all strings of a list, where the front must be told.
///
/// # Safety
/// The rules of [`crate::ruby`]; `list` is an Array of Strings.
pub(super) unsafe fn told_length(list: Value) -> Option<usize> {
    // SAFETY: the caller keeps the rules.
    let length = unsafe { elements(list).iter().map(|&part| bytes(part).len()).sum() };
    (length >= LENGTH_TOLD_FROM).then_some(length)
}
