//! What is known of each certificate, for people and programs. Times are seconds since 1970. Asks nobody.

use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::clock::{from_seconds, to_seconds};
use crate::names::Names;
use crate::renewal::{RenewalReason, renew_at};
use crate::state::{FailureStatus, State};
use crate::storage::{SetStorage, sets_of_all_authorities};

/// One certificate: the one that is served, or the one that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// The names that it is for, in lower case.
    pub names: Vec<String>,
    /// Whether an order is on its way.
    pub ordering: bool,
    /// From when it is valid; missing if there is no certificate.
    pub not_before: Option<u64>,
    /// Until when it is valid.
    pub not_after: Option<u64>,
    /// Who issued it.
    pub issuer: Option<String>,
    /// Its serial number in hexadecimal digits.
    pub serial: Option<String>,
    /// When it is renewed.
    pub renew_at: Option<u64>,
    /// Why then.
    pub renew_reason: Option<RenewalReason>,
    /// The last attempt, if it failed.
    pub failure: Option<FailureStatus>,
    /// What somebody should look at: it has expired or will soon, it is missing, or it could not be stored.
    pub warning: Option<String>,
}

impl CertificateStatus {
    /// Puts together what is known at `now`. `storage_problem` is why the
    /// storage cannot be used.
    pub(crate) fn new(
        names: &Names,
        certificate: Option<&Certificate>,
        state: &State,
        storage_problem: Option<&str>,
        now: SystemTime,
    ) -> Self {
        let renewal = certificate.map(|certificate| {
            let ordered = state.ordered.map(from_seconds);
            renew_at(certificate.life, state.suggestion_for(certificate), ordered)
        });
        let mut status = Self {
            names: names.as_slice().to_vec(),
            ordering: false,
            not_before: certificate.map(|one| to_seconds(one.life.not_before)),
            not_after: certificate.map(|one| to_seconds(one.life.not_after)),
            issuer: certificate.map(|one| one.issuer.clone()),
            serial: certificate.map(|one| one.serial.clone()),
            renew_at: renewal.map(|(time, _)| to_seconds(time)),
            renew_reason: renewal.map(|(_, reason)| reason),
            failure: state.failure(),
            warning: None,
        };
        status.warning = status.warn(certificate, storage_problem, now);
        status
    }

    fn warn(
        &self,
        certificate: Option<&Certificate>,
        storage_problem: Option<&str>,
        now: SystemTime,
    ) -> Option<String> {
        let failure = self.failure.as_ref().map(|failure| failure.text.as_str());
        let why = storage_problem.or(failure);
        let because = why.map_or(String::new(), |why| format!(": {why}"));
        match certificate.map(|certificate| certificate.life) {
            None => why.map(|_| format!("there is no certificate{because}")),
            Some(life) if life.not_after <= now => {
                Some(format!("the certificate has expired{because}"))
            }
            Some(life) if life.last_quarter() <= now => Some(format!(
                "the certificate expires soon and has not been renewed{because}"
            )),
            Some(_) => storage_problem.map(str::to_owned),
        }
    }
}

/// The certificates in a storage folder, for a command that finds no running server.
///
/// # Errors
/// The folder cannot be read.
pub fn read_storage(storage: &Path, now: SystemTime) -> std::io::Result<Vec<CertificateStatus>> {
    let status = |(names, set): (Names, SetStorage)| {
        let certificate = set.read_certificate().ok().flatten();
        let state = set.read_state().ok().flatten().unwrap_or_default();
        CertificateStatus::new(&names, certificate.as_ref(), &state, None, now)
    };
    Ok(sets_of_all_authorities(storage)?
        .into_iter()
        .map(status)
        .collect())
}
