//! One order, from the names to the certificate, in the steps of RFC 8555 section 7.1. What an interrupted attempt reached
//! is on disk and is continued: no order is made twice. Decides no time.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeStatus, Error, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use crate::account::{MAX_NONCE_RETRIES, OpenAccount};
use crate::certificate::Certificate;
use crate::challenge::Answers;
use crate::dns_command::DnsCommand;
use crate::failure::{Cause, Failure, is_bad_nonce, problem_type};
use crate::installer::{ChallengeKind, Installer};
use crate::names::Names;
use crate::state::State;
use crate::storage::SetStorage;

/// How long the authority may take to check names, and again to issue a certificate.
const POLL_TIMEOUT: Duration = Duration::from_secs(120);
/// The time to the first look at what the authority has done; it doubles.
const FIRST_POLL: Duration = Duration::from_millis(250);
/// The most authorizations of an order: as many as names at most.
const MAX_CHALLENGE_ROUNDS: usize = 1000;

/// Sends a request again while the authority refuses its nonce.
macro_rules! with_new_nonces {
    ($request:expr) => {{
        let mut tries = 0;
        loop {
            match $request.await {
                Err(error) if is_bad_nonce(&error) && tries < MAX_NONCE_RETRIES => tries += 1,
                result => break result,
            }
        }
    }};
}

/// What one order is about.
pub(crate) struct Attempt<'a> {
    pub(crate) account: &'a OpenAccount,
    pub(crate) names: &'a Names,
    pub(crate) profile: Option<&'a str>,
    /// The certificate that the new one replaces.
    pub(crate) replaces: Option<&'a Certificate>,
    pub(crate) installer: &'a dyn Installer,
    pub(crate) dns: Option<&'a Arc<DnsCommand>>,
    pub(crate) storage: &'a SetStorage,
}

