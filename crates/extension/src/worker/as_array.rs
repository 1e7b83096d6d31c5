//! A message of the supervisor to this worker, as an array for Ruby. It takes no descriptor.

use exchange::control::{Inspect, ProfileMode, Purged, ToWorker};

use crate::messages;
use crate::ruby::{self, NIL, Value, array, boolean, fixnum, unsigned};

/// # Safety
/// The rules. May raise.
pub(super) unsafe fn as_array(message: &ToWorker) -> Value {
    // SAFETY: the caller keeps the rules; symbols of names that were interned live for ever.
    unsafe {
        match *message {
            ToWorker::Backtrace {
                thread,
                slot,
                sequence,
            } => {
                let kind = messages::symbol("backtrace");
                array(&[kind, fixnum(thread), fixnum(slot), unsigned(sequence)])
            }
            ToWorker::Purged { id, result } => {
                let result = match result {
                    Purged::Urls(urls) => unsigned(u32::try_from(urls).unwrap_or(u32::MAX)),
                    Purged::NoCache => NIL,
                    Purged::Refused => boolean(false),
                };
                array(&[messages::symbol("purged"), unsigned(id), result])
            }
            // They have a descriptor, which their receiver takes.
            ToWorker::Body { .. } | ToWorker::Refork => NIL,
            ToWorker::Inspect { id, what } => {
                let (kind, profile) = match what {
                    Inspect::Profile { milliseconds, mode } => {
                        let mode = match mode {
                            ProfileMode::Cpu => "cpu",
                            ProfileMode::Wall => "wall",
                        };
                        ("profile", [unsigned(milliseconds), ruby::text(mode)])
                    }
                    Inspect::Backtraces => ("backtraces", [NIL; 2]),
                    Inspect::Gc => ("gc", [NIL; 2]),
                };
                let (inspect, kind) = (messages::symbol("inspect"), ruby::text(kind));
                let [milliseconds, mode] = profile;
                array(&[inspect, unsigned(id), kind, milliseconds, mode])
            }
        }
    }
}
