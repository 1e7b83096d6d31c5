//! Keeps the certificate of one set of names: looks what is due, has it done, remembers what came of it. There is one task
//! for each set, and one order at a time for each, also among several servers with the same storage.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;

use crate::account::{Accounts, OpenAccount};
use crate::certificate::Certificate;
use crate::clock::{Clock, from_seconds, to_seconds};
use crate::dns_command::DnsCommand;
use crate::failure::{Cause, Failure};
use crate::installer::{Installer, Severity};
use crate::names::Names;
use crate::order::Attempt;
use crate::renewal::{ARI_INTERVAL, renew_at};
use crate::state::State;
use crate::status::CertificateStatus;
use crate::storage::SetStorage;

/// How often a certificate is looked after when nothing is due: is it still on disk, has another server renewed it?
const UPKEEP_INTERVAL: Duration = Duration::from_secs(3600);
/// The time to the next look after the storage could not be used.
const STORAGE_RETRY: Duration = Duration::from_secs(60);
/// The time to the next look while another process orders this certificate.
const LOCKED_RETRY: Duration = Duration::from_secs(10);
/// How long one attempt may take in all.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(600);

/// Takes the status of a set of names.
pub(crate) type Publish = dyn Fn(&Names, CertificateStatus);

/// What all keepers of a manager share.
pub(crate) struct Shared {
    pub(crate) accounts: Accounts,
    pub(crate) profile: Option<String>,
    pub(crate) installer: Arc<dyn Installer>,
    /// What proves names of the operator's own domains.
    pub(crate) dns: Option<Arc<DnsCommand>>,
    /// The names that the operator has listed: others are in domains of other people.
    pub(crate) listed: Vec<Names>,
    pub(crate) clock: Arc<dyn Clock>,
    /// A permit for each order on its way.
    pub(crate) orders: Semaphore,
    /// Where the status goes.
    pub(crate) publish: Box<Publish>,
}

/// One set of names.
pub(crate) struct Keeper {
    names: Names,
    storage: SetStorage,
    shared: Rc<Shared>,
    known: RefCell<Known>,
}

/// What is known of the certificate.
#[derive(Clone, Debug, Default)]
struct Known {
    certificate: Option<Certificate>,
    state: State,
    /// Whether the certificate has still to be written.
    certificate_unsaved: bool,
    /// Whether `state` has still to be written: what is on disk is older.
    state_unsaved: bool,
    /// Why the storage cannot be used.
    storage_problem: Option<String>,
}

/// A stored certificate, read before the manager starts.
#[derive(Debug)]
pub(crate) struct Stored {
    certificate: Option<Certificate>,
    state: State,
}

impl Stored {
    /// Reads what is stored, and serves the certificate.
    pub(crate) fn install(
        names: &Names,
        storage: &SetStorage,
        installer: &dyn Installer,
    ) -> Result<Self, Failure> {
        let certificate = storage.read_certificate()?.filter(|one| one.covers(names));
        if let Some(certificate) = &certificate {
            installer.install(names.as_slice(), Arc::clone(&certificate.key));
        }
        let state = storage.read_state()?.unwrap_or_default();
        Ok(Self { certificate, state })
    }

    /// What is known of it.
    pub(crate) fn status(&self, names: &Names, now: SystemTime) -> CertificateStatus {
        CertificateStatus::new(names, self.certificate.as_ref(), &self.state, None, now)
    }
}

impl Keeper {
    pub(crate) fn new(
        names: Names,
        storage: SetStorage,
        shared: Rc<Shared>,
        stored: Option<Stored>,
    ) -> Self {
        let stored = stored.map(|Stored { certificate, state }| Known {
            certificate,
            state,
            ..Known::default()
        });
        Self {
            names,
            storage,
            shared,
            known: RefCell::new(stored.unwrap_or_default()),
        }
    }

    /// Keeps the certificate for as long as it is polled.
    pub(crate) async fn run(self) {
        loop {
            let next = self.turn().await;
            self.publish(false);
            self.shared.clock.wait_until(next).await;
        }
    }

    /// Does what is due now. Returns when to look again.
    async fn turn(&self) -> SystemTime {
        match self.tend().await {
            Ok(next) => next,
            Err(failure) if failure.cause == Cause::Storage => {
                self.note_storage_problem(failure.text);
                self.now() + STORAGE_RETRY
            }
            Err(failure) => self.note_failure(&failure),
        }
    }

