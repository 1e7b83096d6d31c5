//! Parts of a whole, as percent or millionths. It rounds nothing: what is finer is refused.

/// What is allowed, in words that follow "expected".
pub(super) const ALLOWED: &str = "a number from 0 to 1 with at most six decimals, such as 0.01";
/// Decimals of a millionth.
const DECIMALS: usize = 6;
/// Millionths of a whole.
const WHOLE: u64 = 1_000_000;

/// The percent that a text such as `50%` stands for, from 1 to 100.
pub(super) fn percent(text: &str) -> Option<u64> {
    let number = text.strip_suffix('%')?.parse().ok()?;
    (1..=100).contains(&number).then_some(number)
}

/// The millionths that a number stands for.
pub(super) fn parse(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > DECIMALS {
        return None;
    }
    let decimals: u64 = format!("{decimals:0<DECIMALS$}").parse().ok()?;
    let whole: u64 = whole.parse().ok()?;
    let millionths = whole.checked_mul(WHOLE)?.checked_add(decimals)?;
    (millionths <= WHOLE).then_some(millionths)
}

/// The shortest text of a number.
pub(super) fn text(millionths: u64) -> String {
    let text = format!("{}.{:0DECIMALS$}", millionths / WHOLE, millionths % WHOLE);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
