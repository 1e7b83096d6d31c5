//! Control messages as they arrive from another process: never a panic, and what is understood can be said again.

#![no_main]

use exchange::control::{FromTemplate, FromWorker, Message, ToTemplate, ToWorker, decode, encode};
use libfuzzer_sys::fuzz_target;

fn read<M: Message>(bytes: &[u8]) {
    let Ok(message) = decode::<M>(bytes) else {
        return;
    };
    // One that is too long and has nothing that may be shortened is refused.
    if let Ok(coded) = encode(&message) {
        decode::<M>(&coded).expect("it was understood before");
    }
}

fuzz_target!(|data: &[u8]| {
    read::<ToTemplate>(data);
    read::<FromTemplate>(data);
    read::<ToWorker>(data);
    read::<FromWorker>(data);
});
