//! What people are told of each certificate. It checks no signature.

use serde::{Deserialize, Serialize};

use crate::net::tls::certificates::Certificates;

/// A certificate that clients get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// The hosts that it is used for.
    pub names: Vec<String>,
    /// The day on which it ends, such as `2026-11-22`.
    pub ends: String,
    /// The same, in seconds since 1970.
    #[serde(default)]
    pub ends_s: i64,
    /// What is wrong with it, or will be soon.
    pub warning: Option<String>,
}

impl CertificateStatus {
    /// The certificates at this moment.
    pub(crate) fn of(all: &Certificates) -> Vec<Self> {
        let now = jiff::Timestamp::now().as_second();
        let described = all.described().into_iter();
        let status = described.map(|(entry, details)| Self {
            names: entry.names,
            ends: details.last_day(),
            ends_s: details.ends,
            warning: details.warning(now),
        });
        status.collect()
    }
}
