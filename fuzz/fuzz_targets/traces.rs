//! What clients say of their traces in `traceparent` and `tracestate`: never a panic; what is believed names sound ids that the
//! application can read again, and what is passed on has the form and the length that others must take.

#![no_main]

use libfuzzer_sys::fuzz_target;
use traces::{Context, MAX_TRACESTATE_BYTES, Parent, is_sound_tracestate};

fuzz_target!(|data: &[u8]| {
    // A zero separates the fields: none of the two can hold one.
    let mut fields = data.split(|&byte| byte == 0);
    let (parent, state) = (fields.next().unwrap_or(b""), fields.next().unwrap_or(b""));
    if let Some(found) = Parent::parse(parent) {
        let (trace, span) = (found.trace_id.to_string(), found.span_id.to_string());
        assert_eq!((&parent[3..35], &parent[36..52]), (trace.as_bytes(), span.as_bytes()));
        assert!(found.trace_id.bytes() != [0; 16] && found.span_id.bytes() != [0; 8]);
        let context = Context::new(Some(found), found.sampled, [7; 32]);
        let told = Parent::parse(&context.traceparent()).expect("the application reads it");
        assert_eq!((told.trace_id, told.sampled), (found.trace_id, found.sampled));
        // Only later versions have more fields.
        assert!(parent.len() == 55 || !parent.starts_with(b"00"));
    }
    if is_sound_tracestate(state) {
        assert!(state.len() <= MAX_TRACESTATE_BYTES);
        let printable = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x20..=0x7e);
        assert!(state.iter().all(printable));
        let members = state.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let members: Vec<_> = members.filter(|member| !member.is_empty()).collect();
        assert!(members.len() <= 32 && members.iter().all(|member| member.contains(&b'=')));
        // Others join and separate members as they like.
        assert!(is_sound_tracestate(&members.join(&b","[..])));
        assert!(members.iter().all(|member| is_sound_tracestate(member)));
    }
});
