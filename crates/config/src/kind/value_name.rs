//! What stands for a value of each kind in `--help`. It reads no value.

use super::Kind;

impl Kind {
    /// What stands for the value in `--help`.
    pub fn value_name(&self) -> String {
        match self {
            Self::Integer { .. } | Self::Counts => "N".to_owned(),
            Self::AutoInteger { .. } => "N|auto".to_owned(),
            Self::AutoRange { .. } => "N|N..M|auto".to_owned(),
            Self::Range { .. } => "N|N..N".to_owned(),
            Self::Bytes { .. } => "SIZE".to_owned(),
            Self::AutoBytes { .. } => "SIZE|auto".to_owned(),
            Self::Duration { .. } => "TIME".to_owned(),
            Self::Bool => "true|false".to_owned(),
            Self::Text | Self::Texts(_) => "TEXT".to_owned(),
            Self::Hsts => "TIME[;WORD]".to_owned(),
            Self::Host => "HOST".to_owned(),
            Self::SocketAddress => "IP:PORT".to_owned(),
            Self::Choice(words) => words.join("|"),
            Self::Maybe(kind) => format!("{}|none", kind.value_name()),
            Self::Listen | Self::Addresses | Self::AddressesOfPath => "ADDR".to_owned(),
            Self::RateLimit => "RATE".to_owned(),
            Self::ParameterNames => "NAME".to_owned(),
            Self::MediaTypes => "TYPE".to_owned(),
            Self::LogFields => "FIELD".to_owned(),
            Self::FileMode => "MODE|auto".to_owned(),
            Self::Percent => "N%".to_owned(),
            Self::Ratio => "0..1".to_owned(),
            Self::RequestPath | Self::RequestPaths | Self::Paths(None) => "PATH".to_owned(),
            Self::Paths(Some(values)) => format!("PATH={}", values.value_name()),
        }
    }
}
