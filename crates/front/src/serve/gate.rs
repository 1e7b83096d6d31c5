//! The gate: whether a request goes on, decided from its head and who sent it. Each step is a module of its own, and a step
//! that is off costs nothing. It answers nothing: it says why a request must not go on.

mod access;
mod basic_auth;
pub(crate) mod maintenance;
mod rate_limits;

use std::sync::atomic::{AtomicBool, Ordering};

use config::Settings;
use exchange::scheduling::monotonic_ns;

use crate::failure::Failure;
use crate::http::forwarded;
use crate::http::request::Request;
use basic_auth::BasicAuth;
use maintenance::{Maintenance, Pages};
use rate_limits::{RateLimits, Sender};

/// The steps of one application. All edges share them: what a client may do does not depend on which one has it.
#[derive(Debug, Default)]
pub struct Gate {
    /// Whether a setting turns a step on. Every edge writes it, with each reload.
    has_rules: AtomicBool,
    /// Whether there is maintenance; written by the thread that watches its file.
    in_maintenance: AtomicBool,
    /// Whether there is maintenance.
    pub maintenance: Maintenance,
    rate_limits: RateLimits,
    basic_auth: BasicAuth,
}

impl Gate {
    /// Whether a step is on, so that requests have to be checked.
    pub fn is_guarded(&self) -> bool {
        self.has_rules.load(Ordering::Relaxed) || self.in_maintenance.load(Ordering::Relaxed)
    }

    /// Does as these settings say from now on.
    pub(crate) fn apply(&self, settings: &Settings) {
        let counts = !settings.rate_limits.is_empty();
        let asks = !settings.basic_auth.is_empty();
        let has_rules = access::is_on(settings) || counts || asks;
        self.has_rules.store(has_rules, Ordering::Relaxed);
    }

    /// Takes the content of a file of passwords that the settings name.
    ///
    /// # Errors
    /// What is wrong with it; the passwords that were known before stay.
    pub(crate) fn set_passwords(&self, file: &str, content: &[u8]) -> Result<(), String> {
        self.basic_auth.set_file(file, content)
    }

    /// Takes the contents of the maintenance files.
    pub(crate) fn set_maintenance(&self, pages: Pages) {
        self.maintenance.replace(pages);
        let is_on = self.maintenance.is_on();
        self.in_maintenance.store(is_on, Ordering::Relaxed);
    }

    /// Has a request pass all steps but the password.
    ///
    /// # Errors
    /// Why it must not go on.
    pub fn check(&self, request: &Request, settings: &Settings) -> Result<(), Failure> {
        let client = forwarded::client_address(request, &settings.trusted_proxies);
        let path = request.path();
        if !access::permits(settings, path, client) {
            return Err(Failure::Denied);
        }
        if self.maintenance.stops(settings, path, client) {
            return Err(Failure::Maintenance);
        }
        let sender = Sender {
            address: client,
            headers: &request.headers,
        };
        let rules = &settings.rate_limits;
        let counted = self.rate_limits.count(rules, path, sender, monotonic_ns());
        counted.map_err(Failure::RateLimited)
    }

    /// Has a request pass the last step: below some paths it needs a user name and a password, of this file.
    ///
    /// # Errors
    /// It has none that are right, or they cannot be checked now.
    pub async fn check_password(&self, file: &str, request: &Request) -> Result<(), Failure> {
        self.basic_auth.check(file, request).await
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_reload_at_another_edge_does_not_open_the_gate_to_maintenance() {
        let (gate, settings) = (Gate::default(), Settings::for_tests());
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    gate.apply(&settings);
                }
            });
            let opened = (0..200_000).any(|_| {
                gate.set_maintenance([Some(Bytes::new()), None, None]);
                let opened = (0..20).any(|_| !gate.is_guarded());
                gate.set_maintenance(Pages::default());
                opened
            });
            ended.store(true, Ordering::Relaxed);
            assert!(!opened, "maintenance stopped nobody");
        });
    }
}