    async fn tend(&self) -> Result<SystemTime, Failure> {
        self.adopt()?;
        self.save()?;
        let upkeep = self.now() + UPKEEP_INTERVAL;
        let look = self.look_at_renewal_information().await;
        let upkeep = look.map_or(upkeep, |look| look.min(upkeep));
        if let Some(time) = self.not_due() {
            self.known.borrow_mut().storage_problem = None;
            return Ok(time.min(upkeep));
        }
        let orders = &self.shared.orders;
        let _permit = orders.acquire().await.expect("it is never closed");
        let Some(_lock) = self.storage.lock()? else {
            return Ok(self.now() + LOCKED_RETRY);
        };
        // Another process may have ordered it, or failed, while this one waited.
        self.adopt()?;
        if let Some(time) = self.not_due() {
            return Ok(time.min(upkeep));
        }
        self.storage.reserve()?;
        self.known.borrow_mut().storage_problem = None;
        self.publish(true);
        let ordered = tokio::time::timeout(ATTEMPT_TIMEOUT, self.order()).await;
        self.storage.release();
        self.take(ordered.unwrap_or_else(|_| Err(self.too_late()))?);
        // Once more at once: it writes the certificate and asks for renewal information.
        Ok(self.now())
    }

    /// An order that took too long. What it reached is on disk.
    fn too_late(&self) -> Failure {
        if let Ok(Some(state)) = self.storage.read_state() {
            self.known.borrow_mut().state = state;
        }
        Failure::new(Cause::Unreachable, "the order took longer than 10 minutes")
    }

    /// When the next order is due; `None` if that is now.
    fn not_due(&self) -> Option<SystemTime> {
        let (known, now) = (self.known.borrow(), self.now());
        let due = match &known.certificate {
            Some(certificate) => {
                let ordered = known.state.ordered.map(from_seconds);
                renew_at(
                    certificate.life,
                    known.state.suggestion_for(certificate),
                    ordered,
                )
                .0
            }
            None => now,
        };
        let next = due.max(known.state.next_attempt());
        (next > now).then_some(next)
    }

    /// Takes what another server, or this one earlier, has stored: a later certificate, and what is remembered.
    fn adopt(&self) -> Result<(), Failure> {
        let stored = self.storage.read_certificate()?;
        let stored = stored.filter(|one| one.covers(&self.names));
        let state = self.storage.read_state()?;
        let mut known = self.known.borrow_mut();
        let newer = |stored: &Certificate| {
            known.certificate.as_ref().is_none_or(|own| {
                own.serial != stored.serial && own.life.not_after < stored.life.not_after
            })
        };
        if let Some(stored) = stored.filter(newer) {
            let installer = &self.shared.installer;
            installer.install(self.names.as_slice(), Arc::clone(&stored.key));
            known.certificate = Some(stored);
            known.certificate_unsaved = false;
            known.state_unsaved = false;
        }
        // Without one on disk (the storage was lost) what is in memory stays.
        if let (false, Some(state)) = (known.state_unsaved, state) {
            known.state = state;
        }
        Ok(())
    }

    /// Writes what is not on disk: it could not be written, or the storage was lost.
    fn save(&self) -> Result<(), Failure> {
        let mut known = self.known.borrow_mut();
        let lost = !self.storage.has_certificate();
        if let Some(certificate) = &known.certificate
            && (known.certificate_unsaved || lost)
        {
            self.storage
                .write_certificate(certificate)
                .map_err(|failure| {
                    let text = format!(
                        "the certificate is served from memory only: {}",
                        failure.text
                    );
                    Failure::new(Cause::Storage, &text)
                })?;
            self.storage.remove_order_key();
            known.certificate_unsaved = false;
            known.state_unsaved = true;
        }
        if known.state_unsaved {
            self.storage.write_state(&known.state)?;
            known.state_unsaved = false;
        }
        Ok(())
    }

    /// Orders a certificate, or continues an order.
    async fn order(&self) -> Result<Certificate, Failure> {
        let account = self.shared.accounts.open().await?;
        let (mut state, replaces) = {
            let known = self.known.borrow();
            (known.state.clone(), known.certificate.clone())
        };
        let shared = &self.shared;
        let is_listed = shared.listed.contains(&self.names);
        let attempt = Attempt {
            account: &account,
            names: &self.names,
            profile: self.shared.profile.as_deref(),
            replaces: replaces.as_ref(),
            installer: &*self.shared.installer,
            dns: shared.dns.as_ref().filter(|_| is_listed),
            storage: &self.storage,
        };
        let obtained = attempt.obtain(&mut state).await;
        self.known.borrow_mut().state = state;
        if let Err(failure) = &obtained {
            self.shared.accounts.forget_if_unknown(failure)?;
        }
        obtained
    }