impl Attempt<'_> {
    /// Orders a certificate, or continues the order in `state`, which is written whenever it changes.
    pub(crate) async fn obtain(&self, state: &mut State) -> Result<Certificate, Failure> {
        let mut order = match self.resume(state).await? {
            Some(order) => order,
            None => self.start(state).await?,
        };
        let obtained = self.finish(&mut order, state).await;
        if let Err(failure) = &obtained
            && failure.cause != Cause::Unreachable
            && failure.cause != Cause::Storage
        {
            // The authority has ended it, or says that it will not: the next attempt is another order.
            state.order = None;
            self.storage.remove_order_key();
        }
        obtained
    }

    /// The order of an earlier attempt, if it can still become a certificate.
    async fn resume(&self, state: &mut State) -> Result<Option<Order>, Failure> {
        let Some(url) = state.order.clone() else {
            return Ok(None);
        };
        let resumed = with_new_nonces!(self.account.account.order(url.clone()));
        let usable = match resumed {
            Ok(mut order) => {
                let has_key = self.storage.read_order_key()?.is_some();
                match order.state().status {
                    OrderStatus::Pending | OrderStatus::Ready => Some(order),
                    OrderStatus::Processing | OrderStatus::Valid if has_key => Some(order),
                    _ => None,
                }
            }
            // It does not know the order (any more).
            Err(Error::Api(problem))
                if problem_type(&problem).as_deref() != Some("rateLimited") =>
            {
                None
            }
            Err(error) => return Err(self.account.failure("continuing the order", &error)),
        };
        if usable.is_none() {
            state.order = None;
            self.storage.write_state(state)?;
        }
        Ok(usable)
    }

    async fn start(&self, state: &mut State) -> Result<Order, Failure> {
        let identifiers = self.names.identifiers();
        let mut new = NewOrder::new(&identifiers);
        if let Some(profile) = self.profile {
            new = new.profile(profile);
        }
        let replaced = self.replaces.filter(|_| !state.refused_replacement);
        let replaced = replaced.and_then(Certificate::identifier);
        let replaces = replaced.is_some();
        if let Some(identifier) = replaced {
            new = new.replaces(identifier);
        }
        let account: &Account = &self.account.account;
        let ordered = with_new_nonces!(account.new_order(&new));
        let order = match ordered {
            // No renewal information, so no replacements either.
            Err(Error::Unsupported(_)) if replaces => {
                state.refused_replacement = true;
                let mut new = NewOrder::new(&identifiers);
                if let Some(profile) = self.profile {
                    new = new.profile(profile);
                }
                with_new_nonces!(account.new_order(&new))
            }
            ordered => ordered,
        };
        let order = order.map_err(|error| {
            state.refused_replacement |= replaces && matches!(error, Error::Api(_));
            self.account.failure("ordering", &error)
        })?;
        self.storage.remove_order_key();
        state.order = Some(order.url().to_owned());
        self.storage.write_state(state)?;
        Ok(order)
    }

    async fn finish(&self, order: &mut Order, state: &mut State) -> Result<Certificate, Failure> {
        if order.state().status == OrderStatus::Pending {
            self.prove(order, state).await?;
        }
        if order.state().status == OrderStatus::Ready {
            let key = self.make_key()?;
            let csr = self.csr(&key)?;
            let finalized = with_new_nonces!(order.finalize_csr(&csr));
            finalized
                .map_err(|error| self.account.failure("requesting the certificate", &error))?;
        }
        let chain = with_new_nonces!(order.poll_certificate(&policy()))
            .map_err(|error| self.account.failure("fetching the certificate", &error))?;
        let missing = || Failure::new(Cause::Storage, "the key of the order is missing");
        let key = self.storage.read_order_key()?.ok_or_else(missing)?;
        let wrong = |error: String| {
            let text = format!("the authority's certificate cannot be used: {error}");
            Failure::new(Cause::Refused, &text)
        };
        let certificate =
            Certificate::from_pem(format!("{}\n{chain}", key.trim_end())).map_err(wrong)?;
        match certificate.covers(self.names) {
            true => Ok(certificate),
            false => Err(wrong("it is for other names".to_owned())),
        }
    }

    /// Shows the authority that the names lead to this server.
    async fn prove(&self, order: &mut Order, state: &mut State) -> Result<(), Failure> {
        let kinds = self.kinds(state);
        let mut answers = Answers::new(self.installer, self.dns);
        let mut used = None;
        self.answer(order, &kinds, &mut answers, &mut used).await?;
        let polled = with_new_nonces!(order.poll_ready(&policy()));
        let proven = match polled {
            Ok(OrderStatus::Ready) => return Ok(()),
            Ok(_) | Err(Error::Api(_)) => self.refusal(order, polled.err()).await,
            Err(error) => self
                .account
                .failure("waiting for the check of the names", &error),
        };
        // Another path to this server may be open.
        state.challenge = kinds.into_iter().find(|kind| Some(*kind) != used).or(used);
        Err(proven)
    }

    /// The kinds of challenges that can be answered, the one to try first at the front.
    fn kinds(&self, state: &State) -> Vec<ChallengeKind> {
        let mut kinds = self.installer.challenges();
        if self.dns.is_some() {
            kinds.insert(0, ChallengeKind::Dns01);
        }
        kinds.sort_by_key(|kind| Some(*kind) != state.challenge);
        kinds
    }

    /// Answers one challenge for each name that the authority has not checked yet.
    async fn answer(
        &self,
        order: &mut Order,
        kinds: &[ChallengeKind],
        answers: &mut Answers<'_>,
        used: &mut Option<ChallengeKind>,
    ) -> Result<(), Failure> {
        let mut answered = HashSet::new();
        let mut refused_nonces = 0;
        // A refused nonce begins the list again; what was fetched of it is kept.
        for _ in 0..MAX_CHALLENGE_ROUNDS {
            let mut authorizations = order.authorizations();
            let next = loop {
                match authorizations.next().await {
                    Some(Ok(one)) if answered.contains(one.url()) => {}
                    next => break next,
                }
            };
            let mut authorization = match next {
                None => return Ok(()),
                Some(Ok(authorization)) => authorization,
                Some(Err(error)) if is_bad_nonce(&error) && refused_nonces < MAX_NONCE_RETRIES => {
                    refused_nonces += 1;
                    continue;
                }
                Some(Err(error)) => {
                    return Err(self.account.failure("reading the challenges", &error));
                }
            };
            answered.insert(authorization.url().to_owned());
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let name = authorization.identifier().to_string();
            let is_address = name.parse::<IpAddr>().is_ok();
            let offered = |kind: &&ChallengeKind| {
                // For an address clients of TLS-ALPN-01 ask for another name (RFC 8738 section 6).
                if is_address && **kind == ChallengeKind::TlsAlpn01 {
                    return false;
                }
                let kind = kind.to_acme();
                authorization
                    .challenges
                    .iter()
                    .any(|challenge| challenge.r#type == kind)
            };
            let Some(kind) = kinds.iter().find(offered).copied() else {
                return Err(self.no_challenge(&name, kinds));
            };
            let mut challenge = authorization
                .challenge(kind.to_acme())
                .expect("it was found above");
            let authorization = challenge.key_authorization();
            let shown = answers.show(kind, &name, &challenge.token, &authorization);
            shown.await?;
            *used = Some(kind);
            with_new_nonces!(challenge.set_ready()).map_err(|error| {
                self.account
                    .failure(&format!("answering the challenge for {name}"), &error)
            })?;
        }
        Err(Failure::new(
            Cause::Refused,
            "the order has too many authorizations",
        ))
    }

    fn no_challenge(&self, name: &str, kinds: &[ChallengeKind]) -> Failure {
        let text = match kinds.is_empty() {
            true => format!(
                "the authority cannot check {name}: this server listens neither on a port for HTTP nor on one for TLS"
            ),
            false => {
                format!("the authority offers no challenge for {name} that this server can answer")
            }
        };
        Failure::new(Cause::Refused, &text)
    }

    /// Why the authority did not accept the names, in its own words.
    async fn refusal(&self, order: &mut Order, error: Option<Error>) -> Failure {
        let mut failures = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            if with_new_nonces!(authorization.refresh()).is_err() {
                continue;
            }
            for challenge in &authorization.challenges {
                if let (ChallengeStatus::Invalid, Some(problem)) =
                    (challenge.status, &challenge.error)
                {
                    let what = format!("checking {}", authorization.identifier());
                    failures.push(Failure::problem(&what, problem));
                }
            }
        }
        let mut first = match (failures.is_empty(), error) {
            (false, _) => failures.remove(0),
            (true, Some(error)) => self.account.failure("checking the names", &error),
            (true, None) => Failure::new(
                Cause::Refused,
                "checking the names: the authority gave no reason",
            ),
        };
        first.retry_after = self.account.retry_after.get();
        first
    }

    /// A new private key, on disk before the authority learns of it: its certificate can be fetched after a crash.
    fn make_key(&self) -> Result<KeyPair, Failure> {
        let key = KeyPair::generate().map_err(|error| {
            Failure::new(
                Cause::Storage,
                &format!("cannot make a private key: {error}"),
            )
        })?;
        self.storage.write_order_key(&key.serialize_pem())?;
        Ok(key)
    }

    fn csr(&self, key: &KeyPair) -> Result<Vec<u8>, Failure> {
        let make = || {
            let mut parameters = CertificateParams::new(self.names.as_slice().to_vec())?;
            parameters.distinguished_name = DistinguishedName::new();
            parameters.serialize_request(key)
        };
        let csr = make().map_err(|error: rcgen::Error| {
            Failure::new(Cause::Refused, &format!("cannot make the request: {error}"))
        })?;
        Ok(csr.der().to_vec())
    }
}

fn policy() -> RetryPolicy {
    RetryPolicy::new()
        .initial_delay(FIRST_POLL)
        .timeout(POLL_TIMEOUT)
}
