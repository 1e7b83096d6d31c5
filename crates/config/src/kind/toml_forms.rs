//! How values of each kind may be written in the file. It reads none.

use super::Kind;

impl Kind {
    /// Whether a value is a list: an array in the file, a flag that may be repeated.
    pub fn is_list(&self) -> bool {
        matches!(
            self,
            Self::Listen
                | Self::Addresses
                | Self::ParameterNames
                | Self::MediaTypes
                | Self::LogFields
                | Self::Texts(_)
                | Self::RequestPaths
                | Self::Counts
                | Self::Paths(_)
        )
    }

    /// Whether the file may give it as a number without quotes.
    pub(crate) fn takes_numbers(&self) -> bool {
        match self {
            Self::Integer { .. }
            | Self::AutoInteger { .. }
            | Self::AutoRange { .. }
            | Self::Range { .. }
            | Self::Bytes { .. }
            | Self::AutoBytes { .. }
            | Self::Duration { .. }
            | Self::Ratio
            | Self::Counts
            | Self::Listen => true,
            Self::Maybe(kind) => kind.takes_numbers(),
            Self::Bool
            | Self::Text
            | Self::RequestPath
            | Self::RequestPaths
            | Self::Choice(_)
            | Self::Hsts
            | Self::Host
            | Self::SocketAddress
            // A number in TOML is decimal where it is not written as `0o660`, and would be another mode.
            | Self::FileMode
            | Self::Percent
            | Self::Paths(_)
            | Self::ParameterNames
            | Self::MediaTypes
            | Self::LogFields
            | Self::Texts(_)
            | Self::AddressesOfPath
            | Self::RateLimit
            | Self::Addresses => false,
        }
    }
}
