//! Takes the values of secret parameters out of a target before it is logged. It never decides which are secret.

use std::borrow::Cow;

use config::ParameterNames;

/// What stands in the log for a secret value, as in Rails.
const FILTERED: &[u8] = b"[FILTERED]";

/// The target without the values of the parameters that `secret` covers. A value ends at the next `&`: a `;` in it may
/// belong to it or separate parameters, and the rest of a secret must not be shown.
pub fn filter<'a>(target: &'a [u8], secret: &ParameterNames) -> Cow<'a, [u8]> {
    let query = target.iter().position(|&byte| byte == b'?');
    let Some(query) = query.filter(|_| !secret.is_empty()) else {
        return Cow::Borrowed(target);
    };
    let mut shown = Vec::new();
    let (mut at, mut copied) = (query + 1, 0);
    while at < target.len() {
        let name_end = find(target, at, b"=&;");
        if target.get(name_end) != Some(&b'=') {
            at = name_end + 1;
        } else if secret.cover(&target[at..name_end]) {
            shown.extend_from_slice(&target[copied..=name_end]);
            shown.extend_from_slice(FILTERED);
            copied = find(target, name_end, b"&");
            at = copied + 1;
        } else {
            at = find(target, name_end, b"&;") + 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(target);
    }
    shown.extend_from_slice(&target[copied..]);
    Cow::Owned(shown)
}

/// Where the first of these bytes is, from `start` on; the length where there is none.
fn find(bytes: &[u8], start: usize, wanted: &[u8]) -> usize {
    let found = bytes[start..].iter().position(|byte| wanted.contains(byte));
    found.map_or(bytes.len(), |at| start + at)
}
