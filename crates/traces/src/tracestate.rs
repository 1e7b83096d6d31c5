//! The field `tracestate` (W3C Trace Context section 3.3): whether it is passed on. Nobody here reads what it says.

/// A longer `tracestate` is not passed on, in bytes; others must pass on this much.
pub const MAX_TRACESTATE_BYTES: usize = 512;
/// The most members of a `tracestate`.
const MAX_MEMBERS: usize = 32;
/// The longest key and the longest value, in bytes.
const MAX_PART_BYTES: usize = 256;

/// Whether a `tracestate` has the right form and length. Several fields are joined with commas before.
pub fn is_sound_tracestate(value: &[u8]) -> bool {
    let members = || value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    value.len() <= MAX_TRACESTATE_BYTES
        && members().count() <= MAX_MEMBERS
        && members().all(|member| member.is_empty() || is_member(member))
}

fn is_member(member: &[u8]) -> bool {
    let Some(equals) = member.iter().position(|&byte| byte == b'=') else {
        return false;
    };
    let (key, value) = (&member[..equals], &member[equals + 1..]);
    let is_value = |byte: &u8| matches!(byte, 0x20..=0x7e) && *byte != b'=';
    is_key(key) && (1..=MAX_PART_BYTES).contains(&value.len()) && value.iter().all(is_value)
}

/// A name, or a tenant and a system.
fn is_key(key: &[u8]) -> bool {
    let is_part = |part: &[u8]| {
        let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.first().is_some_and(is_plain)
            && part
                .iter()
                .all(|byte| is_plain(byte) || b"_-*/".contains(byte))
    };
    let mut parts = key.split(|&byte| byte == b'@');
    let sound = key.len() <= MAX_PART_BYTES && parts.by_ref().take(2).all(is_part);
    sound && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sound_tracestate_is_passed_on() {
        let long = format!("a={}", "x".repeat(256));
        let too_long = format!("a={}", "x".repeat(257));
        let two = format!("{long},b={}", "x".repeat(251));
        let much = format!("{long},b={}", "x".repeat(252));
        let many = vec!["a=b"; 33].join(",");
        for (text, sound) in [
            ("", true),
            ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", true),
            ("a=1, b=2 ,,\tc=3", true),
            ("tenant@system=x", true),
            ("0a_-*/=!~", true),
            (&long, true),
            (&two, true),
            (&many[..many.len() - 4], true),
            ("a", false),
            ("=x", false),
            ("a=", false),
            ("A=x", false),
            ("_a=x", false),
            ("a@b@c=x", false),
            ("@b=x", false),
            ("a=b=c", false),
            ("a=\u{e9}", false),
            ("a=b\x7f", false),
            (&too_long, false),
            (&much, false),
            (&many, false),
        ] {
            assert_eq!(is_sound_tracestate(text.as_bytes()), sound, "{text}");
        }
    }
}