    /// Serves a new certificate, then stores it.
    fn take(&self, certificate: Certificate) {
        let installer = &self.shared.installer;
        installer.install(self.names.as_slice(), Arc::clone(&certificate.key));
        let text = format!(
            "new certificate for {} from {}, valid for {} days",
            self.names,
            certificate.issuer,
            certificate.life.length().as_secs() / (24 * 3600)
        );
        installer.log(Severity::Info, &text);
        let mut known = self.known.borrow_mut();
        known.state.succeed(self.now());
        known.certificate = Some(certificate);
        known.certificate_unsaved = true;
        // What is on disk is the state of the order, which has ended.
        known.state_unsaved = true;
    }

    /// Asks for renewal information if that is due. Returns when to ask again; `None` without a certificate.
    async fn look_at_renewal_information(&self) -> Option<SystemTime> {
        let (certificate, mut suggestion) = {
            let known = self.known.borrow();
            let certificate = known.certificate.clone()?;
            let suggestion = known.state.suggestion_for(&certificate).cloned();
            (certificate, suggestion.unwrap_or_default())
        };
        let next = from_seconds(suggestion.next_look);
        if next > self.now() {
            return Some(next);
        }
        suggestion.serial.clone_from(&certificate.serial);
        suggestion.next_look = to_seconds(self.now() + ARI_INTERVAL);
        if certificate.life.not_after > self.now()
            && let Ok(account) = self.shared.accounts.open().await
            && let Some((window, retry_after)) = renewal_information(&account, &certificate).await
        {
            suggestion.update(window, retry_after, self.now(), random());
        }
        let next = from_seconds(suggestion.next_look);
        let mut known = self.known.borrow_mut();
        known.state.suggestion = Some(suggestion);
        known.state_unsaved = self.storage.write_state(&known.state).is_err();
        Some(next)
    }

    /// Remembers a failed attempt. Returns when the next one may begin.
    fn note_failure(&self, failure: &Failure) -> SystemTime {
        let mut known = self.known.borrow_mut();
        known.state.fail(failure, self.now());
        known.state_unsaved = self.storage.write_state(&known.state).is_err();
        let retry = known.state.next_attempt();
        let wait = retry.duration_since(self.now()).unwrap_or_default();
        let text = format!(
            "no new certificate for {}: {}; next attempt in {} minutes",
            self.names,
            failure.text,
            wait.as_secs() / 60
        );
        self.shared.installer.log(Severity::Warning, &text);
        retry
    }

    /// Remembers why the storage cannot be used, and logs it once.
    fn note_storage_problem(&self, problem: String) {
        let mut known = self.known.borrow_mut();
        if known.storage_problem.as_ref() != Some(&problem) {
            let text = format!("certificate for {}: {problem}", self.names);
            self.shared.installer.log(Severity::Warning, &text);
            known.storage_problem = Some(problem);
        }
    }

    fn publish(&self, ordering: bool) {
        let known = self.known.borrow();
        let status = CertificateStatus::new(
            &self.names,
            known.certificate.as_ref(),
            &known.state,
            known.storage_problem.as_deref(),
            self.now(),
        );
        (self.shared.publish)(&self.names, CertificateStatus { ordering, ..status });
    }

    fn now(&self) -> SystemTime {
        self.shared.clock.now()
    }
}

/// The window that the authority suggests for the renewal, and when to ask again.
async fn renewal_information(
    account: &OpenAccount,
    certificate: &Certificate,
) -> Option<((SystemTime, SystemTime), Duration)> {
    let identifier = certificate.identifier()?;
    let (information, retry_after) = account.account.renewal_info(&identifier).await.ok()?;
    let window = information.suggested_window;
    let seconds = |timestamp: i64| from_seconds(timestamp.try_into().unwrap_or(0));
    let window = (
        seconds(window.start.unix_timestamp()),
        seconds(window.end.unix_timestamp()),
    );
    Some((window, retry_after))
}

/// A random number from 0 to 1; 0.5 where the kernel gives none.
fn random() -> f64 {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(4) => f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX),
        _ => 0.5,
    }
}
