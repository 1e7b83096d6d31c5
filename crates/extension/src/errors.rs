//! The errors by which an application learns that its response cannot be sent (`gem/lib/highball/errors.rb`).

use std::sync::OnceLock;

use crate::ruby::{self, Message, Value};

/// Why a frame did not get into the ring.
pub(crate) enum Refused {
    /// The front reads no more of the response.
    ClientGone,
    /// It is longer than this.
    TooLarge(usize),
    /// The response it belongs to has ended.
    ResponseOver,
}

/// The classes of the errors.
struct Errors {
    invalid_response: Value,
    client_gone: Value,
    response_over: Value,
}

static ERRORS: OnceLock<Errors> = OnceLock::new();

/// Names the classes of errors to raise; they must live for ever.
pub(crate) fn set_classes(invalid_response: Value, client_gone: Value, response_over: Value) {
    let _ = ERRORS.set(Errors {
        invalid_response,
        client_gone,
        response_over,
    });
}

fn errors() -> &'static Errors {
    ERRORS.get().expect("set when the extension is loaded")
}

/// For a response that no server can send.
///
/// # Safety
/// The rules of [`crate::ruby`].
pub(crate) unsafe fn raise_invalid(message: std::fmt::Arguments<'_>) -> ! {
    // SAFETY: the caller keeps the rules.
    unsafe { ruby::raise(errors().invalid_response, &Message::new(message)) }
}

/// For a frame that did not get into the ring.
///
/// # Safety
/// The rules of [`crate::ruby`].
pub(crate) unsafe fn raise_refused(refused: Refused) -> ! {
    // SAFETY: the caller keeps the rules.
    unsafe {
        match refused {
            Refused::ClientGone => ruby::raise(
                errors().client_gone,
                &Message::new(format_args!("the client is gone")),
            ),
            Refused::TooLarge(limit) => {
                raise_invalid(format_args!("the response's head exceeds {limit} bytes"))
            }
            Refused::ResponseOver => raise_over(),
        }
    }
}

/// For a write after the end of its response: by then the thread may run another client's request.
///
/// # Safety
/// The rules of [`crate::ruby`].
pub(crate) unsafe fn raise_over() -> ! {
    // SAFETY: the caller keeps the rules.
    unsafe {
        ruby::raise(
            errors().response_over,
            &Message::new(format_args!("cannot write to a response that has ended")),
        )
    }
}
