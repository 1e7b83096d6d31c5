//! The release of the application's Rack, by which this crate follows one SPEC or another. It knows no request.

use crate::ruby::{Value, elements, integer, is};
use rb_sys::ruby_value_type;

/// Major and minor number of `Rack.release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RackRelease(u16, u16);

impl RackRelease {
    /// Several values of a header are an array; before, they were lines of one string.
    pub(crate) const ARRAYS_OF_VALUES: Self = Self(3, 0);
    /// `rack.input` may be missing, `rack.protocol` says what the client offers, and `HTTP_VERSION` is the client's header
    /// of that name, as any other.
    pub(crate) const OPTIONAL_INPUT: Self = Self(3, 1);

    /// Reads `[major, minor]`; anything else is the oldest release.
    ///
    /// # Safety
    /// The rules of [`crate::ruby`].
    pub(crate) unsafe fn from_array(numbers: Value) -> Self {
        // SAFETY: the caller keeps the rules; the type is checked.
        let numbers = unsafe {
            match is(numbers, ruby_value_type::RUBY_T_ARRAY) {
                true => elements(numbers),
                false => &[],
            }
        };
        let number = |index: usize| numbers.get(index).and_then(|&value| integer(value));
        Self(number(0).unwrap_or(0), number(1).unwrap_or(0))
    }
}
