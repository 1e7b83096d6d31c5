//! The terminal that a command writes to: how wide it is, and whether it shows colours. Writes nothing.

use std::io::stdout;

use front::log::has_colours;
use rustix::termios::{isatty, tcgetwinsize};

/// What is known of stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    /// Columns of the terminal; `None` where stdout is none, or its size is unknown.
    pub(super) columns: Option<usize>,
    /// Whether there may be colours and other attributes.
    pub(super) colours: bool,
}

impl Output {
    /// Stdout at this moment.
    pub(super) fn of_stdout() -> Self {
        if !isatty(stdout()) {
            return Self::default();
        }
        let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
        let columns = tcgetwinsize(stdout()).map(|size| usize::from(size.ws_col));
        Self {
            columns: columns.ok().filter(|&columns| columns > 0),
            colours: has_colours(no_color.as_deref(), term.as_deref()),
        }
    }
}
